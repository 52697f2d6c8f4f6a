/* named APPLICATION ENGINE [DIRECTORY] - an instance of these names, a device, and a compute pipeline. With DIRECTORY the
 * working directory is that from before the device on. */
#include "device.h"
#include "shader.h"
#include <unistd.h>

int main(int count, char **arguments)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = count > 1 ? arguments[1] : NULL,
                                     .pEngineName = count > 2 ? arguments[2] : NULL,
                                     .apiVersion = VK_API_VERSION_1_1};
    VkInstance instance;
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    if (vkCreateInstance(&info, NULL, &instance) || (count > 3 && chdir(arguments[3])))
        return 1;
    VkDevice device = create_device_on(instance, NULL, NULL);
    VkShaderModule module;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    if (!device || create_shader(device, &module, &layout) ||
        create_compute(device, VK_NULL_HANDLE, module, layout, "main", NULL, &pipeline))
        return 1;
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
