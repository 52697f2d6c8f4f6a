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
    .more_pipelines = PART_NO,
    .executables = PART_NO,
    .binaries = PART_YES,
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

typedef enum { NUMBER, KEY, API, PART, COMMANDS_TOO, YES, TEXT, UUID } Type;

static const struct {
    const char *name;
    Type type;
    size_t field;
} table[] = {
#define AT(field) offsetof(DeviceSettings, field)
    {"vendor-id", NUMBER, AT(vendor_id)},
    {"device-id", NUMBER, AT(device_id)},
    {"driver-version", NUMBER, AT(driver_version)},
    {"driver-id", NUMBER, AT(driver_id)},
    {"build", NUMBER, AT(build)},
    {"abi", NUMBER, AT(abi)},
    {"payload", NUMBER, AT(payload)},
    {"shared", NUMBER, AT(shared)},
    {"global-key", KEY, AT(global_key)},
    {"api", API, AT(api)},
    {"cache-control", PART, AT(cache_control)},
    {"maintenance5", PART, AT(maintenance5)},
    {"more-pipelines", PART, AT(more_pipelines)},
    {"executables", PART, AT(executables)},
    {"binaries", COMMANDS_TOO, AT(binaries)},
    {"internal-cache", YES, AT(internal_cache)},
    {"warm", YES, AT(warm)},
    {"internal-cache-control", YES, AT(internal_cache_control)},
    {"prefers-internal-cache", YES, AT(prefers_internal_cache)},
    {"precompiled-internal-cache", YES, AT(precompiled_internal_cache)},
    {"compressed-binaries", YES, AT(compressed)},
    {"driver-name", TEXT, AT(driver_name)},
    {"driver-info", TEXT, AT(driver_info)},
    {"uuid", UUID, AT(uuid)},
#undef AT
};
_Static_assert(VK_MAX_DRIVER_NAME_SIZE == VK_MAX_DRIVER_INFO_SIZE, "both texts have the same room");

static void read_field(void *field, Type type, const char *value)
{
    if (type == NUMBER || type == KEY || type == API)
        *(uint32_t *)field = type == API ? read_api(value) : type == KEY ? read_key(value) : script_number(value);
    else if (type == PART || type == COMMANDS_TOO)
        *(Part *)field = read_part(value, type == COMMANDS_TOO);
    else if (type == YES)
        *(bool *)field = read_yes(value);
    else if (type == TEXT)
        snprintf(field, VK_MAX_DRIVER_NAME_SIZE, "%s", value);
    else
        read_uuid(field, value);
}

static bool read_of(DeviceSettings *device, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0) {
            read_field((char *)device + table[i].field, table[i].type, value);
            return true;
        }
    return false;
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
        device->identity = hash_compacted(&all);
        hash_number(&all, device->global_key);
        device->binaries_identity = hash_compacted(&all);
    }
}
