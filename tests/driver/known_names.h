/* known_names.h - a set of digests that only grows: what a driver gave out. Its user holds a lock. Names are not 0. */
#ifndef KNOWN_NAMES_H
#define KNOWN_NAMES_H

#include <stdint.h>
#include <stdlib.h>

static uint64_t *known;
static size_t room, used;

static size_t place_of(uint64_t name)
{
    size_t at = name % room;
    while (known[at] && known[at] != name)
        at = (at + 1) % room;
    return at;
}

static void remember_locked(uint64_t name)
{
    if (used * 2 >= room) {
        uint64_t *old = known;
        size_t old_room = room;
        room = room ? room * 2 : 1024;
        known = calloc(room, sizeof *known);
        if (!known)
            abort();
        for (size_t i = 0; i < old_room; i++)
            if (old[i])
                known[place_of(old[i])] = old[i];
        free(old);
    }
    size_t at = place_of(name);
    used += known[at] == 0;
    known[at] = name;
}

#endif
