/* policy_files.c - see policy.h */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/policy.h"
#include "process/log.h"

#include "../../../build/layer_tables.h"

/* The largest policy file that pylayer/common/paths.py reads. */
#define MAX_POLICY_BYTES (1u << 20)
/* The largest copy read here. Policy reads larger ones. */
#define MAX_COPY_BYTES (1u << 20)

static void read_file(int which, PolicyFile *file)
{
    struct stat found;
    size_t size = 0;
    if (!*file->path)
        return;
    bool there = stat(file->path, &found) == 0;
    if (!there && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return;
    int fd = there ? open_own_file(file->path) : -1;
    bool refused = there && fd < 0 && which == SYSTEM_POLICY && (errno == EPERM || errno == EACCES);
    char *content = read_all(fd, MAX_POLICY_BYTES, 0, &size);
    file->found = content ? CONFIG_READ : refused ? CONFIG_REFUSED : CONFIG_FAILED;
    if (refused)
        log_line(PYLAYER_LOG_WARN,
                 "%s is not used: this user cannot read it, or others than root can write to it or its directory",
                 file->path);
    if (!content)
        return;
    digest128(content, size, file->digest);
    free(content);
    file->seconds = (uint64_t)found.st_mtim.tv_sec;
    file->nanoseconds = (uint64_t)found.st_mtim.tv_nsec;
}

/* Reads the compiled copy, which pylayer/common/compiled.py names. */
static void read_copy(PolicyFiles *policy)
{
    static const char suffix[] = COPY_NAME_SUFFIX;
    uint8_t digest[PYLAYER_DIGEST_BYTES], text[POLICY_FILES * sizeof digest + sizeof suffix - 1];
    char directory[PATH_BYTES], name[DIGEST_NAME_BYTES];
    for (int which = 0; which < POLICY_FILES; which++)
        memcpy(text + which * sizeof digest, policy->files[which].digest, sizeof digest);
    memcpy(text + POLICY_FILES * sizeof digest, suffix, sizeof suffix - 1);
    digest128(text, sizeof text, digest);
    digest_name(name, digest, ".flat");
    store_path(directory, "/policy");
    if (*directory)
        policy->copy = read_all(open_in_store(directory, name), MAX_COPY_BYTES, 0, &policy->copy_size);
}

static pthread_once_t files_once = PTHREAD_ONCE_INIT;
static PolicyFiles files_of_process;

static void read_for_process(void)
{
    PolicyFiles *policy = &files_of_process;
    policy->known = policy->none = true;
    for (int which = 0; which < POLICY_FILES; which++) {
        config_file_path(which, policy->files[which].path);
        read_file(which, &policy->files[which]);
        policy->known &= policy->files[which].found != CONFIG_FAILED;
        policy->none &= policy->files[which].found != CONFIG_FAILED && policy->files[which].found != CONFIG_READ;
    }
    if (policy->known && !policy->none)
        read_copy(policy);
}

const PolicyFiles *policy_files(void)
{
    pthread_once(&files_once, read_for_process);
    return &files_of_process;
}
