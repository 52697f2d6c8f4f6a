/* source.c - see fuzz.h. With -DREPLAY, main() where the compiler has no libFuzzer: runs the inputs in the files that it is
 * given, and those that a number names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define die(...) (fprintf(stderr, __VA_ARGS__), exit(2))
#include "../../files.h"
#include "source.h"

static const uint8_t *next;
static size_t left;
static struct Room {
    struct Room *older;
    void *memory;
} *rooms;

_Noreturn void broken(const char *file, int line, const char *said)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, said);
    abort();
}

void source_open(const uint8_t *data, size_t size)
{
    next = data;
    left = size;
}

void source_close(void)
{
    while (rooms) {
        struct Room *older = rooms->older;
        free(rooms->memory);
        free(rooms);
        rooms = older;
    }
}

bool source_is_empty(void)
{
    return left == 0;
}

uint8_t take8(void)
{
    if (left == 0)
        return 0;
    left--;
    return *next++;
}

uint32_t take32(void)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | take8();
    return value;
}

uint64_t take64(void)
{
    uint64_t high = take32();
    return high << 32 | take32();
}

uint32_t below(uint32_t limit)
{
    return limit ? take8() % limit : 0;
}

bool chance(unsigned of_16)
{
    return left && 16u - (take8() & 15u) <= of_16;
}

void *room(size_t size)
{
    struct Room *made = malloc(sizeof *made);
    if (!made || !(made->memory = calloc(1, size)))
        abort();
    made->older = rooms;
    rooms = made;
    return made->memory;
}

void *anywhere(void)
{
    return (void *)(uintptr_t)0x10;
}

void *array(size_t count, size_t size)
{
    return count ? room(count * size) : anywhere();
}

void *bytes(size_t size)
{
    uint8_t *memory = array(size, 1);
    for (size_t i = 0; i < size; i++)
        memory[i] = take8();
    return memory;
}

void touch(const void *data, size_t size)
{
    const volatile uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        (void)bytes[i];
}

#ifdef REPLAY
static void run_file(const char *path)
{
    size_t size;
    uint8_t *data = read_file(path, &size);
    if (!data)
        die("no %s", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

/* So many inputs of bytes at random, the same each time. */
static void run_random(unsigned long inputs)
{
    uint64_t state = 0x9e3779b97f4a7c15ull;
    uint8_t data[2048];
    for (unsigned long i = 0; i < inputs; i++) {
        for (size_t j = 0; j < sizeof data; j++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            data[j] = (uint8_t)(state >> 32);
        }
        LLVMFuzzerTestOneInput(data, 64 + (size_t)(state % (sizeof data - 64)));
    }
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--random") == 0 && i + 1 < argc) {
            run_random(strtoul(argv[++i], NULL, 10));
            continue;
        }
        run_file(argv[i]);
        files++;
    }
    printf("%d files\n", files);
    return 0;
}
#endif
