/* ending.h - the end of a device in a process in which policy never started */
#ifndef PYLAYER_ENDING_H
#define PYLAYER_ENDING_H

#include "base.h"

/* Returns true if policy has not started and has nothing to do for the device at its end either. */
bool device_ends_quietly(Device *device);

#endif
