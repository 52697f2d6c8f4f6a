/* device.h - all state that the layer holds for a device. It composes what the subjects have of it. */
#ifndef PYLAYER_DEVICE_H
#define PYLAYER_DEVICE_H

#include "binaries/binaries.h"
#include "caches/caches.h"
#include "crash/crash.h"
#include "driver/driver.h"
#include "run/run.h"
#include "shaders/shaders.h"
#include "state/state.h"
#include "store/store.h"

typedef struct Device {
    struct Device *next; /* of all devices (devices.c) */
    Driver driver;
    struct Instance *instance;
    VkPhysicalDevice physical;
    Run run;
    Store store;
    Crash crash;
    Shaders shaders;
    State state;
    Caches caches;
    Binaries binaries;

    /* Held while the policy thread runs a command on this device. vkDestroyDevice waits for it. */
    pthread_mutex_t command_mutex;
} Device;

/* The members of a PipelineCall (create_info.h) that are the device's. */
#define CALL_OF(device_) .driver = &(device_)->driver, .device = (device_)

#endif
