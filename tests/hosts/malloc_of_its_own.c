/*
 * malloc_of_its_own.c - preloaded, as jemalloc and leak checkers are: every block carries a mark in front, and memory
 * that is freed is overwritten before it may be used again.
 *
 * A block that did not come from here, or was written to after it was freed, ends the process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK 0x6d61726b6d61726bull
#define FREED 0x66726565ull

typedef struct Block {
    uint64_t mark;
    size_t size;
} Block;

extern void *__libc_malloc(size_t);

static void *allocate(size_t alignment, size_t size)
{
    if (alignment < 16)
        alignment = 16;
    if (size > SIZE_MAX / 2)
        return NULL;
    char *start = __libc_malloc(size + sizeof(Block) + alignment);
    if (!start)
        return NULL;
    uintptr_t data = ((uintptr_t)start + sizeof(Block) + alignment - 1) / alignment * alignment;
    Block *block = (Block *)data - 1;
    *block = (Block){.mark = MARK, .size = size};
    return (void *)data;
}

static Block *block_of(void *data)
{
    Block *block = (Block *)data - 1;
    if (block->mark != MARK) {
        static const char text[] = "malloc_of_its_own: a block that is not mine\n";
        (void)!write(2, text, sizeof text - 1);
        abort();
    }
    return block;
}

void *malloc(size_t size)
{
    return allocate(16, size);
}

void *calloc(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    void *data = allocate(16, count * size);
    return data ? memset(data, 0, count * size) : NULL;
}

/* Blocks are kept for good and filled with what is no address: whoever still uses one is found out. */
void free(void *data)
{
    if (!data)
        return;
    Block *block = block_of(data);
    memset(data, 0xdb, block->size);
    block->mark = FREED;
}

void *realloc(void *data, size_t size)
{
    if (!data)
        return malloc(size);
    Block *block = block_of(data);
    void *other = allocate(16, size);
    if (!other)
        return NULL;
    memcpy(other, data, block->size < size ? block->size : size);
    free(data);
    return other;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    *out = allocate(alignment, size);
    return *out ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return allocate(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
    return allocate(alignment, size);
}

size_t malloc_usable_size(void *data)
{
    return data ? block_of(data)->size : 0;
}
