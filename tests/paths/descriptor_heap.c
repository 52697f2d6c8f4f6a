/* descriptor_heap.c - VK_EXT_descriptor_heap: pipelines without a layout, whose stages say where in the heaps, or at which
 * address, each of their descriptors is. Many differ in nothing else. */
#include "modes.h"

#define ALL_RESOURCES 0x7fffffff
#define BINDINGS 2

/* Where both bindings are. These point into themselves, so they are never moved. */
typedef struct Mapped {
    CreateFlags2 flags2;
    DescriptorMapping mappings[BINDINGS];
    DescriptorMappingInfo info;
} Mapped;

typedef struct Place {
    const char *name;
    MappingSource source;
    uint32_t numbers[4];
} Place;

/* A number of each kind is another one in the line below: offsets in the heap and in push data, strides. */
static const Place places[] = {
    {"constant-offset", HEAP_WITH_CONSTANT_OFFSET, {0, 64}},
    {"larger-constant-offset", HEAP_WITH_CONSTANT_OFFSET, {0x100000, 64}},
    {"push-index", HEAP_WITH_PUSH_INDEX, {0, 16, 64, 64}},
    {"other-push-index", HEAP_WITH_PUSH_INDEX, {0, 24, 64, 64}},
    {"push-index-with-another-stride", HEAP_WITH_PUSH_INDEX, {0, 24, 192, 64}},
    {"push-address", PUSH_ADDRESS, {16}},
    {"other-push-address", PUSH_ADDRESS, {32}},
    {"indirect-address", INDIRECT_ADDRESS, {16, 0}},
    {"indirect-address-further-on", INDIRECT_ADDRESS, {16, 0x10000}},
};

static void map(Mapped *mapped, const Path *path, const Place *place)
{
    /* Statistics tell pipelines apart. */
    uint64_t statistics = path->context->has[HAS_EXECUTABLES] ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0;
    mapped->flags2 = (CreateFlags2){TYPE_CREATE_FLAGS_2, NULL, CREATE_DESCRIPTOR_HEAP | statistics};
    for (uint32_t i = 0; i < BINDINGS; i++) {
        mapped->mappings[i] = (DescriptorMapping){.sType = TYPE_DESCRIPTOR_MAPPING,
                                                  .firstBinding = i,
                                                  .bindingCount = 1,
                                                  .resourceMask = ALL_RESOURCES,
                                                  .source = place->source};
        memcpy(mapped->mappings[i].numbers, place->numbers, sizeof place->numbers);
    }
    mapped->info = (DescriptorMappingInfo){TYPE_DESCRIPTOR_MAPPING_INFO, NULL, BINDINGS, mapped->mappings};
}

static void map_kernel(Kernel *kernel, Mapped *mapped, const Path *path, const Place *place, uint32_t variant)
{
    map(mapped, path, place);
    kernel_init(kernel, path->context, variant);
    kernel->info.pNext = &mapped->flags2;
    kernel->info.stage.pNext = &mapped->info;
    kernel->info.layout = VK_NULL_HANDLE;
}

static void map_scene(Scene *scene, Mapped *mapped, const Path *path, const Place *place, uint32_t variant)
{
    map(mapped, path, place);
    scene_init(scene, path->context, variant);
    scene->info.pNext = &mapped->flags2;
    scene->stages[0].pNext = &mapped->info;
    scene->stages[1].pNext = &mapped->info;
    scene->info.layout = VK_NULL_HANDLE;
}

/* All at once, so that the layer divides a call in which only mappings differ. */
static void batches(Path *path)
{
    Mapped mapped[COUNT_OF(places)];
    Kernel kernels[COUNT_OF(places)];
    VkComputePipelineCreateInfo kernel_infos[COUNT_OF(places)];
    Scene scenes[COUNT_OF(places)];
    VkGraphicsPipelineCreateInfo scene_infos[COUNT_OF(places)];
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        map_kernel(&kernels[i], &mapped[i], path, &places[i], 1601);
        kernel_infos[i] = kernels[i].info;
        map_scene(&scenes[i], &mapped[i], path, &places[i], 1601);
        scene_infos[i] = scenes[i].info;
    }
    create_kernels(path, "kernels-in-a-batch", COUNT_OF(places), kernel_infos, NULL);
    create_scenes(path, "scenes-in-a-batch", COUNT_OF(places), scene_infos, NULL);
}

void mode_descriptor_heap(Path *path)
{
    if (lacks(path, path->context->has[HAS_DESCRIPTOR_HEAP], "descriptor-heap"))
        return;
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        Mapped mapped;
        Kernel kernel;
        char name[64];
        snprintf(name, sizeof name, "kernel-%s", places[i].name);
        map_kernel(&kernel, &mapped, path, &places[i], 1600);
        create_kernels(path, name, 1, &kernel.info, NULL);
        Scene scene;
        snprintf(name, sizeof name, "scene-%s", places[i].name);
        map_scene(&scene, &mapped, path, &places[i], 1600);
        create_scenes(path, name, 1, &scene.info, NULL);
    }
    batches(path);
}
