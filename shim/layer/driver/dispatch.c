/*
 * dispatch.c - maps a dispatch key to its Instance or Device, and is read without a lock on every intercepted call.
 *
 * A program has few of them, so they are searched one after the other. Keys are pointers that the loader reuses after
 * destruction, so entries must be removed explicitly. Another thread may take the free slot at once.
 */
#include "driver/dispatch.h"

DispatchTable instance_table, device_table;

static char taken; /* the key of a slot that is being filled */

bool dispatch_insert(DispatchTable *table, void *key, void *object)
{
    for (unsigned slot = 0; slot < MAX_DISPATCH_OBJECTS; slot++) {
        void *none = NULL;
        if (!atomic_compare_exchange_strong(&table->slots[slot].key, &none, &taken))
            continue;
        unsigned used = atomic_load(&table->used);
        while (used <= slot && !atomic_compare_exchange_weak(&table->used, &used, slot + 1))
            ;
        atomic_store_explicit(&table->slots[slot].object, object, memory_order_relaxed);
        atomic_store_explicit(&table->slots[slot].key, key, memory_order_release);
        return true;
    }
    return false;
}

/* Returns MAX_DISPATCH_OBJECTS if the key is not there. */
static unsigned find_slot(DispatchTable *table, const void *key)
{
    unsigned used = atomic_load_explicit(&table->used, memory_order_relaxed);
    for (unsigned slot = 0; slot < used; slot++)
        if (atomic_load_explicit(&table->slots[slot].key, memory_order_acquire) == key)
            return slot;
    return MAX_DISPATCH_OBJECTS;
}

void *dispatch_find(DispatchTable *table, const void *key)
{
    unsigned slot = find_slot(table, key);
    return slot == MAX_DISPATCH_OBJECTS ? NULL : atomic_load_explicit(&table->slots[slot].object, memory_order_relaxed);
}

void *dispatch_remove(DispatchTable *table, const void *key)
{
    void *object = dispatch_find(table, key);
    if (object)
        atomic_store_explicit(&table->slots[find_slot(table, key)].key, NULL, memory_order_release);
    return object;
}
