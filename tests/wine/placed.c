/* placed.c - an LD_PRELOAD library, in front of mesa-drm-shim's
 *
 * Wine maps memory below 4 GiB for a 32-bit program in a 64-bit process (VK_EXT_map_memory_placed). mesa-drm-shim ignores
 * the address, so what it maps is moved there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>

typedef void *mmap_fn(void *, size_t, int, int, int, off_t);

static void *placed(const char *name, void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    mmap_fn *next = (mmap_fn *)dlsym(RTLD_NEXT, name);
    if (!(flags & MAP_FIXED) || file < 0)
        return next(address, size, protection, flags, file, offset);
    void *at = next(address, size, protection, flags & ~MAP_FIXED, file, offset);
    return at == MAP_FAILED ? at : mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, address);
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    return placed("mmap", address, size, protection, flags, file, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    return placed("mmap64", address, size, protection, flags, file, offset);
}
