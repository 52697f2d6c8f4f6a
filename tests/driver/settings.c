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

static const DeviceSettings defaults = {
    .vendor_id = 0x10005,
    .device_id = 0x7e57,
    .driver_version = 1,
    .build = 1,
    .global_key = 1,
    .abi = 64,
    .driver_name = "test",
    .driver_info = "build-1",
    .uuid = {0x7e, 0x57},
    .always = PART_YES,
    .cache_control = PART_YES,
    .maintenance5 = PART_YES,
    .binaries = PART_YES,
    .internal_cache = PART_YES,
    .internal_cache_control = PART_YES,
    .payload = 256,
};

__attribute__((constructor(101))) static void start(void)
{
    for (uint32_t i = 0; i < MAX_DEVICES; i++) {
        settings.devices[i] = defaults;
        settings.devices[i].device_id += i;
    }
}

static void read_uuid(uint8_t *uuid, const char *value)
{
    memset(uuid, 0, VK_UUID_SIZE);
    for (size_t i = 0; value[2 * i]; i++)
        if (i >= VK_UUID_SIZE || sscanf(value + 2 * i, "%2hhx", &uuid[i]) != 1 || !value[2 * i + 1])
            wrong_script("not a UUID", value);
}

typedef enum { NUMBER, TEXT, UUID, YES, PART, DEFERRAL, FEEDBACK } Type;

/* The words of the types that are one of several, in the order of their values. */
static const char *const words[][7] = {
    [YES] = {"no", "yes"},
    [PART] = {"no", "yes", "unfeatured", "null"},
    [DEFERRAL] = {"at-once", "to-join", "never"},
    [FEEDBACK] = {"yes", "no", "no-hits", "everywhere", "hits", "wrong"},
};

static const struct {
    const char *name;
    Type type;
    size_t at; /* of the first device, if devices have it */
} table[] = {
#define OF_ALL_DEVICES(name) offsetof(DriverSettings, name)
#define OF_DEVICE(name) offsetof(DriverSettings, devices[0].name)
    {"devices", NUMBER, OF_ALL_DEVICES(device_count)},
    {"guilty", NUMBER, OF_ALL_DEVICES(guilty)},
    {"keys", NUMBER, OF_ALL_DEVICES(keys)},
    {"deferral", DEFERRAL, OF_ALL_DEVICES(deferral)},
    {"feedback", FEEDBACK, OF_ALL_DEVICES(feedback)},
    {"vendor-id", NUMBER, OF_DEVICE(vendor_id)},
    {"device-id", NUMBER, OF_DEVICE(device_id)},
    {"driver-version", NUMBER, OF_DEVICE(driver_version)},
    {"driver-id", NUMBER, OF_DEVICE(driver_id)},
    {"build", NUMBER, OF_DEVICE(build)},
    {"abi", NUMBER, OF_DEVICE(abi)},
    {"payload", NUMBER, OF_DEVICE(payload)},
    {"shared", NUMBER, OF_DEVICE(shared)},
    {"global-key", NUMBER, OF_DEVICE(global_key)},
    {"cache-control", PART, OF_DEVICE(cache_control)},
    {"maintenance5", PART, OF_DEVICE(maintenance5)},
    {"more-pipelines", PART, OF_DEVICE(more_pipelines)},
    {"binaries", PART, OF_DEVICE(binaries)},
    {"internal-cache", YES, OF_DEVICE(internal_cache)},
    {"warm", YES, OF_DEVICE(warm)},
    {"internal-cache-control", YES, OF_DEVICE(internal_cache_control)},
    {"prefers-internal-cache", YES, OF_DEVICE(prefers_internal_cache)},
    {"driver-name", TEXT, OF_DEVICE(driver_name)},
    {"driver-info", TEXT, OF_DEVICE(driver_info)},
    {"uuid", UUID, OF_DEVICE(uuid)},
};
_Static_assert(VK_MAX_DRIVER_NAME_SIZE == VK_MAX_DRIVER_INFO_SIZE, "both texts have the same room");

static uint32_t place_in(const char *const *all, const char *value)
{
    for (uint32_t i = 0; all[i]; i++)
        if (strcmp(value, all[i]) == 0)
            return i;
    wrong_script("no such value", value);
}

static void read_field(void *field, Type type, const char *value)
{
    if (type == TEXT)
        snprintf(field, VK_MAX_DRIVER_NAME_SIZE, "%s", value);
    else if (type == UUID)
        read_uuid(field, value);
    else if (type == NUMBER)
        *(uint32_t *)field = strcmp(value, "process") == 0 ? (uint32_t)getpid() : script_number(value);
    else
        *(uint32_t *)field = place_in(words[type], value);
}

bool settings_read(const char *name, const char *value)
{
    size_t row = 0;
    while (row < sizeof table / sizeof *table && strcmp(name, table[row].name) != 0)
        row++;
    if (row == sizeof table / sizeof *table)
        return false;
    char *first = strdup(value), *second = strchr(first, '/');
    if (second)
        *second++ = '\0';
    char *field = (char *)&settings + table[row].at;
    read_field(field, table[row].type, first);
    bool of_device = table[row].at >= offsetof(DriverSettings, devices);
    for (uint32_t i = 1; of_device && i < MAX_DEVICES; i++)
        if (second || strcmp(name, "device-id") != 0)
            read_field(field + i * sizeof(DeviceSettings), table[row].type, second ? second : first);
    free(first);
    return true;
}

void settings_complete(void)
{
    if (settings.device_count < 1 || settings.device_count > MAX_DEVICES)
        wrong_script("not a number of devices", "devices");
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
