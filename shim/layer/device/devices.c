/* devices.c - see devices.h */
#include "device/devices.h"

#include "crash/crash.h"
#include "process/process.h"
#include "store/run_file.h"

static pthread_mutex_t devices_mutex = PTHREAD_MUTEX_INITIALIZER;
static Device *devices;
static bool commands_ended;

Device *device_command_begin(uint64_t serial)
{
    Device *found = NULL;
    pthread_mutex_lock(&devices_mutex);
    for (Device *device = devices; device && !found && !commands_ended; device = device->next)
        if (device->run.serial == serial)
            found = device;
    if (found)
        pthread_mutex_lock(&found->command_mutex);
    pthread_mutex_unlock(&devices_mutex);
    return found;
}

void device_command_end(Device *device)
{
    if (device)
        pthread_mutex_unlock(&device->command_mutex);
}

/* Returns false if a thread that cannot go on holds a lock that exit() needs: the one whose handler called exit(). */
static bool locks_can_be_had(Device *device)
{
    bool all = mutex_can_be_had(&device->store.stored.mutex) && mutex_can_be_had(&device->caches.given_mutex) &&
               mutex_can_be_had(&device->command_mutex);
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
    for (Device *device = devices; device && free_ones; device = device->next)
        free_ones = locks_can_be_had(device);
    pthread_mutex_unlock(&devices_mutex);
    return free_ones;
}

void devices_exit_begins(void)
{
    marker_exit_begins();
    if (!mutex_can_be_had(&devices_mutex))
        return;
    pthread_mutex_lock(&devices_mutex);
    for (Device *device = devices; device; device = device->next) {
        marker_forget(&device->crash);
        atomic_store(&device->caches.ending, true);
    }
    pthread_mutex_unlock(&devices_mutex);
}

bool device_ends_quietly(Device *device)
{
    bool undecided = mailbox_is_open() && atomic_load(&device->store.undecided);
    if (undecided || !mailbox_withdraw(device->run.serial, device->store.wants_work))
        return false;
    if (!atomic_load(&device->run.written)) /* a program may destroy its devices after exit() has called the layer */
        uses_write(&device->store);
    run_file_write(&device->store);
    return true;
}

bool devices_end_quietly(void)
{
    bool all = true;
    pthread_mutex_lock(&devices_mutex);
    for (Device *device = devices; device; device = device->next)
        all &= !(device->store.wants_work && mailbox_is_open()) && device_ends_quietly(device);
    pthread_mutex_unlock(&devices_mutex);
    return all;
}

void devices_end_commands(bool written)
{
    pthread_mutex_lock(&devices_mutex);
    commands_ended = true;
    for (Device *device = devices; device; device = device->next) {
        if (!mutex_can_be_had(&device->command_mutex)) /* a command hangs with the disk */
            continue;
        if (!written)
            run_file_write(&device->store);
        marker_remove(&device->crash);
    }
    pthread_mutex_unlock(&devices_mutex);
}

void devices_add(Device *device)
{
    pthread_mutex_lock(&devices_mutex);
    device->next = devices;
    devices = device;
    pthread_mutex_unlock(&devices_mutex);
}

bool devices_remove(Device *device)
{
    pthread_mutex_lock(&devices_mutex);
    Device **link = &devices;
    while (*link && *link != device)
        link = &(*link)->next;
    if (*link)
        *link = device->next;
    pthread_mutex_unlock(&devices_mutex);
    /* A command that began before ends first. */
    if (!mutex_lock_within(&device->command_mutex, FLUSH_WAIT_NS))
        return false;
    pthread_mutex_unlock(&device->command_mutex);
    return true;
}
