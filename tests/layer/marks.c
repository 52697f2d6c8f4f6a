/*
 * marks: shim/layer/crash/crash_marker.c by itself, in a thread that came after many others. Ends with 1 where
 * something is wrong, and says what.
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "../../shim/layer/crash/crash_marker.c"

#define ENDED_THREADS 1000

static Crash crash;
static LiveFile live;

unsigned thread_number(void)
{
    return ENDED_THREADS + 1;
}

bool process_is_forked_child(void)
{
    return false;
}

int main(void)
{
    Mark taken[PYLAYER_MARK_COUNT + 1];
    atomic_store(&crash.live, &live);
    for (unsigned turn = 0; turn < 2; turn++) {
        unsigned watched = 0, marked = 0;
        for (unsigned i = 0; i < PYLAYER_MARK_COUNT + 1; i++) {
            taken[i] = mark_application(&crash, PYLAYER_MARK_APPLICATION, &(uint64_t){i + 1}, 1);
            watched += taken[i] != NULL;
        }
        for (unsigned i = 0; i < PYLAYER_MARK_COUNT; i++)
            marked += live.marks[i].call == PYLAYER_MARK_APPLICATION;
        if (watched != PYLAYER_MARK_COUNT || marked != watched) {
            fprintf(stderr, "marks: %u of %d marks are taken by %u calls\n", marked, PYLAYER_MARK_COUNT, watched);
            return 1;
        }
        for (unsigned i = 0; i < PYLAYER_MARK_COUNT + 1; i++)
            mark_end(taken[i]);
    }
    return 0;
}
