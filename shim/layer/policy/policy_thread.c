/*
 * policy_thread.c - one thread of the process runs policy: it opens the policy library, which links libpython, and
 * stays in it. The layer itself does not link libpython, because the loader silently drops a layer with a missing
 * library (seen with loaders 1.2.199 to 1.4.359).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/devices.h"
#include "policy/policy.h"
#include "mailbox/mailbox.h"
#include "process/process.h"

#include "../../policy/interpreter.h"

#if !defined(PYLAYER_POLICY_LIBRARY) || !defined(PYLAYER_PRIVATE_PYTHON)
#error "the build names the policy library's file and the private libpython's"
#endif

/* Python's own frames need 32 KiB (measured); reading YAML recurses. */
#define STACK_BYTES (2u << 20)
#define EXIT_FLUSH_NS 1000000000ll
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Finds a libpython that the program opened with RTLD_LOCAL, which dlsym(RTLD_DEFAULT) does not see. */
static int find_libpython(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    return name && strncmp(name, "/libpython3", 11) == 0;
}

/*
 * If the program has a Python, its symbols precede ours in every lookup, and all our libraries would bind to it, even
 * if the versions differ (measured). RTLD_DEEPBIND reverses that order. It is not used otherwise, because it also
 * bypasses replacements of malloc and the sanitizers.
 */
static bool program_holds_python(void)
{
    return dlsym(RTLD_DEFAULT, "Py_IsInitialized") || dl_iterate_phdr(find_libpython, NULL);
}

/* The layer's own directory; empty if it is not known. */
static char own_directory[PATH_MAX];

/*
 * The loader may have opened the layer by a relative path (VK_ADD_LAYER_PATH). After a chdir by the program that path
 * means another directory, with somebody else's code. So it is made absolute on the thread that is in
 * vkCreateInstance. The loader may also have opened a link: Steam's containers collect the libraries of all layers in
 * one directory, as links to where the rest of the package is (pressure-vessel, runtime.c).
 */
static void find_own_directory(void)
{
    Dl_info self;
    if (!dladdr((void *)(uintptr_t)policy_flush_at_exit, &self) || !self.dli_fname ||
        !realpath(self.dli_fname, own_directory)) {
        *own_directory = '\0';
        return;
    }
    *strrchr(own_directory, '/') = '\0';
}

/* Writes the path of a file below the layer's own directory. Returns false if that is not known or the path does
 * not fit. */
static bool path_beside_layer(char *path, size_t size, const char *file)
{
    int length = snprintf(path, size, "%s/%s", own_directory, file);
    return *own_directory && length > 0 && (size_t)length < size;
}

/* Returns false if the library is cut short, as by an interrupted installation: the dynamic linker would raise
 * SIGBUS. The section headers are at the end of the file. The linker itself reports a missing file. */
static bool library_is_whole(const char *path)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return true;
    ElfW(Ehdr) header;
    bool whole = fread(&header, sizeof header, 1, file) == 1 && fseek(file, 0, SEEK_END) == 0 &&
                 (uint64_t)ftell(file) >= header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    fclose(file);
    return whole;
}

static void *open_library(const char *path)
{
    process_links(true);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | (program_holds_python() ? RTLD_DEEPBIND : 0));
    process_links(false);
    return library;
}

static void *open_policy_library(void)
{
    static const char *const files[] = {"_private/lib/" PYLAYER_PRIVATE_PYTHON, PYLAYER_POLICY_LIBRARY};
    char path[PATH_MAX] = "";
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (path_beside_layer(path, sizeof path, files[i]) && library_is_whole(path))
            continue;
        log_line(PYLAYER_LOG_INFO, "policy cannot start, so the layer does nothing: %s is damaged; reinstall pylayer",
                 path);
        return NULL;
    }
    void *library = open_library(path);
    if (!library)
        log_line(PYLAYER_LOG_INFO, "policy cannot start, so the layer does nothing: %s", dlerror());
    return library;
}

/* Opens the extension modules that policy always imports, so that Python does not open them later. */
static void open_extension_modules(void)
{
    static const char *const modules[] = {
        "_private/site/_cffi_backend",
        "_private/site/xxhash/_xxhash",
        "_private/dynload/_struct",
        "_private/dynload/fcntl",
    };
    const char *suffix = strchr(PYLAYER_POLICY_LIBRARY, '.');
    for (size_t i = 0; suffix && i < sizeof modules / sizeof modules[0]; i++) {
        char file[128], path[PATH_MAX];
        snprintf(file, sizeof file, "%s%s", modules[i], suffix);
        if (path_beside_layer(path, sizeof path, file))
            open_library(path);
    }
}

/* Runs even if a policy class ends this thread itself. */
static void ended(void *unused)
{
    (void)unused;
    mailbox_close();
}

/* The root directory as it was. After a chroot the paths of policy's libraries lead to somebody else's code. */
static struct stat root_directory;

static bool root_has_changed(void)
{
    struct stat now;
    return stat("/", &now) != 0 || now.st_dev != root_directory.st_dev || now.st_ino != root_directory.st_ino;
}

static void run_policy(void)
{
    void *library = open_policy_library();
    if (library)
        open_extension_modules();
    mailbox_libraries_are_open();
    if (!library)
        return;
    PolicyRunFn run = (PolicyRunFn)(uintptr_t)dlsym(library, "pylayer_policy_run");
    char site[PATH_MAX];
    snprintf(site, sizeof site, "%s", own_directory);
    *strrchr(site, '/') = '\0';
    const IsolatedFrom program = {environment_all(),    environment_get, site,
                                  program_holds_python, mailbox_close,   process_links};
    if (run)
        run(&shim_commands, &program);
    else
        log_line(PYLAYER_LOG_INFO, "policy cannot start, so the layer does nothing: " PYLAYER_POLICY_LIBRARY
                                   " comes from another build; reinstall pylayer");
}

/* The thread that starts policy may have real-time priority, or be bound to one processor. Policy works in the
 * background, on the processors that main may use. */
static void schedule_in_background(void)
{
    const struct sched_param normal = {0};
    cpu_set_t own, of_main;
    int kind = sched_getscheduler(0);
    if (kind == SCHED_FIFO || kind == SCHED_RR)
        sched_setscheduler(0, SCHED_OTHER, &normal);
    if (getpriority(PRIO_PROCESS, 0) < 0)
        setpriority(PRIO_PROCESS, 0, 0);
    if (sched_getaffinity(0, sizeof own, &own) == 0 && sched_getaffinity(getpid(), sizeof of_main, &of_main) == 0 &&
        !CPU_EQUAL(&own, &of_main))
        sched_setaffinity(0, sizeof of_main, &of_main);
}

static void *policy_main(void *unused)
{
    (void)unused;
    schedule_in_background();
    pthread_setname_np(pthread_self(), "pylayer-policy");
    pthread_cleanup_push(ended, NULL);
    run_policy();
    pthread_cleanup_pop(1);
    return NULL; /* the C library calls exit() when a process's last thread ends */
}

/* A message needs policy. The program may have changed its root directory, its user or its limits since
 * vkCreateInstance, and may be in a sandbox. If it is, the layer does without policy from now on. */
static void start(void)
{
    bool moved = root_has_changed();
    int failed = moved ? 0 : thread_start(policy_main, STACK_BYTES);
    if (!moved && failed == 0)
        return;
    log_line(PYLAYER_LOG_INFO, "the policy thread cannot be created (%s); the layer stores nothing in this process",
             moved ? "the root directory has changed" : strerror(failed));
    mailbox_close();
}

/* What has to be done before the program may change its environment, its directories and its user. */
static void prepare(void)
{
    process_remember();
    if (!process_has_room()) {
        log_line(PYLAYER_LOG_INFO, "too little address space (RLIMIT_AS) for policy; the layer does nothing");
        return;
    }
    find_own_directory();
    stat("/", &root_directory);
    mailbox_open(start);
}

bool policy_prepare(void)
{
    pthread_once(&once, prepare);
    return mailbox_is_open();
}

static void flush_at_exit(void)
{
    if (process_is_forked_child())
        return;
    devices_exit_begins();
    if (!mailbox_can_be_used() || !devices_can_be_used())
        return;
    bool done = devices_end_quietly() && !mailbox_tells_exit();
    if (!done) {
        PylayerMessage *message = message_new(PYLAYER_MSG_FLUSH, 0);
        done = mailbox_request(message, EXIT_FLUSH_NS);
        message_done(message);
    }
    mailbox_close();
    devices_end_commands(done);
}

/* Exit handlers run in reverse order, so one registered after the driver's runs before the driver shuts down. */
void policy_flush_at_exit(void)
{
    static atomic_int registered;
    if (atomic_fetch_add(&registered, 1) < 4)
        atexit(flush_at_exit);
}
