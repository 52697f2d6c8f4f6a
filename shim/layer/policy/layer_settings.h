/* layer_settings.h - collects the settings that Vulkan's layer settings mechanisms give, for policy to judge */
#ifndef PYLAYER_LAYER_SETTINGS_H
#define PYLAYER_LAYER_SETTINGS_H

#include "base.h"

/* Room for all settings of an instance, and the longest value. */
#define LAYER_SETTINGS_BYTES 8192
#define LAYER_SETTING_VALUE_BYTES 256

/* Lines of the form `<source> <key>=<value>`. A later line overrides earlier ones, except that the first of the
 * application's lines for a key counts. Sources are application, working-directory, file, environment. */
typedef struct LayerSettings {
    char text[LAYER_SETTINGS_BYTES];
    size_t used;
    bool incomplete;
} LayerSettings;

/* Adds what the lines of a vk_layer_settings.txt set for this layer. */
void layer_settings_from_file(LayerSettings *settings, const char *source, const char *text, size_t size);
/* Adds what environment variables set. `variables` ends with NULL. */
void layer_settings_from_environment(LayerSettings *settings, char **variables);

/* Returns all settings for an instance, malloc'd and ending with a zero; NULL if there are none or memory is short.
 * Also sets the log level, if a setting gives one. */
char *layer_settings_gather(const VkInstanceCreateInfo *info);

#endif
