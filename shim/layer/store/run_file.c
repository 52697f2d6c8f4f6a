/* run_file.c - see run_file.h. Settings text, as pylayer/common/flat.py reads it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/counters.h"
#include "device/device.h"
#include "instance/program_name.h"
#include "process/process.h"
#include "process/trusted.h"
#include "../../../build/run_names.h"
#include "store/owner.h"
#include "store/run_file.h"

#define SESSION_BYTES 64 /* of pylayer run --summary; a longer text is nobody's */

_Static_assert(sizeof counter_names / sizeof *counter_names == COUNTERS, "each counter has a name");
_Static_assert(sizeof kind_names / sizeof *kind_names == PYLAYER_KIND_COUNT, "each kind has a name");

static void write_escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '%' || *text == '\n' || *text == '\r')
            fprintf(out, "%%%02X", (unsigned char)*text);
        else
            fputc(*text, out);
}

static void write_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, "%s=s:", key);
    write_escaped(out, text);
    fputc('\n', out);
}

static void write_program(FILE *out, const PylayerInstanceInfo *instance)
{
    const char *executable = executable_name(), *application = instance->application_name;
    if (!executable)
        return;
    write_text(out, "executable", executable);
    write_text(out, "application", application);
    write_text(out, "engine", instance->engine_name);
    char *title = program_title(application);
    write_text(out, "program", title ? title : executable);
    free(title);
}

static void write_process(FILE *out, const Device *device, const char *identity)
{
    Owner owner;
    struct timespec now;
    uint8_t place[PYLAYER_DIGEST_BYTES];
    char machine[DIGEST_HEX_BYTES];
    owner_write(&owner);
    memcpy(place, &owner, sizeof place); /* machine and boot */
    digest_hex(machine, place);
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t begun = atomic_load(&device->loading.begun_ns);
    uint64_t ended = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, lasted = (now_ns() - begun) / 1000;
    uint64_t started = ended - lasted;
    write_text(out, "machine", machine);
    const char *session = environment_get("PYLAYER_SESSION");
    if (session && strlen(session) <= SESSION_BYTES)
        write_text(out, "session", session);
    write_text(out, "identity", identity);
    fprintf(out, "pid=i:%u\npid_namespace=i:%u\nstart_ticks=i:%llu\nstarted_ns=i:%llu\n", owner.pid,
            owner.pid_namespace, (unsigned long long)owner.start_ticks, (unsigned long long)begun);
    /* Not as %f: its decimal point is the program's locale's. */
    fprintf(out, "started=f:%llu.%06llu\nended=f:%llu.%06llu\n", (unsigned long long)started / 1000000,
            (unsigned long long)started % 1000000, (unsigned long long)ended / 1000000,
            (unsigned long long)ended % 1000000);
}

static void write_counters(FILE *out, const Device *device)
{
    PylayerCounters totals;
    PylayerActivity activity;
    uint64_t numbers[COUNTERS];
    counters_add_up(device, &totals);
    activity_add_up(device, &activity);
    memcpy(numbers, &totals, sizeof numbers);
    for (size_t i = 0; i < COUNTERS; i++)
        fprintf(out, "counters.%s=i:%llu\n", counter_names[i], (unsigned long long)numbers[i]);
    for (unsigned kind = 0; kind < PYLAYER_KIND_COUNT; kind++)
        if (activity.kind_hits[kind])
            fprintf(out, "kinds.%s.hits=i:%llu\nkinds.%s.compiled=i:0\nkinds.%s.compile_ns=i:0\n", kind_names[kind],
                    (unsigned long long)activity.kind_hits[kind], kind_names[kind], kind_names[kind]);
    if (totals.caches_attested)
        fprintf(out, "cache_outcomes.attested=i:%llu\n", (unsigned long long)totals.caches_attested);
    uint64_t mean = totals.fetched ? totals.fetched_compile_ns / totals.fetched : 0;
    fprintf(
        out,
        "stored_records=i:0\nstored_bytes=i:0\nloaded_records=i:%llu\nloaded_bytes=i:%llu\nmean_compile_ns=f:%llu.0\n",
        (unsigned long long)totals.fetched, (unsigned long long)totals.fetched_bytes, (unsigned long long)mean);
}

/* Returns text of this size, malloc'd; NULL if memory is short. */
static char *describe_run(const Device *device, size_t *size)
{
    static const char *const carriers[] = {"off", "cells", "snapshot", "binaries", "observe"};
    char *text = NULL, identity[DIGEST_HEX_BYTES];
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    FileHeader header;
    memcpy(&header, device->kept.header, sizeof header);
    digest_hex(identity, header.identity);
    fprintf(out, "version=i:1\n");
    write_text(out, "pylayer", PYLAYER_VERSION);
    write_program(out, &device->instance->info);
    write_process(out, device, identity);
    write_text(out, "device", device->info.device_name);
    write_text(out, "driver", device->info.driver_name);
    write_text(out, "driver_info", device->info.driver_info);
    write_text(out, "carrier", carriers[atomic_load(&device->carrier)]);
    write_text(out, "reason", device->kept.reason);
    write_counters(out, device);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void run_file_write(Device *device)
{
    char directory[PATH_BYTES + 8], name[48];
    struct timespec now;
    uint64_t random;
    store_root_path(directory);
    if (atomic_exchange(&device->run_written, true) || !*directory || !*device->kept.reason ||
        getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return;
    strcat(directory, "/runs");
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, sizeof name, "%016llx-%016llx.run",
             (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec,
             (unsigned long long)random);
    size_t size = 0;
    char *text = describe_run(device, &size);
    mkdir(directory, 0700);
    int fd = text ? create_in_store(directory, name) : -1;
    if (fd >= 0) {
        /* Without disk space the end is missing. Readers do without the keys that are not there. */
        ssize_t written = write_quietly(fd, text, size);
        (void)written;
        close(fd);
    }
    free(text);
}
