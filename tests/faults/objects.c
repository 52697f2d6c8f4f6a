/* The objects that were made through this layer, who uses them, and chains of structs. */
#include "faults.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 4096
#define WRITER 0x10000

const char *const kind_names[] = {"VkPipelineCache", "VkPipeline", "VkShaderModule", "VkPipelineBinaryKHR"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *buckets[BUCKETS];

static object **bucket_of(uint64_t handle)
{
    return &buckets[(handle * 0x9e3779b97f4a7c15ull >> 40) % BUCKETS];
}

object *object_add(object_kind kind, uint64_t handle, const void *device, uint64_t flags, bool has_allocator)
{
    object *added = calloc(1, sizeof *added);
    if (!added)
        abort();
    added->handle = handle;
    added->kind = kind;
    added->device = device;
    added->flags = flags;
    added->has_allocator = has_allocator;
    pthread_mutex_lock(&lock);
    object **bucket = bucket_of(handle);
    added->next = *bucket;
    *bucket = added;
    pthread_mutex_unlock(&lock);
    return added;
}

static object **link_of_locked(object_kind kind, uint64_t handle, const void *device)
{
    object **link = bucket_of(handle);
    while (*link && !((*link)->handle == handle && (*link)->kind == kind && (*link)->device == device))
        link = &(*link)->next;
    return link;
}

object *object_find(object_kind kind, uint64_t handle, const void *device, const char *command)
{
    pthread_mutex_lock(&lock);
    object *found = *link_of_locked(kind, handle, device);
    pthread_mutex_unlock(&lock);
    if (!found && command)
        violation("%s with a %s that does not exist on this device: 0x%llx", command, kind_names[kind],
                  (unsigned long long)handle);
    return found;
}

void object_remove(object_kind kind, uint64_t handle, const void *device, bool has_allocator, const char *command)
{
    pthread_mutex_lock(&lock);
    object **link = link_of_locked(kind, handle, device);
    object *removed = *link;
    if (removed)
        *link = removed->next;
    pthread_mutex_unlock(&lock);
    if (!removed) {
        violation("%s of a %s that does not exist on this device: 0x%llx", command, kind_names[kind],
                  (unsigned long long)handle);
        return;
    }
    if (removed->has_allocator != has_allocator)
        violation("%s with another allocator than the object was made with", command);
    if (atomic_load(&removed->users)) {
        violation("%s while the object is in use", command);
        return; /* its memory is in use too */
    }
    free(removed);
}

void objects_of_device_end(const void *device)
{
    unsigned alive[KIND_COUNT] = {0};
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (object **link = &buckets[i]; *link;) {
            object *found = *link;
            if (found->device != device) {
                link = &found->next;
                continue;
            }
            alive[found->kind]++;
            *link = found->next;
            free(found);
        }
    }
    pthread_mutex_unlock(&lock);
    for (unsigned kind = 0; kind < KIND_COUNT; kind++)
        if (alive[kind])
            violation("vkDestroyDevice with %u objects alive: %s", alive[kind], kind_names[kind]);
}

void begin_use(object *used, bool as_writer, const char *command)
{
    if (!used)
        return;
    int before = atomic_fetch_add(&used->users, as_writer ? WRITER : 1);
    if (as_writer ? before != 0 : before >= WRITER)
        violation("%s while another thread uses the %s 0x%llx, which is not synchronized against that", command,
                  kind_names[used->kind], (unsigned long long)used->handle);
}

void end_use(object *used, bool as_writer)
{
    if (used)
        atomic_fetch_sub(&used->users, as_writer ? WRITER : 1);
}

static bool is_loaders(int type)
{
    return type == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || type == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO;
}

/* These may stand in a chain several times. */
static bool is_repeatable(int type)
{
    return type == VK_STRUCTURE_TYPE_DEVICE_PRIVATE_DATA_CREATE_INFO || is_loaders(type);
}

void check_chain(const void *chain, const char *command)
{
    for (const VkBaseInStructure *node = chain; node; node = node->pNext)
        for (const VkBaseInStructure *other = node->pNext; other; other = other->pNext)
            if (node->sType == other->sType && !is_repeatable((int)node->sType))
                violation("%s: two structs of type %d in one chain", command, (int)node->sType);
}

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3ull;
    return hash;
}

const void *find_in_chain(const void *chain, int type)
{
    const VkBaseInStructure *node = chain;
    while (node && (int)node->sType != type)
        node = node->pNext;
    return node;
}
