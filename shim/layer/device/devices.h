/* devices.h - the list of devices that policy can name by their serial number */
#ifndef PYLAYER_DEVICES_H
#define PYLAYER_DEVICES_H

#include "device/device.h"

void devices_add(Device *device);
/* Removes the device from the list. Returns false if a command that began before is still in the driver. */
bool devices_remove(Device *device);
/* Returns the device with its command mutex held; NULL if it is gone. Policy thread only. */
Device *device_command_begin(uint64_t serial);
void device_command_end(Device *device);
/* Returns false if a thread that will never run again holds a lock of the list or of a device. */
bool devices_can_be_used(void);
/* At exit(), before all else: no mark in a sentinel counts any more. */
void devices_exit_begins(void);
/* For exit(). The first stops loading on all devices. After the second, no command reaches a driver that runs its
 * exit handlers. */
void devices_stop_loading(void);
/* Nobody waits any longer for what policy would hand over. */
void devices_policy_ended(void);
/* For a process in which policy never started: writes what a device leaves in the store. Returns false if policy has to do
 * that, because it was started or may clear evidence about the driver. */
bool device_ends_quietly(Device *device);
/* At exit(): writes the runs' files of all devices and returns true, if none of them needs policy. */
bool devices_end_quietly(void);
void devices_end_commands(void);

#endif
