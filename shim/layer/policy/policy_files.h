/* policy_files.h - the policy files as this process found them, before policy reads them */
#ifndef PYLAYER_POLICY_FILES_H
#define PYLAYER_POLICY_FILES_H

#include "process/digest.h"
#include "process/trusted.h"

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
    char directory[PATH_BYTES + 8];
    char *copy; /* the compiled copy (pylayer/common/compiled.py), not checked; NULL if there is none */
    size_t copy_size;
} PolicyFiles;

/* Reads them once, in the first vkCreateInstance. If a file changes afterwards, policy keeps its decision under a key
 * that no later process has. Returns NULL if memory is short. */
const PolicyFiles *policy_files(void);
/* Says in the log if the system's is not used. */
void policy_files_say_refused(void);

#endif
