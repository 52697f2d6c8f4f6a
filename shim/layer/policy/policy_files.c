/* policy_files.c - see policy_files.h */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/policy_files.h"
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
    if (!content)
        return;
    digest128(content, size, file->digest);
    free(content);
    file->seconds = (uint64_t)found.st_mtim.tv_sec;
    file->nanoseconds = (uint64_t)found.st_mtim.tv_nsec;
}

/* Writes the name of the policy files' copy, as pylayer/common/compiled.py names it. */
static void name_copy(char name[DIGEST_HEX_BYTES + 5], const PolicyFile files[POLICY_FILES])
{
    static const char suffix[] = COPY_NAME_SUFFIX;
    uint8_t digest[PYLAYER_DIGEST_BYTES], text[POLICY_FILES * sizeof digest + sizeof suffix - 1];
    for (int which = 0; which < POLICY_FILES; which++)
        memcpy(text + which * sizeof digest, files[which].digest, sizeof digest);
    memcpy(text + POLICY_FILES * sizeof digest, suffix, sizeof suffix - 1);
    digest128(text, sizeof text, digest);
    digest_hex(name, digest);
    memcpy(name + 2 * sizeof digest, ".flat", sizeof ".flat");
}

static void read_files(PolicyFiles *policy)
{
    char name[DIGEST_HEX_BYTES + 5];
    policy->known = policy->none = true;
    for (int which = 0; which < POLICY_FILES; which++) {
        read_file(which, &policy->files[which]);
        policy->known &= policy->files[which].found != CONFIG_FAILED;
        policy->none &= policy->files[which].found != CONFIG_FAILED && policy->files[which].found != CONFIG_READ;
    }
    name_copy(name, policy->files);
    if (policy->known && !policy->none && *policy->directory)
        policy->copy = read_all(open_in_store(policy->directory, name), MAX_COPY_BYTES, 0, &policy->copy_size);
}

static pthread_once_t files_once = PTHREAD_ONCE_INIT;
static PolicyFiles *files_of_process;

static void read_for_process(void)
{
    PolicyFiles *policy = calloc(1, sizeof *policy);
    if (!policy)
        return;
    for (int which = 0; which < POLICY_FILES; which++)
        config_file_path(which, policy->files[which].path);
    store_root_path(policy->directory);
    if (*policy->directory)
        memcpy(policy->directory + strlen(policy->directory), "/policy", sizeof "/policy");
    read_files(policy);
    files_of_process = policy;
}

const PolicyFiles *policy_files(void)
{
    pthread_once(&files_once, read_for_process);
    return files_of_process;
}

void policy_files_say_refused(void)
{
    const PolicyFiles *policy = policy_files();
    if (policy && policy->files[SYSTEM_POLICY].found == CONFIG_REFUSED)
        log_line(PYLAYER_LOG_WARN,
                 "%s is not used: this user cannot read it, or others than root can write to it or its directory",
                 policy->files[SYSTEM_POLICY].path);
}
