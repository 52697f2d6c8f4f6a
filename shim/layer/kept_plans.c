/*
 * kept_plans.c - plans that policy made before, for the very same request.
 *
 * The interpreter needs 7 ms to make its first plan, and the program would wait for it in vkCreateDevice. A plan
 * of the built-in policy depends on nothing but the program, the device, the policy file and this build, so
 * policy keeps it in the store, and the layer takes it from there: Python decided, C carries it once more.
 *
 * The key holds all of these as bytes and is compared whole; a plan that no rule made is kept under the part in
 * front of the program, for all programs. A file is
 *    0  Q  magic "PYLPLAN1"
 *    8  Q  bytes of the plan
 *   16  Q  bytes of the key
 *   24  Q  FNV-1a of plan and key
 *   32     plan (PylayerPlan), then key
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layer.h"
#include "layer_settings.h"
#include "process.h"
#include "trusted.h"

#define KEPT_COMMAND_LINE_BYTES 4096
#define MAX_KEY_BYTES (sizeof(PylayerDeviceInfo) + LAYER_SETTINGS_BYTES + KEPT_COMMAND_LINE_BYTES + 3 * PATH_BYTES)

/* What is known of a file without reading it: any change of content, owner or mode changes its ctime. */
typedef struct FileState {
    uint64_t device, inode, size, seconds, nanoseconds;
} FileState;

typedef struct PlanFile {
    uint64_t magic, plan_size, key_size, checksum;
} PlanFile;

/* Taken when policy starts, before it reads the policy file: a change in between leads to a key that no later
 * process has. */
static FileState policy_file_state;
static char policy_file[PATH_BYTES];

static uint64_t fnv1a(uint64_t hash, const void *data, size_t size)
{
    for (const uint8_t *byte = data, *end = byte + size; byte < end; byte++)
        hash = (hash ^ *byte) * 0x100000001b3ull;
    return hash;
}

#define FNV_START 0xcbf29ce484222325ull

static FileState state_of(const char *path)
{
    struct stat found;
    if (!*path || stat(path, &found) != 0)
        return (FileState){0};
    return (FileState){found.st_dev, found.st_ino, (uint64_t)found.st_size, (uint64_t)found.st_ctim.tv_sec,
                       (uint64_t)found.st_ctim.tv_nsec};
}

void kept_plans_start(void)
{
    config_file_path(policy_file);
    policy_file_state = state_of(policy_file);
}

typedef struct Key {
    uint8_t *bytes;
    size_t size;
} Key;

static void add(Key *key, const void *data, size_t size)
{
    if (key->size <= MAX_KEY_BYTES && size <= MAX_KEY_BYTES - key->size)
        memcpy(key->bytes + key->size, data, size);
    key->size += size;
}

/* The program: what it runs, with what arguments; rules match names made from these. */
static void add_program(Key *key)
{
    char text[KEPT_COMMAND_LINE_BYTES];
    ssize_t length = readlink("/proc/thread-self/exe", text, sizeof text);
    add(key, text, length > 0 ? (size_t)length : 0);
    add(key, "", 1);
    int fd = open("/proc/thread-self/cmdline", O_RDONLY | O_CLOEXEC);
    length = fd >= 0 ? read(fd, text, sizeof text) : 0;
    add(key, text, length > 0 ? (size_t)length : 0);
    add(key, "", 1);
    if (fd >= 0)
        close(fd);
}

/* This build: a library that was installed anew is another file. */
static void add_build(Key *key)
{
    Dl_info self;
    FileState state = {0};
    if (dladdr((void *)(uintptr_t)kept_plans_start, &self) && self.dli_fname)
        state = state_of(self.dli_fname);
    add(key, &state, sizeof state);
}

static void name_plan(char *name, const uint8_t *key, size_t size)
{
    snprintf(name, PYLAYER_PLAN_NAME_BYTES, "%016llx.plan", (unsigned long long)fnv1a(FNV_START, key, size));
}

void kept_plans_describe(PylayerMessage *message)
{
    Key key = {.bytes = malloc(MAX_KEY_BYTES)};
    if (!key.bytes)
        return;
    PylayerDeviceInfo device = message->info;
    memset(&device.instance, 0, sizeof device.instance);
    add(&key, &device, sizeof device);
    add_build(&key);
    add(&key, policy_file, strlen(policy_file) + 1);
    add(&key, &policy_file_state, sizeof policy_file_state);
    const char *settings = message->layer_settings ? message->layer_settings : "";
    add(&key, settings, strlen(settings) + 1);
    size_t general_size = key.size;
    add(&key, &message->info.instance, sizeof message->info.instance);
    add_program(&key);
    if (key.size > MAX_KEY_BYTES) {
        free(key.bytes);
        return;
    }
    message->plan_key = key.bytes;
    message->plan_key_size = key.size;
    message->general_plan_key_size = general_size;
    name_plan(message->plan_name, key.bytes, key.size);
    name_plan(message->general_plan_name, key.bytes, general_size);
}

/* Whole file into memory, if it is no larger than a plan can be. */
static uint8_t *read_plan(const char *directory, const char *name, size_t *size)
{
    size_t largest = sizeof(PlanFile) + sizeof(PylayerPlan) + MAX_KEY_BYTES;
    return (uint8_t *)read_all(open_in_store(directory, name), largest, 0, size);
}

static bool find(const char *root, const char *name, const uint8_t *key, size_t key_size, PylayerPlan *plan)
{
    char directory[PATH_BYTES + 8];
    snprintf(directory, sizeof directory, "%s/plans", root);
    size_t size = 0;
    uint8_t *data = read_plan(directory, name, &size);
    PlanFile file;
    if (!data || size < sizeof file) {
        free(data);
        return false;
    }
    memcpy(&file, data, sizeof file);
    const uint8_t *body = data + sizeof file;
    bool found = file.magic == PYLAYER_PLAN_MAGIC && file.plan_size == sizeof *plan && file.key_size == key_size &&
                 size == sizeof file + sizeof *plan + key_size &&
                 file.checksum == fnv1a(FNV_START, body, size - sizeof file) &&
                 memcmp(body + sizeof *plan, key, key_size) == 0;
    if (found)
        memcpy(plan, body, sizeof *plan);
    free(data);
    return found;
}

bool kept_plans_find(const PylayerMessage *message, PylayerPlan *plan)
{
    char root[PATH_BYTES];
    store_root_path(root);
    const uint8_t *key = message->plan_key;
    return *root && key &&
           (find(root, message->general_plan_name, key, message->general_plan_key_size, plan) ||
            find(root, message->plan_name, key, message->plan_key_size, plan));
}
