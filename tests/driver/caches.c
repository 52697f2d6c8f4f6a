/* VkPipelineCache: a table of entries, its data, and what can be wrong with both. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define DATA_MAGIC 0x31445054u

typedef struct {
    VkPipelineCacheHeaderVersionOne vulkan;
    uint32_t magic, build, abi, count;
} DataHeader;

static Cache *cache_of(VkPipelineCache handle)
{
    return object_of((uint64_t)handle, KIND_CACHE);
}

bool cache_needs_synchronization(VkPipelineCache handle)
{
    return handle && (cache_of(handle)->flags & VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT);
}

Cache *cache_use_begin(VkPipelineCache handle, bool as_writer)
{
    Cache *cache = handle ? cache_of(handle) : NULL;
    if (!cache)
        return NULL;
    unsigned before = atomic_fetch_add(&cache->users, as_writer ? ALONE : 1);
    if (as_writer ? before : before >= ALONE)
        violation("a cache is used while another thread %s", as_writer ? "uses it" : "must be alone with it");
    return cache;
}

void cache_use_end(Cache *cache, bool as_writer)
{
    if (cache)
        atomic_fetch_sub(&cache->users, as_writer ? ALONE : 1);
}

static DataHeader header_of(const DeviceSettings *device, uint32_t entry_count)
{
    DataHeader header = {
        .vulkan = {.headerSize = sizeof header.vulkan,
                   .headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
                   .vendorID = device->vendor_id,
                   .deviceID = device->device_id},
        .magic = DATA_MAGIC,
        .build = device->build,
        .abi = device->abi,
        .count = entry_count,
    };
    memcpy(header.vulkan.pipelineCacheUUID, device->uuid, VK_UUID_SIZE);
    return header;
}

/* ---- vkCreatePipelineCache ---- */

/* True: Vulkan's header is this device's. */
static bool is_own(const DeviceSettings *device, const uint8_t *data, size_t size)
{
    DataHeader own = header_of(device, 0);
    return size >= sizeof own.vulkan && memcmp(data, &own.vulkan, sizeof own.vulkan) == 0;
}

/* What is known of initial data; the entries go into the cache where there is one. */
static unsigned read_data(const DeviceSettings *device, const uint8_t *data, size_t size, Cache *into, bool *complete)
{
    DataHeader header;
    unsigned traits = TRAIT_DATA;
    *complete = true;
    if (!is_own(device, data, size))
        return traits | TRAIT_STALE;
    if (size == sizeof header.vulkan)
        return traits;
    if (size < sizeof header)
        return traits | TRAIT_DAMAGED;
    memcpy(&header, data, sizeof header);
    if (header.magic != DATA_MAGIC)
        return traits | TRAIT_DAMAGED;
    if (header.build != device->build || header.abi != device->abi)
        traits |= TRAIT_STALE;
    size_t at = sizeof header, used = 0;
    for (uint32_t i = 0; i < header.count; i++, at += used) {
        Entry *read = entry_read(data + at, size - at, &used);
        if (!read)
            return traits | TRAIT_DAMAGED;
        traits |= entry_traits(device, read);
        if (into)
            *complete = cache_add(into, read) && *complete;
    }
    return traits;
}

/* The rules of the create info, and what is known of its initial data. */
static unsigned examine(const DriverDevice *device, const VkPipelineCacheCreateInfo *info)
{
    const uint8_t *data = info->pInitialData;
    size_t size = info->initialDataSize;
    bool complete;
    check_chain(info->pNext, "vkCreatePipelineCache");
    if ((info->flags & VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT) && !device->cache_control)
        violation("vkCreatePipelineCache, EXTERNALLY_SYNCHRONIZED without pipelineCreationCacheControl");
    if (size && !data)
        violation("vkCreatePipelineCache with a size and without data");
    if (!size)
        return 0;
    count(COUNT_INITIAL_DATA, 1);
    if (!was_given_out(device->settings->identity, NULL, data, size))
        violation("vkCreatePipelineCache: %zu bytes that this driver did not give out", size);
    return read_data(device->settings, data, size, NULL, &complete);
}

static VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkPipelineCache *handle)
{
    COMMAND_OF(device, self);
    const DeviceSettings *of = self->settings;
    const uint8_t *data = info->pInitialData;
    size_t size = info->initialDataSize;
    bool complete = true;
    unsigned traits = examine(self, info);
    Verdict verdict = act(DO_CREATE_CACHE, traits);
    if (verdict.action == ACT_ERROR)
        return verdict.result;
    if (verdict.action == ACT_NULL_HANDLE) {
        *handle = VK_NULL_HANDLE;
        return VK_SUCCESS;
    }
    Cache *made = object_make(self, KIND_CACHE, sizeof *made, allocator);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    made->flags = info->flags;
    made->shared = of->shared;
    if (size && verdict.action != ACT_IGNORE)
        read_data(of, data, size, made, &complete);
    if (!complete) {
        cache_clear(made);
        object_free(self, &made->object, allocator);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    *handle = (VkPipelineCache)(uintptr_t)made;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_cache(VkDevice device, VkPipelineCache handle, const VkAllocationCallbacks *allocator)
{
    COMMAND_OF(device, self);
    if (!handle)
        return;
    act(DO_DESTROY_CACHE, 0);
    Cache *cache = cache_of(handle);
    if (atomic_load(&cache->users))
        violation("vkDestroyPipelineCache of a cache that is in use");
    cache_clear(cache);
    object_free(self, &cache->object, allocator);
}

/* ---- vkGetPipelineCacheData ---- */

static size_t padding_of(const Cache *cache)
{
    return cache->padding + (cache->used ? cache->shared : 0);
}

static size_t size_of_data_locked(const Cache *cache)
{
    size_t size = sizeof(DataHeader) + padding_of(cache);
    for (size_t i = 0; i < cache->room; i++)
        size += cache->table[i] ? entry_bytes(cache->table[i]) : 0;
    return size;
}

/* As many whole entries as there is room for; the most entries that are wanted. */
static size_t write_data_locked(const DeviceSettings *device, const Cache *cache, uint8_t *out, size_t room,
                                size_t most)
{
    size_t used = sizeof(DataHeader);
    uint32_t written = 0;
    if (room < used)
        return 0;
    for (size_t i = 0; i < cache->room && written < most; i++) {
        size_t bytes = cache->table[i] ? entry_bytes(cache->table[i]) : 0;
        if (!bytes || used + bytes > room)
            continue;
        memcpy(out + used, cache->table[i], bytes);
        used += bytes;
        written++;
    }
    DataHeader header = header_of(device, written);
    memcpy(out, &header, sizeof header);
    if (written == cache->used && room - used >= padding_of(cache)) {
        memset(out + used, 0, padding_of(cache));
        used += padding_of(cache);
    }
    return used;
}

static size_t write_stub(const DeviceSettings *device, uint8_t *out, size_t room)
{
    DataHeader header = header_of(device, 0);
    if (room < sizeof header.vulkan)
        return 0;
    memcpy(out, &header.vulkan, sizeof header.vulkan);
    return sizeof header.vulkan;
}

/* A part of the header is zero, all of it, or missing. */
static size_t spoil_header(uint8_t *data, size_t size, const char *what)
{
    static const struct {
        const char *name;
        size_t at;
    } parts[] = {
        {"length", offsetof(DataHeader, vulkan.headerSize)},
        {"version", offsetof(DataHeader, vulkan.headerVersion)},
        {"vendor", offsetof(DataHeader, vulkan.vendorID)},
        {"device", offsetof(DataHeader, vulkan.deviceID)},
        {"uuid", offsetof(DataHeader, vulkan.pipelineCacheUUID)},
        {"count", offsetof(DataHeader, count)},
    };
    size_t at = 0, bytes = sizeof(VkPipelineCacheHeaderVersionOne);
    if (strcmp(what, "short") == 0)
        return size < 20 ? size : 20;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(what, parts[i].name) == 0)
            at = parts[i].at, bytes = sizeof(uint32_t);
    if (at + bytes <= size)
        memset(data + at, 0, bytes);
    return size;
}

static VkResult ask_size(Cache *cache, const Verdict *verdict, size_t *size)
{
    pthread_mutex_lock(&cache->mutex);
    *size = size_of_data_locked(cache);
    if (verdict->action == ACT_EMPTY)
        *size = 0;
    else if (verdict->action == ACT_STUB)
        *size = sizeof(VkPipelineCacheHeaderVersionOne);
    else if (verdict->action == ACT_GROW)
        cache->padding += 64;
    pthread_mutex_unlock(&cache->mutex);
    return VK_SUCCESS;
}

static VkResult read_cache(const DeviceSettings *device, Cache *cache, const Verdict *verdict, size_t *size,
                           uint8_t *data)
{
    size_t room = *size;
    pthread_mutex_lock(&cache->mutex);
    size_t most = cache->used, all = size_of_data_locked(cache);
    bool tight = verdict->action == ACT_TIGHT && room <= all;
    if ((verdict->action == ACT_INCOMPLETE || verdict->action == ACT_SHRINK || tight) && most)
        most--;
    size_t used = write_data_locked(device, cache, data, room, most);
    pthread_mutex_unlock(&cache->mutex);
    VkResult result = used < all ? VK_INCOMPLETE : VK_SUCCESS;
    if (verdict->action == ACT_EMPTY)
        used = 0, result = VK_SUCCESS;
    if (verdict->action == ACT_STUB)
        used = write_stub(device, data, room), result = used ? VK_SUCCESS : VK_INCOMPLETE;
    if (verdict->action == ACT_INCOMPLETE)
        result = VK_INCOMPLETE;
    if (verdict->action == ACT_SHRINK)
        result = VK_SUCCESS;
    if (verdict->action == ACT_HEADER)
        used = spoil_header(data, used, verdict->argument);
    for (size_t i = sizeof(VkPipelineCacheHeaderVersionOne); verdict->action == ACT_GARBAGE && i < used; i++)
        data[i] = (uint8_t)(data[i] * 5 + i);
    if (used)
        given_out(device->identity, NULL, data, used);
    *size = verdict->action == ACT_OVERSTATE ? room + 64 : used;
    return result;
}

static VkResult VKAPI_CALL get_data(VkDevice device, VkPipelineCache handle, size_t *size, void *data)
{
    COMMAND_OF(device, self);
    Cache *cache = cache_use_begin(handle, false);
    Verdict verdict = act(DO_GET_DATA, data ? TRAIT_DATA : 0);
    VkResult result = verdict.action == ACT_ERROR ? verdict.result
                      : data                      ? read_cache(self->settings, cache, &verdict, size, data)
                                                  : ask_size(cache, &verdict, size);
    cache_use_end(cache, false);
    return result;
}

/* ---- vkMergePipelineCaches ---- */

/* All entries of a cache; the last one is NULL. */
static Entry **list_entries(Cache *of)
{
    pthread_mutex_lock(&of->mutex);
    Entry **all = allocate((of->used + 1) * sizeof *all);
    for (size_t i = 0, found = 0; all && i < of->room; i++)
        if (of->table[i])
            all[found++] = of->table[i];
    pthread_mutex_unlock(&of->mutex);
    return all;
}

static unsigned traits_of(const DriverDevice *device, Cache *source)
{
    unsigned traits = 0;
    pthread_mutex_lock(&source->mutex);
    for (size_t i = 0; i < source->room; i++)
        traits |= source->table[i] ? TRAIT_DATA | entry_traits(device->settings, source->table[i]) : 0;
    pthread_mutex_unlock(&source->mutex);
    return traits;
}

static VkResult merge_sources(VkDevice device, Cache *target, uint32_t source_count, const VkPipelineCache *sources)
{
    unsigned traits = 0;
    if (source_count == 0)
        violation("vkMergePipelineCaches without a source");
    for (uint32_t i = 0; i < source_count; i++) {
        if (cache_of(sources[i]) == target)
            violation("vkMergePipelineCaches of a cache into itself");
        traits |= traits_of(device_of(device), cache_of(sources[i]));
    }
    Verdict verdict = act(DO_MERGE, traits);
    if (verdict.action != ACT_NOTHING && verdict.action != ACT_MOVE)
        return verdict.result;
    VkResult result = VK_SUCCESS;
    for (uint32_t i = 0; i < source_count; i++) {
        Entry **all = list_entries(cache_of(sources[i]));
        if (!all)
            return VK_ERROR_OUT_OF_HOST_MEMORY;
        for (Entry **at = all; *at; at++)
            if (!cache_add(target, *at))
                result = VK_ERROR_OUT_OF_HOST_MEMORY;
        free(all);
        if (verdict.action == ACT_MOVE)
            cache_clear(cache_of(sources[i]));
    }
    return result;
}

static VkResult VKAPI_CALL merge(VkDevice device, VkPipelineCache into, uint32_t source_count,
                                 const VkPipelineCache *sources)
{
    COMMAND_OF(device, self);
    bool alone = !(cache_of(into)->flags & VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR);
    Cache *target = cache_use_begin(into, alone);
    for (uint32_t i = 0; i < source_count; i++)
        if (sources[i] != into)
            cache_use_begin(sources[i], false);
    VkResult result = merge_sources(device, target, source_count, sources);
    for (uint32_t i = 0; i < source_count; i++)
        if (sources[i] != into)
            cache_use_end(cache_of(sources[i]), false);
    cache_use_end(target, alone);
    return result;
}

const EntryPoint cache_commands[] = {
    ENTRY("vkCreatePipelineCache", create_cache),
    ENTRY("vkDestroyPipelineCache", destroy_cache),
    ENTRY("vkGetPipelineCacheData", get_data),
    ENTRY("vkMergePipelineCaches", merge),
    {NULL, NULL},
};
