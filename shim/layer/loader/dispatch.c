/*
 * dispatch.c - dispatch key to Instance or Device, read without a lock on every intercepted call.
 *
 * Open addressing over a fixed table. A removed slot keeps its place as a tombstone, so that a probe
 * sequence which passed it still finds what lies behind. Keys are pointers that the loader reuses after
 * destruction, hence removal is explicit.
 */
#include "loader/dispatch.h"
#include "process/process.h"

DispatchTable instance_table, device_table;

static pthread_mutex_t write_mutex = PTHREAD_MUTEX_INITIALIZER;

/* The child of a fork has one thread, and the mutex may have been held by one that it lacks. */
static void lock(void)
{
    if (!process_is_forked_child())
        pthread_mutex_lock(&write_mutex);
}

static void unlock(void)
{
    if (!process_is_forked_child())
        pthread_mutex_unlock(&write_mutex);
}

static char tombstone;

static unsigned slot_of(void *key)
{
    uint64_t mixed = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ull;
    return (unsigned)(mixed >> 48) % MAX_DISPATCH_OBJECTS;
}

bool dispatch_insert(DispatchTable *table, void *key, void *object)
{
    bool inserted = false;
    lock();
    unsigned slot = slot_of(key);
    for (unsigned i = 0; i < MAX_DISPATCH_OBJECTS && !inserted; i++, slot = (slot + 1) % MAX_DISPATCH_OBJECTS) {
        void *found = atomic_load_explicit(&table->slots[slot].key, memory_order_relaxed);
        if (found == NULL || found == &tombstone) {
            atomic_store_explicit(&table->slots[slot].object, object, memory_order_relaxed);
            atomic_store_explicit(&table->slots[slot].key, key, memory_order_release);
            inserted = true;
        }
    }
    unlock();
    return inserted;
}

static int find_slot(DispatchTable *table, void *key)
{
    unsigned slot = slot_of(key);
    for (unsigned i = 0; i < MAX_DISPATCH_OBJECTS; i++, slot = (slot + 1) % MAX_DISPATCH_OBJECTS) {
        void *found = atomic_load_explicit(&table->slots[slot].key, memory_order_acquire);
        if (found == key)
            return (int)slot;
        if (found == NULL)
            return -1;
    }
    return -1;
}

void *dispatch_find(DispatchTable *table, void *key)
{
    int slot = find_slot(table, key);
    return slot < 0 ? NULL : atomic_load_explicit(&table->slots[slot].object, memory_order_relaxed);
}

void *dispatch_remove(DispatchTable *table, void *key)
{
    lock();
    int slot = find_slot(table, key);
    void *object = NULL;
    if (slot >= 0) {
        object = atomic_load_explicit(&table->slots[slot].object, memory_order_relaxed);
        atomic_store_explicit(&table->slots[slot].key, &tombstone, memory_order_release);
    }
    unlock();
    return object;
}
