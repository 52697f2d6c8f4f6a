/* devices.h - the list of devices that policy can name by their serial number */
#ifndef PYLAYER_DEVICES_H
#define PYLAYER_DEVICES_H

#include "device/device.h"

void devices_add(Device *device);
/* Removes the device from the list, and waits for a command that began before. Returns false if that hangs, in the
 * driver or with a disk: the device must stay. */
bool devices_remove(Device *device);
/* Returns the device with its command mutex held; NULL if it is gone. Policy thread only. */
Device *device_command_begin(uint64_t serial);
/* device: NULL, too. */
void device_command_end(Device *device);
/* Returns false if a thread that will never run again holds a lock of the list or of a device. */
bool devices_can_be_used(void);
/* At exit(), before all else: no mark in a crash marker counts any more, and no driver gets more stored records. */
void devices_exit_begins(void);
/* For a process in which policy never started: writes what a device leaves in the store. Returns false if policy has to
 * do that, because it was started or may clear evidence about the driver. */
bool device_ends_quietly(Device *device);
/* At exit(): writes the runs' files of all devices and returns true, if none of them needs policy. */
bool devices_end_quietly(void);
/* At exit(): waits for a command that began before, and lets no other begin. written: all runs' files are complete. */
void devices_end_commands(bool written);

/* ---- opening.c ---------------------------------------------------------------------------------- */

/* Reads the folder that Store::kept names, obeys the decision, and makes the crash marker. Returns false if policy
 * must look into the folder first. Afterwards the layer may be off for the device, as Run::mode says. Store::found:
 * zeros, or what policy found. */
bool device_open_store(Device *device);
/* Returns what is in force. */
PylayerDeviceCreated device_state(const Device *device);

#endif
