/* policy_thread.h - finds and runs the policy library */
#ifndef PYLAYER_POLICY_THREAD_H
#define PYLAYER_POLICY_THREAD_H

#include "base.h"

/* Starts policy once in this process. Returns false if it cannot run here; the log says why. */
bool policy_start(void);
/* Call it if policy_start returned true. Waits until policy's libraries are open, but only for a limited time. */
void policy_wait_for_libraries(void);
/* Call it after a device was created. If the program calls exit() without vkDestroyDevice, what is still queued is
 * then written. */
void policy_flush_at_exit(void);

#endif
