/* mailbox.h - messages to the policy thread */
#ifndef PYLAYER_MAILBOX_H
#define PYLAYER_MAILBOX_H

#include "base.h"

void mailbox_open(void);
void mailbox_close(void);
bool mailbox_is_open(void);
/* For exit(): see mutex_can_be_had. */
bool mailbox_can_be_used(void);

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

#endif
