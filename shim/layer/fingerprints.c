/*
 * fingerprints.c - what a pipeline is made of, as one number, and which of these numbers a run has seen.
 *
 * The store learns from them which of its records are still in use. They decide nothing else: two pipelines may share
 * one, and where something is not known there is none. A fingerprint is the same in every process, so it is made from
 * what the application says, never from handles and pointers.
 *
 * Only what every valid create info must have behind its pointers is read; what the specification allows to be
 * ignored, and so to be anything, is left out.
 */
#include <stdlib.h>
#include <string.h>

#include "create_info.h"

/* ---- shader modules -------------------------------------------------------------------------- */

typedef struct KnownModule {
    uint64_t handle; /* 0: free */
    uint64_t code;
} KnownModule;

#define FIRST_MODULES 256

static size_t slot_of(const ShaderModules *modules, uint64_t handle)
{
    return (size_t)(handle * 0x9e3779b97f4a7c15ull >> 32) & (modules->capacity - 1);
}

/* The lock is held, and there is a table. The module's slot, or the free one where it would stand. */
static KnownModule *find_slot(const ShaderModules *modules, uint64_t handle)
{
    size_t slot = slot_of(modules, handle);
    while (modules->slots[slot].handle != 0 && modules->slots[slot].handle != handle)
        slot = (slot + 1) & (modules->capacity - 1);
    return &modules->slots[slot];
}

/* The lock is held for writing. */
static bool grow(ShaderModules *modules)
{
    ShaderModules larger = {.capacity = modules->capacity ? 2 * modules->capacity : FIRST_MODULES};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < modules->capacity; i++)
        if (modules->slots[i].handle != 0)
            *find_slot(&larger, modules->slots[i].handle) = modules->slots[i];
    free(modules->slots);
    modules->slots = larger.slots;
    modules->capacity = larger.capacity;
    return true;
}

static void add_module(ShaderModules *modules, uint64_t handle, uint64_t code, size_t most)
{
    pthread_rwlock_wrlock(&modules->lock);
    if (modules->used < most && (2 * modules->used < modules->capacity || grow(modules))) {
        KnownModule *known = find_slot(modules, handle);
        modules->used += known->handle == 0;
        *known = (KnownModule){handle, code};
    }
    pthread_rwlock_unlock(&modules->lock);
}

/* Those behind it move up, so that no search ends too early. */
static void close_gap(ShaderModules *modules, size_t gap)
{
    size_t mask = modules->capacity - 1;
    for (size_t at = (gap + 1) & mask; modules->slots[at].handle != 0; at = (at + 1) & mask) {
        size_t home = slot_of(modules, modules->slots[at].handle);
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            modules->slots[gap] = modules->slots[at];
            gap = at;
        }
    }
    modules->slots[gap].handle = 0;
}

static void remove_module(ShaderModules *modules, uint64_t handle)
{
    pthread_rwlock_wrlock(&modules->lock);
    KnownModule *known = modules->capacity ? find_slot(modules, handle) : NULL;
    if (known && known->handle != 0) {
        close_gap(modules, (size_t)(known - modules->slots));
        modules->used--;
    }
    pthread_rwlock_unlock(&modules->lock);
}

static uint64_t code_of_module(ShaderModules *modules, uint64_t handle)
{
    pthread_rwlock_rdlock(&modules->lock);
    const KnownModule *known = modules->capacity ? find_slot(modules, handle) : NULL;
    uint64_t code = known && known->handle != 0 ? known->code : 0;
    pthread_rwlock_unlock(&modules->lock);
    return code;
}

/* 0 means unknown. */
static uint64_t never_zero(uint64_t hash)
{
    return hash ? hash : 1;
}

static uint64_t code_of_info(const VkShaderModuleCreateInfo *info)
{
    return never_zero(digest64(info->pCode, info->codeSize, 0));
}

/* By its identifier where it has one (identifiers.c). */
static uint64_t code_of_new_module(const Device *device, VkShaderModule module, const VkShaderModuleCreateInfo *info)
{
    uint64_t identifier = identifier_of_module(device, module);
    return identifier ? identifier : code_of_info(info);
}

/* Shaders that are met inline and no module holds; beyond that many the driver is asked each time. */
#define MAX_IDENTIFIED_CODE 16384

/* Code that comes with each pipeline. A driver's identifier is a cryptographic hash, so it is asked for once. */
static uint64_t code_of_inline_info(Device *device, const VkShaderModuleCreateInfo *info)
{
    uint64_t code = code_of_info(info);
    if (!device->get_code_identifier)
        return code;
    uint64_t identifier = code_of_module(&device->identified_code, code);
    if (identifier)
        return identifier;
    identifier = identifier_of_code(device, info);
    if (!identifier)
        return code;
    add_module(&device->identified_code, code, identifier, MAX_IDENTIFIED_CODE);
    return identifier;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateShaderModule(VkDevice handle, const VkShaderModuleCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    VkResult result = device->create_shader_module(handle, info, allocator, module);
    if (result == VK_SUCCESS && !process_is_forked_child() &&
        atomic_load_explicit(&device->carrier, memory_order_relaxed) != PYLAYER_CARRIER_OFF)
        add_module(&device->modules, (uint64_t)*module, code_of_new_module(device, *module, info), SIZE_MAX);
    return result;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyShaderModule(VkDevice handle, VkShaderModule module,
                                                     const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    /* Before the driver may give the same handle to another thread. One that it gave out several times, for the same
     * code (Vulkan, 'Object Model'), is unknown from here on. */
    if (module != VK_NULL_HANDLE && !process_is_forked_child())
        remove_module(&device->modules, (uint64_t)module);
    device->destroy_shader_module(handle, module, allocator);
}

/* ---- fingerprints ---------------------------------------------------------------------------- */

/* 0: unknown. */
static uint64_t code_of_stage(Device *device, const VkPipelineShaderStageCreateInfo *stage)
{
    /* VUID-VkPipelineShaderStageCreateInfo-stage-06844, -06845, -06848: one of the three. */
    if (stage->module != VK_NULL_HANDLE)
        return code_of_module(&device->modules, (uint64_t)stage->module);
    for (const VkBaseInStructure *node = stage->pNext; node; node = node->pNext) {
        if (node->sType == VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO)
            return code_of_inline_info(device, (const VkShaderModuleCreateInfo *)(const void *)node);
        if (node->sType == COMPAT_STRUCTURE_TYPE_SHADER_STAGE_MODULE_IDENTIFIER) {
            const CompatShaderStageModuleIdentifier *chained = (const void *)node;
            /* Of no bytes, it is as if it were not there. */
            if (chained->identifierSize)
                return identifier_digest(chained->pIdentifier, chained->identifierSize);
        }
    }
    return 0;
}

/* What a pipeline is made of, hashed when it is complete or the room is full: one hash over 240 bytes takes as long as
 * two over 16 (measured). XXH3 is slower per byte beyond 240. */
#define DESCRIPTION_WORDS 30
typedef struct Description {
    uint64_t hash; /* of what is no longer in words */
    uint32_t used;
    uint64_t words[DESCRIPTION_WORDS];
} Description;

static uint64_t hash_of(Description *description)
{
    description->hash = digest64(description->words, description->used * sizeof(uint64_t), description->hash);
    description->used = 0;
    return description->hash;
}

static void add(Description *description, uint64_t word)
{
    if (description->used == DESCRIPTION_WORDS)
        hash_of(description);
    description->words[description->used++] = word;
}

static void add_constants(Description *description, const VkSpecializationInfo *constants)
{
    for (uint32_t i = 0; constants && i < constants->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &constants->pMapEntries[i];
        /* VUID-VkSpecializationInfo-offset-00773, -pMapEntries-00774: it lies within pData. */
        if (entry->offset > constants->dataSize || entry->size > constants->dataSize - entry->offset)
            continue;
        const char *bytes = (const char *)constants->pData + entry->offset;
        uint64_t value = 0;
        if (entry->size == sizeof(uint32_t)) /* almost always, and a copy of known size needs no call */
            memcpy(&value, bytes, sizeof(uint32_t));
        else if (entry->size <= sizeof value)
            memcpy(&value, bytes, entry->size);
        else
            value = digest64(bytes, entry->size, 0);
        add(description, (uint64_t)entry->constantID << 32 | (uint32_t)entry->size);
        add(description, value);
    }
}

/* False: one of them is unknown, or there are none. */
static bool add_stages(Description *description, Device *device, uint32_t stage_count,
                       const VkPipelineShaderStageCreateInfo *stages)
{
    for (uint32_t i = 0; i < stage_count; i++) {
        const VkPipelineShaderStageCreateInfo *stage = &stages[i];
        uint64_t code = code_of_stage(device, stage);
        if (!code)
            return false;
        add(description, stage->stage);
        add(description, code);
        add(description, stage->pName ? digest64(stage->pName, strlen(stage->pName), 0) : 0);
        add_constants(description, stage->pSpecializationInfo);
    }
    return stage_count > 0;
}

/* A few states in front of the stages; what does not apply is zero. */
typedef struct States {
    uint32_t kind, subsets, topology, samples, groups, depth, stencil, color_count, colors[8];
} States;

static void add_states(Description *description, const States *states)
{
    uint64_t words[sizeof *states / sizeof(uint64_t)];
    memcpy(words, states, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        add(description, words[i]);
}

#define ALL_SUBSETS                                                                                                    \
    (COMPAT_LIBRARY_VERTEX_INPUT | COMPAT_LIBRARY_PRE_RASTERIZATION | COMPAT_LIBRARY_FRAGMENT_SHADER |                 \
     COMPAT_LIBRARY_FRAGMENT_OUTPUT)

/* The state that this create info gives itself, libraries apart (Vulkan, VkGraphicsPipelineLibraryCreateInfoEXT). */
static uint32_t own_subsets(const VkGraphicsPipelineCreateInfo *info, enum PylayerPipelineKind kind)
{
    const CompatGraphicsPipelineLibrary *library =
        (const void *)pnext_find(info->pNext, COMPAT_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY);
    if (library)
        return library->flags;
    return kind == PYLAYER_KIND_GRAPHICS ? ALL_SUBSETS : 0;
}

static bool is_dynamic(const VkPipelineDynamicStateCreateInfo *dynamic, VkDynamicState state)
{
    for (uint32_t i = 0; dynamic && i < dynamic->dynamicStateCount; i++)
        if (dynamic->pDynamicStates[i] == state)
            return true;
    return false;
}

static bool has_mesh_stage(const VkGraphicsPipelineCreateInfo *info)
{
    for (uint32_t i = 0; i < info->stageCount; i++)
        if (info->pStages[i].stage & VK_SHADER_STAGE_MESH_BIT_NV)
            return true;
    return false;
}

static void read_formats(States *states, const VkGraphicsPipelineCreateInfo *info)
{
    const VkPipelineRenderingCreateInfoKHR *rendering =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR);
    /* Ignored beside a render pass. */
    if (!rendering || info->renderPass != VK_NULL_HANDLE)
        return;
    states->color_count = rendering->colorAttachmentCount;
    states->depth = (uint32_t)rendering->depthAttachmentFormat;
    states->stencil = (uint32_t)rendering->stencilAttachmentFormat;
    for (uint32_t i = 0; i < rendering->colorAttachmentCount && i < 8; i++)
        states->colors[i] = (uint32_t)rendering->pColorAttachmentFormats[i];
}

/*
 * Each pointer is read only where the pipeline must have it:
 * - pInputAssemblyState: vertex input state without a mesh stage, its topology not dynamic
 *   (VUID-VkGraphicsPipelineCreateInfo-dynamicPrimitiveTopologyUnrestricted-09031)
 * - pRasterizationState: pre-rasterization state, rasterizerDiscardEnable not dynamic (VUID -pRasterizationState-06601)
 * - pMultisampleState: rasterization statically enabled, its samples not dynamic (VUID -pMultisampleState-09026)
 * - formats of dynamic rendering: fragment output state, rasterization not statically disabled (VUID -renderPass-06579)
 */
static void read_graphics_states(States *states, const VkGraphicsPipelineCreateInfo *info)
{
    const VkPipelineDynamicStateCreateInfo *dynamic = info->pDynamicState;
    bool pre_rasterization = states->subsets & COMPAT_LIBRARY_PRE_RASTERIZATION;
    if ((states->subsets & COMPAT_LIBRARY_VERTEX_INPUT) && info->pInputAssemblyState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_PRIMITIVE_TOPOLOGY_EXT) && !(pre_rasterization && has_mesh_stage(info)))
        states->topology = (uint32_t)info->pInputAssemblyState->topology;
    bool rasterizes = false, discards = false;
    if (pre_rasterization && info->pRasterizationState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE_EXT)) {
        discards = info->pRasterizationState->rasterizerDiscardEnable;
        rasterizes = !discards;
    }
    bool fragment_output = states->subsets & COMPAT_LIBRARY_FRAGMENT_OUTPUT;
    if (fragment_output && rasterizes && info->pMultisampleState &&
        !is_dynamic(dynamic, COMPAT_DYNAMIC_STATE_RASTERIZATION_SAMPLES))
        states->samples = (uint32_t)info->pMultisampleState->rasterizationSamples;
    if (fragment_output && !discards)
        read_formats(states, info);
}

uint64_t fingerprint_of(const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    const VkPipelineShaderStageCreateInfo *stages = &info->compute.stage;
    uint32_t stage_count = 1;
    States states = {.kind = kind};
    if (call->point == BIND_GRAPHICS) {
        states.subsets = own_subsets(&info->graphics, kind);
        /* VUID-VkGraphicsPipelineCreateInfo-pStages-06600: only then pStages need be valid. */
        if (!(states.subsets & (COMPAT_LIBRARY_PRE_RASTERIZATION | COMPAT_LIBRARY_FRAGMENT_SHADER)))
            return 0;
        read_graphics_states(&states, &info->graphics);
        stages = info->graphics.pStages;
        stage_count = info->graphics.stageCount;
    } else if (call->point == BIND_RAY_TRACING) {
        states.groups = info->ray_tracing.groupCount;
        stages = info->ray_tracing.pStages;
        stage_count = info->ray_tracing.stageCount;
    }
    Description description;
    description.hash = description.used = 0;
    add_states(&description, &states);
    return add_stages(&description, call->device, stage_count, stages) ? never_zero(hash_of(&description)) : 0;
}

/* ---- fingerprints seen ----------------------------------------------------------------------- */

static const size_t seen_slots[SEEN_TABLES] = {1u << 12, 1u << 14, 1u << 16, 1u << 18, 1u << 19};

/* One line of the processor's cache; a fingerprint has this many places in each table. */
#define BUCKET_SLOTS 8
#define BUCKET_BYTES (BUCKET_SLOTS * sizeof(atomic_ullong))

static atomic_ullong *seen_table(SeenFingerprints *seen, unsigned index)
{
    atomic_ullong *table = atomic_load_explicit(&seen->tables[index], memory_order_acquire);
    if (table)
        return table;
    size_t bytes = seen_slots[index] * sizeof *table;
    atomic_ullong *fresh = aligned_alloc(BUCKET_BYTES, bytes);
    if (!fresh)
        return NULL;
    memset(fresh, 0, bytes);
    if (atomic_compare_exchange_strong(&seen->tables[index], &table, fresh))
        return fresh;
    free(fresh); /* another thread was faster */
    return table;
}

void fingerprints_note(Device *device, uint64_t fingerprint)
{
    if (!fingerprint)
        return;
    for (unsigned i = 0; i < SEEN_TABLES; i++) {
        atomic_ullong *table = seen_table(&device->seen, i);
        if (!table)
            break;
        /* Other bits for each table: what shares a bucket in one is spread in the next. */
        size_t bucket = (size_t)(fingerprint >> (i * 8)) & (seen_slots[i] / BUCKET_SLOTS - 1);
        atomic_ullong *slots = table + bucket * BUCKET_SLOTS;
        for (unsigned j = 0; j < BUCKET_SLOTS; j++) {
            /* A slot that is taken stays taken, so no fingerprint gets behind a free one and in twice. */
            unsigned long long found = atomic_load_explicit(&slots[j], memory_order_relaxed);
            if (found == 0 && atomic_compare_exchange_strong(&slots[j], &found, fingerprint))
                return;
            if (found == fingerprint)
                return;
        }
    }
    count(&device->counters.fingerprints_dropped, 1);
}

uint64_t fingerprints_read(Device *device, uint64_t *out, uint64_t capacity)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < SEEN_TABLES; i++) {
        atomic_ullong *table = atomic_load_explicit(&device->seen.tables[i], memory_order_acquire);
        for (size_t j = 0; table && j < seen_slots[i]; j++) {
            uint64_t fingerprint = atomic_load_explicit(&table[j], memory_order_relaxed);
            if (fingerprint && found++ < capacity)
                out[found - 1] = fingerprint;
        }
    }
    return found;
}

void fingerprints_open(Device *device)
{
    rwlock_init_for_merging(&device->modules.lock);
    rwlock_init_for_merging(&device->identified_code.lock);
}

void fingerprints_close(Device *device)
{
    pthread_rwlock_destroy(&device->modules.lock);
    free(device->modules.slots);
    pthread_rwlock_destroy(&device->identified_code.lock);
    free(device->identified_code.slots);
    for (unsigned i = 0; i < SEEN_TABLES; i++)
        free((void *)atomic_load(&device->seen.tables[i]));
}
