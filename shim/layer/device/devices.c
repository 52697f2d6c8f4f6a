/* devices.c - see devices.h */
#include "device/devices.h"

#include <stdlib.h>

#include "crash/sentinel.h"
#include "crash/sentinel_file.h"
#include "device/device.h"
#include "device/ending.h"
#include "mailbox/mailbox.h"
#include "process/patience.h"
#include "process/process.h"

static pthread_mutex_t devices_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct DeviceNode {
    Device *device;
    struct DeviceNode *next;
} *devices;
static bool commands_ended;

/* exit() waits no longer than this for a command. A command that takes longer hangs in the driver. */
#define COMMAND_END_NS 1000000000ull

Device *device_command_begin(uint64_t serial)
{
    Device *found = NULL;
    pthread_mutex_lock(&devices_mutex);
    for (struct DeviceNode *node = devices; node && !found && !commands_ended; node = node->next)
        if (node->device->run.serial == serial)
            found = node->device;
    if (found)
        pthread_mutex_lock(&found->command_mutex);
    pthread_mutex_unlock(&devices_mutex);
    return found;
}

void device_command_end(Device *device)
{
    pthread_mutex_unlock(&device->command_mutex);
}

/* Returns false if a thread that cannot go on holds a lock that exit() needs: the one whose handler called exit(). */
static bool locks_can_be_had(Device *device)
{
    bool all = mutex_can_be_had(&device->caches.loading.mutex) && mutex_can_be_had(&device->store.stored.mutex) &&
               mutex_can_be_had(&device->caches.given_mutex);
    for (unsigned i = 0; i < SEEN_SHARDS && all; i++)
        all = mutex_can_be_had(&device->run.seen.shards[i].mutex);
    return all;
}

bool devices_can_be_used(void)
{
    if (!mutex_can_be_had(&devices_mutex))
        return false;
    bool free_ones = true;
    pthread_mutex_lock(&devices_mutex);
    for (struct DeviceNode *node = devices; node && free_ones; node = node->next)
        free_ones = locks_can_be_had(node->device);
    pthread_mutex_unlock(&devices_mutex);
    return free_ones;
}

void devices_exit_begins(void)
{
    sentinel_exit_begins();
    if (!mutex_can_be_had(&devices_mutex))
        return;
    pthread_mutex_lock(&devices_mutex);
    for (struct DeviceNode *node = devices; node; node = node->next)
        if (pthread_mutex_trylock(&node->device->command_mutex) == 0) {
            sentinel_forget(&node->device->crash);
            pthread_mutex_unlock(&node->device->command_mutex);
        }
    pthread_mutex_unlock(&devices_mutex);
}

void devices_stop_loading(void)
{
    pthread_mutex_lock(&devices_mutex);
    for (struct DeviceNode *node = devices; node; node = node->next)
        loading_abandon(&node->device->caches);
    pthread_mutex_unlock(&devices_mutex);
}

void devices_policy_ended(void)
{
    pthread_mutex_lock(&devices_mutex);
    for (struct DeviceNode *node = devices; node; node = node->next) {
        if (atomic_load(&node->device->store.stored.open))
            loading_end(&node->device->caches); /* the layer goes on reading */
        else
            loading_abandon(&node->device->caches);
    }
    pthread_mutex_unlock(&devices_mutex);
}

bool devices_end_quietly(void)
{
    bool all = true;
    pthread_mutex_lock(&devices_mutex);
    for (struct DeviceNode *node = devices; node; node = node->next)
        all &= !(node->device->store.wants_work && mailbox_is_open()) && device_ends_quietly(node->device);
    pthread_mutex_unlock(&devices_mutex);
    return all;
}

void devices_end_commands(void)
{
    uint64_t end = now_ns() + COMMAND_END_NS;
    pthread_mutex_lock(&devices_mutex);
    commands_ended = true;
    for (struct DeviceNode *node = devices; node; node = node->next) {
        uint64_t now = now_ns();
        bool hangs = !mutex_lock_within(&node->device->command_mutex, now < end ? end - now : 0);
        if (!hangs)
            pthread_mutex_unlock(&node->device->command_mutex);
        if (!hangs)
            sentinel_remove(&node->device->crash);
    }
    pthread_mutex_unlock(&devices_mutex);
}

bool devices_add(Device *device)
{
    struct DeviceNode *node = malloc(sizeof *node);
    if (!node)
        return false;
    node->device = device;
    pthread_mutex_lock(&devices_mutex);
    node->next = devices;
    devices = node;
    pthread_mutex_unlock(&devices_mutex);
    return true;
}

/* If policy's command on a device has not returned this long after vkDestroyDevice stopped loading, the driver
 * hangs in it. */
#define COMMAND_WAIT_NS 5000000000ull

bool devices_remove(Device *device)
{
    pthread_mutex_lock(&devices_mutex);
    for (struct DeviceNode **at = &devices; *at; at = &(*at)->next) {
        if ((*at)->device == device) {
            struct DeviceNode *node = *at;
            *at = node->next;
            free(node);
            break;
        }
    }
    pthread_mutex_unlock(&devices_mutex);
    if (!mutex_lock_within(&device->command_mutex, COMMAND_WAIT_NS))
        return false;
    pthread_mutex_unlock(&device->command_mutex);
    return true;
}
