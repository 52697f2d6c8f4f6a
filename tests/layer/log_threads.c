/*
 * log_threads: shim/layer/log.c by itself. Threads look for the log file's descriptor, as each line does, while the program
 * closes it again and again; ThreadSanitizer (make sanitizers) sees what they share. Ends with 1 where another file's
 * descriptor is found.
 */
#define _GNU_SOURCE
#include "../../shim/layer/log.c"
#include "../../shim/layer/process.c"

#define THREADS 4
#define CLOSED 300

static atomic_bool wrong, done;

static void *look(void *unused)
{
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        int fd = log_descriptor();
        if (fd >= 0 && fd <= STDERR_FILENO)
            atomic_store(&wrong, true);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    log_line(PYLAYER_LOG_INFO, "the first line");
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, look, NULL))
            return 1;
    for (int i = 0; i < CLOSED; i++) {
        closefrom(STDERR_FILENO + 1);
        nanosleep(&(struct timespec){0, 10000}, NULL);
    }
    atomic_store(&done, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    log_line(PYLAYER_LOG_INFO, "the last line");
    return wrong;
}
