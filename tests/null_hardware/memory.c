/* Memory, buffers, images, and what is bound to them. */
#include "null_hardware.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 256
#define TEXEL_SIZE 16 /* the largest there is, so that no format needs to be looked up */
#define MEMORY_TYPES 3

typedef struct {
    VkDeviceSize size;
    char *data;
} memory;

typedef struct {
    VkDeviceSize size;
    VkDeviceAddress address;
} buffer;

typedef struct {
    VkExtent3D extent;
    uint32_t mip_levels;
    uint32_t array_layers;
    uint32_t samples;
} image;

static void fill_memory_properties(VkPhysicalDeviceMemoryProperties *properties)
{
    static const VkMemoryPropertyFlags visible =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    *properties = (VkPhysicalDeviceMemoryProperties){
        .memoryTypeCount = MEMORY_TYPES,
        .memoryTypes = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
                        {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | visible, 0},
                        {visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1}},
        .memoryHeapCount = 2,
        .memoryHeaps = {{(VkDeviceSize)8 << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}, {(VkDeviceSize)8 << 30, 0}},
    };
}

static void VKAPI_CALL get_memory_properties(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *properties)
{
    (void)physical;
    fill_memory_properties(properties);
}

static void VKAPI_CALL get_memory_properties2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *properties)
{
    (void)physical;
    fill_memory_properties(&properties->memoryProperties);
    for (VkBaseOutStructure *next = properties->pNext; next; next = next->pNext) {
        if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
            continue;
        VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (VkPhysicalDeviceMemoryBudgetPropertiesEXT *)next;
        for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) {
            budget->heapBudget[i] = properties->memoryProperties.memoryHeaps[i].size;
            budget->heapUsage[i] = 0;
        }
    }
}

/* ---- memory: pages that cost nothing until they are written to ---- */

static VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo *info,
                                           const VkAllocationCallbacks *allocator, VkDeviceMemory *handle)
{
    (void)device, (void)allocator;
    memory *object = malloc(sizeof *object);
    if (!object)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    object->size = info->allocationSize;
    object->data =
        mmap(NULL, info->allocationSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (object->data == MAP_FAILED) {
        free(object);
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    *handle = (VkDeviceMemory)object;
    return VK_SUCCESS;
}

static void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory handle, const VkAllocationCallbacks *allocator)
{
    (void)device, (void)allocator;
    memory *object = (memory *)handle;
    if (!object)
        return;
    munmap(object->data, object->size);
    free(object);
}

static VkResult VKAPI_CALL map_memory(VkDevice device, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size,
                                      VkMemoryMapFlags flags, void **data)
{
    (void)device, (void)size, (void)flags;
    *data = ((memory *)handle)->data + offset;
    return VK_SUCCESS;
}

/* VkMemoryMapInfoKHR, which older headers lack */
typedef struct {
    VkStructureType sType;
    const void *pNext;
    VkMemoryMapFlags flags;
    VkDeviceMemory memory;
    VkDeviceSize offset;
    VkDeviceSize size;
} memory_map_info;

static VkResult VKAPI_CALL map_memory2(VkDevice device, const memory_map_info *info, void **data)
{
    return map_memory(device, info->memory, info->offset, info->size, info->flags, data);
}

static void VKAPI_CALL get_commitment(VkDevice device, VkDeviceMemory handle, VkDeviceSize *size)
{
    (void)device;
    *size = ((memory *)handle)->size;
}

/* ---- requirements ---- */

static VkMemoryRequirements requirements_of(VkDeviceSize size)
{
    return (VkMemoryRequirements){(size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, ALIGNMENT, (1u << MEMORY_TYPES) - 1};
}

static void fill_requirements2(VkDeviceSize size, VkMemoryRequirements2 *requirements)
{
    requirements->memoryRequirements = requirements_of(size);
    for (VkBaseOutStructure *next = requirements->pNext; next; next = next->pNext) {
        if (next->sType != VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS)
            continue;
        ((VkMemoryDedicatedRequirements *)next)->prefersDedicatedAllocation = VK_FALSE;
        ((VkMemoryDedicatedRequirements *)next)->requiresDedicatedAllocation = VK_FALSE;
    }
}

/* ---- buffers ---- */

static VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkBuffer *handle)
{
    (void)device, (void)allocator;
    buffer *object = malloc(sizeof *object);
    if (!object)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    object->size = info->size;
    object->address = 0;
    *handle = (VkBuffer)object;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_buffer(VkDevice device, VkBuffer handle, const VkAllocationCallbacks *allocator)
{
    (void)device, (void)allocator;
    free((buffer *)handle);
}

static void VKAPI_CALL get_buffer_requirements(VkDevice device, VkBuffer handle, VkMemoryRequirements *requirements)
{
    (void)device;
    *requirements = requirements_of(((buffer *)handle)->size);
}

static void VKAPI_CALL get_buffer_requirements2(VkDevice device, const VkBufferMemoryRequirementsInfo2 *info,
                                                VkMemoryRequirements2 *requirements)
{
    (void)device;
    fill_requirements2(((buffer *)info->buffer)->size, requirements);
}

static void VKAPI_CALL get_future_buffer_requirements(VkDevice device, const VkDeviceBufferMemoryRequirements *info,
                                                      VkMemoryRequirements2 *requirements)
{
    (void)device;
    fill_requirements2(info->pCreateInfo->size, requirements);
}

static VkResult VKAPI_CALL bind_buffer(VkDevice device, VkBuffer handle, VkDeviceMemory memory_handle,
                                       VkDeviceSize offset)
{
    (void)device;
    ((buffer *)handle)->address = (VkDeviceAddress)(uintptr_t)((memory *)memory_handle)->data + offset;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL bind_buffers2(VkDevice device, uint32_t count, const VkBindBufferMemoryInfo *infos)
{
    for (uint32_t i = 0; i < count; i++)
        bind_buffer(device, infos[i].buffer, infos[i].memory, infos[i].memoryOffset);
    return VK_SUCCESS;
}

static VkDeviceAddress VKAPI_CALL get_buffer_address(VkDevice device, const VkBufferDeviceAddressInfo *info)
{
    (void)device;
    return ((buffer *)info->buffer)->address;
}

/* ---- images: one mip level after the other, and one array layer after the other ---- */

static VkExtent3D level_extent(const image *object, uint32_t level)
{
    VkExtent3D extent = {object->extent.width >> level, object->extent.height >> level, object->extent.depth >> level};
    return (VkExtent3D){extent.width ? extent.width : 1, extent.height ? extent.height : 1,
                        extent.depth ? extent.depth : 1};
}

static VkDeviceSize level_size(const image *object, uint32_t level)
{
    VkExtent3D extent = level_extent(object, level);
    return (VkDeviceSize)extent.width * extent.height * extent.depth * object->samples * TEXEL_SIZE;
}

static VkDeviceSize layer_size(const image *object)
{
    VkDeviceSize size = 0;
    for (uint32_t level = 0; level < object->mip_levels; level++)
        size += level_size(object, level);
    return size;
}

static VkDeviceSize image_size(const image *object)
{
    return layer_size(object) * object->array_layers;
}

static image image_of(const VkImageCreateInfo *info)
{
    return (image){info->extent, info->mipLevels, info->arrayLayers, info->samples};
}

VkResult create_image(VkDevice device, const VkImageCreateInfo *info, const VkAllocationCallbacks *allocator,
                      VkImage *handle)
{
    (void)device, (void)allocator;
    image *object = malloc(sizeof *object);
    if (!object)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    *object = image_of(info);
    *handle = (VkImage)object;
    return VK_SUCCESS;
}

void destroy_image(VkDevice device, VkImage handle, const VkAllocationCallbacks *allocator)
{
    (void)device, (void)allocator;
    free((image *)handle);
}

static void VKAPI_CALL get_image_requirements(VkDevice device, VkImage handle, VkMemoryRequirements *requirements)
{
    (void)device;
    *requirements = requirements_of(image_size((image *)handle));
}

static void VKAPI_CALL get_image_requirements2(VkDevice device, const VkImageMemoryRequirementsInfo2 *info,
                                               VkMemoryRequirements2 *requirements)
{
    (void)device;
    fill_requirements2(image_size((image *)info->image), requirements);
}

static void VKAPI_CALL get_future_image_requirements(VkDevice device, const VkDeviceImageMemoryRequirements *info,
                                                     VkMemoryRequirements2 *requirements)
{
    (void)device;
    image object = image_of(info->pCreateInfo);
    fill_requirements2(image_size(&object), requirements);
}

/* Stands in for the older and the newer function, of images that are there and that might be: the count comes
 * third. */
static void VKAPI_CALL get_no_sparse_requirements(VkDevice device, const void *image_or_info, uint32_t *count,
                                                  void *requirements)
{
    (void)device, (void)image_or_info, (void)requirements;
    *count = 0;
}

static void VKAPI_CALL get_subresource_layout(VkDevice device, VkImage handle, const VkImageSubresource *subresource,
                                              VkSubresourceLayout *layout)
{
    (void)device;
    const image *object = (image *)handle;
    VkExtent3D extent = level_extent(object, subresource->mipLevel);
    VkDeviceSize row = (VkDeviceSize)extent.width * object->samples * TEXEL_SIZE;
    VkDeviceSize offset = layer_size(object) * subresource->arrayLayer;
    for (uint32_t level = 0; level < subresource->mipLevel; level++)
        offset += level_size(object, level);
    *layout = (VkSubresourceLayout){.offset = offset,
                                    .size = level_size(object, subresource->mipLevel),
                                    .rowPitch = row,
                                    .arrayPitch = layer_size(object),
                                    .depthPitch = row * extent.height};
}

/* VkImageSubresource2KHR and VkSubresourceLayout2KHR begin as their EXT ancestors. */
static void VKAPI_CALL get_subresource_layout2(VkDevice device, VkImage handle,
                                               const VkImageSubresource2EXT *subresource,
                                               VkSubresourceLayout2EXT *layout)
{
    get_subresource_layout(device, handle, &subresource->imageSubresource, &layout->subresourceLayout);
}

/* ---- handing memory to others is not possible ---- */

static VkResult VKAPI_CALL refuse(void)
{
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

const entry_point memory_entry_points[] = {
    ENTRY("vkGetPhysicalDeviceMemoryProperties", get_memory_properties),
    ENTRY("vkGetPhysicalDeviceMemoryProperties2", get_memory_properties2),
    ENTRY("vkAllocateMemory", allocate_memory),
    ENTRY("vkFreeMemory", free_memory),
    ENTRY("vkMapMemory", map_memory),
    ENTRY("vkMapMemory2", map_memory2),
    ENTRY("vkUnmapMemory", succeed),
    ENTRY("vkUnmapMemory2", succeed),
    ENTRY("vkFlushMappedMemoryRanges", succeed),
    ENTRY("vkInvalidateMappedMemoryRanges", succeed),
    ENTRY("vkGetDeviceMemoryCommitment", get_commitment),
    ENTRY("vkSetDeviceMemoryPriority", succeed),
    ENTRY("vkGetMemoryFd", refuse),
    ENTRY("vkCreateBuffer", create_buffer),
    ENTRY("vkDestroyBuffer", destroy_buffer),
    ENTRY("vkGetBufferMemoryRequirements", get_buffer_requirements),
    ENTRY("vkGetBufferMemoryRequirements2", get_buffer_requirements2),
    ENTRY("vkGetDeviceBufferMemoryRequirements", get_future_buffer_requirements),
    ENTRY("vkBindBufferMemory", bind_buffer),
    ENTRY("vkBindBufferMemory2", bind_buffers2),
    ENTRY("vkGetBufferDeviceAddress", get_buffer_address),
    ENTRY("vkCreateBufferView", create_handle),
    ENTRY("vkDestroyBufferView", succeed),
    ENTRY("vkCreateImage", create_image),
    ENTRY("vkDestroyImage", destroy_image),
    ENTRY("vkGetImageMemoryRequirements", get_image_requirements),
    ENTRY("vkGetImageMemoryRequirements2", get_image_requirements2),
    ENTRY("vkGetDeviceImageMemoryRequirements", get_future_image_requirements),
    ENTRY("vkGetImageSparseMemoryRequirements", get_no_sparse_requirements),
    ENTRY("vkGetImageSparseMemoryRequirements2", get_no_sparse_requirements),
    ENTRY("vkGetDeviceImageSparseMemoryRequirements", get_no_sparse_requirements),
    ENTRY("vkBindImageMemory", succeed),
    ENTRY("vkBindImageMemory2", succeed),
    ENTRY("vkGetImageSubresourceLayout", get_subresource_layout),
    ENTRY("vkGetImageSubresourceLayout2", get_subresource_layout2),
    ENTRY("vkCreateImageView", create_handle),
    ENTRY("vkDestroyImageView", succeed),
    /* A framebuffer is made of image views, which the driver would follow. */
    ENTRY("vkCreateFramebuffer", create_handle),
    ENTRY("vkDestroyFramebuffer", succeed),
    {NULL, NULL}};
