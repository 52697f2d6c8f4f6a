/*
 * added_calls.h - the calls to the driver that the layer adds to what the application asked for, and which of them are
 * switched off on a device.
 *
 * Without the layer a program would not make them, so a driver's fault in one of them must not cost more than one
 * crash: NVIDIA's driver (580.159.04) crashes in vkGetPipelineKeyKHR and in vkCreatePipelineBinariesKHR for some
 * pipelines (measured). Each is marked in the crash sentinel. When a process dies in one, later processes switch it off
 * for that kind of pipeline.
 */
#ifndef PYLAYER_ADDED_CALLS_H
#define PYLAYER_ADDED_CALLS_H

#include "base.h"

typedef struct AddedCalls {
    atomic_uint off[PYLAYER_MARK_END - PYLAYER_MARK_ADDED]; /* bit masks of PylayerPipelineKind, by PylayerMarkedCall */
} AddedCalls;

/* Returns false if the layer adds no such call, or if there is no such kind. */
bool call_switch_off(AddedCalls *calls, unsigned call, unsigned kind);

/* Of the calls that are switched off together (call_switch_off), ask for the first: KEY, CELL. */
static inline bool call_is_off(const AddedCalls *calls, enum PylayerMarkedCall call, unsigned kind)
{
    return atomic_load_explicit(&calls->off[call - PYLAYER_MARK_ADDED], memory_order_relaxed) >> kind & 1;
}

#endif
