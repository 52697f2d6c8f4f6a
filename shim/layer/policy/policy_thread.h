/* policy_thread.h - finding and running the policy library */
#ifndef PYLAYER_POLICY_THREAD_H
#define PYLAYER_POLICY_THREAD_H

#include "base.h"

/* Starts policy once in this process. False: it cannot run here, and the log says why. */
bool policy_start(void);
/* Where it started: what it opens of libraries is open then. */
void policy_wait_for_libraries(void);
/* Called after a device was created: exit() without vkDestroyDevice then writes what is still queued. */
void policy_flush_at_exit(void);

#endif
