/*
 * many_caches DIRECTORY COUNT TURNS: loads COUNT caches from the files of DIRECTORY, one after the other, creates a
 * pipeline in each, and saves them as programs should: into a new file, which then takes the old one's place. All of that
 * TURNS times. Each cache's pipeline is another one; a file's next turn may find what another process saved.
 * Prints how many caches were loaded, and how many of those were empty at once.
 */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EMPTY_BYTES = 64, MOST_BYTES = 1 << 20 };

static unsigned char data[MOST_BYTES];

static size_t read_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    if (file)
        fclose(file);
    return size;
}

static int write_file(const char *name, size_t size)
{
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s.%d", name, getpid());
    FILE *file = fopen(temporary, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        return 1;
    return rename(temporary, name);
}

/* A layout of its own makes each pipeline another one: so many push constants. */
static VkPipelineLayout create_layout(VkDevice device, unsigned number)
{
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 16 * (1 + number % 8)};
    VkDescriptorSetLayoutBinding binding = {number / 8, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                            VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
    VkDescriptorSetLayout set;
    VkPipelineLayout layout;
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &set,
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &range};
    if (vkCreateDescriptorSetLayout(device, &set_info, NULL, &set) ||
        vkCreatePipelineLayout(device, &info, NULL, &layout))
        exit(2);
    vkDestroyDescriptorSetLayout(device, set, NULL);
    return layout;
}

static unsigned loaded, emptied;

static void use_cache(const Program *program, const char *directory, unsigned number)
{
    Program own = *program;
    char name[4100];
    snprintf(name, sizeof name, "%s/%u.cache", directory, number);
    size_t size = read_file(name), found = 0;
    VkPipelineCache cache;
    own.layout = create_layout(own.device, number);
    if (create_cache(&own, 0, size, size ? data : NULL, &cache) ||
        vkGetPipelineCacheData(own.device, cache, &found, NULL))
        exit(3);
    loaded += size > 0;
    emptied += size > 0 && found <= EMPTY_BYTES;
    if (use_compute(&own, cache, "main"))
        exit(4);
    size = sizeof data;
    if (vkGetPipelineCacheData(own.device, cache, &size, data) || write_file(name, size))
        exit(5);
    vkDestroyPipelineLayout(own.device, own.layout, NULL);
    vkDestroyPipelineCache(own.device, cache, NULL);
}

int main(int count, char **arguments)
{
    Program program = {0};
    if (count != 4 || open_program(&program, &(Wanted){0}))
        return 1;
    for (int turn = 0; turn < atoi(arguments[3]); turn++)
        for (int number = 0; number < atoi(arguments[2]); number++)
            use_cache(&program, arguments[1], (unsigned)number);
    printf("%u %u\n", loaded, emptied);
    close_program(&program);
    return 0;
}
