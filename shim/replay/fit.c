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
#define MOST_UNANSWERED 64

PFN_vkGetInstanceProcAddr get_instance_proc;
VkInstance instance;

#define INSTANCE_FUNCTION(name) ((PFN_##name)get_instance_proc(instance, #name))

/* ---- extensions -------------------------------------------------------------------------------- */

/* Keeps the names that are available; returns how many. */
static uint32_t keep_available(const Object *object, const char **names, uint32_t wanted,
                               const VkExtensionProperties *available, uint32_t count)
{
    if (!object_has(object, names, (size_t)wanted * sizeof *names))
        return 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        bool found = false;
        if (!object_has(object, names[i], 1))
            continue;
        for (uint32_t j = 0; j < count && !found; j++)
            found = strncmp(names[i], available[j].extensionName, VK_MAX_EXTENSION_NAME_SIZE) == 0;
        if (found)
            names[kept++] = names[i];
        else
            tell("lacks %.255s", names[i]);
    }
    return kept;
}

VkResult fit_instance(const Object *object)
{
    VkInstanceCreateInfo *info = (VkInstanceCreateInfo *)object->image;
    PFN_vkEnumerateInstanceExtensionProperties enumerate = INSTANCE_FUNCTION(vkEnumerateInstanceExtensionProperties);
    uint32_t count = 0;
    enumerate(NULL, &count, NULL);
    VkExtensionProperties *available = calloc(count + 1, sizeof *available);
    if (!available)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    enumerate(NULL, &count, available);
    info->enabledExtensionCount = keep_available(object, (const char **)info->ppEnabledExtensionNames,
                                                 info->enabledExtensionCount, available, count);
    free(available);
    info->enabledLayerCount = 0;
    info->pNext = NULL; /* callbacks of the program, and nothing that drivers compile by */
    return INSTANCE_FUNCTION(vkCreateInstance)(info, NULL, &instance);
}

static VkResult fit_extensions(const Object *object, VkPhysicalDevice physical)
{
    VkDeviceCreateInfo *info = (VkDeviceCreateInfo *)object->image;
    PFN_vkEnumerateDeviceExtensionProperties enumerate = INSTANCE_FUNCTION(vkEnumerateDeviceExtensionProperties);
    uint32_t count = 0;
    enumerate(physical, NULL, &count, NULL);
    VkExtensionProperties *available = calloc(count + 1, sizeof *available);
    if (!available)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    enumerate(physical, NULL, &count, available);
    info->enabledExtensionCount = keep_available(object, (const char **)info->ppEnabledExtensionNames,
                                                 info->enabledExtensionCount, available, count);
    info->enabledLayerCount = 0;
    free(available);
    return VK_SUCCESS;
}

/* ---- queues ------------------------------------------------------------------------------------ */

/* Another card has other families. Nothing is compiled by them, so any queue will do. */
static void fit_queues(const Object *object, VkPhysicalDevice physical)
{
    static const float priority = 1;
    static const VkDeviceQueueCreateInfo one = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkQueueFamilyProperties families[64];
    uint32_t count = 64;
    INSTANCE_FUNCTION(vkGetPhysicalDeviceQueueFamilyProperties)(physical, &count, families);
    VkDeviceCreateInfo *info = (VkDeviceCreateInfo *)object->image;
    VkDeviceQueueCreateInfo *queues = (VkDeviceQueueCreateInfo *)info->pQueueCreateInfos;
    bool fits = info->queueCreateInfoCount && object_has(object, queues, info->queueCreateInfoCount * sizeof *queues);
    for (uint32_t i = 0; fits && i < info->queueCreateInfoCount; i++)
        fits = queues[i].queueFamilyIndex < count && queues[i].queueCount > 0 &&
               queues[i].queueCount <= families[queues[i].queueFamilyIndex].queueCount &&
               object_has(object, queues[i].pQueuePriorities, queues[i].queueCount * sizeof(float));
    for (uint32_t i = 0; fits && i < info->queueCreateInfoCount; i++)
        queues[i].pNext = NULL; /* priorities that not everybody may have */
    if (fits)
        return;
    info->queueCreateInfoCount = 1;
    info->pQueueCreateInfos = &one;
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

static bool is_answered(const uint32_t *answer, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        if (answer[i] != UNANSWERED)
            return true;
    return false;
}

static void keep_supported(uint32_t *wanted, const uint32_t *answer, uint32_t words, VkStructureType type)
{
    for (uint32_t i = 0; i < words; i++)
        if (answer[i] != UNANSWERED && wanted[i] && !answer[i]) {
            tell("lacks feature %u of structure %d", i, (int)type);
            wanted[i] = 0;
        }
}

static bool is_for_the_program(VkStructureType type)
{
    return type == VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO ||
           type == VK_STRUCTURE_TYPE_DEVICE_DEVICE_MEMORY_REPORT_CREATE_INFO_EXT;
}

/* Leaves out the structures that say nothing here: devices of a group, callbacks. Ends the chain at what is none. */
static void shorten(const Object *object, VkBaseOutStructure *root)
{
    for (VkBaseOutStructure *last = root; last->pNext;) {
        if (!object_has(object, last->pNext, sizeof *last) || words_of(object, last->pNext) == 0)
            last->pNext = NULL;
        else if (is_for_the_program(last->pNext->sType))
            last->pNext = last->pNext->pNext;
        else
            last = last->pNext;
    }
}

/* Structures in which the driver wrote nothing. They may say something else than features. */
typedef struct {
    const VkBaseOutStructure *list[MOST_UNANSWERED];
    uint32_t count;
} Unanswered;

/* Returns whether there is something to leave out. */
static bool leave_out(VkBaseOutStructure *root, const Unanswered *unanswered)
{
    for (VkBaseOutStructure *last = root; last->pNext;) {
        bool found = false;
        for (uint32_t i = 0; i < unanswered->count && !found; i++)
            found = unanswered->list[i] == last->pNext;
        if (found)
            tell("lacks structure %d", (int)last->pNext->sType);
        if (found)
            last->pNext = last->pNext->pNext;
        else
            last = last->pNext;
    }
    return unanswered->count > 0;
}

/* Asks for the features of all structures in the chain at once, in a copy of the image. */
static void fit_chain(const Object *object, VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *core,
                      Unanswered *unanswered)
{
    VkBaseOutStructure *root = (VkBaseOutStructure *)object->image;
    PFN_vkGetPhysicalDeviceFeatures2 ask = INSTANCE_FUNCTION(vkGetPhysicalDeviceFeatures2);
    ask = ask ? ask : (PFN_vkGetPhysicalDeviceFeatures2)INSTANCE_FUNCTION(vkGetPhysicalDeviceFeatures2KHR);
    uint8_t *copy = calloc(1, (size_t)object->size + 4096);
    if (!ask || !copy) {
        INSTANCE_FUNCTION(vkGetPhysicalDeviceFeatures)(physical, &core->features);
        free(copy);
        return;
    }
    VkBaseOutStructure *last = (VkBaseOutStructure *)core;
    for (VkBaseOutStructure *each = root->pNext; each; each = each->pNext) {
        VkBaseOutStructure *asked = (VkBaseOutStructure *)(copy + ((uint8_t *)each - object->image));
        *asked = (VkBaseOutStructure){.sType = each->sType};
        uint32_t *words = (uint32_t *)(asked + 1);
        for (uint32_t i = 0, n = words_of(object, each); i < n; i++)
            words[i] = UNANSWERED;
        if (each->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2) {
            last->pNext = asked;
            last = asked;
        }
    }
    ask(physical, core);
    for (VkBaseOutStructure *each = root->pNext; each; each = each->pNext) {
        const uint32_t *answer = (const uint32_t *)(copy + ((uint8_t *)(each + 1) - object->image));
        const uint32_t words = words_of(object, each);
        keep_supported((uint32_t *)(each + 1), answer, words, each->sType);
        if (!is_answered(answer, words) && each->sType != core->sType && unanswered->count < MOST_UNANSWERED)
            unanswered->list[unanswered->count++] = each;
    }
    core->pNext = NULL;
    free(copy);
}

VkResult fit_device(const Object *object, VkPhysicalDevice physical, VkDevice *device)
{
    VkDeviceCreateInfo *info = (VkDeviceCreateInfo *)object->image;
    const uint32_t words = sizeof(VkPhysicalDeviceFeatures) / 4;
    VkResult result = fit_extensions(object, physical);
    if (result != VK_SUCCESS)
        return result;
    fit_queues(object, physical);
    shorten(object, (VkBaseOutStructure *)info);
    VkPhysicalDeviceFeatures2 core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    Unanswered unanswered = {.count = 0};
    fit_chain(object, physical, &core, &unanswered);
    for (const VkBaseOutStructure *each = info->pNext; each; each = each->pNext)
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2 && words_of(object, each) >= words)
            keep_supported((uint32_t *)&((VkPhysicalDeviceFeatures2 *)each)->features, (uint32_t *)&core.features,
                           words, each->sType);
    if (object_has(object, info->pEnabledFeatures, sizeof core.features))
        keep_supported((uint32_t *)info->pEnabledFeatures, (uint32_t *)&core.features, words, core.sType);
    else
        info->pEnabledFeatures = NULL;
    PFN_vkCreateDevice create = INSTANCE_FUNCTION(vkCreateDevice);
    result = create(physical, info, NULL, device);
    /* Mesa refuses features of structures that it knows by name alone. */
    if (result == VK_ERROR_FEATURE_NOT_PRESENT && leave_out((VkBaseOutStructure *)info, &unanswered))
        result = create(physical, info, NULL, device);
    return result;
}
