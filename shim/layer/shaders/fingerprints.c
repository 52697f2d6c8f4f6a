/*
 * fingerprints.c - hashes what a pipeline is made of into one number.
 *
 * Fingerprints select the stored records that are given to the driver for a pipeline, and tell the store which of its
 * records are in use. Two pipelines may share one: then the driver gets the records of both. A pipeline has none if
 * something it is made of is unknown. A fingerprint is the same in every process, so it is made from what the
 * application says. Handles count by the fingerprint or the code of what they name. If a change gives a pipeline
 * another fingerprint, FINGERPRINTS in pylayer/store/format.py changes, too: other machines would not find it.
 *
 * shim/registry_rules.py says which members a fingerprint is made of, and which are ignored: those are not read,
 * because they may be invalid pointers.
 */
#include "shaders/shaders.h"

#include <string.h>

/* Pipelines that are linked from further libraries have no fingerprint. */
#define MAX_LIBRARIES 65536

/* The words to hash, hashed when complete or when the array is full: one hash over 240 bytes takes as long as two
 * over 16 (measured). XXH3 is slower per byte beyond 240. */
#define DESCRIPTION_WORDS 30
typedef struct Description {
    Walk walk; /* the first member: its visitors get it */
    Shaders *shaders;
    uint64_t hash; /* of the words that were hashed already */
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

static NOT_INLINED void add_more(Description *description, const char *bytes, size_t size)
{
    uint64_t word;
    if (size > sizeof description->words / 2) {
        add(description, digest64(bytes, size, 0));
        return;
    }
    for (; size > 0; bytes += sizeof word, size -= size < sizeof word ? size : sizeof word) {
        word = 0;
        memcpy(&word, bytes, size < sizeof word ? size : sizeof word);
        add(description, word);
    }
}

/* The usual sizes come first: a copy of known size needs no call. */
static void add_bytes(Walk *walk, const void *data, size_t size)
{
    Description *description = (Description *)(void *)walk;
    uint64_t word = 0;
    if (size == sizeof(uint32_t))
        memcpy(&word, data, sizeof(uint32_t));
    else if (size == sizeof word)
        memcpy(&word, data, sizeof word);
    if (size == sizeof(uint32_t) || size == sizeof word)
        add(description, word);
    else
        add_more(description, data, size);
}

/* Layouts and render passes do not count: the layer does not know what they were made of. */
static void add_handle(Walk *walk, VkObjectType type, const uint64_t *handle, const void *structure)
{
    Description *description = (Description *)(void *)walk;
    uint64_t named;
    if (type == VK_OBJECT_TYPE_SHADER_MODULE)
        named = shader_code_of_stage(description->shaders, structure);
    else if (type == VK_OBJECT_TYPE_PIPELINE)
        named = shared_map_find(&description->shaders->libraries, *handle);
    else
        return;
    add(description, named);
    walk->ended |= named == 0;
}

void fingerprint_note_library(Shaders *shaders, VkPipeline library, uint64_t fingerprint)
{
    shared_map_put(&shaders->libraries, (uint64_t)library, fingerprint, MAX_LIBRARIES);
}

/* Quick: of what QUICK of shim/registry_rules.py chooses. Otherwise of all that decides what the driver compiles. */
static uint64_t hash_pipeline(Shaders *shaders, const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind,
                              bool quick)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    uint32_t stage_count;
    create_info_stages(call, index, kind, &stage_count);
    uint32_t subsets = call->point == BIND_GRAPHICS ? graphics_subsets(&info->graphics, kind) : 0;
    bool linked = pipeline_is_linked(call, info);
    if (stage_count == 0 && !subsets && !linked)
        return 0;
    Description description; /* most of its words are never used */
    description.walk =
        (Walk){.facts = FACT_HASHED | FACT_STAGES, .quick = quick, .bytes = add_bytes, .handle = add_handle};
    description.shaders = shaders;
    description.hash = description.used = 0;
    description.walk.facts |= (linked ? FACT_LINKED : 0) | (stage_count == 0 ? FACT_NO_STAGES : 0);
    if (call->point == BIND_GRAPHICS)
        pipeline_learn(&description.walk, &info->graphics, subsets, stage_count);
    add(&description, kind | (uint64_t)description.walk.facts << 32);
    walk_structures(&description.walk, create_info_structure(call->point), info, 1);
    uint64_t hash = hash_of(&description);
    return description.walk.ended ? 0 : hash ? hash : 1;
}

uint64_t fingerprint_of(Shaders *shaders, const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind)
{
    return hash_pipeline(shaders, call, index, kind, true);
}
