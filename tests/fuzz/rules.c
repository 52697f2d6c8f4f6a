/*
 * rules.c - what the layer reads without an interpreter, by itself: skip.c, program_name.c and trusted.c
 * of shim/layer, under sanitizers.
 *
 * Commands on standard input, a letter and byte strings, each with its length in front (4 bytes, little-endian); for
 * each a line on standard output. libFuzzer calls one of them with what it made (built with -DFUZZER).
 *    g PATTERN TEXT                             1 or 0: whether the glob matches
 *    n DIRECTORY -                              the name of a process's program, as hexadecimal digits
 *    o PATH -                                   1 or 0: whether open_own_file opens it
 *    i DIRECTORY NAME                           whether open_in_store does
 *    r PATH -, d PATH -                         is_own_root, is_own_directory
 *    c BUILT_IN EXECUTABLE APPLICATION ENGINE COPY    0, 1 or 2: enum PylayerSkip by a compiled copy (BUILT_IN: "1" or "")
 */
#define _GNU_SOURCE
#include "../../shim/layer/process/digest.c"
#include "../../shim/layer/process/program_name.c"
#include "../../shim/layer/policy/policy_files.c"
#include "../../shim/layer/instance/skip.c"
#include "../../shim/layer/process/trusted.c"

bool log_enabled(enum PylayerLogLevel level)
{
    return false;
}

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
}

const char *environment_get(const char *name)
{
    return getenv(name);
}

#ifdef FUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy is believed after its digest alone, so it gets the right one. */
    char *copy = malloc(PYLAYER_DIGEST_BYTES + size);
    digest128(data, size, (uint8_t *)copy);
    memcpy(copy + PYLAYER_DIGEST_BYTES, data, size);
    const SkipProgram program = {.texts = {"a\xc3\xa4*", "name", ""}, .sizes = {4, 4, 0}};
    skip_by_copy(copy, PYLAYER_DIGEST_BYTES + size, &program, size & 1);
    free(copy);
    size_t half = size / 2;
    char *pattern = malloc(half + 1), *text = malloc(size - half + 1);
    memcpy(pattern, data, half);
    memcpy(text, data + half, size - half);
    glob_matches(pattern, half, text, size - half);
    free(pattern);
    free(text);
    return 0;
}
#else
/* Each in memory of just its size, so that a byte read behind it is reported. */
typedef struct Bytes {
    char *data;
    size_t size;
} Bytes;

static void print_name(const Bytes *process)
{
    static char name[NAME_ROOM];
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.*s", (int)process->size, process->data);
    pylayer_program_name(name, path);
    for (size_t i = 0; name[i]; i++)
        printf("%02x", (uint8_t)name[i]);
    printf("\n");
}

static enum PylayerSkip decide_by(const Bytes *parts)
{
    SkipProgram program;
    for (size_t i = 0; i < SKIP_CONDITIONS; i++) {
        program.texts[i] = parts[i + 1].data;
        program.sizes[i] = parts[i + 1].size;
    }
    return skip_by_copy(parts[4].data, parts[4].size, &program, parts[0].size > 0);
}

static bool is_trusted(int command, const Bytes *parts)
{
    char path[PATH_BYTES], name[PATH_BYTES];
    snprintf(path, sizeof path, "%.*s", (int)parts[0].size, parts[0].data);
    snprintf(name, sizeof name, "%.*s", (int)parts[1].size, parts[1].data);
    if (command == 'r' || command == 'd')
        return command == 'r' ? is_own_root(path) : is_own_directory(path);
    int fd = command == 'o' ? open_own_file(path) : open_in_store(path, name);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool read_bytes(Bytes *bytes)
{
    uint32_t size;
    if (fread(&size, sizeof size, 1, stdin) != 1)
        return false;
    bytes->size = size;
    bytes->data = malloc(size);
    return !size || fread(bytes->data, size, 1, stdin) == 1;
}

int main(void)
{
    for (int command; (command = getchar()) != EOF;) {
        Bytes parts[5];
        size_t count = command == 'c' ? 5 : 2;
        for (size_t i = 0; i < count; i++)
            if (!read_bytes(&parts[i]))
                return 1;
        if (command == 'g')
            printf("%d\n", glob_matches(parts[0].data, parts[0].size, parts[1].data, parts[1].size));
        else if (command == 'n')
            print_name(&parts[0]);
        else if (command != 'c')
            printf("%d\n", is_trusted(command, parts));
        else
            printf("%d\n", decide_by(parts));
        for (size_t i = 0; i < count; i++)
            free(parts[i].data);
    }
    return 0;
}
#endif
