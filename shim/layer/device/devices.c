/* devices.c - see devices.h */
#include "device/devices.h"

#include "crash/sentinel.h"
#include "mailbox/mailbox.h"
#include "process/spread_lock.h"
#include "process/process.h"
#include "store/run_file.h"

static pthread_mutex_t devices_mutex = PTHREAD_MUTEX_INITIALIZER;
static Device *devices;
static bool commands_ended;

/* exit() waits no longer than this for a command. A command that takes longer hangs in the driver. */
#define COMMAND_END_NS 1000000000ull

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
    for (Device *device = devices; device && free_ones; device = device->next)
        free_ones = locks_can_be_had(device);
    pthread_mutex_unlock(&devices_mutex);
    return free_ones;
}

void devices_exit_begins(void)
{
    sentinel_exit_begins();
    if (!mutex_can_be_had(&devices_mutex))
        return;
    pthread_mutex_lock(&devices_mutex);
    for (Device *device = devices; device; device = device->next)
        if (pthread_mutex_trylock(&device->command_mutex) == 0) {
            sentinel_forget(&device->crash);
            pthread_mutex_unlock(&device->command_mutex);
        }
    pthread_mutex_unlock(&devices_mutex);
}

void devices_stop_loading(void)
{
    pthread_mutex_lock(&devices_mutex);
    for (Device *device = devices; device; device = device->next)
        loading_abandon(&device->caches);
    pthread_mutex_unlock(&devices_mutex);
}

void devices_policy_ended(void)
{
    pthread_mutex_lock(&devices_mutex);
    for (Device *device = devices; device; device = device->next) {
        if (atomic_load(&device->store.stored.open))
            loading_end(&device->caches); /* the layer goes on reading */
        else
            loading_abandon(&device->caches);
    }
    pthread_mutex_unlock(&devices_mutex);
}

bool device_ends_quietly(Device *device)
{
    /* Policy asks the device what it counted, so it cannot wait until exit(). */
    if (mailbox_is_open() && device->store.has_undecided)
        return false;
    if (!mailbox_withdraw(device->run.serial, device->store.wants_work))
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

void devices_end_commands(void)
{
    uint64_t end = now_ns() + COMMAND_END_NS;
    pthread_mutex_lock(&devices_mutex);
    commands_ended = true;
    for (Device *device = devices; device; device = device->next) {
        uint64_t now = now_ns();
        if (!mutex_lock_within(&device->command_mutex, now < end ? end - now : 0))
            continue; /* it hangs */
        pthread_mutex_unlock(&device->command_mutex);
        sentinel_remove(&device->crash);
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

/* If policy's command on a device has not returned this long after vkDestroyDevice stopped loading, the driver
 * hangs in it. */
#define COMMAND_WAIT_NS 5000000000ull

bool devices_remove(Device *device)
{
    pthread_mutex_lock(&devices_mutex);
    Device **link = &devices;
    while (*link && *link != device)
        link = &(*link)->next;
    if (*link)
        *link = device->next;
    pthread_mutex_unlock(&devices_mutex);
    if (!mutex_lock_within(&device->command_mutex, COMMAND_WAIT_NS))
        return false;
    pthread_mutex_unlock(&device->command_mutex);
    return true;
}
