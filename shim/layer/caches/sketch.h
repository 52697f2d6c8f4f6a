/* sketch.h - recognising a damaged copy of a program's cache data */
#ifndef PYLAYER_SKETCH_H
#define PYLAYER_SKETCH_H

#include "base.h"

/* Returns the sketch, which the caller frees, or NULL if there is no memory. */
uint8_t *sketch_of(const void *data, uint64_t size, uint64_t *sketch_size);

#endif
