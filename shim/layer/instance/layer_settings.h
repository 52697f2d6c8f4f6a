/* layer_settings.h - settings by the Vulkan ecosystem's ways, for policy to judge */
#ifndef PYLAYER_LAYER_SETTINGS_H
#define PYLAYER_LAYER_SETTINGS_H

#include "base.h"

/* In so many bytes all settings of an instance have to find room, and a value in so many. */
#define LAYER_SETTINGS_BYTES 8192
#define LAYER_SETTING_VALUE_BYTES 256

/* Lines, `<source> <key>=<value>`, in the order in which each goes before those above it; of the application's, the first
 * of a key counts. Sources are application, working-directory, file, environment. */
typedef struct LayerSettings {
    char text[LAYER_SETTINGS_BYTES];
    size_t used;
    bool incomplete;
} LayerSettings;

/* What the lines of a vk_layer_settings.txt say about this layer. */
void layer_settings_from_file(LayerSettings *settings, const char *source, const char *text, size_t size);
/* What variables say; `variables` ends with NULL. */
void layer_settings_from_environment(LayerSettings *settings, char **variables);

/* All of it, for an instance: malloc'd, ends with a zero. NULL: there is none. Sets the log's level where one is given. */
char *layer_settings_gather(const VkInstanceCreateInfo *info);

#endif
