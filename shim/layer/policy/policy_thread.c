/*
 * policy_thread.c - one thread a process owns policy: it opens the policy library, which links libpython,
 * and stays in it. The layer itself does not link libpython, because a layer with a missing library
 * vanishes without a word (seen with loaders 1.2.199 to 1.4.359).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/devices.h"
#include "policy/commands.h"
#include "policy/kept_plans.h"
#include "policy/mailbox.h"
#include "policy/policy_thread.h"
#include "process/process.h"

#if !defined(PYLAYER_POLICY_LIBRARY) || !defined(PYLAYER_PRIVATE_PYTHON)
#error "the build names the policy library's file and the private libpython's"
#endif

/* Python's own frames need 32 KiB (measured); reading YAML recurses. */
#define STACK_BYTES (2u << 20)
#define EXIT_FLUSH_NS 1000000000ll
/* vkCreateInstance waits at most so long for the libraries: a program that calls it while the dynamic linker is at work
 * has them opened afterwards. */
#define LIBRARIES_WAIT_NS 100000000ull
#define LIBRARIES_LOOK_NS 100000l

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool started;
/* Policy's libraries are, or will not be. */
static atomic_bool libraries_open;

typedef int (*PolicyRunFn)(const PylayerShim *shim, int python_in_process);

/* Opened with RTLD_LOCAL by the program itself: not visible to dlsym(RTLD_DEFAULT). */
static int find_libpython(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    return name && strncmp(name, "/libpython3", 11) == 0;
}

/*
 * A Python in the program comes before ours wherever symbols are looked up: everything of ours would bind to
 * it, also where the versions differ (measured). RTLD_DEEPBIND turns the order around. Not used otherwise, since
 * it also passes over replacements of malloc and the sanitizers.
 */
static bool program_holds_python(void)
{
    return dlsym(RTLD_DEFAULT, "Py_IsInitialized") || dl_iterate_phdr(find_libpython, NULL);
}

/* The layer's own directory; empty where it is not known. */
static char own_directory[PATH_MAX];

/*
 * The loader may have been given a relative path (VK_ADD_LAYER_PATH). That means another directory, and code of others,
 * as soon as the program goes elsewhere, so it is made absolute on the thread that is in vkCreateInstance. And it may
 * have been given a link: Steam's containers collect the libraries of all layers in one directory, as links to where
 * the rest of the package is (pressure-vessel, runtime.c).
 */
static void find_own_directory(void)
{
    Dl_info self;
    if (!dladdr((void *)(uintptr_t)policy_start, &self) || !self.dli_fname ||
        !realpath(self.dli_fname, own_directory)) {
        *own_directory = '\0';
        return;
    }
    char *slash = strrchr(own_directory, '/');
    *slash = '\0';
}

/* A file that lies below it. */
static bool path_beside_layer(char *path, size_t size, const char *file)
{
    int length = snprintf(path, size, "%s/%s", own_directory, file);
    return *own_directory && length > 0 && (size_t)length < size;
}

/* An interrupted installation leaves a library that is too short, and the dynamic linker answers that with
 * SIGBUS. The section headers stand at the end of the file. A missing file is the linker's to report. */
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
        log_line(PYLAYER_LOG_INFO, "policy cannot start, the layer does nothing: %s is damaged; install pylayer again",
                 path);
        return NULL;
    }
    void *library = open_library(path);
    if (!library)
        log_line(PYLAYER_LOG_INFO, "policy cannot start, the layer does nothing: %s", dlerror());
    return library;
}

/* What policy always imports of extension modules, so that Python opens none of them by itself. */
static void open_extension_modules(void)
{
    static const char *const modules[] = {
        "_private/site/_cffi_backend", "_private/site/xxhash/_xxhash", "_private/site/zstandard/backend_c",
        "_private/dynload/_struct",    "_private/dynload/fcntl",
    };
    const char *suffix = strchr(PYLAYER_POLICY_LIBRARY, '.');
    for (size_t i = 0; suffix && i < sizeof modules / sizeof modules[0]; i++) {
        char file[128], path[PATH_MAX];
        snprintf(file, sizeof file, "%s%s", modules[i], suffix);
        if (path_beside_layer(path, sizeof path, file))
            open_library(path);
    }
}

/*
 * A program that closes all descriptors and opens files of its own may do so between the dynamic linker's open and its
 * mmap on the policy thread: then its file is mapped in the library's place, and SIGBUS ends it (4 of 600 that did so
 * right behind vkCreateInstance). So it gets its instance when the libraries are there. That takes 2 ms (measured),
 * beside the driver's own work.
 */
void policy_wait_for_libraries(void)
{
    uint64_t deadline = now_ns() + LIBRARIES_WAIT_NS;
    while (!atomic_load(&libraries_open) && now_ns() < deadline)
        nanosleep(&(struct timespec){0, LIBRARIES_LOOK_NS}, NULL);
}

static void policy_ended(void)
{
    mailbox_close();
    /* Nothing of the store will come any more. */
    devices_stop_loading();
}

/* Also when a policy ends its thread from inside. */
static void ended(void *unused)
{
    (void)unused;
    policy_ended();
}

/* What isolation.c of the policy library has to know before the interpreter starts. */
static void isolate(void *library)
{
    char ***environment = dlsym(library, "pylayer_environ");
    bool (**another_python)(void) = dlsym(library, "pylayer_another_python");
    void (**at_end)(void) = dlsym(library, "pylayer_policy_ended");
    void (**links)(bool) = dlsym(library, "pylayer_links");
    if (environment)
        *environment = environment_all();
    if (another_python)
        *another_python = program_holds_python;
    if (at_end)
        *at_end = policy_ended;
    if (links)
        *links = process_links;
}

static void *policy_main(void *unused)
{
    (void)unused;
    pthread_cleanup_push(ended, NULL);
    void *library = open_policy_library();
    if (library)
        open_extension_modules();
    atomic_store(&libraries_open, true);
    PolicyRunFn run = library ? (PolicyRunFn)(uintptr_t)dlsym(library, "pylayer_policy_run") : NULL;
    if (library)
        isolate(library);
    /* It looks through the libraries under the dynamic linker's lock, too, which the child of a fork meanwhile would find
     * locked for ever. */
    process_links(true);
    bool python = program_holds_python();
    process_links(false);
    if (run)
        run(&shim_commands, python);
    else if (library)
        log_line(PYLAYER_LOG_INFO, "policy cannot start, the layer does nothing: " PYLAYER_POLICY_LIBRARY
                                   " is not of this build; install pylayer again");
    pthread_cleanup_pop(1);
    /* As the C library does behind the last thread; a policy class has others, which are left. */
    if (mailbox_outlives_program())
        exit(0);
    return NULL;
}

static void start(void)
{
    process_remember();
    if (!process_has_room()) {
        log_line(PYLAYER_LOG_INFO, "too little address space (RLIMIT_AS) for policy; the layer does nothing");
        return;
    }
    find_own_directory();
    kept_plans_start();
    mailbox_open();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* The program's signals are delivered to the program's threads. Those that a thread raises by what it does reach
     * the program's handlers from here too: blocked, they would end the process, and a sandbox may answer system calls
     * in its handler of SIGSYS. */
    static const int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t all, previous;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof raised / sizeof raised[0]; i++)
        sigdelset(&all, raised[i]);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    pthread_t thread;
    int result = pthread_create(&thread, &attributes, policy_main, NULL);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    pthread_attr_destroy(&attributes);
    if (result != 0) {
        log_line(PYLAYER_LOG_INFO, "no thread for policy (%s); the layer does nothing", strerror(result));
        mailbox_close();
        return;
    }
    pthread_setname_np(thread, POLICY_THREAD_NAME);
    started = true;
}

bool policy_start(void)
{
    pthread_once(&once, start);
    return started && mailbox_is_open();
}

static void flush_at_exit(void)
{
    if (!started || process_is_forked_child() || !mailbox_can_be_used() || !devices_can_be_used() || !mailbox_is_open())
        return;
    devices_stop_loading();
    PylayerMessage *message = message_new(PYLAYER_MSG_FLUSH_PROCESS, 0);
    mailbox_request(message, EXIT_FLUSH_NS);
    message_done(message);
    mailbox_close();
    devices_end_commands();
}

/* Handlers run in reverse order, so one registered behind the driver's own runs while the driver is whole. */
void policy_flush_at_exit(void)
{
    static atomic_int registered;
    if (atomic_fetch_add(&registered, 1) < 4)
        atexit(flush_at_exit);
}
