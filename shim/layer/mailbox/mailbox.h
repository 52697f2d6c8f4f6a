/* mailbox.h - messages to the policy thread */
#ifndef PYLAYER_MAILBOX_H
#define PYLAYER_MAILBOX_H

#include "base.h"

/* Messages wait in the queue until one of them needs policy. Then `start` is called on the thread that sends it: it
 * makes the thread that calls mailbox_next. If it cannot, it closes the mailbox. */
void mailbox_open(void (*start)(void));
/* A device ends. Returns false if policy was started, so that it has to be told. Otherwise discards what waits in the
 * queue about the device. at_exit: the store wants maintenance, so one device's messages are kept for the end of the
 * process. */
bool mailbox_withdraw(uint64_t device, bool at_exit);
/* Returns true if policy has to be told of the end of the process: it was started, or messages were kept for it. */
bool mailbox_tells_exit(void);
/* Returns true if policy was started and has not ended. */
bool mailbox_has_policy(void);
/* Policy's libraries are open, or cannot be opened. */
void mailbox_libraries_are_open(void);
void mailbox_close(void);
bool mailbox_is_open(void);
/* For exit(): see mutex_can_be_had (process.h). */
bool mailbox_can_be_used(void);

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device);
/* Events beyond this many queued bytes are dropped and counted, unless policy must get them. */
#define QUEUE_BYTES (64ull << 20)
/* The same for state, so that there is room for pipelines beside it. */
#define STATE_BYTES (48ull << 20)
/* The longest wait for an answer: long enough for an interpreter that is still booting on a busy machine. A policy that
 * hangs costs this wait once. */
#define ANSWER_WAIT_NS 2000000000ll
/* The longest wait until policy has written what it was sent: at vkDestroyDevice, at exit, and after a compile that may
 * be lost. */
#define FLUSH_WAIT_NS 3000000000ll
/* Sends an event. needs_policy: policy has to do something about it while the program runs. queue_bytes: drops it if
 * more bytes would wait then. The mailbox takes ownership of the message and its data. Returns false if it was dropped
 * and freed. */
bool mailbox_post(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes);
/* The same, and waits until policy has stored what the message brings, or until a deadline: a pipeline that an end of
 * the process has lost before must not be lost again. */
bool mailbox_post_stored(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes, int64_t timeout_ns);
/* Sends a request. Returns true if it was answered in time; the answer in the message is then valid. The sender
 * always calls message_done afterwards. */
bool mailbox_request(PylayerMessage *message, int64_t timeout_ns);
void message_done(PylayerMessage *message);

PylayerMessage *mailbox_next(int64_t timeout_ns);
int32_t mailbox_answer(PylayerMessage *message);
void mailbox_release(PylayerMessage *message);

#endif
