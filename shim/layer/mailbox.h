/* mailbox.h - messages to the policy thread, the thread itself, and plans kept from before */
#ifndef PYLAYER_MAILBOX_H
#define PYLAYER_MAILBOX_H

#include "base.h"

void mailbox_open(void);
void mailbox_close(void);
bool mailbox_is_open(void);
/* In the child of fork() there is no policy thread, and locks may be held by threads that are gone. */
bool process_is_forked_child(void); /* process.c */

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device);
/* An event: the mailbox takes the message and the data in it. False: dropped, and freed. */
bool mailbox_post(PylayerMessage *message, uint64_t queue_bytes);
/* A request: true when it was answered in time; the sender then owns a valid answer. Always ends with
 * message_done. */
bool mailbox_request(PylayerMessage *message, int64_t timeout_ns);
void message_done(PylayerMessage *message);

/* Fills in what is said of the queue. */
void mailbox_measure(PylayerActivity *out);

PylayerMessage *mailbox_next(int64_t timeout_ns);
/* Whether mailbox_next found the program's last thread gone; it gives no message any more. */
bool mailbox_outlives_program(void);
int32_t mailbox_answer(PylayerMessage *message);
void mailbox_release(PylayerMessage *message);

/* ---- commands.c, policy_thread.c ---- */

extern const PylayerShim shim_commands;

/* Starts policy once in this process. False: it cannot run here, and the log says why. */
bool policy_start(void);
/* Where it started: what it opens of libraries is open then. */
void policy_wait_for_libraries(void);
/* Called after a device was created: exit() without vkDestroyDevice then writes what is still queued. */
void policy_flush_at_exit(void);

#endif
