/* patient_read.h - reads from a disk that may be slow: no pipeline waits for it longer than compiling would take */
#ifndef PYLAYER_PATIENT_READ_H
#define PYLAYER_PATIENT_READ_H

#include "run/run.h"
#include "process/trusted.h"

enum ReadResult {
    READ_DONE,
    READ_FAILED,  /* with an error */
    READ_REFUSED, /* the file cannot be opened, and will not be: the disk fails, or the process is in a sandbox */
    READ_GONE,    /* the file is */
    READ_LATE,    /* the disk is slow, or the process has no descriptors: a later read may succeed */
};

/* How many records a read brings. */
#define FETCH_RECORDS 12

/* Fills in *give_up if it is 0. Returns until when a pipeline waits for the disk: no longer than compiling takes. */
uint64_t read_deadline(const Run *run, uint64_t *give_up);

/* What is read: of which file, from where, at most `size` bytes, of which `needed` must come. */
typedef struct StoreRead {
    const char *directory, *name;
    FileNumber number;
    uint64_t offset;
    size_t size, needed;
} StoreRead;

/* *got says how many bytes came, *left how many the file has from there on. Waits for the disk until *give_up, which a
 * pipeline sets to 0 and its first wait fills in. */
enum ReadResult patient_read(const Run *run, const StoreRead *read, void *out, uint64_t *give_up, size_t *got,
                             uint64_t *left);

#endif
