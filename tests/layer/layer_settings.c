/* layer_settings [enable] [LAYER NAME TYPE VALUE]... - an instance with these settings by VK_EXT_layer_settings, which it
 * enables with `enable`, and a device. TYPE: bool, int, long, unsigned, size, float, double, text; a value with commas is several. Prints the
 * extensions that the layer lists. */
#define _GNU_SOURCE
#include "../../shim/layer/vulkan/vk_compat.h"
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16
static const char *const types[] = {"bool", "int", "long", "unsigned", "size", "float", "double", "text"};

typedef union Values {
    VkBool32 bools[MOST];
    int32_t ints[MOST];
    int64_t longs[MOST];
    uint32_t unsigneds[MOST];
    uint64_t sizes[MOST];
    float floats[MOST];
    double doubles[MOST];
    const char *texts[MOST];
} Values;

static void put(Values *values, int type, uint32_t index, char *text)
{
    switch (type) {
    case VK_LAYER_SETTING_TYPE_BOOL32_EXT:
        values->bools[index] = strcmp(text, "true") == 0;
        break;
    case VK_LAYER_SETTING_TYPE_INT32_EXT:
        values->ints[index] = atoi(text);
        break;
    case VK_LAYER_SETTING_TYPE_INT64_EXT:
        values->longs[index] = atoll(text);
        break;
    case VK_LAYER_SETTING_TYPE_UINT32_EXT:
        values->unsigneds[index] = (uint32_t)atoll(text);
        break;
    case VK_LAYER_SETTING_TYPE_UINT64_EXT:
        values->sizes[index] = strtoull(text, NULL, 10);
        break;
    case VK_LAYER_SETTING_TYPE_FLOAT32_EXT:
        values->floats[index] = (float)atof(text);
        break;
    case VK_LAYER_SETTING_TYPE_FLOAT64_EXT:
        values->doubles[index] = atof(text);
        break;
    default:
        values->texts[index] = text;
    }
}

int main(int count, char **arguments)
{
    static VkLayerSettingEXT settings[MOST];
    static Values values[MOST];
    uint32_t setting_count = 0;
    int enable = count > 1 && strcmp(arguments[1], "enable") == 0;
    for (int i = 1 + enable; i + 3 < count && setting_count < MOST; i += 4, setting_count++) {
        VkLayerSettingEXT *setting = &settings[setting_count];
        setting->pLayerName = arguments[i];
        setting->pSettingName = arguments[i + 1];
        setting->pValues = &values[setting_count];
        while (setting->type < VK_LAYER_SETTING_TYPE_STRING_EXT && strcmp(types[setting->type], arguments[i + 2]) != 0)
            setting->type++;
        char *text = arguments[i + 3];
        for (char *part; (part = strsep(&text, ",")) && setting->valueCount < MOST; setting->valueCount++)
            put(&values[setting_count], setting->type, setting->valueCount, part);
    }
    VkLayerSettingsCreateInfoEXT chained = {.sType = VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT,
                                            .settingCount = setting_count,
                                            .pSettings = settings};
    const char *extension = VK_EXT_LAYER_SETTINGS_EXTENSION_NAME;
    Wanted wanted = {
        .instance_chain = &chained, .instance_extension_count = (uint32_t)enable, .instance_extensions = &extension};
    VkExtensionProperties listed[MOST];
    uint32_t listed_count = MOST;
    if (vkEnumerateInstanceExtensionProperties("VK_LAYER_PYLAYER_pipeline_cache", &listed_count, listed))
        return 1;
    for (uint32_t i = 0; i < listed_count; i++)
        printf("%s %u\n", listed[i].extensionName, listed[i].specVersion);
    Program program = {0};
    VkResult result = open_program(&program, &wanted);
    if (result) {
        fprintf(stderr, "vkCreateInstance or vkCreateDevice: %d\n", result);
        return 1;
    }
    close_program(&program);
    return 0;
}
