/*
 * batch.h - one call of vkCreate*Pipelines on its way through a carrier, and what the carriers have in common.
 *
 * carrier_cells.c     by VkPipelineCache, each miss in a cell
 * carrier_binaries.c  by pipeline key
 * carrier_snapshot.c  by VkPipelineCache, without asking first
 * carrier_observe.c   not at all: counted
 */
#ifndef PYLAYER_BATCH_H
#define PYLAYER_BATCH_H

#include "pipelines/creations.h"

typedef struct Batch {
    PipelineCall *call;
    AppCache *app_cache; /* NULL: the application passed none, or one the layer does not know */
    Element *elements;
    char *infos;          /* changed copies, in the call's own layout */
    VkPipelineCache cell; /* what is being compiled into */
    VkResult result;
    bool suspects;   /* Element::suspect of any */
    bool after_load; /* the probe saw everything that the store holds */
    /* Of those created without a probe, how many were compiled, and the first of them; until they are told. */
    uint32_t plain_compiled, first_compiled;
} Batch;

/* Element::suspect, of all. */
void batch_find_suspects(Batch *batch);
/* Waits for the store, before which it is not known what is suspected. */
void batch_wait_for_load(Batch *batch);
/* vkCreate*Pipelines of the next layer with a cache, for the batch's elements from the first, with what merging into that
 * cache and the crash sentinel need. duration_ns: NULL where nobody wants to know. */
VkResult batch_call(Batch *batch, VkPipelineCache cache, bool may_compile, uint32_t first, uint32_t info_count,
                    const void *infos, VkPipeline *pipelines, uint64_t *duration_ns);
/* One element of the batch by itself, with more flags set. */
VkResult batch_create_one(Batch *batch, uint32_t index, VkPipelineCache cache, uint64_t set, VkPipeline *pipeline,
                          uint64_t *duration_ns);
/* Batch::infos for one call that makes all of them without a probe. Returns whether one of them may compile. */
bool batch_prepare_plain(Batch *batch);
/* Creates, one by one, what is not there yet. */
typedef VkResult (*CreateFn)(Batch *batch, uint32_t index);
void batch_create_each(Batch *batch, CreateFn create);
/* A pipeline was created for the application, whichever way. */
void batch_note_created(const Batch *batch, uint32_t index);
/* The same, with a cache and without a probe. from_layer: with the layer's cache. */
void batch_note_plain(Batch *batch, uint32_t index, bool from_layer, uint64_t duration_ns);
PylayerCell batch_about_cell(const Batch *batch, uint32_t index, uint8_t flags, uint64_t create_ns);

#endif
