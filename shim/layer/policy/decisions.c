/*
 * decisions.c - see policy.h.
 *
 * Without stored decisions each run would wait for the interpreter in vkCreateDevice. What the built-in policy decides
 * depends only on the program, the device, the policy files, this build, and what earlier runs learned. So policy keeps
 * it in the store (pylayer/store/decisions.py). The file's name is the digest of all but the last of these. The
 * decision itself says from which `.verdict` files it was compiled (index_read_folder).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "policy/policy.h"
#include "process/program_name.h"

#include "../../../build/build_id.h"

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
    if (!policy->known)
        return; /* policy keeps no decision under a key of zeros */
    memset(&key, 0, sizeof key);
    memcpy(&key.info, &message->info, sizeof key.info);
    memcpy(key.build, PYLAYER_BUILD_ID, sizeof key.build);
    digest128(policy->files, sizeof policy->files, key.files);
    digest128(executable, strlen(executable), key.executable);
    digest128(&key, sizeof key, message->decision_key);
}

/* A file has the XXH3-128 of the rest, then the decision without the unused end of `blocked`. */
static bool read_decision(const uint8_t key[PYLAYER_DIGEST_BYTES], PylayerDecision *out)
{
    const size_t least = offsetof(PylayerDecision, blocked), head = PYLAYER_DIGEST_BYTES;
    char directory[PATH_BYTES], name[DIGEST_NAME_BYTES];
    size_t size = 0;
    store_path(directory, "/plans");
    digest_name(name, key, ".plan");
    char *file = read_all(open_in_store(directory, name), head + sizeof *out, 0, &size);
    bool valid = file && size >= head + least && digest_leads(file, size);
    if (valid)
        memcpy(out, file + head, size - head);
    /* The clock that was read when the decision was made may have been wrong. */
    valid = valid && out->blocked_count == (size - head - least) / sizeof *out->blocked &&
            memcmp(out->key, key, sizeof out->key) == 0 && (uint64_t)time(NULL) - out->valid_from_s < out->valid_s;
    free(file);
    if (!valid)
        memset(out, 0, sizeof *out);
    return valid;
}

bool decision_find(const PylayerMessage *message, PylayerDecision *decision, bool *unrecorded)
{
    char root[PATH_BYTES], path[PATH_BYTES + 48];
    store_path(root, "");
    *unrecorded = false;
    if (!*root || !is_own_root(root) || !read_decision(message->decision_key, decision))
        return false;
    snprintf(path, sizeof path, "%s/state/%016" PRIx64 ".unrecorded", root, /* file_kinds.UNRECORDED */
             message->info.instance.program_id);
    *unrecorded = decision->plan.record_state && access(path, F_OK) == 0;
    return true;
}
