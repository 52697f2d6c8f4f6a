/*
 * stored.h - finds stored pipelines by their fingerprints and gives them to the driver when they are created.
 *
 * The layer does this itself where policy needs not be asked: kept_plans.h says for which devices. Then no pipeline
 * waits for the interpreter, and what the program does not create is not read.
 */
#ifndef PYLAYER_STORED_H
#define PYLAYER_STORED_H

#include "base.h"
#include "store/store_index.h"

void stored_init(Device *device);
void stored_free(Device *device);
/* Reads the folder of a header's identity and program, and makes the crash sentinel with that header. Returns false if
 * policy must read the folder instead (index_read_folder). */
bool stored_open(Device *device, const FileHeader *header, bool every_program, bool sentinel_outside,
                 StoredFound *found);
/* Gives the driver all stored cells with this fingerprint, and those behind them in their files, which a program
 * usually creates next. Returns when the layer's cache holds them. */
void stored_fetch(Device *device, uint64_t fingerprint);

#endif
