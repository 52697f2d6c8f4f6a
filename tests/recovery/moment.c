/*
 * moment.c - runs a program and makes one of its system calls go wrong.
 *
 *   moment LOG APART [THREAD.CALL[.NAME] ACTION] -- PROGRAM [ARGUMENT]...
 *
 * Calls are counted from the moment when the program opens the layer's library, for each thread by itself, in all
 * threads and children; threads have numbers in the order in which they are made, from 0. Calls on files below the
 * directory APART and on the standard streams do not count. LOG gets a line for each call: the thread, the number of
 * the call, its name, what it is about. A line 'synced' names the device and the inode of a file that was synced.
 *
 * With NAME the action happens at the first call of this name from this number on: runs of one program differ by some
 * calls, and half of the third argument of mprotect takes away the right to write.
 *
 * ACTION  error:NAME          the call is not made and fails with this errno
 *         short:ERRNO         half of the bytes are read or written
 *         torn                half of the bytes are written, then the process is killed
 *         kill, abort, exit   SIGKILL, SIGABRT, _exit(0) in place of the call
 *
 * The exit status is the program's; 128 and the signal's number if it was killed; 125 if the call never came.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- System calls ----------------------------------------------------------------------------------- */

/* What a call is about: a path, a path below a descriptor, a descriptor, or nothing that has a name. */
typedef enum { PATH, BELOW, FILE_, NOTHING } About;

typedef struct {
    long number;
    const char *name;
    About about;
} Call;
#define AT_PATH(name) {SYS_##name, #name, PATH}
#define AT_BELOW(name) {SYS_##name, #name, BELOW}
#define ON_FILE(name) {SYS_##name, #name, FILE_}
#define UNNAMED(name) {SYS_##name, #name, NOTHING}
static const Call calls[] = {
#ifdef __x86_64__
    AT_PATH(open),
    AT_PATH(stat),
    AT_PATH(lstat),
    AT_PATH(access),
    AT_PATH(rename),
    AT_PATH(mkdir),
    AT_PATH(rmdir),
    AT_PATH(unlink),
    AT_PATH(readlink),
    AT_PATH(link),
    AT_PATH(symlink),
    AT_PATH(chmod),
    UNNAMED(fork),
    UNNAMED(vfork),
#endif
    AT_BELOW(openat),
    AT_BELOW(newfstatat),
    AT_BELOW(statx),
    AT_BELOW(faccessat),
    AT_BELOW(faccessat2),
    AT_BELOW(renameat),
    AT_BELOW(renameat2),
    AT_BELOW(mkdirat),
    AT_BELOW(unlinkat),
    AT_BELOW(readlinkat),
    AT_BELOW(linkat),
    AT_BELOW(fchmodat),
    AT_BELOW(utimensat),
    ON_FILE(read),
    ON_FILE(pread64),
    ON_FILE(readv),
    ON_FILE(preadv),
    ON_FILE(write),
    ON_FILE(pwrite64),
    ON_FILE(writev),
    ON_FILE(pwritev),
    ON_FILE(pwritev2),
    ON_FILE(close),
    ON_FILE(fstat),
    ON_FILE(lseek),
    ON_FILE(getdents64),
    ON_FILE(fcntl),
    ON_FILE(ftruncate),
    ON_FILE(fallocate),
    ON_FILE(fsync),
    ON_FILE(fdatasync),
    ON_FILE(syncfs),
    ON_FILE(sync_file_range),
    ON_FILE(flock),
    ON_FILE(fstatfs),
    ON_FILE(ioctl),
    ON_FILE(fchmod),
    ON_FILE(dup),
    ON_FILE(sendfile),
    ON_FILE(copy_file_range),
    AT_PATH(statfs),
    UNNAMED(memfd_create),
    UNNAMED(mmap),
    UNNAMED(mprotect),
    UNNAMED(mremap),
    UNNAMED(madvise),
    UNNAMED(mlock),
    UNNAMED(clone),
    UNNAMED(clone3),
    AT_PATH(execve),
    UNNAMED(pipe2),
    UNNAMED(eventfd2),
    UNNAMED(socket),
    UNNAMED(getrandom),
    UNNAMED(prlimit64),
    UNNAMED(sigaltstack)};
enum { CALL_COUNT = sizeof calls / sizeof *calls };

static const Call *call_of(long number)
{
    for (size_t i = 0; i < CALL_COUNT; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

/* ---- The registers of a thread that is about to make a call ------------------------------------------- */

#ifdef __x86_64__
typedef struct user_regs_struct Registers;
#define ARGUMENT_0(r) (r)->rdi
#define ARGUMENT_1(r) (r)->rsi
#define ARGUMENT_2(r) (r)->rdx
#define RESULT(r) (r)->rax

static long number_of(pid_t thread, const Registers *registers)
{
    return (long)registers->orig_rax;
}

static void set_number(pid_t thread, Registers *registers, long number)
{
    registers->orig_rax = (unsigned long long)number;
}
#elif defined __aarch64__
typedef struct user_regs_struct Registers;
#define ARGUMENT_0(r) (r)->regs[0]
#define ARGUMENT_1(r) (r)->regs[1]
#define ARGUMENT_2(r) (r)->regs[2]
#define RESULT(r) (r)->regs[0]

static long number_of(pid_t thread, const Registers *registers)
{
    return (long)registers->regs[8];
}

static void set_number(pid_t thread, Registers *registers, long number)
{
    int value = (int)number;
    struct iovec piece = {&value, sizeof value};
    ptrace(PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &piece);
}
#else
#error "no registers of this processor"
#endif

static void get_registers(pid_t thread, Registers *registers)
{
    struct iovec piece = {registers, sizeof *registers};
    ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &piece);
}

static void set_registers(pid_t thread, Registers *registers)
{
    struct iovec piece = {registers, sizeof *registers};
    ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &piece);
}

/* ---- What is asked for -------------------------------------------------------------------------------- */

typedef enum { NONE, ERROR, SHORT, TORN, KILL, ABORT, EXIT } Action;

static struct {
    int thread;
    long call;
    const char *name; /* "": any call */
    Action action;
    int error;
    bool came;
} wanted = {.thread = -1, .name = ""};
static FILE *logged;
static const char *apart;
static bool counting;
static pid_t program;

static void read_action(const char *place, const char *action)
{
    static const char *const names[] = {"", "error", "short", "torn", "kill", "abort", "exit"};
    int used = 0;
    if (sscanf(place, "%d.%ld%n", &wanted.thread, &wanted.call, &used) != 2 || (place[used] && place[used] != '.'))
        goto wrong;
    wanted.name = place + used + (place[used] == '.');
    size_t length = strcspn(action, ":");
    for (size_t i = ERROR; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(names[i], action, length) == 0)
            wanted.action = (Action)i;
    for (int error = 1; wanted.action == ERROR && error < 134; error++)
        if (strerrorname_np(error) && action[length] && strcmp(action + length + 1, strerrorname_np(error)) == 0)
            wanted.error = error;
    if (wanted.action != NONE && (wanted.action == ERROR) == (wanted.error != 0))
        return;
wrong:
    fprintf(stderr, "moment: no such moment: %s %s\n", place, action);
    exit(125);
}

/* ---- Threads ------------------------------------------------------------------------------------------ */

enum { MAX_THREADS = 4096 };
typedef struct {
    pid_t id;
    long calls;
    long result;  /* what a call returns that was made and is said to have failed; 0: as it is */
    bool dies;    /* after this call */
    uint64_t cut; /* address of a struct iovec that was cut, with the length that it had; 0: none */
    uint64_t full;
} Thread;
static Thread threads[MAX_THREADS];
static int thread_count;

static Thread *thread_of(pid_t id)
{
    for (int i = thread_count - 1; i >= 0; i--)
        if (threads[i].id == id)
            return &threads[i];
    if (thread_count == MAX_THREADS) {
        fputs("moment: too many threads\n", stderr);
        exit(125);
    }
    threads[thread_count] = (Thread){.id = id};
    return &threads[thread_count++];
}

/* ---- One call ----------------------------------------------------------------------------------------- */

static void read_text(pid_t thread, uint64_t address, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t used = 0; address && used + 1 < size;) {
        /* Not beyond a page, which may be the last one. */
        size_t wish = 256 - (address + used) % 256;
        if (wish > size - 1 - used)
            wish = size - 1 - used;
        struct iovec to = {text + used, wish}, from = {(void *)(uintptr_t)(address + used), wish};
        ssize_t got = process_vm_readv(thread, &to, 1, &from, 1, 0);
        if (got <= 0)
            break;
        used += (size_t)got;
        text[used] = '\0';
        if (strlen(text) < used)
            return;
    }
}

static void name_of_file(pid_t thread, int file, char *name, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, file);
    ssize_t length = readlink(link, name, size - 1);
    name[length > 0 ? length : 0] = '\0';
}

static void name_of_call(pid_t thread, const Call *call, const Registers *registers, char *name, size_t size)
{
    char path[PATH_MAX];
    name[0] = '\0';
    if (call->about == PATH)
        read_text(thread, ARGUMENT_0(registers), name, size);
    if (call->about == FILE_)
        name_of_file(thread, (int)ARGUMENT_0(registers), name, size);
    if (call->about != BELOW)
        return;
    read_text(thread, ARGUMENT_1(registers), path, sizeof path);
    if (path[0] != '/' && (int)ARGUMENT_0(registers) != AT_FDCWD) {
        name_of_file(thread, (int)ARGUMENT_0(registers), name, size);
        size_t used = strlen(name);
        snprintf(name + used, size - used, "/%s", path);
    } else {
        snprintf(name, size, "%s", path);
    }
}

static bool opens_to_write(const Call *call, const Registers *registers)
{
    return call->number == SYS_openat && (ARGUMENT_2(registers) & (O_ACCMODE | O_CREAT));
}

static void log_synced(pid_t thread, int file)
{
    char link[64];
    struct stat found;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, file);
    if (stat(link, &found) == 0)
        fprintf(logged, "synced %lu %lu\n", (unsigned long)found.st_dev, (unsigned long)found.st_ino);
}

/* Halves the bytes of a call that reads or writes. Returns false if there are less than two. */
static bool make_short(Thread *thread, const Call *call, Registers *registers)
{
    if (strchr(call->name, 'v') == NULL) {
        if (ARGUMENT_2(registers) < 2)
            return false;
        ARGUMENT_2(registers) /= 2;
        set_registers(thread->id, registers);
        return true;
    }
    if (ARGUMENT_2(registers) > 1) {
        ARGUMENT_2(registers) /= 2;
        set_registers(thread->id, registers);
        return true;
    }
    thread->cut = ARGUMENT_1(registers) + offsetof(struct iovec, iov_len);
    thread->full = (uint64_t)ptrace(PTRACE_PEEKDATA, thread->id, thread->cut, 0);
    ptrace(PTRACE_POKEDATA, thread->id, thread->cut, thread->full / 2);
    return true;
}

/* True if what is asked for happens at this call. */
static bool is_wanted(const Thread *thread, const Call *call)
{
    if (wanted.came || thread - threads != wanted.thread)
        return false;
    if (!wanted.name[0])
        return thread->calls == wanted.call;
    return thread->calls >= wanted.call && strcmp(call->name, wanted.name) == 0;
}

/* Does what is asked for with the call that the thread is about to make. Returns how the thread goes on. */
static int strike(Thread *thread, const Call *call, Registers *registers)
{
    wanted.came = true;
    switch (wanted.action) {
    case ERROR:
        if (call->number == SYS_close) {
            thread->result = -wanted.error; /* The kernel closes the descriptor whatever it returns. */
            return PTRACE_SYSCALL;
        }
        set_number(thread->id, registers, -1);
        RESULT(registers) = (unsigned long long)-(long long)wanted.error;
        set_registers(thread->id, registers);
        return PTRACE_CONT;
    case SHORT:
    case TORN:
        thread->dies = wanted.action == TORN;
        return make_short(thread, call, registers) || thread->dies ? PTRACE_SYSCALL : PTRACE_CONT;
    case EXIT:
        set_number(thread->id, registers, SYS_exit_group);
        ARGUMENT_0(registers) = 0;
        set_registers(thread->id, registers);
        return PTRACE_CONT;
    case ABORT:
        set_number(thread->id, registers, -1);
        RESULT(registers) = (unsigned long long)-(long long)EINTR;
        set_registers(thread->id, registers);
        syscall(SYS_tgkill, program, thread->id, SIGABRT);
        return PTRACE_CONT;
    default:
        kill(program, SIGKILL);
        return PTRACE_CONT;
    }
}

static int before_call(Thread *thread)
{
    Registers registers;
    get_registers(thread->id, &registers);
    const Call *call = call_of(number_of(thread->id, &registers));
    char name[PATH_MAX + 256];
    if (!call)
        return PTRACE_CONT;
    name_of_call(thread->id, call, &registers, name, sizeof name);
    counting = counting || strstr(name, "/libVkLayer_pylayer") != NULL;
    bool standard = call->about == FILE_ && (int)ARGUMENT_0(&registers) <= STDERR_FILENO;
    if (!counting || standard || strncmp(name, apart, strlen(apart)) == 0)
        return PTRACE_CONT;
    if (call->number == SYS_fsync || call->number == SYS_fdatasync)
        log_synced(thread->id, (int)ARGUMENT_0(&registers));
    thread->calls++;
    fprintf(logged, "%d.%ld %s%s %s\n", (int)(thread - threads), thread->calls, call->name,
            opens_to_write(call, &registers) ? "+" : "", name);
    return is_wanted(thread, call) ? strike(thread, call, &registers) : PTRACE_CONT;
}

/* PTRACE_SYSCALL stops a thread before the call, too, after seccomp's stop: only the end of the call matters. */
static int after_call(Thread *thread)
{
    struct {
        uint8_t op;
        uint8_t rest[127];
    } info = {0};
    ptrace(PTRACE_GET_SYSCALL_INFO, thread->id, sizeof info, &info);
    if (info.op != PTRACE_SYSCALL_INFO_EXIT)
        return PTRACE_SYSCALL;
    if (thread->cut)
        ptrace(PTRACE_POKEDATA, thread->id, thread->cut, thread->full);
    thread->cut = 0;
    if (thread->dies)
        kill(program, SIGKILL);
    if (thread->result) {
        Registers registers;
        get_registers(thread->id, &registers);
        RESULT(&registers) = (unsigned long long)thread->result;
        set_registers(thread->id, &registers);
        thread->result = 0;
    }
    return PTRACE_CONT;
}

/* ---- The program -------------------------------------------------------------------------------------- */

static void filter_calls(void)
{
    struct sock_filter code[CALL_COUNT + 3];
    size_t used = 0;
    code[used++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALL_COUNT; i++)
        code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number,
                                                    (unsigned char)(CALL_COUNT - i), 0);
    code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog filter = {(unsigned short)used, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        perror("moment: seccomp");
        _exit(125);
    }
}

static void start(char **command)
{
    program = fork();
    if (program == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        filter_calls();
        execvp(command[0], command);
        perror(command[0]);
        _exit(125);
    }
    int status;
    if (program < 0 || waitpid(program, &status, 0) < 0 || !WIFSTOPPED(status)) {
        perror("moment: ptrace");
        exit(125);
    }
    thread_of(program);
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    ptrace(PTRACE_SETOPTIONS, program, 0, options);
    ptrace(PTRACE_CONT, program, 0, 0);
}

static void went_on(pid_t id, int status)
{
    int event = status >> 16, how = PTRACE_CONT, stop = WSTOPSIG(status);
    long passed = 0;
    if (event == PTRACE_EVENT_SECCOMP) {
        how = before_call(thread_of(id));
    } else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
        unsigned long made = 0;
        ptrace(PTRACE_GETEVENTMSG, id, 0, &made);
        thread_of((pid_t)made);
    } else if (stop == (SIGTRAP | 0x80)) {
        how = after_call(thread_of(id));
    } else if (event == 0 && stop != SIGSTOP) {
        passed = stop;
    }
    ptrace(how, id, 0, passed);
}

int main(int argc, char **argv)
{
    int at = argc > 3 && strcmp(argv[3], "--") == 0 ? 3 : 5;
    if (argc <= at + 1 || strcmp(argv[at], "--") != 0) {
        fputs("usage: moment LOG APART [THREAD.CALL[.NAME] ACTION] -- PROGRAM [ARGUMENT]...\n", stderr);
        return 125;
    }
    if (at == 5)
        read_action(argv[3], argv[4]);
    apart = argv[2];
    logged = fopen(argv[1], "we");
    if (!logged) {
        perror(argv[1]);
        return 125;
    }
    start(argv + at + 1);
    int status, ended = 125;
    for (pid_t id; (id = waitpid(-1, &status, __WALL)) > 0;) {
        if (WIFSTOPPED(status))
            went_on(id, status);
        else if (id == program)
            ended = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    fclose(logged);
    return wanted.thread >= 0 && !wanted.came ? 125 : ended;
}
