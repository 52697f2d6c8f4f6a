/* files.c - descriptors that the program closes and uses again, directories that it leaves. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_DESCRIPTORS 4096

static struct {
    dev_t device;
    ino_t inode;
} own[MOST_DESCRIPTORS];
static char own_directory[2048];

static int descriptor_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur < MOST_DESCRIPTORS ? (int)limit.rlim_cur : MOST_DESCRIPTORS;
}

static void step_close_from(char **arguments)
{
    say("closed %ld", syscall(SYS_close_range, (unsigned)atoi(arguments[0]), ~0u, 0));
}

static void content_of(int fd, char *content)
{
    snprintf(content, 64, "this is file %d of the program\n", fd);
}

/* A file of the program's own for each descriptor that is free. */
static void step_own_files(char **arguments)
{
    snprintf(own_directory, sizeof own_directory, "%s", arguments[0]);
    mkdir(own_directory, 0700);
    for (int fd;;) {
        char path[4096], content[64];
        snprintf(path, sizeof path, "%s/new", own_directory);
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 && errno == EMFILE)
            break;
        if (fd < 0 || fd >= MOST_DESCRIPTORS)
            die("cannot open %s: %s", path, strerror(errno));
        char name[4096];
        snprintf(name, sizeof name, "%s/%d", own_directory, fd);
        content_of(fd, content);
        struct stat status;
        if (rename(path, name) || write(fd, content, strlen(content)) < 0 || fstat(fd, &status))
            die("cannot write %s", name);
        own[fd].device = status.st_dev;
        own[fd].inode = status.st_ino;
    }
    say("all descriptors are the program's");
}

/* Closes the highest of them, so that others find numbers. */
static void step_free_some(char **arguments)
{
    int left = atoi(arguments[0]);
    for (int fd = MOST_DESCRIPTORS - 1; fd > 2 && left; fd--)
        if (own[fd].inode) {
            close(fd);
            own[fd].inode = 0;
            left--;
        }
}

/* Each is open, is the same file, and holds what the program wrote. */
static void step_check_files(char **unused)
{
    int wrong = 0, right = 0;
    for (int fd = 3; fd < descriptor_limit(); fd++) {
        if (!own[fd].inode)
            continue;
        struct stat status;
        char content[64], found[128] = "";
        content_of(fd, content);
        if (fstat(fd, &status) || status.st_ino != own[fd].inode || status.st_dev != own[fd].device) {
            fprintf(stderr, "descriptor %d is not the program's any more\n", fd);
            wrong++;
        } else if (pread(fd, found, sizeof found - 1, 0) < 0 || strcmp(found, content) != 0) {
            fprintf(stderr, "file %d has %ld bytes that are not the program's\n", fd, (long)status.st_size);
            wrong++;
        } else {
            right++;
        }
    }
    say("own files: %d wrong%s", wrong, right ? "" : ", none there");
}

/* As a daemon does: its first three descriptors become files of its own. */
static void step_data_as_stderr(char **arguments)
{
    close(2);
    int fd = open(arguments[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
    say("stderr is now descriptor %d", fd);
}

/* As a daemon with a file of messages does. */
static void step_append_stderr(char **arguments)
{
    int fd = open(arguments[0], O_WRONLY | O_CREAT | O_APPEND, 0600);
    say("stderr: %d", dup2(fd, 2));
    close(fd);
}

/* To descriptors that may not be open. */
static void step_shout(char **unused)
{
    static const char text[] = "shouted by the program\n";
    for (int i = 0; i < 2000; i++)
        for (int fd = 0; fd < 3; fd++) {
            (void)!write(fd, text, sizeof text - 1);
        }
}

/* On standard error: without the layer it is another answer. */
static int is_named(struct dl_phdr_info *info, size_t size, void *wanted)
{
    return info->dlpi_name && strstr(info->dlpi_name, wanted) != NULL;
}

/* Not by /proc, which a chroot takes away. */
static void step_mapped(char **arguments)
{
    fprintf(stderr, "%s is %smapped\n", arguments[0], dl_iterate_phdr(is_named, arguments[0]) ? "" : "not ");
}

/* As Wine maps a Windows program. */
static void step_map(char **arguments)
{
    if (mmap(NULL, 1, PROT_READ, MAP_PRIVATE, open(arguments[0], O_RDONLY), 0) == MAP_FAILED)
        die("%s: %s", arguments[0], strerror(errno));
}

static void step_chdir(char **arguments)
{
    say("chdir %d", chdir(arguments[0]));
}

static void step_chroot(char **arguments)
{
    say("chroot %d", chroot(arguments[0]) || chdir("/"));
}

const Step file_steps[] = {
    {"close-from", 1, step_close_from},
    {"own-files", 1, step_own_files},
    {"free-some", 1, step_free_some},
    {"check-files", 0, step_check_files},
    {"data-as-stderr", 1, step_data_as_stderr},
    {"append-stderr", 1, step_append_stderr},
    {"shout", 0, step_shout},
    {"map", 1, step_map},
    {"mapped", 1, step_mapped},
    {"chdir", 1, step_chdir},
    {"chroot", 1, step_chroot},
    {0},
};
