/* policy_thread.h - finds and runs the policy library */
#ifndef PYLAYER_POLICY_THREAD_H
#define PYLAYER_POLICY_THREAD_H

#include "base.h"

/* Starts policy once in this process: at once, or when it is needed (mailbox.h). Returns false if it cannot run here; the
 * log says why. */
bool policy_start(const char *application_name, bool at_once);
/* Call it after a device was created. If the program calls exit() without vkDestroyDevice, what is still queued is
 * then written. */
void policy_flush_at_exit(void);

#endif
