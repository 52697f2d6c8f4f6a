/*
 * verdicts.h - what earlier runs decided that makes this one do less: pylayer/store/verdicts.py, which has the policy.
 *
 * Policy writes the files, and the layer obeys them without the interpreter. Program 0 has what concerns all programs.
 * For each type, kind and subject the newest decision counts.
 */
#ifndef PYLAYER_VERDICTS_H
#define PYLAYER_VERDICTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_format.h"

/*
 * Types, of pylayer/store/verdicts.py:
 * VERDICT_STUB         the driver's caches keep nothing: the layer is off
 * VERDICT_RECORD       subject: the beginning of a record's digest. The driver must not get it
 * VERDICT_PIPELINE     subject: a fingerprint. The pipeline is created without stored data
 * VERDICT_KIND         kind: the same for pipelines without a fingerprint
 * VERDICT_APPLICATION  subject: the beginning of the digest of application data, which policy refuses
 * VERDICT_ADDED_CALL   subject: a PylayerMarkedCall that is not made for this kind
 * VERDICT_LAYER_OFF    processes died too often: the layer is off
 */

typedef struct VerdictEntry {
    uint8_t type, kind;
    uint16_t runs;
    uint32_t flags; /* VERDICT_DECIDED: without it the entry is evidence that does not suffice */
    uint64_t subject;
    uint64_t decided_ns;
    uint64_t until_s; /* 0: cleared */
    uint64_t found_ns;
} VerdictEntry;
_Static_assert(sizeof(VerdictEntry) == 40, "verdicts.ENTRY");

/* All zero: nothing is decided. */
typedef struct Verdicts {
    VerdictEntry *entries;
    size_t count;
    bool undecided; /* verdicts_settle: policy should watch this run, because it may end a trial or clear evidence */
} Verdicts;

/* Adds entries as a record has them. */
void verdicts_add(Verdicts *verdicts, const uint8_t *data, uint64_t size);
/* Adds the entries of a file. One that cannot be read, or is a newer version's, has none. Returns false if the file is
 * gone or cannot be opened at this moment: another process may have put its entries into a new file. */
bool verdicts_read(Verdicts *verdicts, const char *directory, const char *name,
                   const uint8_t identity[PYLAYER_DIGEST_BYTES]);
/* Keeps what is in force at this time, one entry for each key, in the order of type, kind and subject. */
void verdicts_settle(Verdicts *verdicts, uint64_t now_s);
/* Returns the first entry of a type and sets *count to how many there are. verdicts_settle comes before. */
const VerdictEntry *verdicts_of(const Verdicts *verdicts, uint8_t type, size_t *count);
/* Returns the verdict by which the layer is off; NULL if there is none. with_caches: it needs VkPipelineCaches. */
const VerdictEntry *verdicts_off(const Verdicts *verdicts, bool with_caches);
/* Returns what people are told of a type by which the layer is off. */
const char *verdict_reason(unsigned type);
void verdicts_free(Verdicts *verdicts);

#endif
