/* run_file.c - see run_file.h. What a run's file says is settings text, as pylayer/common/flat.py reads it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../build/run_names.h"
#include "process/process.h"
#include "store/run_file.h"

#define SESSION_BYTES 64 /* of pylayer run --summary; a longer text is nobody's */
#define END_BYTES 64     /* of the line that says how the run ended */

_Static_assert(offsetof(LiveFile, counters) == COUNTED_AT && sizeof(Counters) == COUNTED_BYTES &&
                   THREAD_SLOTS == COUNTED_GROUPS,
               "COUNTED says where the counters are");

/* Times are not written as %f: its decimal point is the program's locale's. */
void run_describe(const Store *store, char text[LIVE_TEXT_BYTES])
{
    static const char *const modes[] = {"off", "cells", "binaries", "observe"};
    const Run *run = store->run;
    const char *session = environment_get("PYLAYER_SESSION");
    unsigned long long started_us = (wall_clock_ns() - (now_ns() - run->begun_ns)) / 1000;
    if (!session || strcspn(session, "%\r\n") != strlen(session) || strlen(session) > SESSION_BYTES)
        session = "";
    snprintf(text, LIVE_TEXT_BYTES,
             COUNTED "session=s:%s\nstarted_ns=i:%llu\nstarted=f:%llu.%06llu\n%.*smode=s:%s\nfeedback=b:%d\n", session,
             (unsigned long long)run->begun_ns, started_us / 1000000, started_us % 1000000, PYLAYER_ABOUT_BYTES,
             store->kept.about, modes[atomic_load(&run->mode)], store->driver->feedback);
}

/* Adds to a run's file what was counted and how the run ended. ended_us: 0 if its process died. */
static void write_run(OwnFile *file, const char *text, const Counters *counters, uint64_t ended_us)
{
    char directory[PATH_BYTES], end[END_BYTES] = "died=b:1\n";
    PylayerCounters sums;
    if (ended_us)
        snprintf(end, sizeof end, "ended=f:%llu.%06llu\n", (unsigned long long)ended_us / 1000000,
                 (unsigned long long)ended_us % 1000000);
    RecordHeader record = {.magic = {'C', 'N', 'T', 'D'}, .size = strlen(text) + sizeof end + sizeof *counters};
    char *data = calloc(1, record.size);
    store_path(directory, "/runs");
    if (data && *directory) {
        counters_add_up(counters, &sums);
        memcpy(data, text, strlen(text));
        memcpy(data + strlen(text), end, sizeof end);
        memcpy(data + record.size - sizeof *counters, &sums, sizeof sums);
        own_file_add(directory, file, record, data);
    }
    free(data);
}

void run_file_write(Store *store)
{
    OwnFile file;
    if (atomic_exchange(&store->run->written, true) || !*store->kept.reason || /* no decision: policy has written it */
        !own_file_describe(store, "RUNS", ".run", 0, &file))
        return;
    if (*store->run->name) /* that of the crash marker */
        snprintf(file.name, sizeof file.name, "%s.run", store->run->name);
    char *text = malloc(LIVE_TEXT_BYTES);
    if (text) {
        run_describe(store, text);
        write_run(&file, text, store->run->counters, wall_clock_ns() / 1000);
    }
    free(text);
}

/* ---- in the crash marker ---------------------------------------------------------------------- */

void run_count_in(Run *run, LiveFile *live)
{
    /* On a device that keeps nothing, threads may be counting already. They count in the file from now on, and what
     * they counted before is added. */
    uint64_t *from = (uint64_t *)(void *)run->own_counters, *to = (uint64_t *)(void *)live->counters;
    atomic_store(&run->counters, live->counters);
    for (size_t i = 0; i < sizeof run->own_counters / (sizeof *from); i++)
        __atomic_fetch_add(&to[i], __atomic_exchange_n(&from[i], 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

bool run_file_of_dead(const LiveFile *live, const char *run_name)
{
    OwnFile file = {.header = live->header};
    bool same = strnlen(live->text, sizeof live->text) < sizeof live->text && name_begins(live->text, COUNTED);
    memcpy(file.header.kind, "RUNS", sizeof file.header.kind);
    file_header_seal(&file.header);
    snprintf(file.name, sizeof file.name, "%s.run", run_name);
    if (same)
        write_run(&file, live->text, live->counters, 0);
    return same || !*live->text;
}

uint64_t run_compiled(const LiveFile *live)
{
    PylayerCounters sums;
    counters_add_up(live->counters, &sums);
    return *live->text ? sums.compiled : UINT64_MAX;
}

/* ---- which stored pipelines the run used: a closed journal with one USED record, as policy writes it ------ */

void uses_write(Store *store)
{
    PylayerCounters sums;
    OwnFile file;
    counters_add_up(store->run->counters, &sums);
    uint64_t count = fingerprints_read(&store->run->seen, NULL, 0);
    bool is_new = sums.pipelines > 0 && (count > 0 || !store->found.used_recently);
    bool may = is_new && atomic_load(&store->stored.open) && !store->kept.marker_outside;
    uint64_t *fingerprints = may ? malloc((count + 1) * sizeof *fingerprints) : NULL;
    if (fingerprints && own_file_describe(store, "JRNL", ".closed", 0, &file)) {
        uint64_t found = fingerprints_read(&store->run->seen, fingerprints, count);
        RecordHeader record = {.magic = {'U', 'S', 'E', 'D'},
                               .size = (found < count ? found : count) * sizeof *fingerprints,
                               .last_used = file.header.created_ns / 1000000000};
        own_file_add(store->stored.directory, &file, record, fingerprints);
    }
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
    char directory[PATH_BYTES];
    size_t runs = 0;
    store_path(directory, "/runs");
    return folder_names(directory, count_run, &runs) && runs > RUNS_MAX_RUNS;
}
