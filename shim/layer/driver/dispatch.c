/*
 * dispatch.c - maps a dispatch key to its Instance or Device, and is read without a lock on every intercepted call.
 *
 * The table is fixed and uses open addressing. A removed slot remains as a tombstone, so that a probe sequence that
 * passed it still finds the entries after it. Keys are pointers that the loader reuses after destruction, so entries
 * must be removed explicitly.
 */
#include "driver/dispatch.h"
#include "process/process.h"

DispatchTable instance_table, device_table;

static pthread_mutex_t write_mutex = PTHREAD_MUTEX_INITIALIZER;

/* In the child of a fork, a thread that does not exist there may hold the mutex. The child has one thread and needs
 * no lock. */
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
