/* run_file.c - see run_file.h. What a run's file says is settings text, as pylayer/common/flat.py reads it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/process.h"
#include "../../../build/run_names.h"
#include "store/run_file.h"

#define SESSION_BYTES 64 /* of pylayer run --summary; a longer text is nobody's */

_Static_assert(sizeof counter_names / sizeof *counter_names == COUNTERS, "each counter has a name");
_Static_assert(sizeof kind_names / sizeof *kind_names == PYLAYER_KIND_COUNT, "each kind has a name");

/* Not as %f: its decimal point is the program's locale's. */
static void write_time(FILE *out, const char *key, uint64_t microseconds)
{
    fprintf(out, "%s=f:%llu.%06llu\n", key, (unsigned long long)microseconds / 1000000,
            (unsigned long long)microseconds % 1000000);
}

static void write_start(FILE *out, const Run *run)
{
    const char *session = environment_get("PYLAYER_SESSION");
    if (session && strcspn(session, "%\r\n") == strlen(session) && strlen(session) <= SESSION_BYTES)
        fprintf(out, "session=s:%s\n", session);
    fprintf(out, "started_ns=i:%llu\n", (unsigned long long)run->begun_ns);
    write_time(out, "started", (wall_clock_ns() - (now_ns() - run->begun_ns)) / 1000);
}

static void write_counters(FILE *out, const Counters *counters)
{
    Counters sums;
    uint64_t numbers[COUNTERS];
    counters_add_up(counters, &sums);
    memcpy(numbers, &sums.totals, sizeof numbers);
    for (size_t i = 0; i < COUNTERS; i++)
        fprintf(out, "counters.%s=i:%llu\n", counter_names[i], (unsigned long long)numbers[i]);
    for (unsigned kind = 0; kind < PYLAYER_KIND_COUNT; kind++)
        if (sums.kind_hits[kind])
            fprintf(out, "kinds.%s.hits=i:%llu\n", kind_names[kind], (unsigned long long)sums.kind_hits[kind]);
}

/* Returns text of this size, malloc'd; NULL if memory is short. It lacks what the run has counted, and its end. */
static char *describe_run(const Store *store, size_t *size)
{
    static const char *const modes[] = {"off", "cells", "binaries", "observe"};
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    write_start(out, store->run);
    fprintf(out, "%.*smode=s:%s\nfeedback=b:%d\n", PYLAYER_ABOUT_BYTES, store->kept.about,
            modes[atomic_load(&store->run->mode)], store->driver->feedback);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Adds what was counted and how the run ended to a run's file. A file that is missing gets this header, and what
 * describe_run returned. */
static void write_run(const char *run_name, FileHeader header, const char *about, size_t about_size,
                      const Counters *counters, uint64_t ended)
{
    char directory[PATH_BYTES + 8], name[PYLAYER_RUN_NAME_BYTES + 8], *text = NULL;
    size_t size = 0;
    store_root_path(directory);
    FILE *out = *directory ? open_memstream(&text, &size) : NULL;
    if (!out)
        return;
    memcpy(directory + strlen(directory), "/runs", sizeof "/runs");
    snprintf(name, sizeof name, "%s.run", run_name);
    uint64_t salt = header.salt;
    bool begun = own_file_is_there(directory, name, &salt); /* by policy, which knows more */
    if (!begun)
        fwrite(about, 1, about_size, out);
    write_counters(out, counters);
    if (ended)
        write_time(out, "ended", ended);
    else
        fputs("died=b:1\n", out);
    memcpy(header.kind, "RUNS", sizeof header.kind);
    file_header_seal(&header);
    if (fclose(out) == 0)
        own_file_add(directory, name, begun ? NULL : &header, salt,
                     (RecordHeader){.magic = {'N', 'O', 'T', 'E'}, .size = size}, text);
    free(text);
}

void run_file_write(Store *store)
{
    size_t size = 0;
    FileHeader header;
    char name[PYLAYER_STORE_NAME_BYTES];
    memcpy(&header, store->kept.header, sizeof header);
    if (atomic_exchange(&store->run->written, true) || !*store->kept.reason || /* no decision: policy has written it */
        !own_file_describe(store->run, &header, LIVE_SUFFIX, name))
        return;
    if (!*store->run->name) /* without a crash marker */
        live_run_name(store->run->name, name);
    char *about = describe_run(store, &size);
    if (about)
        write_run(store->run->name, header, about, size, store->run->counters, wall_clock_ns() / 1000);
    free(about);
}

/* ---- in the crash marker ---------------------------------------------------------------------- */

/* After the marks comes text, which first says where each number is and what it counts, and then the counters. */
#define COUNTERS_AT (PYLAYER_LIVE_BYTES - sizeof((Run *)NULL)->own_counters)
#define TEXT_BYTES (COUNTERS_AT - PYLAYER_RUN_OFFSET)
_Static_assert(PYLAYER_RUN_OFFSET + 4096 < COUNTERS_AT && COUNTERS_AT % _Alignof(Counters) == 0, "see crash_marker.h");
_Static_assert(sizeof(Counters) > sizeof(PylayerCounters) + PYLAYER_KIND_COUNT * sizeof(uint64_t), "no gap in between");

#define LAYOUT_BYTES 1024
_Static_assert(sizeof COUNTED + sizeof COUNTED_KINDS + 100 < LAYOUT_BYTES, "there is room for the layout");
static size_t write_layout(char text[LAYOUT_BYTES])
{
    return (size_t)snprintf(text, LAYOUT_BYTES,
                            "layout=s:%zu %u %zu\ncounted=s:" COUNTED "\ncounted_kinds=s:" COUNTED_KINDS "\n",
                            COUNTERS_AT, THREAD_SLOTS, sizeof(Counters));
}

void run_begin(const Store *store, uint8_t live[PYLAYER_LIVE_BYTES])
{
    char *text = (char *)live + PYLAYER_RUN_OFFSET;
    size_t size = 0, head = write_layout(text);
    char *about = describe_run(store, &size);
    if (about && head + size < TEXT_BYTES)
        memcpy(text + head, about, size);
    else
        *text = '\0'; /* no run */
    free(about);
}

void run_count_in(Run *run, uint8_t *live)
{
    Counters *counters = (Counters *)(void *)(live + COUNTERS_AT);
    /* On a device that keeps nothing, threads may be counting already. They count in the file from now on, and what
     * they counted before is added. */
    uint64_t *from = (uint64_t *)(void *)run->own_counters, *to = (uint64_t *)(void *)counters;
    atomic_store(&run->counters, counters);
    for (size_t i = 0; i < sizeof run->own_counters / (sizeof *from); i++)
        __atomic_fetch_add(&to[i], __atomic_exchange_n(&from[i], 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

bool run_file_of_dead(const uint8_t live[PYLAYER_LIVE_BYTES], const char *run_name)
{
    char layout[LAYOUT_BYTES];
    const char *text = (const char *)live + PYLAYER_RUN_OFFSET;
    size_t head = write_layout(layout), size = strnlen(text, TEXT_BYTES);
    bool same = size > head && size < TEXT_BYTES && memcmp(text, layout, head) == 0;
    FileHeader header;
    memcpy(&header, live, sizeof header);
    if (same)
        write_run(run_name, header, text + head, size - head, (const Counters *)(const void *)(live + COUNTERS_AT), 0);
    return same || size == 0;
}

uint64_t run_compiled(const uint8_t live[PYLAYER_LIVE_BYTES])
{
    Counters sums;
    counters_add_up((const Counters *)(const void *)(live + COUNTERS_AT), &sums);
    return live[PYLAYER_RUN_OFFSET] ? sums.totals.compiled : UINT64_MAX;
}

/* ---- which stored pipelines the run used: a closed journal with one USED record, as policy writes it ------ */

static void write_uses(const Store *store, const uint64_t *fingerprints, uint64_t count)
{
    char name[PYLAYER_STORE_NAME_BYTES];
    FileHeader file;
    memcpy(&file, store->kept.header, sizeof file);
    memcpy(file.kind, "JRNL", sizeof file.kind);
    file.program = store->stored.program;
    if (!own_file_describe(store->run, &file, ".closed", name))
        return;
    RecordHeader record = {
        .magic = {'U', 'S', 'E', 'D'}, .size = count * sizeof *fingerprints, .last_used = file.created_ns / 1000000000};
    /* Without disk space the end is missing. Then only the order of eviction suffers. */
    own_file_add(store->stored.directory, name, &file, file.salt, record, fingerprints);
}

void uses_write(Store *store)
{
    Counters sums;
    counters_add_up(store->run->counters, &sums);
    uint64_t count = fingerprints_read(&store->run->seen, NULL, 0);
    bool is_new = sums.totals.pipelines > 0 && (count > 0 || !store->found.used_recently);
    if (!is_new || !atomic_load(&store->stored.open) || store->kept.marker_outside)
        return;
    uint64_t *fingerprints = malloc((count + 1) * sizeof *fingerprints);
    if (!fingerprints)
        return;
    uint64_t found = fingerprints_read(&store->run->seen, fingerprints, count);
    write_uses(store, fingerprints, found < count ? found : count);
    free(fingerprints);
}

/* ---- old runs ----------------------------------------------------------------------------------- */

static void count_run(void *to, int fd, const char *name)
{
    (void)fd;
    *(size_t *)to += name_ends(name, ".run");
}

bool run_files_are_many(void)
{
    char directory[PATH_BYTES + 8];
    size_t runs = 0;
    store_root_path(directory);
    memcpy(directory + strlen(directory), "/runs", sizeof "/runs");
    return folder_names(directory, count_run, &runs) && runs > RUNS_MAX_RUNS;
}
