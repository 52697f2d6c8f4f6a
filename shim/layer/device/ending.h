/* ending.h - the end of a device in a process in which policy never started */
#ifndef PYLAYER_ENDING_H
#define PYLAYER_ENDING_H

#include "device/device.h"

/* Writes what a device leaves in the store. Returns false if policy has to do that, because it was started or may clear
 * evidence about the driver. */
bool device_ends_quietly(Device *device);

#endif
