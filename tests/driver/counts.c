/* Counters in a mapped file: whatever becomes of the process, they are right. */
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    char name[24];
    atomic_ullong value;
} Record;

enum { RECORDS = COUNTER_COUNT + COMMAND_COUNT };

static Record own[RECORDS];
static Record *records = own;

#define NAME_OF(name, text) text,
const char *const command_names[COMMAND_COUNT] = {COMMANDS(NAME_OF)};
static const char *const counter_names[COUNTER_COUNT] = {COUNTERS(NAME_OF)};

static void *map_file(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, sizeof own) != 0)
        return NULL;
    void *mapped = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

__attribute__((constructor(101))) static void open_counts(void)
{
    const char *path = getenv("PYLAYER_TEST_DRIVER_COUNTS");
    if (path && *path)
        records = map_file(path);
    if (!records)
        wrong_script("PYLAYER_TEST_DRIVER_COUNTS cannot be written", path);
    for (int i = 0; i < RECORDS; i++)
        snprintf(records[i].name, sizeof records[i].name, "%s",
                 i < COUNTER_COUNT ? counter_names[i] : command_names[i - COUNTER_COUNT]);
}

void count(Counter counter, uint64_t by)
{
    atomic_fetch_add_explicit(&records[counter].value, by, memory_order_relaxed);
}

int counter_of(const char *name)
{
    for (int i = 0; i < RECORDS; i++)
        if (strcmp(name, i < COUNTER_COUNT ? counter_names[i] : command_names[i - COUNTER_COUNT]) == 0)
            return i;
    return -1;
}

uint64_t value_of(int counter)
{
    return atomic_load(&records[counter].value);
}

void count_call(Command command)
{
    atomic_fetch_add_explicit(&records[COUNTER_COUNT + command].value, 1, memory_order_relaxed);
}
