/* fit.c - see replay.h
 *
 * Drivers' keys depend on what a device enables, so it gets all that the program enabled, except what this driver lacks.
 */
#include <stdlib.h>
#include <string.h>

#include "replay.h"

/* Words of a structure that the driver did not write: it does not know the structure, or the structure has no
 * features. */
#define UNANSWERED 0x5e5e5e5eu

PFN_vkGetInstanceProcAddr get_instance_proc;
VkInstance instance;

#define INSTANCE_FUNCTION(name) ((PFN_##name)get_instance_proc(instance, #name))

/* ---- extensions -------------------------------------------------------------------------------- */

/* Keeps the names that the device has; without a device, those of instances. */
static void keep_available(const Object *object, VkPhysicalDevice physical, const char *const *wanted, uint32_t *count)
{
    static VkExtensionProperties available[1024]; /* drivers have 150 to 250 */
    uint32_t offered = sizeof available / sizeof *available, kept = 0;
    const char **names = (const char **)wanted;
    if (physical)
        INSTANCE_FUNCTION(vkEnumerateDeviceExtensionProperties)(physical, NULL, &offered, available);
    else
        INSTANCE_FUNCTION(vkEnumerateInstanceExtensionProperties)(NULL, &offered, available);
    const uint32_t all = object_has(object, names, (size_t)*count * sizeof *names) ? *count : 0;
    for (uint32_t i = 0; i < all; i++) {
        bool found = false;
        if (!object_has(object, names[i], 1))
            continue;
        for (uint32_t j = 0; j < offered && !found; j++)
            found = strncmp(names[i], available[j].extensionName, VK_MAX_EXTENSION_NAME_SIZE) == 0;
        if (found)
            names[kept++] = names[i];
        else
            fprintf(lines, "lacks %.255s\n", names[i]);
    }
    *count = kept;
}

VkResult fit_instance(const Object *object)
{
    VkInstanceCreateInfo *info = (VkInstanceCreateInfo *)object->image;
    keep_available(object, VK_NULL_HANDLE, info->ppEnabledExtensionNames, &info->enabledExtensionCount);
    info->enabledLayerCount = 0;
    info->pNext = NULL; /* callbacks of the program, and nothing that drivers compile by */
    return INSTANCE_FUNCTION(vkCreateInstance)(info, NULL, &instance);
}

/* ---- features ---------------------------------------------------------------------------------- */

/* Returns how many 32-bit words of a structure follow its head: up to what another pointer leads to. */
static uint32_t words_of(const Object *object, const VkBaseOutStructure *structure)
{
    uint32_t at = (uint32_t)((const uint8_t *)structure - object->image), end = object->size;
    for (uint32_t i = 0; i < object->pointers; i++)
        if (object->pointer[i].target > at && object->pointer[i].target < end)
            end = object->pointer[i].target;
    return end - at > sizeof *structure ? (end - at - (uint32_t)sizeof *structure) / 4 : 0;
}

/* Returns whether the driver answered anything. */
static bool keep_supported(uint32_t *wanted, const uint32_t *answer, uint32_t words, VkStructureType type)
{
    bool answered = false;
    for (uint32_t i = 0; i < words; i++) {
        answered |= answer[i] != UNANSWERED;
        if (answer[i] != UNANSWERED && wanted[i] && !answer[i]) {
            fprintf(lines, "lacks feature %u of structure %d\n", i, (int)type);
            wanted[i] = 0;
        }
    }
    return answered;
}

/* Ends the chain at what is no structure. */
static void shorten(const Object *object)
{
    VkBaseOutStructure *last = (VkBaseOutStructure *)object->image;
    while (last->pNext && object_has(object, last->pNext, sizeof *last) && words_of(object, last->pNext) > 0)
        last = last->pNext;
    last->pNext = NULL;
}

static uint32_t *answer_to(const Object *object, const uint8_t *answers, const VkBaseOutStructure *structure)
{
    return (uint32_t *)(answers + ((const uint8_t *)(structure + 1) - object->image));
}

/* Asks for the features of all structures in the chain at once. Returns an image that has each answer at its
 * structure's place. */
static uint8_t *ask_for_features(const Object *object, VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *core)
{
    PFN_vkGetPhysicalDeviceFeatures2 ask = INSTANCE_FUNCTION(vkGetPhysicalDeviceFeatures2);
    ask = ask ? ask : (PFN_vkGetPhysicalDeviceFeatures2)INSTANCE_FUNCTION(vkGetPhysicalDeviceFeatures2KHR);
    uint8_t *answers = malloc((size_t)object->size + SLACK);
    if (!answers)
        abort();
    memset(answers, UNANSWERED & 0xff, (size_t)object->size + SLACK);
    VkBaseOutStructure *last = (VkBaseOutStructure *)core;
    for (VkBaseOutStructure *each = ((VkBaseOutStructure *)object->image)->pNext; each; each = each->pNext)
        if (each->sType != core->sType) {
            VkBaseOutStructure *asked = (VkBaseOutStructure *)answer_to(object, answers, each) - 1;
            *asked = (VkBaseOutStructure){.sType = each->sType};
            last->pNext = asked;
            last = asked;
        }
    if (ask)
        ask(physical, core);
    else
        INSTANCE_FUNCTION(vkGetPhysicalDeviceFeatures)(physical, &core->features);
    return answers;
}

/* Masks what the driver lacks. leave_out: also leaves out the structures in which the driver wrote nothing, which may
 * say something else than features, and returns whether there are any. */
static bool fit_features(const Object *object, VkPhysicalDevice physical, bool leave_out)
{
    VkDeviceCreateInfo *info = (VkDeviceCreateInfo *)object->image;
    const uint32_t words = sizeof(VkPhysicalDeviceFeatures) / 4;
    VkPhysicalDeviceFeatures2 core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    uint8_t *answers = ask_for_features(object, physical, &core);
    bool found = false;
    for (VkBaseOutStructure *last = (VkBaseOutStructure *)info, *each; (each = last->pNext);) {
        bool is_core = each->sType == core.sType;
        uint32_t count = words_of(object, each);
        bool answered = keep_supported((uint32_t *)(each + 1),
                                       is_core ? (uint32_t *)&core.features : answer_to(object, answers, each),
                                       is_core ? (count < words ? 0 : words) : count, each->sType);
        if (is_core || answered || !leave_out) {
            last = each;
            continue;
        }
        fprintf(lines, "lacks structure %d\n", (int)each->sType);
        last->pNext = each->pNext;
        found = true;
    }
    if (object_has(object, info->pEnabledFeatures, sizeof core.features))
        keep_supported((uint32_t *)info->pEnabledFeatures, (uint32_t *)&core.features, words, core.sType);
    else
        info->pEnabledFeatures = NULL;
    free(answers);
    return found;
}

static bool has_name(const char *const *names, uint32_t count, const char *name)
{
    bool found = false;
    for (uint32_t i = 0; i < count && !found; i++)
        found = strcmp(names[i], name) == 0;
    return found;
}

/* Enables pipelineCreationCacheControl, so that pipelines can be looked up. No driver compiles by it, and the layer
 * enables it, too. In a structure of the program's fit_features masks it. Otherwise returns a structure for the chain,
 * which needs the extension, or NULL if the driver lacks it. */
static VkBaseOutStructure *add_cache_control(VkPhysicalDevice physical, VkDeviceCreateInfo *info)
{
    static VkPhysicalDevicePipelineCreationCacheControlFeatures own = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES};
    for (VkBaseOutStructure *each = (VkBaseOutStructure *)info->pNext; each; each = each->pNext) {
        bool is_core = each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
        if (is_core)
            ((VkPhysicalDeviceVulkan13Features *)each)->pipelineCreationCacheControl = VK_TRUE;
        else if (each->sType == own.sType)
            ((VkPhysicalDevicePipelineCreationCacheControlFeatures *)each)->pipelineCreationCacheControl = VK_TRUE;
        if (is_core || each->sType == own.sType)
            return NULL;
    }
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &own};
    PFN_vkGetPhysicalDeviceFeatures2 ask = INSTANCE_FUNCTION(vkGetPhysicalDeviceFeatures2);
    if (ask)
        ask(physical, &features);
    return own.pipelineCreationCacheControl ? (VkBaseOutStructure *)&own : NULL;
}

/* Creates the device with add_cache_control's structure, which is not in the image and may be NULL, and the extension
 * that it needs. A driver that has the structure without the extension may refuse that: then it is left out. */
static VkResult create_with(VkPhysicalDevice physical, const VkDeviceCreateInfo *info, VkBaseOutStructure *control,
                            VkDevice *device)
{
    VkDeviceCreateInfo whole = *info;
    const uint32_t count = info->enabledExtensionCount;
    const char **names = malloc((count + 1) * sizeof *names);
    if (!names)
        abort();
    if (control) {
        control->pNext = (VkBaseOutStructure *)info->pNext;
        whole.pNext = control;
        for (uint32_t i = 0; i < count; i++)
            names[i] = info->ppEnabledExtensionNames[i];
        names[count] = VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME;
        whole.ppEnabledExtensionNames = names;
        whole.enabledExtensionCount = has_name(names, count, names[count]) ? count : count + 1;
    }
    VkResult result = INSTANCE_FUNCTION(vkCreateDevice)(physical, &whole, NULL, device);
    free(names);
    return control && result == VK_ERROR_EXTENSION_NOT_PRESENT ? create_with(physical, info, NULL, device) : result;
}

VkResult fit_device(const Object *object, VkPhysicalDevice physical, VkDevice *device)
{
    /* Another card has other families. Nothing is compiled by them, so any queue will do. */
    static const float priority = 1;
    static const VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkDeviceCreateInfo *info = (VkDeviceCreateInfo *)object->image;
    keep_available(object, physical, info->ppEnabledExtensionNames, &info->enabledExtensionCount);
    info->enabledLayerCount = 0;
    info->queueCreateInfoCount = 1;
    info->pQueueCreateInfos = &queue;
    shorten(object);
    VkBaseOutStructure *control = add_cache_control(physical, info);
    fit_features(object, physical, false);
    VkResult result = create_with(physical, info, control, device);
    /* Mesa refuses features of structures that it knows by name alone. */
    if (result == VK_ERROR_FEATURE_NOT_PRESENT && fit_features(object, physical, true))
        result = create_with(physical, info, control, device);
    return result;
}
