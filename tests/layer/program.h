/* program.h - the smallest of Vulkan programs: an instance, a device, a compute shader, and pipelines of it. */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include <string.h>
#include <vulkan/vulkan.h>

#ifdef VK_NO_PROTOTYPES
/* A program that loads Vulkan itself sets these. */
#define CALLED_FUNCTIONS(f)                                                                                            \
    f(vkCreateInstance) f(vkEnumeratePhysicalDevices) f(vkCreateDevice) f(vkCreateShaderModule)                        \
        f(vkCreatePipelineLayout) f(vkCreateComputePipelines) f(vkDestroyPipeline) f(vkDestroyPipelineLayout)          \
            f(vkDestroyShaderModule) f(vkDestroyDevice) f(vkDestroyInstance)
#define DECLARE_FUNCTION(name) static PFN_##name name;
CALLED_FUNCTIONS(DECLARE_FUNCTION)
#endif

/* Instance and device. What is zero is left out; of Vulkan, that is 1.1. */
typedef struct Wanted {
    uint32_t api;
    const char *application, *engine;
    uint32_t instance_extension_count, layer_count, extension_count;
    const char *const *instance_extensions, *const *layers, *const *extensions;
    const void *features;
} Wanted;

typedef struct Program {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkShaderModule module;
    VkPipelineLayout layout;
} Program;

static inline VkResult open_instance(Program *program, const Wanted *wanted)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = wanted->application,
                                     .pEngineName = wanted->engine,
                                     .apiVersion = wanted->api ? wanted->api : VK_API_VERSION_1_1};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application,
                                 .enabledLayerCount = wanted->layer_count,
                                 .ppEnabledLayerNames = wanted->layers,
                                 .enabledExtensionCount = wanted->instance_extension_count,
                                 .ppEnabledExtensionNames = wanted->instance_extensions};
    uint32_t one = 1;
    VkResult result = vkCreateInstance(&info, NULL, &program->instance);
    if (!result)
        result = vkEnumeratePhysicalDevices(program->instance, &one, &program->physical);
    return result == VK_INCOMPLETE ? VK_SUCCESS : result;
}

/* On the first physical device. */
static inline VkResult open_device(Program *program, const Wanted *wanted)
{
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = wanted->features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = wanted->extension_count,
                               .ppEnabledExtensionNames = wanted->extensions};
    if (!program->physical)
        return VK_ERROR_INITIALIZATION_FAILED;
    return vkCreateDevice(program->physical, &info, NULL, &program->device);
}

/* void main() {} for a workgroup of one, assembled by hand; a second entry point "twin" is the same function. */
static const uint32_t shader_code[] = {
    0x07230203, 0x00010000, 0,  6,          0, 0x00020011, 1,          0x0003000e, 0,          1,
    0x0005000f, 5,          4,  0x6e69616d, 0, 0x0005000f, 5,          4,          0x6e697774, 0,
    0x00060010, 4,          17, 1,          1, 1,          0x00020013, 2,          0x00030021, 3,
    2,          0x00050036, 2,  4,          0, 3,          0x000200f8, 5,          0x000100fd, 0x00010038,
};

static const VkShaderModuleCreateInfo shader_info = {
    .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof shader_code, .pCode = shader_code};

static inline VkResult open_layout(Program *program)
{
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    return vkCreatePipelineLayout(program->device, &layout, NULL, &program->layout);
}

static inline VkResult open_program(Program *program, const Wanted *wanted)
{
    VkResult result = open_instance(program, wanted);
    if (!result)
        result = open_device(program, wanted);
    return result ? result : open_layout(program);
}

static inline void close_program(const Program *program)
{
    vkDestroyPipelineLayout(program->device, program->layout, NULL);
    vkDestroyDevice(program->device, NULL);
    vkDestroyInstance(program->instance, NULL);
}

static inline VkComputePipelineCreateInfo compute_info(const Program *program)
{
    return (VkComputePipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = program->module,
                  .pName = "main"},
        .layout = program->layout,
        .basePipelineIndex = -1,
    };
}

enum { GENERATOR_WORD = 2, LOCAL_SIZE_WORD = 23, MOST_LOCAL_SIZE = 1024 };

/* Creates a pipeline and destroys it, with a shader of its own, of which one word is another. The second of SPIR-V's header says who made it. */
static inline VkResult use_changed(const Program *program, VkPipelineCache cache, unsigned word, uint32_t value)
{
    uint32_t code[sizeof shader_code / sizeof *shader_code];
    memcpy(code, shader_code, sizeof code);
    code[word] = value;
    VkShaderModuleCreateInfo info = shader_info;
    info.pCode = code;
    Program own = *program;
    VkResult result = vkCreateShaderModule(own.device, &info, NULL, &own.module);
    VkComputePipelineCreateInfo compute = compute_info(&own);
    VkPipeline pipeline = VK_NULL_HANDLE;
    if (!result)
        result = vkCreateComputePipelines(own.device, cache, 1, &compute, NULL, &pipeline);
    vkDestroyPipeline(own.device, pipeline, NULL);
    vkDestroyShaderModule(own.device, own.module, NULL);
    return result;
}

/* For each number below 1024 another one, which is the size of its workgroup. */
static inline VkResult use_numbered(const Program *program, VkPipelineCache cache, unsigned number)
{
    return use_changed(program, cache, LOCAL_SIZE_WORD, number % MOST_LOCAL_SIZE + 1);
}

#endif
