/* allocator.h - the memory that the driver's device uses in place of the application's callbacks */
#ifndef PYLAYER_ALLOCATOR_H
#define PYLAYER_ALLOCATOR_H

#include "base.h"

const VkAllocationCallbacks *own_allocator(void);

#endif
