/* allocator.h - memory for the driver's device that is not the application's */
#ifndef PYLAYER_ALLOCATOR_H
#define PYLAYER_ALLOCATOR_H

#include "base.h"

const VkAllocationCallbacks *own_allocator(void);

#endif
