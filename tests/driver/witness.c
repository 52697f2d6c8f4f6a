/* Which bytes the driver gave out, in this process and in those before it, and what was done that must not be. */
#include "driver.h"

#include <fcntl.h>
#include <inttypes.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIVEN "given "

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
/* What was given out, as a tree of pointers that are digests. */
static void *known;

static int compare(const void *one, const void *other)
{
    return ((uintptr_t)one > (uintptr_t)other) - ((uintptr_t)one < (uintptr_t)other);
}

void wrong_script(const char *what, const char *where)
{
    /* A test that injects nothing would pass. */
    fprintf(stderr, "test driver: %s: %s\n", what, where);
    abort();
}

__attribute__((constructor(101))) static void open_file(void)
{
    const char *path = getenv("PYLAYER_TEST_DRIVER_WITNESS");
    if (!path || !*path)
        return;
    file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0)
        wrong_script("PYLAYER_TEST_DRIVER_WITNESS cannot be written", path);
}

/* One write a line, so that the lines of threads and processes do not mix. */
static void write_line(const char *line, size_t length)
{
    if (file >= 0 && write(file, line, length) != (ssize_t)length)
        abort(); /* the next process would report what is right */
}

void violation(const char *format, ...)
{
    char line[512] = "VIOLATION ";
    const size_t start = strlen(line), room = sizeof line - 2 - start;
    va_list arguments;
    va_start(arguments, format);
    size_t length = (size_t)vsnprintf(line + start, room, format, arguments);
    va_end(arguments);
    length = start + (length < room ? length : room - 1);
    line[length++] = '\n';
    count(COUNT_VIOLATIONS, 1);
    write_line(line, length);
}

/* What this process and others have appended since the last time: whole lines. */
static void read_file_locked(void)
{
    static off_t position;
    char text[8192];
    ssize_t got;
    while ((got = pread(file, text, sizeof text - 1, position)) > 0) {
        char *line = text, *end;
        text[got] = '\0';
        while ((end = strchr(line, '\n')) != NULL) {
            if (strncmp(line, GIVEN, strlen(GIVEN)) == 0)
                tsearch((void *)(uintptr_t)strtoull(line + strlen(GIVEN), NULL, 16), &known, compare);
            line = end + 1;
        }
        if (line == text)
            return;
        position += line - text;
    }
}

/* Of the bytes with the identity of the driver that gave them out. */
static uint64_t name_of(uint64_t identity, const void *key, const void *data, size_t size)
{
    Hash name = hash_start(key != NULL);
    hash_number(&name, identity);
    if (key)
        hash_bytes(&name, key, KEY_BYTES);
    hash_bytes(&name, data, size);
    return hash_compacted(&name);
}

void given_out(uint64_t identity, const void *key, const void *data, size_t size)
{
    uint64_t name = name_of(identity, key, data, size);
    char line[64];
    if (file < 0)
        return;
    pthread_mutex_lock(&lock);
    read_file_locked();
    if (!tfind((void *)(uintptr_t)name, &known, compare))
        write_line(line, (size_t)snprintf(line, sizeof line, GIVEN "%016" PRIx64 "\n", name));
    pthread_mutex_unlock(&lock);
}

bool was_given_out(uint64_t identity, const void *key, const void *data, size_t size)
{
    if (file < 0)
        return true;
    uint64_t name = name_of(identity, key, data, size);
    pthread_mutex_lock(&lock);
    read_file_locked();
    bool found = tfind((void *)(uintptr_t)name, &known, compare) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

void note_device(const VkDeviceCreateInfo *info, VkResult result)
{
    char line[2048];
    const VkDevicePipelineBinaryInternalCacheControlKHR *control =
        in_chain(info->pNext, VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR);
    size_t length = (size_t)snprintf(line, sizeof line, "device result=%d %schain=", result,
                                     control && control->disableInternalCache ? "internal-cache=off " : "");
    for (const VkBaseInStructure *node = info->pNext; node && length < 512; node = node->pNext)
        if (node->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO)
            length += (size_t)snprintf(line + length, sizeof line - length, "%d,", (int)node->sType);
    length += (size_t)snprintf(line + length, sizeof line - length, " extensions=");
    for (uint32_t i = 0; i < info->enabledExtensionCount && length < sizeof line - 300; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, "%s,", info->ppEnabledExtensionNames[i]);
    line[length++] = '\n';
    write_line(line, length);
}
