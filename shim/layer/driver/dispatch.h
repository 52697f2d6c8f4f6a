/* dispatch.h - maps a dispatch key to its Instance or Device */
#ifndef PYLAYER_DISPATCH_H
#define PYLAYER_DISPATCH_H

#include "base.h"

/* The most instances, and the most devices, alive at once in one process. The table never grows, so readers need no
 * lock. Creating an object that does not fit fails with VK_ERROR_TOO_MANY_OBJECTS. */
#define MAX_DISPATCH_OBJECTS 4096

/* The dispatch key: the loader's table pointer at the start of every dispatchable handle. */
static inline void *dispatch_key(const void *handle)
{
    return *(void *const *)handle;
}

typedef struct DispatchTable {
    atomic_uint used; /* no slot from here on was ever used */
    struct {
        _Atomic(void *) key;
        _Atomic(void *) object;
    } slots[MAX_DISPATCH_OBJECTS];
} DispatchTable;

extern DispatchTable instance_table, device_table;

bool dispatch_insert(DispatchTable *table, void *key, void *object);
void *dispatch_remove(DispatchTable *table, const void *key);
void *dispatch_find(DispatchTable *table, const void *key);

#endif
