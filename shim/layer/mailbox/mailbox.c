/*
 * mailbox.c - messages from application threads to the policy thread.
 *
 * One queue under one mutex. The policy thread holds that mutex only during a list operation, never while it runs
 * Python. A cache hit in pipeline creation sends nothing unless it was slow or is recorded.
 */
#include <stdlib.h>

#include "mailbox/mailbox.h"
#include "process/process.h"

/* Cells and states wait until this long after policy's last message, so that a burst of compiles costs few wake-ups and
 * writes. The first of a burst finds that time over: the program may end right after it, in each run. Any other
 * message, and a cell whose sender waits, ends the wait. */
#define LINGER_NS 20000000ull

/* A process ends with its last thread (POSIX, 'pthread_exit'), and the C library counts policy's thread too. So
 * policy's thread must end once it is the only one left. It looks whether it is, less often the longer it is idle. */
#define LOOK_NS 10000000ull
#define LOOK_SELDOM_NS 2000000000ull

/* If policy hangs, events are dropped once this many messages wait. */
#define MOST_MESSAGES 65536
/* Before policy is started, reports about cells without data are dropped once this many messages wait. */
#define WAITING_MESSAGES 64
/* If more bytes than this wait, policy is started. */
#define WAITING_BYTES (4u << 20)

/* The thread that starts policy first waits until policy's libraries are open, at most this long. While the program is
 * inside the dynamic linker, they cannot be opened. */
#define LIBRARIES_WAIT_NS 100000000ull

typedef struct Envelope {
    PylayerMessage message; /* must be first: a message's pointer is cast to its Envelope */
    struct Envelope *next;
    bool awaited; /* the sender waits for an answer */
    bool answered;
    uint64_t bytes;
    unsigned holders; /* references: the sender's, and that of the queue or policy's thread */
} Envelope;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrivals; /* the policy thread waits here */
static pthread_cond_t answers;  /* senders wait here */

static Envelope *head, *tail;
static uint64_t queued_bytes;
static unsigned queued;
static bool hurry; /* policy takes what is queued at once, until the queue is empty */
static bool over;  /* the program's last thread has ended */
static atomic_bool open_;
static void (*start_policy)(void);
static atomic_bool started;           /* policy's thread was made, or is being */
static atomic_bool exit_has_messages; /* a device has ended, and its messages wait for the end of the process */
static bool libraries_open;

/* Policy is stalled from a wait in vain until it next calls mailbox_next. Meanwhile nobody waits for it, so a policy
 * that hangs costs one deadline and not one for each call. */
static uint64_t taken, stalled_at = UINT64_MAX;

static uint64_t idle_since, looked_at; /* used by the policy thread */

static uint64_t next_look(void)
{
    uint64_t since = looked_at > idle_since ? looked_at : idle_since, pause = (since - idle_since) / 4;
    return since + (pause < LOOK_NS ? LOOK_NS : pause < LOOK_SELDOM_NS ? pause : LOOK_SELDOM_NS);
}

void mailbox_open(void (*start)(void))
{
    idle_since = now_ns();
    cond_init_monotonic(&arrivals);
    cond_init_monotonic(&answers);
    pthread_mutex_lock(&mutex);
    open_ = true;
    start_policy = start;
    pthread_mutex_unlock(&mutex);
}

bool mailbox_can_be_used(void)
{
    return mutex_can_be_had(&mutex);
}

bool mailbox_is_open(void)
{
    return !process_is_forked_child() && open_;
}

static void drop_holder_locked(Envelope *envelope)
{
    if (--envelope->holders > 0)
        return;
    free((void *)(uintptr_t)envelope->message.data);
    free(envelope);
}

static Envelope *pop_locked(void)
{
    Envelope *envelope = head;
    head = envelope->next;
    if (!head)
        tail = NULL;
    queued--;
    queued_bytes -= envelope->bytes;
    return envelope;
}

void mailbox_close(void)
{
    if (process_is_forked_child())
        return;
    pthread_mutex_lock(&mutex);
    if (open_) {
        open_ = false;
        while (head)
            drop_holder_locked(pop_locked());
        pthread_cond_broadcast(&answers);
        pthread_cond_broadcast(&arrivals);
    }
    pthread_mutex_unlock(&mutex);
}

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device)
{
    Envelope *envelope = calloc(1, sizeof *envelope);
    if (!envelope)
        return NULL;
    envelope->holders = 1;
    envelope->message.type = type;
    envelope->message.device = device;
    envelope->message.time_ns = now_ns();
    return &envelope->message;
}

static void append_locked(Envelope *envelope)
{
    envelope->next = NULL;
    if (tail)
        tail->next = envelope;
    else
        head = envelope;
    tail = envelope;
    queued++;
    queued_bytes += envelope->bytes;
}

static void push_locked(Envelope *envelope)
{
    const uint32_t type = envelope->message.type;
    bool was_empty = head == NULL;
    append_locked(envelope);
    hurry |= envelope->awaited || (type != PYLAYER_MSG_CELL && type != PYLAYER_MSG_STATE);
    if (was_empty || hurry)
        pthread_cond_signal(&arrivals);
}

void mailbox_libraries_are_open(void)
{
    pthread_mutex_lock(&mutex);
    libraries_open = true;
    pthread_cond_broadcast(&answers);
    pthread_mutex_unlock(&mutex);
}

/*
 * A program that closes all descriptors and opens files of its own may do so between the dynamic linker's open and
 * mmap on the policy thread. Then its file is mapped in the library's place, and SIGBUS ends the program (4 of 600
 * that did so right after policy's thread was made). So the thread that starts policy first waits until the
 * libraries are open. That takes 2 ms (measured).
 */
static void start_locked(void)
{
    uint64_t give_up = now_ns() + LIBRARIES_WAIT_NS;
    started = true;
    pthread_mutex_unlock(&mutex);
    start_policy(); /* if it makes no thread, it closes the mailbox */
    pthread_mutex_lock(&mutex);
    while (open_ && !libraries_open && process_await_policy(&answers, &mutex, give_up, 0))
        ;
    started = open_;
}

bool mailbox_withdraw(uint64_t device, bool at_exit)
{
    PylayerMessage *end = at_exit ? message_new(PYLAYER_MSG_FLUSH, device) : NULL;
    pthread_mutex_lock(&mutex);
    bool withdrawn = !started;
    if (withdrawn && open_ && end && !exit_has_messages) {
        append_locked((Envelope *)end);
        exit_has_messages = true;
        end = NULL;
    } else if (withdrawn) {
        for (unsigned i = queued; i > 0; i--) {
            Envelope *envelope = pop_locked();
            if (envelope->message.device == device)
                drop_holder_locked(envelope);
            else
                append_locked(envelope);
        }
    }
    pthread_mutex_unlock(&mutex);
    free(end);
    return withdrawn;
}

bool mailbox_tells_exit(void)
{
    return open_ && (started || exit_has_messages);
}

bool mailbox_has_policy(void)
{
    return open_ && started;
}

/* Waits for an answer until the deadline. The sender holds the envelope, and has waited since `begin`. */
static void await_answer_locked(Envelope *envelope, uint64_t begin, int64_t timeout_ns)
{
    /* While the program is in dlopen, policy cannot start. All waits together last 0.1 s then. The one at exit has 0.1
     * s of its own, because a dlopen that has just ended kept policy from running. */
    bool is_exit = envelope->message.type == PYLAYER_MSG_FLUSH && envelope->message.device == 0;
    uint64_t give_up = begin + (uint64_t)timeout_ns, linking_since = is_exit ? begin : 0;
    while (open_ && !envelope->answered && process_await_policy(&answers, &mutex, give_up, linking_since))
        ;
    envelope->awaited = false;
    if (open_ && !envelope->answered && !process_links_late(linking_since))
        stalled_at = taken;
}

/* Returns true if there is room for an event. */
static bool has_room_locked(const Envelope *envelope, uint64_t queue_bytes, bool needs_policy)
{
    return queued_bytes + envelope->bytes <= queue_bytes && queued < MOST_MESSAGES &&
           (started || needs_policy || queued < WAITING_MESSAGES || envelope->message.type != PYLAYER_MSG_CELL);
}

/* Sends a request, which its sender keeps holding, or an event. Returns true if a request was answered, or an event was
 * accepted. */
static bool send_message(Envelope *envelope, bool is_request, bool needs_policy, uint64_t queue_bytes,
                         int64_t timeout_ns)
{
    uint64_t begin = now_ns();
    const PylayerMessage *message = &envelope->message;
    /* DEVICE_CREATED and FLUSH are sent even if the sender cannot wait, so that policy frees what it holds. */
    bool tells = message->type == PYLAYER_MSG_DEVICE_CREATED || message->type == PYLAYER_MSG_FLUSH;
    int cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    bool wait = timeout_ns > 0 && taken != stalled_at, needs = needs_policy || queued_bytes > WAITING_BYTES;
    envelope->bytes = sizeof *envelope + message->size;
    bool accepted = open_ && (is_request ? wait || tells : has_room_locked(envelope, queue_bytes, needs));
    if (accepted) {
        envelope->holders++;
        envelope->awaited = wait;
        push_locked(envelope);
        if (needs && !started)
            start_locked();
        if (wait)
            await_answer_locked(envelope, begin, timeout_ns);
    }
    bool answered = envelope->answered;
    if (!is_request)
        drop_holder_locked(envelope);
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
    return is_request ? answered : accepted;
}

bool mailbox_post_stored(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes, int64_t timeout_ns)
{
    if (message && process_is_forked_child()) {
        drop_holder_locked((Envelope *)message);
        return false;
    }
    return message && send_message((Envelope *)message, false, needs_policy, queue_bytes, timeout_ns);
}

bool mailbox_post(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes)
{
    return mailbox_post_stored(message, needs_policy, queue_bytes, 0);
}

bool mailbox_request(PylayerMessage *message, int64_t timeout_ns)
{
    return message && !process_is_forked_child() && send_message((Envelope *)message, true, true, 0, timeout_ns);
}

void message_done(PylayerMessage *message)
{
    if (!message || process_is_forked_child())
        return;
    pthread_mutex_lock(&mutex);
    drop_holder_locked((Envelope *)message);
    pthread_mutex_unlock(&mutex);
}

PylayerMessage *mailbox_next(int64_t timeout_ns)
{
    if (over) {
        mailbox_close();
        return NULL;
    }
    uint64_t give_up = timeout_ns < 0 ? UINT64_MAX : now_ns() + (uint64_t)timeout_ns;
    PylayerMessage *message = NULL;
    pthread_mutex_lock(&mutex);
    taken++;
    if (!head)
        hurry = false;
    while (open_ && !message) {
        uint64_t now = now_ns(), next = head ? hurry ? 0 : idle_since + LINGER_NS : next_look();
        if (now >= next && head) {
            hurry = true;
            idle_since = now;
            message = &pop_locked()->message;
        } else if (now >= next) {
            looked_at = now;
            pthread_mutex_unlock(&mutex);
            over = process_is_over();
            pthread_mutex_lock(&mutex);
            message = over ? message_new(PYLAYER_MSG_FLUSH, 0) : NULL; /* policy writes what is queued, and ends */
        } else if (now >= give_up) {
            break;
        } else {
            struct timespec deadline = deadline_at(next < give_up ? next : give_up);
            pthread_cond_timedwait(&arrivals, &mutex, &deadline);
        }
    }
    pthread_mutex_unlock(&mutex);
    return message;
}

int32_t mailbox_answer(PylayerMessage *message)
{
    Envelope *envelope = (Envelope *)message;
    pthread_mutex_lock(&mutex);
    bool in_time = envelope->awaited;
    if (in_time) {
        envelope->awaited = false;
        envelope->answered = true;
        pthread_cond_broadcast(&answers);
    }
    pthread_mutex_unlock(&mutex);
    return in_time ? 0 : -1;
}

void mailbox_release(PylayerMessage *message)
{
    mailbox_answer(message);
    message_done(message);
}
