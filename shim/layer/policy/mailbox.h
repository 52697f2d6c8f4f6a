/* mailbox.h - messages to the policy thread */
#ifndef PYLAYER_MAILBOX_H
#define PYLAYER_MAILBOX_H

#include "base.h"

/* Policy rests until a message needs it, or until REST_NS after the first device was created. Until then messages wait
 * in the queue, and no interpreter starts: a program that only finds stored pipelines may end before. at_once: policy
 * does not rest. */
void mailbox_open(bool at_once);
/* The policy thread calls it first. Returns false if the mailbox was closed. */
bool mailbox_rest(void);
/* Ends the rest. */
void mailbox_rouse(void);
bool mailbox_is_resting(void);
/* Policy's libraries are open, or cannot be opened. */
void mailbox_libraries_are_open(void);
/* Waits for that, but only for a limited time. */
void mailbox_await_libraries(void);
void mailbox_close(void);
bool mailbox_is_open(void);
/* For exit(): see mutex_can_be_had (process.h). */
bool mailbox_can_be_used(void);

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device);
/* Sends an event. The mailbox takes ownership of the message and its data. Returns false if it was dropped and
 * freed. */
bool mailbox_post(PylayerMessage *message, uint64_t queue_bytes);
/* Sends a request. Returns true if it was answered in time; the answer in the message is then valid. The sender
 * always calls message_done afterwards. */
bool mailbox_request(PylayerMessage *message, int64_t timeout_ns);
void message_done(PylayerMessage *message);

/* Fills in the members about the queue. */
void mailbox_measure(PylayerActivity *out);

PylayerMessage *mailbox_next(int64_t timeout_ns);
/* Ends a mailbox_next without a time limit, which then returns NULL: a pipeline was created, and nothing else tells. */
void mailbox_wake(void);
extern atomic_bool mailbox_sleeps;
static inline void mailbox_stir(void)
{
    if (atomic_load_explicit(&mailbox_sleeps, memory_order_relaxed))
        mailbox_wake();
}
/* Returns true once mailbox_next has found that the program's last thread has ended. Later calls of it return no
 * message. */
bool mailbox_outlives_program(void);
int32_t mailbox_answer(PylayerMessage *message);
void mailbox_release(PylayerMessage *message);

#endif
