/*
 * What a fingerprint (fingerprints.c, seen.c, shader_modules.c of shim/layer) takes for each pipeline that hits, and for each shader module, by itself: prints one
 * JSON object, nanoseconds. Modules of 8 KiB; one compute stage with two constants, or two graphics stages.
 */
#define _GNU_SOURCE
#include "../../shim/layer/vulkan/create_info.c"
#include "../../shim/layer/process/digest.c"
#include "../../shim/layer/hooks/shaders.c"
#include "../../shim/layer/shaders/fingerprints.c"
#include "../../shim/layer/process/number_map.c"
#include "../../shim/layer/process/patience.c"
#include "../../shim/layer/vulkan/pnext.c"
#include "../../shim/layer/vulkan/pipeline_facts.c"
#include "../../shim/layer/vulkan/walk.c"
#include "../../shim/layer/run/seen.c"
#include "../../shim/layer/shaders/shaders.c"
#include "../../shim/layer/run/run.c"
#include "../../shim/layer/state/image.c"
#include "../../shim/layer/state/state.c"
#include "../../shim/layer/process/shared_map.c"
#include "../../shim/layer/process/spread_lock.c"

#include <stdio.h>
#include <time.h>

#define PIPELINES 10000
#define TIMES 200

DispatchTable device_table;
static Device device;

#include "../layer/alone.h"

static VkResult driver_creates(VkDevice handle, const VkShaderModuleCreateInfo *info,
                               const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    static uint64_t next = 0x7f0000000000ull;
    (void)handle;
    (void)info;
    (void)allocator;
    *module = (VkShaderModule)(uintptr_t)(next += 192);
    return VK_SUCCESS;
}

static double ns_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) * 1e9 + (double)(now.tv_nsec - start->tv_nsec);
}

/* Of the fastest round, as the others were interrupted. */
static double each(PipelineCall *call, enum PylayerPipelineKind kind)
{
    double fastest = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        struct timespec start;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (uint32_t j = 0; j < call->count; j++)
            fingerprints_note(&device.run.seen, fingerprint_of(&device.shaders, call, j, kind), SEEN_CREATED);
        double taken = ns_since(&start) / call->count;
        if (i == 0 || taken < fastest)
            fastest = taken;
    }
    return fastest;
}

int main(void)
{
    static VkShaderModule modules[PIPELINES];
    static uint32_t code[2048];
    static uint32_t constants[PIPELINES][2];
    static VkSpecializationInfo specialized[PIPELINES];
    static VkComputePipelineCreateInfo compute[PIPELINES];
    static VkPipelineShaderStageCreateInfo stages[PIPELINES][2];
    static VkGraphicsPipelineCreateInfo graphics[PIPELINES];
    static const VkSpecializationMapEntry entries[2] = {{0, 0, 4}, {1, 4, 4}};
    static const VkPipelineInputAssemblyStateCreateInfo assembly = {0};
    static const VkPipelineRasterizationStateCreateInfo rasterization = {0};
    static const VkPipelineMultisampleStateCreateInfo samples = {0};
    void *key = NULL;
    VkDevice handle = (VkDevice)(void *)&key;
    struct timespec start;
    run_open(&device.run, 1);
    shaders_open(&device.shaders, &device.driver, &device.run, &device.crash);
    device.run.carrier = PYLAYER_CARRIER_CELLS;
    device.driver.create_shader_module = driver_creates;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t i = 0; i < PIPELINES; i++) {
        code[0] = i;
        VkShaderModuleCreateInfo info = {.codeSize = sizeof code, .pCode = code};
        layer_CreateShaderModule(handle, &info, NULL, &modules[i]);
    }
    double module_ns = ns_since(&start) / PIPELINES;
    for (uint32_t i = 0; i < PIPELINES; i++) {
        constants[i][0] = i;
        specialized[i] = (VkSpecializationInfo){2, entries, sizeof constants[i], constants[i]};
        compute[i].stage = (VkPipelineShaderStageCreateInfo){
            .module = modules[i % 16], .pName = "main", .pSpecializationInfo = &specialized[i]};
        for (uint32_t j = 0; j < 2; j++)
            stages[i][j] = (VkPipelineShaderStageCreateInfo){.stage = j ? VK_SHADER_STAGE_FRAGMENT_BIT
                                                                        : VK_SHADER_STAGE_VERTEX_BIT,
                                                             .module = modules[(i + j) % PIPELINES],
                                                             .pName = "main"};
        graphics[i] = (VkGraphicsPipelineCreateInfo){.stageCount = 2,
                                                     .pStages = stages[i],
                                                     .pInputAssemblyState = &assembly,
                                                     .pRasterizationState = &rasterization,
                                                     .pMultisampleState = &samples};
    }
    PipelineCall call = {
        .driver = &device.driver, .device = &device, .point = BIND_COMPUTE, .count = PIPELINES, .infos = compute};
    double compute_ns = each(&call, PYLAYER_KIND_COMPUTE);
    call.point = BIND_GRAPHICS;
    call.infos = graphics;
    double graphics_ns = each(&call, PYLAYER_KIND_GRAPHICS);
    printf("{\"module_ns\": %.1f, \"compute_ns\": %.1f, \"graphics_ns\": %.1f}\n", module_ns, compute_ns, graphics_ns);
    return fingerprints_read(&device.run.seen, NULL, 0) > PIPELINES ? 0 : 1;
}
