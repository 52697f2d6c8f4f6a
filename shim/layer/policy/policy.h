/* policy.h - policy's thread, the functions that it calls, and what it decided earlier */
#ifndef PYLAYER_POLICY_H
#define PYLAYER_POLICY_H

#include "base.h"
#include "process/trusted.h"

/* ---- policy_thread.c: finds and runs the policy library ------------------------------------------ */

/* Opens the mailbox, once in this process; its first message that needs policy then starts policy's thread. Call it in
 * vkCreateInstance, on the program's thread. Returns false if policy cannot run here; the log says why. */
bool policy_prepare(void);
/* Call it after a device was created. If the program calls exit() without vkDestroyDevice, what is still queued is
 * then written. */
void policy_flush_at_exit(void);

/* ---- commands.c --------------------------------------------------------------------------------- */

extern const PylayerShim shim_commands;

/* ---- decisions.c: finds what policy decided earlier for the very same request ------------------------- */

/* Fills in the key of this request's decision. It stays zero if policy must be asked each time. */
void decision_describe(PylayerMessage *message);
/* Returns false, with zeros in *decision, unless a decision is stored that is undamaged, valid now, and in a directory
 * that only this user can write to. *unrecorded: its plan records state, which an earlier run left unrecorded. */
bool decision_find(const PylayerMessage *message, PylayerDecision *decision, bool *unrecorded);

/* ---- policy_files.c: the policy files as this process found them, before policy reads them ------------- */

enum ConfigFile {
    CONFIG_NONE,
    CONFIG_READ,
    CONFIG_REFUSED, /* the system's, which this user cannot read or trust: it counts as none */
    CONFIG_FAILED,  /* the user's likewise; or an error keeps from being known what there is */
};

/* Which policy file it is: the same one on another file system, such as in another container, is no other. The time is
 * part of it, because policy may read the file long after the digest was made: if somebody changed it in between and
 * later changes it back, the decision that was made meanwhile must not be found. */
typedef struct PolicyFile {
    char path[PATH_BYTES];
    uint64_t seconds, nanoseconds;        /* zeros, as the digest, unless it was read */
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* of its content */
    enum ConfigFile found;
} PolicyFile;

typedef struct PolicyFiles {
    PolicyFile files[POLICY_FILES];
    bool known; /* false: one could not be used */
    bool none;  /* there is no policy file */
    char *copy; /* the compiled copy (pylayer/common/compiled.py), not checked; NULL if there is none */
    size_t copy_size;
} PolicyFiles;

/* Reads them once, in the first vkCreateInstance. If a file changes afterwards, policy keeps its decision under a key
 * that no later process has. */
const PolicyFiles *policy_files(void);

#endif
