// What the program prints in the end.
#ifndef DEMO_REPORT_H
#define DEMO_REPORT_H

#include "run.h"

typedef struct {
    const Device *device;
    const Objects *objects;
    const Options *options;
    Tally *tally; // its samples get sorted
    size_t cache_bytes;
    const Binaries *binaries; // NULL: it uses none
} Report;

void report_print(const Report *report);

#endif
