/*
 * global_key [no-feature]: a device with VK_KHR_pipeline_binary; prints its global key in hexadecimal. With an argument
 * the feature pipelineBinaries stays off. The structures are newer than the headers of Debian bookworm.
 */
#include <stdio.h>
#include <vulkan/vulkan.h>

typedef struct Feature {
    VkStructureType sType;
    void *pNext;
    VkBool32 enabled;
} Feature;

typedef struct Key {
    VkStructureType sType;
    void *pNext;
    uint32_t size;
    uint8_t bytes[32];
} Key;

typedef VkResult(VKAPI_PTR *GetPipelineKey)(VkDevice, const void *, Key *);

int main(int count, char **arguments)
{
    (void)arguments;
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    uint32_t one = 1;
    float priority = 1;
    Feature binaries = {(VkStructureType)1000483000, NULL, count == 1};
    Feature maintenance5 = {(VkStructureType)1000470000, &binaries, VK_TRUE};
    const char *extensions[] = {"VK_KHR_maintenance5", "VK_KHR_pipeline_binary"};
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &maintenance5,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 2,
                               .ppEnabledExtensionNames = extensions};
    if (vkCreateInstance(&instance_info, NULL, &instance) ||
        vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 || vkCreateDevice(physical, &info, NULL, &device))
        return 1;
    GetPipelineKey get_key = (GetPipelineKey)vkGetDeviceProcAddr(device, "vkGetPipelineKeyKHR");
    Key key = {.sType = (VkStructureType)1000483003};
    if (!get_key || get_key(device, NULL, &key))
        return 1;
    for (uint32_t i = 0; i < key.size; i++)
        printf("%02x", key.bytes[i]);
    putchar('\n');
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
