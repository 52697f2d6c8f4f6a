/*
 * owner.h - which process wrote a file of the store, and whether it lives: pylayer/common/owner.py in C.
 * tests/unit/test_owner.py has one table of cases for both.
 */
#ifndef PYLAYER_OWNER_H
#define PYLAYER_OWNER_H

#include "store/store_format.h"

typedef enum OwnerState {
    OWNER_ALIVE,
    OWNER_DEAD,
    OWNER_ELSEWHERE, /* on another machine or in another pid namespace, or /proc does not tell */
} OwnerState;

/* Describes this process. What /proc does not tell is 0. */
void owner_write(Owner *owner);
OwnerState owner_state(const Owner *owner);

#endif
