/*
 * process.h - the program's process, which can change without the layer's knowledge: it may fork, and it may change
 * its environment and working directory.
 */
#ifndef PYLAYER_PROCESS_H
#define PYLAYER_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Call it at the first vkCreateInstance, on the program's thread: there the program expects its environment to be
 * read. */
void process_remember(void);

/* The part of process_remember that a skipped process needs too. */
void environment_remember(void);

/* Returns true in the child of a fork. There is no policy thread there, and threads that do not exist may hold
 * locks. */
bool process_is_forked_child(void);

/* Returns a variable of the environment as it was then; NULL if it was not set. Paths of our own variables are
 * absolute. */
const char *environment_get(const char *name);
/* Returns all variables, ending with NULL. Valid for ever. */
char **environment_all(void);

/* Returns gettid(). Makes one system call for each thread. */
uint32_t thread_id(void);

/* Returns false if the mutex cannot be locked within a limit. For exit(): a signal handler may call it while the
 * interrupted thread holds the mutex. */
bool mutex_can_be_had(pthread_mutex_t *mutex);

/* A program may cancel a thread that waits in one of its commands. It would leave our mutex locked for ever, so nothing
 * is cancelled between these two. The second restores what the first returned. */
static inline int cancellation_off(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void cancellation_restore(int state)
{
    pthread_setcancelstate(state, &state);
}

/* Brackets each dlopen of the policy thread. fork() waits for its end. */
void process_links(bool begins);
/* Returns true if the policy thread has waited for the dynamic linker for 0.1 s, all of it after `since`. Then the
 * program is inside of a dlopen, perhaps on the very thread that waits for policy. */
bool process_links_late(uint64_t since);
/* Waits for a signal of the policy thread, which may come late or never: call it in a loop. Returns false if waiting
 * longer is useless: it is give_up, or policy is late as above. */
bool process_await_policy(pthread_cond_t *signal, pthread_mutex_t *mutex, uint64_t give_up, uint64_t since);

/* Returns false if the address space has no room for the interpreter and the driver. The driver is loaded later and
 * crashes without room. */
bool process_has_room(void);

/* Starts our thread, detached. Call it once. Returns 0, or why there is none. */
int thread_start(void *(*main)(void *), size_t stack_bytes);

/* Of /proc/<pid>/stat. */
typedef struct ProcessStat {
    bool main_has_ended; /* other threads may go on */
    unsigned long long threads, start_ticks;
} ProcessStat;

/* Returns false, with errno set, if the file cannot be read or understood: process_stat.c. */
bool process_stat(const char *path, ProcessStat *out);
/* Returns true if main has called pthread_exit and no thread but policy's is left, so that only that keeps the process.
 * Threads that a policy class has made keep it, too. */
bool process_is_over(void);

#endif
