/*
 * decisions.c - see decisions.h.
 *
 * Without stored decisions each run would wait for the interpreter in vkCreateDevice. What the built-in policy decides
 * depends only on the program, the device, the policy files, this build, and what earlier runs learned. So policy keeps
 * it in the store (pylayer/store/decisions.py). The file's name is the digest of all but the last of these. The
 * decision itself says from which `.verdict` files it was compiled (index_read_folder).
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "policy/decisions.h"

#include "policy/policy_files.h"
#include "process/program_name.h"

#include "../../../build/build_id.h"

_Static_assert(PYLAYER_ADDED_CALLS == PYLAYER_MARK_END - PYLAYER_MARK_ADDED, "each call has its mask");

typedef struct Key {
    PylayerDeviceInfo info;
    char build[sizeof PYLAYER_BUILD_ID];
    uint8_t files[PYLAYER_DIGEST_BYTES], executable[PYLAYER_DIGEST_BYTES];
} Key;

void decision_describe(PylayerMessage *message)
{
    Key key;
    const PolicyFiles *policy = policy_files();
    const char *executable = executable_name();
    /* Policy may yet read a file that could not be read here. Runs that cannot read it must not find its decision. */
    if (!policy || !policy->known)
        return;
    memset(&key, 0, sizeof key);
    memcpy(&key.info, &message->info, sizeof key.info);
    memcpy(key.build, PYLAYER_BUILD_ID, sizeof key.build);
    digest128(policy->files, sizeof policy->files, key.files);
    digest128(executable, strlen(executable), key.executable);
    digest128(&key, sizeof key, message->decision_key);
}

/* Takes the content of a file: the XXH3-128 of the rest, then the decision without the unused end of `blocked`. */
static bool take(const uint8_t *file, size_t size, PylayerDecision *out)
{
    const size_t least = offsetof(PylayerDecision, blocked);
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    if (!file || size < sizeof digest + least)
        return false;
    size -= sizeof digest;
    digest128(file + sizeof digest, size, digest);
    memcpy(out, file + sizeof digest, size);
    return memcmp(digest, file, sizeof digest) == 0 && out->blocked_count == (size - least) / sizeof *out->blocked;
}

static bool read_decision(const char *root, const uint8_t key[PYLAYER_DIGEST_BYTES], PylayerDecision *out)
{
    char directory[PATH_BYTES + 8], name[DIGEST_HEX_BYTES + 5];
    size_t size = 0;
    snprintf(directory, sizeof directory, "%s/plans", root);
    digest_hex(name, key);
    memcpy(name + DIGEST_HEX_BYTES - 1, ".plan", sizeof ".plan");
    char *file = read_all(open_in_store(directory, name), PYLAYER_DIGEST_BYTES + sizeof *out, 0, &size);
    /* The clock that was read when the decision was made may have been wrong. */
    bool valid = take((const uint8_t *)file, size, out) && memcmp(out->key, key, sizeof out->key) == 0 &&
                 (uint64_t)time(NULL) - out->valid_from_s < out->valid_s;
    free(file);
    if (!valid)
        memset(out, 0, sizeof *out);
    return valid;
}

bool decision_find(const PylayerMessage *message, PylayerDecision *decision, bool *unrecorded)
{
    static const uint8_t none[PYLAYER_DIGEST_BYTES];
    char root[PATH_BYTES], path[PATH_BYTES + 48];
    store_root_path(root);
    *unrecorded = false;
    if (memcmp(message->decision_key, none, sizeof none) == 0 || !*root || !is_own_root(root) ||
        !read_decision(root, message->decision_key, decision))
        return false;
    snprintf(path, sizeof path, "%s/state/%016" PRIx64 ".unrecorded", root, /* file_kinds.UNRECORDED */
             message->info.instance.program_id);
    *unrecorded = decision->plan.record_state && access(path, F_OK) == 0;
    return true;
}
