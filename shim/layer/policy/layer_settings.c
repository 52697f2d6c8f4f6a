/*
 * layer_settings.c - reads VkLayerSettingsCreateInfoEXT, vk_layer_settings.txt and environment variables. Names and
 * places follow Vulkan-Utility-Libraries (vk_layer_settings.h), which other layers and vkconfig use.
 *
 * This file checks only who could have written the settings file. pylayer/common/layer_settings.py decides which
 * source may set what, and which values are valid.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/layer_settings.h"
#include "vulkan/pnext.h"
#include "process/process.h"
#include "process/trusted.h"

/* The prefix of names in the file, and those of variables, which leave out more and more of the layer's name. */
#define FILE_PREFIX "pylayer_pipeline_cache."
#define ENVIRONMENT_PREFIX "VK_PYLAYER_PIPELINE_CACHE_"
#define ENVIRONMENT_PREFIX_NO_VENDOR "VK_PIPELINE_CACHE_"
#define ENVIRONMENT_PREFIX_NO_LAYER "VK_"

#define FILE_NAME "vk_layer_settings.txt"
#define MAX_FILE_BYTES (1u << 20)
#define MAX_KEY_BYTES 64

#include "../../../build/layer_setting_names.h"

/* ---- lines ------------------------------------------------------------------------------------------ */

/* Replaces bytes that would end the line or the key. No valid name or value contains them. */
static size_t put(char *to, const char *from, size_t size, bool key)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)from[i];
        to[i] = from[i];
        if (byte < 0x20 || byte == 0x7f || (key && (byte == '=' || byte == ' ')))
            to[i] = '?';
    }
    return size;
}

static void add(LayerSettings *settings, const char *source, const char *key, size_t key_size, const char *value,
                size_t value_size)
{
    /* A value cut to this length is not valid for any setting. Policy refuses it in a log line that shows its
     * beginning. */
    if (value_size > LAYER_SETTING_VALUE_BYTES)
        value_size = LAYER_SETTING_VALUE_BYTES;
    if (key_size > MAX_KEY_BYTES)
        key_size = MAX_KEY_BYTES;
    size_t source_size = strlen(source);
    /* Room for a space, an equals sign, a newline, and the zero at the end. */
    if (settings->used + source_size + key_size + value_size + 4 > sizeof settings->text) {
        settings->incomplete = true;
        return;
    }
    char *to = settings->text + settings->used;
    to += put(to, source, source_size, true);
    *to++ = ' ';
    to += put(to, key, key_size, true);
    *to++ = '=';
    to += put(to, value, value_size, false);
    *to++ = '\n';
    *to = '\0';
    settings->used = (size_t)(to - settings->text);
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static void trim(const char **text, size_t *size)
{
    while (*size && is_space(**text)) {
        (*text)++;
        (*size)--;
    }
    while (*size && is_space((*text)[*size - 1]))
        (*size)--;
}

static void take_line(LayerSettings *settings, const char *source, const char *line, size_t size)
{
    const char *comment = memchr(line, '#', size);
    if (comment)
        size = (size_t)(comment - line);
    const char *equals = memchr(line, '=', size);
    if (!equals)
        return;
    const char *key = line, *value = equals + 1;
    size_t key_size = (size_t)(equals - line), value_size = size - key_size - 1, prefix = strlen(FILE_PREFIX);
    trim(&key, &key_size);
    trim(&value, &value_size);
    if (key_size > prefix && memcmp(key, FILE_PREFIX, prefix) == 0 && value_size)
        add(settings, source, key + prefix, key_size - prefix, value, value_size);
}

void layer_settings_from_file(LayerSettings *settings, const char *source, const char *text, size_t size)
{
    for (const char *at = text, *end = text + size; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        take_line(settings, source, at, length);
        at += length + 1;
    }
}

/* Finds the first existing settings file; later places are not read. Returns its source. */
static const char *find_file(char path[PATH_BYTES])
{
    const char *data = environment_get("XDG_DATA_HOME"), *home = environment_get("HOME");
    const char *named = environment_get("VK_LAYER_SETTINGS_PATH");
    bool has_data = data && *data;
    struct stat found;
    int length = 0;
    if (has_data || (home && *home))
        length = snprintf(path, PATH_BYTES, "%s%s/vulkan/settings.d/" FILE_NAME, has_data ? data : home,
                          has_data ? "" : "/.local/share");
    if (length > 0 && length < PATH_BYTES && *path == '/' && stat(path, &found) == 0 && S_ISREG(found.st_mode))
        return "file";
    if (named && stat(named, &found) == 0) {
        length = snprintf(path, PATH_BYTES, "%s%s", named, S_ISDIR(found.st_mode) ? "/" FILE_NAME : "");
        if (length > 0 && length < PATH_BYTES)
            return "file";
    }
    snprintf(path, PATH_BYTES, FILE_NAME);
    return "working-directory";
}

static void from_files(LayerSettings *settings)
{
    char path[PATH_BYTES] = "";
    const char *source = find_file(path);
    int fd = open_own_file(path);
    if (fd < 0) {
        if (errno == EPERM)
            log_line(PYLAYER_LOG_WARN, "%s is not used: another user could have written it (chmod go-w)", path);
        else if (errno != ENOENT && errno != ENOTDIR)
            log_line(PYLAYER_LOG_WARN, "%s is not used: %s", path, strerror(errno));
        return;
    }
    size_t size = 0;
    char *text = read_all(fd, MAX_FILE_BYTES, 0, &size);
    if (text)
        layer_settings_from_file(settings, source, text, size);
    else
        log_line(PYLAYER_LOG_WARN, "%s is not used: it cannot be read, or is larger than 1 MiB", path);
    free(text);
}

/* ---- variables -------------------------------------------------------------------------------------------- */

/* Writes the setting's name, in lower case, from a variable whose name begins with the prefix. Returns its size, or
 * 0 if the variable does not name a setting. */
static size_t key_of(const char *variable, const char *prefix, char key[MAX_KEY_BYTES])
{
    size_t start = strlen(prefix), size = 0;
    if (strncmp(variable, prefix, start) != 0)
        return 0;
    for (const char *at = variable + start; *at != '='; at++) {
        bool upper = *at >= 'A' && *at <= 'Z';
        if (size == MAX_KEY_BYTES || !(upper || *at == '_' || (*at >= '0' && *at <= '9')))
            return 0;
        key[size++] = (char)(upper ? *at + 32 : *at);
    }
    return size;
}

static bool is_setting(const char *key, size_t size)
{
    for (size_t i = 0; i < sizeof setting_names / sizeof setting_names[0]; i++)
        if (strlen(setting_names[i]) == size && memcmp(setting_names[i], key, size) == 0)
            return true;
    return false;
}

void layer_settings_from_environment(LayerSettings *settings, char **variables)
{
    static const char *const prefixes[] = {ENVIRONMENT_PREFIX_NO_LAYER, ENVIRONMENT_PREFIX_NO_VENDOR,
                                           ENVIRONMENT_PREFIX};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        for (char **variable = variables; *variable; variable++) {
            char key[MAX_KEY_BYTES];
            const char *equals = strchr(*variable, '=');
            size_t size = equals && equals[1] ? key_of(*variable, prefixes[i], key) : 0;
            /* Only the full prefix says that the variable is meant for this layer. */
            if (size && (is_setting(key, size) || i == 2))
                add(settings, "environment", key, size, equals + 1, strlen(equals + 1));
        }
}

/* ---- VK_EXT_layer_settings ----------------------------------------------------------------------------------- */

static int print_value(char *out, size_t room, const VkLayerSettingEXT *setting, uint32_t index)
{
    const void *values = setting->pValues;
    switch (setting->type) {
    case VK_LAYER_SETTING_TYPE_BOOL32_EXT:
        return snprintf(out, room, "%s", ((const VkBool32 *)values)[index] ? "true" : "false");
    case VK_LAYER_SETTING_TYPE_INT32_EXT:
        return snprintf(out, room, "%d", ((const int32_t *)values)[index]);
    case VK_LAYER_SETTING_TYPE_INT64_EXT:
        return snprintf(out, room, "%lld", (long long)((const int64_t *)values)[index]);
    case VK_LAYER_SETTING_TYPE_UINT32_EXT:
        return snprintf(out, room, "%u", ((const uint32_t *)values)[index]);
    case VK_LAYER_SETTING_TYPE_UINT64_EXT:
        return snprintf(out, room, "%llu", (unsigned long long)((const uint64_t *)values)[index]);
    /* No %g: its decimal point depends on the locale. */
    case VK_LAYER_SETTING_TYPE_FLOAT32_EXT:
    case VK_LAYER_SETTING_TYPE_FLOAT64_EXT: {
        double number = setting->type == VK_LAYER_SETTING_TYPE_FLOAT32_EXT ? (double)((const float *)values)[index]
                                                                           : ((const double *)values)[index];
        if (!(number > -1e9 && number < 1e9))
            return snprintf(out, room, "a number beyond a milliard");
        long long millionths = (long long)(number * 1e6 + (number < 0 ? -0.5 : 0.5));
        unsigned long long size = (unsigned long long)(millionths < 0 ? -millionths : millionths);
        return snprintf(out, room, "%s%llu.%06llu", millionths < 0 ? "-" : "", size / 1000000, size % 1000000);
    }
    case VK_LAYER_SETTING_TYPE_STRING_EXT: {
        const char *text = ((const char *const *)values)[index];
        return snprintf(out, room, "%s", text ? text : "");
    }
    default:
        return 0;
    }
}

static void take_setting(LayerSettings *settings, const VkLayerSettingEXT *setting)
{
    /* Room for one byte more than a value may have, so that policy refuses a value that is too long. */
    char value[LAYER_SETTING_VALUE_BYTES + 2];
    size_t used = 0;
    if (!setting->pLayerName || strcmp(setting->pLayerName, LAYER_NAME) != 0 || !setting->pSettingName)
        return;
    for (uint32_t i = 0; setting->pValues && i < setting->valueCount && used < sizeof value - 1; i++) {
        if (i)
            value[used++] = ',';
        int length = print_value(value + used, sizeof value - used, setting, i);
        used += length > 0 ? (size_t)length : 0;
    }
    if (used > sizeof value - 1)
        used = sizeof value - 1;
    if (used)
        add(settings, "application", setting->pSettingName, strlen(setting->pSettingName), value, used);
}

static void from_application(LayerSettings *settings, const void *chain)
{
    for (const VkBaseInStructure *node = chain; node; node = node->pNext) {
        if (node->sType != VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT)
            continue;
        const VkLayerSettingsCreateInfoEXT *info = (const void *)node;
        for (uint32_t i = 0; info->pSettings && i < info->settingCount; i++)
            take_setting(settings, &info->pSettings[i]);
    }
}

/* ---- all sources ----------------------------------------------------------------------------------------------- */

/* Only log_level is applied here, because the log is written before policy runs. */
static void set_log_level(const LayerSettings *settings)
{
    bool by_application = false;
    for (const char *line = settings->text; *line; line = strchr(line, '\n') + 1) {
        const char *key = strchr(line, ' ') + 1;
        bool application = strncmp(line, "application ", 12) == 0;
        if (strncmp(key, "log_level=", 10) != 0 || (application && by_application))
            continue;
        by_application = application;
        char level[16];
        snprintf(level, sizeof level, "%.*s", (int)strcspn(key + 10, "\n"), key + 10);
        /* "off" is the default, so it has no effect unless a variable sets it: pylayer/common/layer_settings.py. */
        if (strcmp(level, "off") != 0 || strncmp(line, "environment ", 12) == 0)
            log_set_level(level);
    }
}

char *layer_settings_gather(const VkInstanceCreateInfo *info)
{
    LayerSettings *settings = malloc(sizeof *settings);
    if (!settings)
        return NULL;
    settings->used = 0;
    settings->incomplete = false;
    *settings->text = '\0';
    from_application(settings, info->pNext);
    from_files(settings);
    layer_settings_from_environment(settings, environment_all());
    set_log_level(settings);
    if (settings->incomplete)
        log_line(PYLAYER_LOG_WARN, "there are too many layer settings; the last ones are not used");
    char *text = settings->used ? strdup(settings->text) : NULL;
    free(settings);
    return text;
}
