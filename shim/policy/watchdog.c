/*
 * watchdog.c - breaks off a call of the user's policy class that does not return.
 *
 * Python writes down when such a call began and when it ended. A thread of this library checks that. It exists only in
 * processes with a policy class. When a call lasts too long, it raises pylayer.policy.PolicyTimeout in the policy
 * thread. It takes the GIL for that. Py_AddPendingCall needs no GIL, but if a thread without a thread state calls it,
 * Python 3.11 does not interrupt a loop that never releases the GIL (COMPUTE_EVAL_BREAKER asks who calls). No thread
 * of the program takes part in this.
 *
 * The exception is raised between two bytecodes. A blocking call in C ends first, or never: then the program goes on
 * without policy.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>

#include "../layer/process/clock.h"
#include "interpreter.h"

#define STACK_BYTES (256u << 10) /* enough to look up a class and raise it */

/* Written by the policy thread. 0: no call. The start time also distinguishes calls. */
int64_t pylayer_call_began_ns;
int64_t pylayer_call_limit_ns;
const char *pylayer_call_name;
/* 0: the thread sleeps until pylayer_watch() wakes it. */
int32_t pylayer_watching;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken;
static unsigned long policy_thread;
static int breaking_off;

static int64_t began(void)
{
    return __atomic_load_n(&pylayer_call_began_ns, __ATOMIC_SEQ_CST);
}

static int64_t limit(void)
{
    return __atomic_load_n(&pylayer_call_limit_ns, __ATOMIC_SEQ_CST);
}

static int64_t clock_ns(void)
{
    return (int64_t)now_ns();
}

static void sleep_until_locked(int64_t time_ns)
{
    struct timespec wake = deadline_at((uint64_t)time_ns);
    pthread_cond_timedwait(&woken, &mutex, &wake);
}

/* Returns a new reference to the exception. Falls back to KeyboardInterrupt, because the policy class may have
 * changed sys.modules. */
static PyObject *exception_class(void)
{
    PyObject *name = PyUnicode_FromString("pylayer.policy");
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *found = module ? PyObject_GetAttrString(module, "PolicyTimeout") : NULL;
    Py_XDECREF(name);
    Py_XDECREF(module);
    PyErr_Clear();
    if (found && PyExceptionClass_Check(found))
        return found;
    Py_XDECREF(found);
    Py_INCREF(PyExc_KeyboardInterrupt);
    return PyExc_KeyboardInterrupt;
}

/* Raises the exception, on a thread of its own: a call in C that never releases the GIL blocks that thread and not
 * the watchdog. */
static void *break_off(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "pylayer-break");
    PyGILState_STATE state = PyGILState_Ensure();
    /* While this thread holds the GIL, the policy thread cannot leave the call. */
    int64_t call = began();
    if (call && clock_ns() >= call + limit()) {
        PyObject *exception = exception_class();
        PyThreadState_SetAsyncExc(policy_thread, exception);
        Py_DECREF(exception);
    }
    PyGILState_Release(state);
    __atomic_store_n(&breaking_off, 0, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Creates a detached thread. It inherits the policy thread's blocked signals. */
static int start_thread(void *(*run)(void *))
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_t thread;
    int result = pthread_create(&thread, &attributes, run, NULL);
    pthread_attr_destroy(&attributes);
    return result;
}

static void say_stuck(int64_t call, int64_t now)
{
    char line[300];
    snprintf(line, sizeof line,
             "the policy class has been in %s for %lld ms and cannot be stopped; the program goes on without policy",
             pylayer_call_name ? pylayer_call_name : "a call", (long long)(now - call) / 1000000);
    pylayer_shim()->log(PYLAYER_LOG_WARN, line);
}

/* Sleeps until the next call. It checks once more after a timeout, because the policy thread reads 'watching'
 * without a lock, maybe just before it becomes 0. */
static void rest_locked(void)
{
    __atomic_store_n(&pylayer_watching, 0, __ATOMIC_SEQ_CST);
    if (!began())
        sleep_until_locked(clock_ns() + limit());
    while (!began() && !__atomic_load_n(&pylayer_watching, __ATOMIC_SEQ_CST))
        pthread_cond_wait(&woken, &mutex);
    __atomic_store_n(&pylayer_watching, 1, __ATOMIC_SEQ_CST);
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "pylayer-watch");
    int64_t watched = 0; /* the call that was told to stop */
    int64_t told = 0;    /* how often */
    for (;;) {
        pthread_mutex_lock(&mutex);
        int64_t call = began(), now = clock_ns();
        if (call != watched) {
            watched = call;
            told = 0;
        }
        int64_t wake = call + limit() * (told + 1);
        if (!call)
            rest_locked();
        else if (now < wake)
            sleep_until_locked(wake);
        pthread_mutex_unlock(&mutex);
        if (!call || now < wake)
            continue;
        if (told++ == 1)
            say_stuck(call, now);
        if (!__atomic_exchange_n(&breaking_off, 1, __ATOMIC_SEQ_CST) && start_thread(break_off) != 0)
            __atomic_store_n(&breaking_off, 0, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void start(void)
{
    cond_init_monotonic(&woken);
    policy_thread = PyThread_get_thread_ident();
    if (start_thread(watch) != 0)
        pylayer_shim()->log(
            PYLAYER_LOG_INFO,
            "the thread that watches the policy class cannot be created; a call that hangs is not stopped");
}

void pylayer_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&pylayer_watching, 1, __ATOMIC_SEQ_CST);
    pthread_cond_signal(&woken);
    pthread_mutex_unlock(&mutex);
}
