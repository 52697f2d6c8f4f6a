/* replay.c - see fuzz.h. Runs the inputs in the files that it is given, and those that a number names. */
#include <stdio.h>

#define die(...) (fprintf(stderr, __VA_ARGS__), exit(2))
#include "../../files.h"
#include "fuzz.h"

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
