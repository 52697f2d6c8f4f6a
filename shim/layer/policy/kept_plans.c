/*
 * kept_plans.c - reuses a plan that policy made earlier for the very same request.
 *
 * The interpreter needs 7 ms to make its first plan, and the program would wait for it in vkCreateDevice. A plan of
 * the built-in policy depends only on the program, the device, the policy files and this build. So policy keeps it in
 * the store, and the layer reads it from there without waiting for Python.
 *
 * A plan's file name is the digest of the key, which is all of these as bytes. A plan that no rule affected is kept
 * for all programs, under the digest of the part of the key that precedes the program. The file is the XXH3-128 of its
 * own name and the rest, then PylayerKept.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/kept_plans.h"

#include "policy/policy_files.h"
#include "process/program_name.h"
#include "process/process.h"
#include "process/trusted.h"

#include "../../../build/build_id.h"

#define MAX_KEY_BYTES (sizeof(PylayerDeviceInfo) + 5 * PATH_BYTES)

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

static void name_plan(char name[PYLAYER_PLAN_NAME_BYTES], const uint8_t *key, size_t size)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    char hex[DIGEST_HEX_BYTES];
    digest128(key, size, digest);
    digest_hex(hex, digest);
    snprintf(name, PYLAYER_PLAN_NAME_BYTES, "%s.plan", hex);
}

void kept_plans_describe(PylayerMessage *message)
{
    const PolicyFiles *policy = policy_files();
    /* A plan that was made from a file could be found by runs that see no file. */
    const char *executable = executable_name();
    Key key = {.bytes = executable && policy && policy->known ? malloc(MAX_KEY_BYTES) : NULL};
    if (!key.bytes)
        return;
    PylayerDeviceInfo device = message->info;
    memset(&device.instance, 0, sizeof device.instance);
    add(&key, &device, sizeof device);
    add(&key, PYLAYER_BUILD_ID, sizeof PYLAYER_BUILD_ID);
    for (int which = 0; which < POLICY_FILES; which++) {
        add(&key, policy->files[which].path, strlen(policy->files[which].path) + 1);
        add(&key, &policy->files[which].state, sizeof policy->files[which].state);
    }
    size_t general_size = key.size;
    add(&key, &message->info.instance, sizeof message->info.instance);
    add(&key, executable, strlen(executable) + 1);
    if (key.size <= MAX_KEY_BYTES) {
        name_plan(message->plan_name, key.bytes, key.size);
        name_plan(message->general_plan_name, key.bytes, general_size);
    }
    free(key.bytes);
}

#define PLAN_FILE_BYTES (PYLAYER_DIGEST_BYTES + sizeof(PylayerKept))

static bool is_whole(const char *name, const uint8_t file[PLAN_FILE_BYTES])
{
    uint8_t sealed[PYLAYER_PLAN_NAME_BYTES + sizeof(PylayerKept)], digest[PYLAYER_DIGEST_BYTES];
    size_t length = strlen(name);
    memcpy(sealed, name, length); /* NOLINT(bugprone-not-null-terminated-result): it has a size */
    memcpy(sealed + length, file + PYLAYER_DIGEST_BYTES, sizeof(PylayerKept));
    digest128(sealed, length + sizeof(PylayerKept), digest);
    return memcmp(digest, file, sizeof digest) == 0;
}

static bool find(const char *root, const char *name, PylayerKept *kept)
{
    char directory[PATH_BYTES + 8];
    snprintf(directory, sizeof directory, "%s/plans", root);
    size_t size = 0;
    uint8_t *file = (uint8_t *)read_all(open_in_store(directory, name), PLAN_FILE_BYTES, 0, &size);
    bool found = file && size == PLAN_FILE_BYTES && is_whole(name, file);
    if (found)
        memcpy(kept, file + PYLAYER_DIGEST_BYTES, sizeof *kept);
    free(file);
    return found;
}

bool kept_plans_find(const PylayerMessage *message, PylayerKept *kept, bool *unrecorded)
{
    char root[PATH_BYTES], path[PATH_BYTES + 48];
    uint64_t program;
    store_root_path(root);
    *unrecorded = false;
    if (!*message->plan_name || !*root || !is_own_root(root) ||
        !(find(root, message->general_plan_name, kept) || find(root, message->plan_name, kept)))
        return false;
    if (kept->plan.record_state && program_id(message->info.instance.application_name, &program)) {
        snprintf(path, sizeof path, "%s/state/%016" PRIx64 ".unrecorded", root, program); /* file_kinds.UNRECORDED */
        *unrecorded = access(path, F_OK) == 0;
    }
    return true;
}
