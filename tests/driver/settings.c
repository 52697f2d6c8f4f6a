/* What the driver is: the statements of PYLAYER_TEST_DRIVER that name a property. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

DriverSettings settings = {.device_count = 1};

uint32_t script_number(const char *text)
{
    char *end;
    unsigned long value = text ? strtoul(text, &end, 0) : 0;
    if (!text || !*text || *end || value > UINT32_MAX)
        wrong_script("not a number", text ? text : "");
    return (uint32_t)value;
}

/* A number, or one that differs in each process. */
static uint32_t read_key(const char *text)
{
    return strcmp(text, "process") == 0 ? (uint32_t)getpid() : script_number(text);
}

static const DeviceSettings defaults = {
    .vendor_id = 0x10005,
    .device_id = 0x7e57,
    .api = VK_MAKE_API_VERSION(0, 1, 3, 239),
    .driver_version = 1,
    .build = 1,
    .global_key = 1,
    .abi = 64,
    .driver_name = "test",
    .driver_info = "build-1",
    .uuid = {0x7e, 0x57},
    .cache_control = PART_YES,
    .maintenance5 = PART_YES,
    .libraries = PART_YES,
    .more_pipelines = PART_NO,
    .executables = PART_NO,
    .binaries = PART_YES,
    .ray_tracing = PART_YES,
    .maintenance8 = PART_YES,
    .swapchain = PART_YES,
    .internal_cache = true,
    .internal_cache_control = true,
    .payload = 256,
};

__attribute__((constructor(101))) static void start(void)
{
    for (uint32_t i = 0; i < MAX_DEVICES; i++) {
        settings.devices[i] = defaults;
        settings.devices[i].device_id += i;
    }
}

static Part read_part(const char *value, bool commands)
{
    static const char *const names[] = {"no", "yes", "unfeatured", "null"};
    for (Part found = PART_NO; found <= (commands ? PART_NULL : PART_UNFEATURED); found++)
        if (strcmp(value, names[found]) == 0)
            return found;
    wrong_script("neither yes, no nor unfeatured", value);
}

static bool read_yes(const char *value)
{
    Part read = read_part(value, false);
    if (read == PART_UNFEATURED)
        wrong_script("neither yes nor no", value);
    return read == PART_YES;
}

static uint32_t read_api(const char *value)
{
    if (strlen(value) != 3 || value[0] != '1' || value[1] != '.' || value[2] < '0' || value[2] > '9')
        wrong_script("not a version of Vulkan", value);
    return VK_MAKE_API_VERSION(0, 1, (uint32_t)(value[2] - '0'), 0);
}

static void read_uuid(uint8_t *uuid, const char *value)
{
    memset(uuid, 0, VK_UUID_SIZE);
    for (size_t i = 0; value[2 * i]; i++) {
        unsigned byte;
        if (i >= VK_UUID_SIZE || sscanf(value + 2 * i, "%2x", &byte) != 1 || !value[2 * i + 1])
            wrong_script("not a UUID", value);
        uuid[i] = (uint8_t)byte;
    }
}

static bool read_number_of(DeviceSettings *device, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint32_t *number;
    } numbers[] = {
        {"vendor-id", &device->vendor_id},
        {"device-id", &device->device_id},
        {"driver-version", &device->driver_version},
        {"driver-id", &device->driver_id},
        {"build", &device->build},
        {"abi", &device->abi},
        {"payload", &device->payload},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].number = script_number(value);
            return true;
        }
    return false;
}

static bool read_part_of(DeviceSettings *device, const char *name, const char *value)
{
    const struct {
        const char *name;
        Part *part;
    } parts[] = {
        {"cache-control", &device->cache_control},   {"maintenance5", &device->maintenance5},
        {"maintenance8", &device->maintenance8},     {"libraries", &device->libraries},
        {"more-pipelines", &device->more_pipelines}, {"swapchain", &device->swapchain},
        {"ray-tracing", &device->ray_tracing},       {"binaries", &device->binaries},
        {"executables", &device->executables},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(name, parts[i].name) == 0) {
            *parts[i].part = read_part(value, parts[i].part == &device->binaries);
            return true;
        }
    return false;
}

static bool read_flag_of(DeviceSettings *device, const char *name, const char *value)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"internal-cache", &device->internal_cache},
        {"warm", &device->warm},
        {"internal-cache-control", &device->internal_cache_control},
        {"prefers-internal-cache", &device->prefers_internal_cache},
        {"precompiled-internal-cache", &device->precompiled_internal_cache},
        {"compressed-binaries", &device->compressed},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(name, flags[i].name) == 0) {
            *flags[i].flag = read_yes(value);
            return true;
        }
    return false;
}

static bool read_of(DeviceSettings *device, const char *name, const char *value)
{
    if (read_number_of(device, name, value) || read_part_of(device, name, value) || read_flag_of(device, name, value))
        return true;
    if (strcmp(name, "global-key") == 0)
        device->global_key = read_key(value);
    else if (strcmp(name, "api") == 0)
        device->api = read_api(value);
    else if (strcmp(name, "driver-name") == 0)
        snprintf(device->driver_name, sizeof device->driver_name, "%s", value);
    else if (strcmp(name, "driver-info") == 0)
        snprintf(device->driver_info, sizeof device->driver_info, "%s", value);
    else if (strcmp(name, "uuid") == 0)
        read_uuid(device->uuid, value);
    else
        return false;
    return true;
}

static int read_one_of(const char *value, const char *const *names, int name_count)
{
    for (int i = 0; i < name_count; i++)
        if (strcmp(value, names[i]) == 0)
            return i;
    wrong_script("no such value", value);
}

/* What all devices have in common. */
static bool read_common(const char *name, const char *value)
{
    static const char *const deferrals[] = {"at-once", "to-join", "never"};
    static const char *const feedbacks[] = {"yes", "no", "no-hits", "everywhere", "hits", "wrong"};
    if (strcmp(name, "devices") == 0) {
        settings.device_count = script_number(value);
        if (settings.device_count < 1 || settings.device_count > MAX_DEVICES)
            wrong_script("not a number of devices", value);
    } else if (strcmp(name, "guilty") == 0) {
        settings.guilty = script_number(value);
    } else if (strcmp(name, "keys") == 0) {
        settings.keys = read_key(value);
    } else if (strcmp(name, "deferral") == 0) {
        settings.deferral = (Deferral)read_one_of(value, deferrals, 3);
    } else if (strcmp(name, "feedback") == 0) {
        settings.feedback = (Feedback)read_one_of(value, feedbacks, 6);
    } else {
        return false;
    }
    return true;
}

bool settings_read(const char *name, const char *value)
{
    if (read_common(name, value))
        return true;
    char *first = strdup(value);
    char *second = first ? strchr(first, '/') : NULL;
    if (second)
        *second++ = '\0';
    bool known = first && read_of(&settings.devices[0], name, first);
    for (uint32_t i = 1; known && i < MAX_DEVICES; i++)
        if (second || strcmp(name, "device-id") != 0)
            known = read_of(&settings.devices[i], name, second ? second : first);
    free(first);
    return known;
}

void settings_complete(void)
{
    for (uint32_t i = 0; i < MAX_DEVICES; i++) {
        DeviceSettings *device = &settings.devices[i];
        if (device->abi != 32 && device->abi != 64)
            wrong_script("abi", "neither 32 nor 64");
        const uint32_t numbers[] = {device->vendor_id, device->device_id, device->driver_version,
                                    device->driver_id, device->build,     device->abi};
        Hash all = hash_start(0);
        hash_bytes(&all, numbers, sizeof numbers);
        hash_bytes(&all, device->uuid, sizeof device->uuid);
        hash_text(&all, device->driver_name);
        hash_text(&all, device->driver_info);
        device->identity = hash_folded(&all);
        hash_number(&all, device->global_key);
        device->binaries_identity = hash_folded(&all);
    }
}
