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
    atomic_ullong handle; /* 0: free */
    atomic_ullong code;
} KnownModule;

/* Open addressing, never more than half full. */
typedef struct ModuleTable {
    struct ModuleTable *smaller; /* its predecessor, which a reader may still be in; freed with the device */
    size_t capacity;             /* a power of two */
    KnownModule slots[];
} ModuleTable;

#define FIRST_MODULES 256

static size_t slot_of(const ModuleTable *table, uint64_t handle)
{
    return (size_t)(handle * 0x9e3779b97f4a7c15ull >> 32) & (table->capacity - 1);
}

static uint64_t handle_in(const KnownModule *slot)
{
    return atomic_load_explicit(&slot->handle, memory_order_relaxed);
}

static void write_slot(KnownModule *slot, uint64_t handle, uint64_t code)
{
    atomic_store_explicit(&slot->handle, handle, memory_order_relaxed);
    atomic_store_explicit(&slot->code, code, memory_order_relaxed);
}

/* The module's slot, or the free one where it would stand. A reader whom a writer overtakes may come back to where it
 * began; what it found is not used. */
static KnownModule *find_slot(ModuleTable *table, uint64_t handle)
{
    size_t slot = slot_of(table, handle);
    for (size_t i = 0; i < table->capacity; i++, slot = (slot + 1) & (table->capacity - 1)) {
        uint64_t found = handle_in(&table->slots[slot]);
        if (found == 0 || found == handle)
            break;
    }
    return &table->slots[slot];
}

static ModuleTable *table_of(ShaderModules *modules)
{
    return atomic_load_explicit(&modules->table, memory_order_acquire);
}

/* The mutex is held. A version that is odd, or another one than before, tells readers to look again. */
static void begin_write_locked(ShaderModules *modules)
{
    atomic_fetch_add_explicit(&modules->version, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

static void end_write_locked(ShaderModules *modules)
{
    atomic_fetch_add_explicit(&modules->version, 1, memory_order_release);
}

static bool grow_locked(ShaderModules *modules)
{
    ModuleTable *table = table_of(modules);
    size_t capacity = table ? 2 * table->capacity : FIRST_MODULES;
    ModuleTable *larger = calloc(1, sizeof *larger + capacity * sizeof *larger->slots);
    if (!larger)
        return false;
    larger->capacity = capacity;
    larger->smaller = table;
    for (size_t i = 0; table && i < table->capacity; i++) {
        KnownModule *known = &table->slots[i];
        if (handle_in(known) != 0)
            write_slot(find_slot(larger, handle_in(known)), handle_in(known), known->code);
    }
    atomic_store_explicit(&modules->table, larger, memory_order_release);
    return true;
}

static void add_module(ShaderModules *modules, uint64_t handle, uint64_t code, size_t most)
{
    pthread_mutex_lock(&modules->writer);
    ModuleTable *table = table_of(modules);
    if (modules->used < most && ((table && 2 * modules->used < table->capacity) || grow_locked(modules))) {
        KnownModule *known = find_slot(table_of(modules), handle);
        modules->used += handle_in(known) == 0;
        begin_write_locked(modules);
        write_slot(known, handle, code);
        end_write_locked(modules);
    }
    pthread_mutex_unlock(&modules->writer);
}

/* Those behind it move up, so that no search ends too early. */
static void close_gap(ModuleTable *table, size_t gap)
{
    size_t mask = table->capacity - 1;
    for (size_t at = (gap + 1) & mask; handle_in(&table->slots[at]) != 0; at = (at + 1) & mask) {
        size_t home = slot_of(table, handle_in(&table->slots[at]));
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            write_slot(&table->slots[gap], handle_in(&table->slots[at]), table->slots[at].code);
            gap = at;
        }
    }
    write_slot(&table->slots[gap], 0, 0);
}

static void remove_module(ShaderModules *modules, uint64_t handle)
{
    pthread_mutex_lock(&modules->writer);
    ModuleTable *table = table_of(modules);
    KnownModule *known = table ? find_slot(table, handle) : NULL;
    if (known && handle_in(known) != 0) {
        begin_write_locked(modules);
        close_gap(table, (size_t)(known - table->slots));
        end_write_locked(modules);
        modules->used--;
    }
    pthread_mutex_unlock(&modules->writer);
}

static uint64_t look_up(ShaderModules *modules, uint64_t handle)
{
    ModuleTable *table = table_of(modules);
    const KnownModule *known = table ? find_slot(table, handle) : NULL;
    return known && handle_in(known) == handle ? atomic_load_explicit(&known->code, memory_order_relaxed) : 0;
}

/* Without a lock, which all threads would write to for each stage of each pipeline. */
static uint64_t code_of_module(ShaderModules *modules, uint64_t handle)
{
    unsigned version = atomic_load_explicit(&modules->version, memory_order_acquire);
    uint64_t code = look_up(modules, handle);
    atomic_thread_fence(memory_order_acquire);
    if (version % 2 == 0 && atomic_load_explicit(&modules->version, memory_order_relaxed) == version)
        return code;
    pthread_mutex_lock(&modules->writer);
    code = look_up(modules, handle);
    pthread_mutex_unlock(&modules->writer);
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
    bool wanted = device->plan.tell_creations ||
                  atomic_load_explicit(&device->carrier, memory_order_relaxed) != PYLAYER_CARRIER_OFF;
    if (result == VK_SUCCESS && wanted && !process_is_forked_child())
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
        if (node->sType == VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT) {
            const VkPipelineShaderStageModuleIdentifierCreateInfoEXT *chained = (const void *)node;
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
        uint32_t word;
        if (entry->size == sizeof word) { /* almost always, and a copy of known size needs no call */
            memcpy(&word, bytes, sizeof word);
            value = word;
        } else if (entry->size <= sizeof value) {
            memcpy(&value, bytes, entry->size);
        } else {
            value = digest64(bytes, entry->size, 0);
        }
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

/* Two of them in a word, put together here: words read from memory that was written in halves are slow. */
static void add_pair(Description *description, uint32_t low, uint32_t high)
{
    add(description, low | (uint64_t)high << 32);
}

static void add_states(Description *description, const States *states)
{
    add_pair(description, states->kind, states->subsets);
    add_pair(description, states->topology, states->samples);
    add_pair(description, states->groups, states->depth);
    add_pair(description, states->stencil, states->color_count);
    for (unsigned i = 0; i < 8; i += 2)
        add_pair(description, states->colors[i], states->colors[i + 1]);
}

#define ALL_SUBSETS                                                                                                    \
    (VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT |                                                     \
     VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT |                                                  \
     VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT |                                                            \
     VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT)

uint32_t graphics_subsets(const VkGraphicsPipelineCreateInfo *info, enum PylayerPipelineKind kind)
{
    const VkGraphicsPipelineLibraryCreateInfoEXT *library =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT);
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
    bool pre_rasterization = states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT;
    if ((states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT) && info->pInputAssemblyState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_PRIMITIVE_TOPOLOGY_EXT) && !(pre_rasterization && has_mesh_stage(info)))
        states->topology = (uint32_t)info->pInputAssemblyState->topology;
    bool rasterizes = false, discards = false;
    if (pre_rasterization && info->pRasterizationState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE_EXT)) {
        discards = info->pRasterizationState->rasterizerDiscardEnable;
        rasterizes = !discards;
    }
    bool fragment_output = states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT;
    if (fragment_output && rasterizes && info->pMultisampleState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_RASTERIZATION_SAMPLES_EXT))
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
        states.subsets = graphics_subsets(&info->graphics, kind);
        if (!(states.subsets & SUBSETS_WITH_STAGES))
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
    count(&counters_of(device)->totals.fingerprints_dropped, 1);
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
    pthread_mutex_init(&device->modules.writer, NULL);
    pthread_mutex_init(&device->identified_code.writer, NULL);
}

static void free_modules(ShaderModules *modules)
{
    pthread_mutex_destroy(&modules->writer);
    for (ModuleTable *table = table_of(modules); table;) {
        ModuleTable *smaller = table->smaller;
        free(table);
        table = smaller;
    }
}

void fingerprints_close(Device *device)
{
    free_modules(&device->modules);
    free_modules(&device->identified_code);
    for (unsigned i = 0; i < SEEN_TABLES; i++)
        free((void *)atomic_load(&device->seen.tables[i]));
}
