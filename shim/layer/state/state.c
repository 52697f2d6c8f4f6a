/* state.c - see state.h */
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

#include "mailbox/mailbox.h"

/* Handles that are known, and objects that are not sent again. What is beyond is not recorded, or sent again. */
#define MOST_HANDLES (3u << 18)
#define MOST_SENT (1u << 18)
/* A render pass with more is not recorded: its facts have no room. */
#define MOST_SUBPASSES 32
#define FACTS_OF_SUBPASS (FACT_COLORS | FACT_DEPTH)
#define FACTS_OF_LIBRARY (FACT_MESH | FACT_DISCARDS)

#define ROW(kind, type, info, object, create, destroy) [STATE_##kind] = {STRUCTURE_##kind, VK_OBJECT_TYPE_##object},
static const struct {
    enum StructureIndex structure;
    VkObjectType makes;
} kinds[] = {STATE_KINDS(ROW)};

/* ---- what handles are ------------------------------------------------------------------------ */

/* What is known of a handle. A digest is in two entries of the map, the facts are in a third. */
typedef struct Made {
    union {
        uint8_t digest[PYLAYER_DIGEST_BYTES];
        uint64_t halves[2];
    };
    uint64_t facts;
} Made;

static uint64_t key_of(VkObjectType type, uint64_t handle)
{
    return digest64(&(uint64_t[]){(uint64_t)type, handle}, 2 * sizeof(uint64_t), 0) | 3;
}

static bool find_made(State *state, VkObjectType type, uint64_t handle, Made *made)
{
    uint64_t key = key_of(type, handle);
    made->halves[0] = shared_map_find(&state->made, key);
    made->halves[1] = shared_map_find(&state->made, key - 1);
    made->facts = shared_map_find(&state->made, key - 2);
    return made->halves[0] && made->halves[1];
}

/* `made` is all zeros for what was not recorded. */
static void put_made(State *state, VkObjectType type, uint64_t handle, const Made *made)
{
    uint64_t key = key_of(type, handle);
    shared_map_put(&state->made, key, made->halves[0], MOST_HANDLES);
    shared_map_put(&state->made, key - 1, made->halves[1], MOST_HANDLES);
    if (made->facts || shared_map_find(&state->made, key - 2))
        shared_map_put(&state->made, key - 2, made->facts, MOST_HANDLES);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Takes the object. wait_ns and fingerprint: of a pipeline that was created; fingerprint: or the digest of a module's
 * identifier. Returns false if policy does not get it. */
static bool send(State *state, StateObject object, enum StateKind kind, uint64_t fingerprint, uint64_t wait_ns)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_STATE, state->run->serial);
    if (!message) {
        free(object.data);
        return false;
    }
    bool is_root = kind == STATE_INSTANCE || kind == STATE_DEVICE;
    message->state = (PylayerState){.kind = (uint8_t)kind, .fingerprint = fingerprint, .wait_ns = wait_ns};
    message->data = object.data;
    message->size = object.size;
    bool sent = mailbox_post(message, fingerprint != 0, is_root ? UINT64_MAX : STATE_BYTES);
    if (!sent)
        atomic_store(&state->lost, true);
    return sent;
}

static void tell_unrecorded(State *state, const Image *image, enum StateKind kind, uint64_t fingerprint)
{
    bool lost =
        image->failed == PYLAYER_UNRECORDED_HANDLE && (atomic_load(&state->lost) || atomic_load(&state->made.lost));
    PylayerMessage *message = message_new(PYLAYER_MSG_STATE, state->run->serial);
    if (message)
        message->state = (PylayerState){.kind = (uint8_t)kind,
                                        .fingerprint = fingerprint,
                                        .unrecorded = (uint8_t)(lost ? PYLAYER_UNRECORDED_QUEUE : image->failed),
                                        .structure = image->walk.unknown};
    mailbox_post(message, fingerprint != 0, STATE_BYTES);
}

/* Sends the object if policy did not get it yet. Returns false if policy does not get it. */
static bool send_once(State *state, Image *image, enum StateKind kind, uint64_t fingerprint, uint64_t wait_ns,
                      Made *made)
{
    StateObject object;
    object.data = image_seal(image, (uint16_t)kind, &object.size);
    if (!object.data) {
        image->failed = PYLAYER_UNRECORDED_MEMORY;
        return false;
    }
    digest128(object.data, object.size, made->digest);
    /* A pipeline may be a part of others first, and be created then. */
    uint64_t key = made->halves[0] ^ fingerprint;
    if (shared_map_find(&state->sent, key)) {
        free(object.data);
        return true;
    }
    if (!send(state, object, kind, fingerprint, wait_ns)) {
        image->failed = PYLAYER_UNRECORDED_QUEUE;
        return false;
    }
    shared_map_put(&state->sent, key, 1, MOST_SENT);
    return true;
}

/* ---- what create infos refer to -------------------------------------------------------------- */

typedef struct Recording {
    Image image; /* the first member */
    State *state;
} Recording;

static bool name_handle(Image *image, VkObjectType type, uint64_t handle, const void *structure, uint8_t *digest);

/* Policy knows which module has an identifier. */
static bool name_identifier(Image *image, const VkPipelineShaderStageCreateInfo *stage, uint8_t *digest)
{
    const Made named = {.halves = {identifier_of_stage(stage), OBJECT_IDENTIFIED}};
    if (!named.halves[0])
        image->failed = PYLAYER_UNRECORDED_IDENTIFIER;
    memcpy(digest, named.digest, PYLAYER_DIGEST_BYTES);
    return !image->failed;
}

/* Code that is chained to a stage is a module of its own, so that it is stored once. */
static bool name_code(Recording *of, const VkPipelineShaderStageCreateInfo *stage, uint8_t *digest)
{
    const void *code = pnext_find(stage->pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    if (!code)
        return name_identifier(&of->image, stage, digest);
    Recording module = {.image = {.name = name_handle}, .state = of->state};
    Shaders *shaders = of->state->shaders;
    const uint64_t identifier = shaders->driver->get_code_identifier ? shader_code_of_stage(shaders, stage) : 0;
    Made made;
    image_make(&module.image, STRUCTURE_SHADER_MODULE, code);
    if (!module.image.failed && send_once(of->state, &module.image, STATE_SHADER_MODULE, identifier, 0, &made))
        memcpy(digest, made.digest, PYLAYER_DIGEST_BYTES);
    of->image.failed = module.image.failed;
    of->image.walk.unknown = module.image.walk.unknown;
    image_free(&module.image);
    return !of->image.failed;
}

static bool name_handle(Image *image, VkObjectType type, uint64_t handle, const void *structure, uint8_t *digest)
{
    Recording *recording = (Recording *)(void *)image;
    if (handle == 0)
        return type == VK_OBJECT_TYPE_SHADER_MODULE && name_code(recording, structure, digest);
    Made made;
    if (!find_made(recording->state, type, handle, &made)) {
        image->failed = PYLAYER_UNRECORDED_HANDLE;
        return false;
    }
    memcpy(digest, made.digest, PYLAYER_DIGEST_BYTES);
    return true;
}

/* ---- facts ----------------------------------------------------------------------------------- */

_Static_assert(FACT_DEPTH == 2 * FACT_COLORS, "the facts of a subpass are two bits");

static uint64_t subpass_facts(uint32_t subpass, bool colors, bool depth)
{
    return (uint64_t)((colors ? 1 : 0) | (depth ? 2 : 0)) << 2 * subpass;
}

/* Returns true if one of the references, of either version, is to an attachment. Programs may leave the state of all
 * others uninitialized. */
static bool refers(const VkAttachmentReference *first, const VkAttachmentReference2 *second, uint32_t count)
{
    for (uint32_t i = 0; (first || second) && i < count; i++)
        if ((first ? first[i].attachment : second[i].attachment) != VK_ATTACHMENT_UNUSED)
            return true;
    return false;
}

static bool is_pass(enum StateKind kind)
{
    return kind == STATE_RENDER_PASS || kind == STATE_RENDER_PASS_2;
}

static uint32_t subpass_count(enum StateKind kind, const void *info)
{
    return kind == STATE_RENDER_PASS ? ((const VkRenderPassCreateInfo *)info)->subpassCount
                                     : ((const VkRenderPassCreateInfo2 *)info)->subpassCount;
}

/* Returns the facts of each subpass in two bits. */
static uint64_t facts_of_pass(enum StateKind kind, const void *info)
{
    const VkRenderPassCreateInfo *first = info;
    const VkRenderPassCreateInfo2 *second = info;
    uint64_t facts = 0;
    for (uint32_t i = 0; i < subpass_count(kind, info); i++) {
        if (kind == STATE_RENDER_PASS) {
            const VkSubpassDescription *subpass = &first->pSubpasses[i];
            facts |= subpass_facts(i, refers(subpass->pColorAttachments, NULL, subpass->colorAttachmentCount),
                                   refers(subpass->pDepthStencilAttachment, NULL, 1));
        } else {
            const VkSubpassDescription2 *subpass = &second->pSubpasses[i];
            facts |= subpass_facts(i, refers(NULL, subpass->pColorAttachments, subpass->colorAttachmentCount),
                                   refers(NULL, subpass->pDepthStencilAttachment, 1));
        }
    }
    return facts;
}

/* Returns what the libraries of a pipeline decide of it; FACT_LINKED if one of them is unknown. */
static uint32_t facts_of_libraries(State *state, const PipelineCall *call, const AnyCreateInfo *info)
{
    uint32_t facts = 0;
    if (call->point != BIND_GRAPHICS || !pipeline_is_linked(call, info))
        return 0;
    const VkPipelineLibraryCreateInfoKHR *linked =
        (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    for (uint32_t i = 0; i < linked->libraryCount; i++) {
        Made made;
        bool known = find_made(state, VK_OBJECT_TYPE_PIPELINE, (uint64_t)linked->pLibraries[i], &made);
        facts |= known ? (uint32_t)made.facts & FACTS_OF_LIBRARY : FACT_LINKED;
    }
    return facts;
}

/* Sets what is known of a pipeline. */
static void learn(State *state, Walk *walk, const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    walk->facts = FACT_STAGES | facts_of_libraries(state, call, info);
    if (call->point != BIND_GRAPHICS)
        return;
    uint32_t stage_count;
    create_info_stages(call, index, kind, &stage_count);
    pipeline_learn(walk, &info->graphics, graphics_subsets(&info->graphics, kind), stage_count);
    Made pass;
    if (info->graphics.renderPass == VK_NULL_HANDLE || !(walk->facts & FACT_RASTERIZES) ||
        info->graphics.subpass >= MOST_SUBPASSES || /* VUID-VkGraphicsPipelineCreateInfo-renderPass-06046 */
        !find_made(state, VK_OBJECT_TYPE_RENDER_PASS, (uint64_t)info->graphics.renderPass, &pass))
        return;
    uint32_t of_subpass = (uint32_t)(pass.facts >> 2 * info->graphics.subpass) * FACT_COLORS & FACTS_OF_SUBPASS;
    walk->facts |= walk->facts & FACT_FRAGMENT_OUTPUT ? of_subpass : of_subpass & FACT_DEPTH;
}

/* ---- the instance and the device ------------------------------------------------------------- */

/* Returns no object if it cannot be recorded. */
static StateObject object_of(State *state, enum StateKind kind, const void *info)
{
    Recording recording = {.image = {.name = name_handle}, .state = state};
    StateObject object = {0};
    image_make(&recording.image, kinds[kind].structure, info);
    if (!recording.image.failed)
        object.data = image_seal(&recording.image, (uint16_t)kind, &object.size);
    else
        log_line(PYLAYER_LOG_DEBUG, "state of kind %d cannot be recorded: reason %d, structure %u", (int)kind,
                 (int)recording.image.failed, recording.image.walk.unknown);
    image_free(&recording.image);
    return object;
}

StateObject state_of_instance(const VkInstanceCreateInfo *info)
{
    /* Layers and callbacks of the program's are not for the process that rebuilds. */
    VkInstanceCreateInfo plain = *info;
    plain.pNext = NULL;
    plain.enabledLayerCount = 0;
    return object_of(NULL, STATE_INSTANCE, &plain);
}

void state_begin(State *state, StateObject instance, const VkDeviceCreateInfo *info)
{
    VkDeviceCreateInfo plain = *info;
    plain.enabledLayerCount = 0;
    state->device = object_of(state, STATE_DEVICE, &plain);
    state->instance.data = instance.data && state->device.data ? malloc(instance.size) : NULL;
    if (!state->instance.data)
        return;
    state->instance.size = instance.size;
    memcpy(state->instance.data, instance.data, instance.size);
    state->on = true;
}

/* Only with the first pipeline, so that a device alone does not start policy. */
static void send_roots(State *state)
{
    if (atomic_load_explicit(&state->rooted, memory_order_relaxed) || atomic_exchange(&state->rooted, true))
        return;
    send(state, state->instance, STATE_INSTANCE, 0, 0);
    send(state, state->device, STATE_DEVICE, 0, 0);
    state->instance.data = state->device.data = NULL;
}

void state_close(State *state)
{
    number_map_free(&state->made.numbers);
    number_map_free(&state->sent.numbers);
    free(state->instance.data);
    free(state->device.data);
}

/* ---- what the program creates ---------------------------------------------------------------- */

void state_note(State *state, enum StateKind kind, const void *info, uint64_t handle)
{
    Recording recording = {.image = {.name = name_handle}, .state = state};
    Made made = {0};
    const bool identified = kind == STATE_SHADER_MODULE && state->shaders->driver->get_module_identifier;
    const uint64_t identifier = identified ? shared_map_find(&state->shaders->modules, handle) : 0;
    if (is_pass(kind) && subpass_count(kind, info) > MOST_SUBPASSES)
        recording.image.failed = PYLAYER_UNRECORDED_MEMORY;
    else
        image_make(&recording.image, kinds[kind].structure, info);
    if (recording.image.failed || !send_once(state, &recording.image, kind, identifier, 0, &made))
        made = (Made){0};
    else if (is_pass(kind))
        made.facts = facts_of_pass(kind, info);
    put_made(state, kinds[kind].makes, handle, &made);
    image_free(&recording.image);
}

/* Makes the image of a pipeline that derives from none, and whose creation compiles. */
static void make_pipeline(Recording *recording, const PipelineCall *call, uint32_t index, Element *element)
{
    AnyCreateInfo info;
    const Change change = {
        .clear = VK_PIPELINE_CREATE_DERIVATIVE_BIT | FAIL_ON_COMPILE | EARLY_RETURN,
    };
    element_read(element, call, index);
    if (element->from_binaries || element->captures || element->flags & CAPTURE_REPLAY)
        recording->image.failed = PYLAYER_UNRECORDED_CAPTURE;
    else if (element_build(element, call, index, change, &info))
        image_make(&recording->image, create_info_structure(call->point), &info);
    else
        recording->image.failed = PYLAYER_UNRECORDED_STRUCTURE;
    element_release(element);
}

void state_note_pipeline(State *state, const PipelineCall *call, uint32_t index, const Element *element,
                         uint64_t wait_ns)
{
    const enum StateKind kind = (enum StateKind)(STATE_GRAPHICS + (int)call->point);
    Recording recording = {.image = {.name = name_handle}, .state = state};
    Element own;
    Made made = {0};
    send_roots(state);
    learn(state, &recording.image.walk, call, index, element->kind);
    make_pipeline(&recording, call, index, &own);
    if (!recording.image.failed)
        send_once(state, &recording.image, kind, element->fingerprint, wait_ns, &made);
    if (recording.image.failed)
        tell_unrecorded(state, &recording.image, kind, element->fingerprint);
    if (element->flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR) {
        made.facts = recording.image.walk.facts & FACTS_OF_LIBRARY;
        if (recording.image.failed)
            made = (Made){0};
        put_made(state, VK_OBJECT_TYPE_PIPELINE, (uint64_t)call->pipelines[index], &made);
    }
    image_free(&recording.image);
}
