/* limits.c - what setrlimit takes away, and the filters of sandboxes, written by hand. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    int resource;
} resources[] = {
    {"as", RLIMIT_AS},       {"nproc", RLIMIT_NPROC},     {"nofile", RLIMIT_NOFILE},
    {"fsize", RLIMIT_FSIZE}, {"memlock", RLIMIT_MEMLOCK},
};

static void limit(int resource, rlim_t value)
{
    struct rlimit now;
    getrlimit(resource, &now);
    now.rlim_cur = value;
    if (setrlimit(resource, &now))
        die("setrlimit failed");
}

/* The soft limit of a resource. */
static void step_limit(char **arguments)
{
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++)
        if (strcmp(resources[i].name, arguments[0]) == 0) {
            limit(resources[i].resource, (rlim_t)atoll(arguments[1]));
            say("limit of %s", arguments[0]);
            return;
        }
    die("no resource '%s'", arguments[0]);
}

static long address_space_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (!file || fscanf(file, "%ld", &pages) != 1)
        die("no /proc/self/statm");
    fclose(file);
    return pages * 4;
}

/* So many KiB more than the process has now. */
static void step_spare_memory(char **arguments)
{
    limit(RLIMIT_AS, (rlim_t)(address_space_kib() + atol(arguments[0])) << 10);
    say("little memory");
}

/* ---- what filters refuse, and how ---------------------------------------------------------------- */

static const struct {
    const char *name;
    int calls[12];
} groups[] = {
    /* Files by name, as a process that does everything through a broker has it. */
    {"open", {SYS_open, SYS_openat, SYS_creat, SYS_rename, SYS_renameat, SYS_unlink, SYS_unlinkat, SYS_mkdir, -1}},
    {"thread", {SYS_clone, SYS_clone3, SYS_fork, SYS_vfork, -1}},
    {"signals", {SYS_rt_sigpending, SYS_rt_sigtimedwait, -1}},
    {"socket", {SYS_socket, SYS_connect, SYS_bind, -1}},
    {"sync", {SYS_fsync, SYS_fdatasync, SYS_dup, SYS_fstat, SYS_newfstatat, -1}},
    {"stat", {SYS_stat, SYS_fstat, SYS_lstat, SYS_newfstatat, SYS_statx, SYS_getdents64, -1}},
};

static void install(const int *calls, unsigned action)
{
    struct sock_filter program[32] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    unsigned short used = 1;
    for (const int *call = calls; *call >= 0; call++) {
        program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)*call, 0, 1);
        program[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    program[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = used, .filter = program};
    /* For all threads of the process, as sandboxes do that are entered late. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter))
        die("no seccomp: %s", strerror(errno));
}

/* The program's own handler answers, as a sandbox with a broker has it. */
static void answer(int number, siginfo_t *info, void *context)
{
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EACCES;
}

/* refuse GROUP, and by other names with another answer */
static void step_refuse(char **arguments)
{
    static const struct {
        const char *step;
        unsigned action;
    } answers[] = {
        {"refuse", SECCOMP_RET_ERRNO | EPERM},
        {"forbid", SECCOMP_RET_KILL_PROCESS},    /* as Chromium's sandbox: the process ends */
        {"unknown", SECCOMP_RET_ERRNO | ENOSYS}, /* as old kernels; a C library then tries the older call */
        {"no-more", SECCOMP_RET_ERRNO | EAGAIN},
        {"trap", SECCOMP_RET_TRAP},
    };
    const struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    size_t how = 0, which = 0;
    while (strcmp(answers[how].step, arguments[-1]) != 0)
        how++;
    while (which < sizeof groups / sizeof groups[0] && strcmp(groups[which].name, arguments[0]) != 0)
        which++;
    if (which == sizeof groups / sizeof groups[0])
        die("no group '%s'", arguments[0]);
    if (answers[how].action == SECCOMP_RET_TRAP)
        sigaction(SIGSYS, &action, NULL);
    install(groups[which].calls, answers[how].action);
    say("sandbox: no %s", arguments[0]);
}

const Step limit_steps[] = {
    {"limit", 2, step_limit},    {"spare-memory", 1, step_spare_memory},
    {"refuse", 1, step_refuse},  {"forbid", 1, step_refuse},
    {"unknown", 1, step_refuse}, {"no-more", 1, step_refuse},
    {"trap", 1, step_refuse},    {0},
};
