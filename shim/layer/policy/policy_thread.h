/* policy_thread.h - finds and runs the policy library */
#ifndef PYLAYER_POLICY_THREAD_H
#define PYLAYER_POLICY_THREAD_H

#include "base.h"

/* Opens the mailbox, once in this process; its first message that needs policy then starts policy's thread. Call it in
 * vkCreateInstance, on the program's thread. Returns false if policy cannot run here; the log says why. */
bool policy_prepare(void);
/* Call it after a device was created. If the program calls exit() without vkDestroyDevice, what is still queued is
 * then written. */
void policy_flush_at_exit(void);

#endif
