/*
 * process.h - the program's process, which can change behind the layer's back: it forks, and its environment and
 * working directory are its own.
 */
#ifndef PYLAYER_PROCESS_H
#define PYLAYER_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* At the first vkCreateInstance, on the program's thread: there the program expects that its environment is read. */
void process_remember(void);

/* The part of it that also a process needs which is left alone. */
void environment_remember(void);

/* In the child of fork() there is no policy thread, and locks may be held by threads that are gone. */
bool process_is_forked_child(void);

/* A variable of the environment as it was then; NULL: not set. Paths of ours are absolute. */
const char *environment_get(const char *name);
/* All of it, ending with NULL. Valid for ever. */
char **environment_all(void);

/* For exit(), which may be called by a handler of a signal that came while this very thread held the mutex: false if it
 * cannot be had in a while. */
bool mutex_can_be_had(pthread_mutex_t *mutex);

/* Around each dlopen of the policy thread: fork() waits for its end. */
void process_links(bool begins);

/* Whether there is address space for an interpreter and, beside it, for the driver, which is loaded later and crashes
 * where there is none. */
bool process_has_room(void);

/* How the names of our threads begin; those that the policy thread makes inherit its name, or have one like it. */
#define OUR_THREADS "pylayer-"
#define POLICY_THREAD_NAME OUR_THREADS "policy"

/* False when main has called pthread_exit. Reads /proc, as the next one does. */
bool process_has_main_thread(void);
/* Whether no thread of the program is left. Without ours the process would have ended then. */
bool process_is_over(void);

#endif
