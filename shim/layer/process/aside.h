/*
 * aside.h - work on files that may wait for ever, because they are on no local file system (local.h).
 *
 * It is done on a thread of its own, for which the program's waits a moment. A thread that hangs cannot be ended. While
 * one does, no other is made, and nobody waits.
 */
#ifndef PYLAYER_ASIDE_H
#define PYLAYER_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

/* How long a program waits in vkCreateInstance, vkCreateDevice and vkDestroyDevice. It is as long as compiling 30 to 90
 * pipelines (2.7 to 8.5 ms each, RADV and NVIDIA). */
#define ASIDE_WAIT_NS 250000000ull

/* The first member of a struct that malloc gave, and that holds all that the work needs. */
typedef struct Aside {
    void (*work)(struct Aside *aside);
    void (*discard)(struct Aside *aside); /* frees the struct and what the work left in it */
    bool done, abandoned;
} Aside;

/* Does the work: here, if it is `local`. Returns true if it is done. Otherwise the struct is not the caller's any more. */
bool aside_do(Aside *aside, bool local, uint64_t wait_ns);
/* Returns true if work that was waited for in vain is not done yet. */
bool aside_hangs(void);
/* Waits until that work is done, at most this long. */
void aside_settle(uint64_t wait_ns);

#endif
