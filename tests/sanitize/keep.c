/*
 * keep.c - for LD_PRELOAD: what a sanitizer has to know of when the process ends.
 *
 * Libraries stay. ThreadSanitizer's atexit() forgets which library registered a handler, so the handlers of a driver
 * that the loader has closed would be called at exit() where its code no longer is. LeakSanitizer names what lies at an
 * address when the process ends, which for a driver that was closed is another library.
 *
 * LeakSanitizer does not look into memory from mmap(). Python has its objects and the frames of its functions there. If
 * the process ends while policy is at work, they hold the message. So Python's memory is looked into.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

int dlclose(void *library)
{
    return 0;
}

#ifdef LEAKS
/* LeakSanitizer's. Not in programs that are not instrumented. */
__attribute__((weak)) void __lsan_register_root_region(const void *address, size_t size);

typedef void *(*MapFn)(void *, size_t, int, int, int, off64_t);

/* For the private libpython only, which calls it by this name: memory that a sanitizer's runtime maps is no root. */
void *mmap64(void *address, size_t size, int access, int flags, int fd, off64_t offset)
{
    MapFn next = (MapFn)dlsym(RTLD_NEXT, "mmap64");
    void *result = next(address, size, access, flags, fd, offset);
    Dl_info caller;
    if (__lsan_register_root_region && result != MAP_FAILED && (flags & MAP_ANONYMOUS) &&
        dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "libpylayer-python"))
        __lsan_register_root_region(result, size);
    return result;
}
#endif
