/* patient_read.h - reads from a disk that may be slow: no pipeline waits for it longer than compiling would take */
#ifndef PYLAYER_PATIENT_READ_H
#define PYLAYER_PATIENT_READ_H

#include "base.h"

enum ReadResult {
    READ_DONE,
    READ_FAILED, /* with an error */
    READ_GONE,   /* the file is */
    READ_LATE,   /* the disk is slow, or the process has no descriptors: a later read may succeed */
};

/* Returns what a failure to open a file means, by its errno. */
enum ReadResult read_result_of_open(int reason);
/* Fills in *give_up if it is 0. Returns until when a pipeline waits for the disk: no longer than compiling takes. */
uint64_t read_deadline(const Device *device, uint64_t *give_up);

/* Reads at most `size` bytes, of which `needed` must come; *got says how many did. Waits for the disk until *give_up,
 * which a pipeline sets to 0 and its first wait fills in. */
enum ReadResult patient_read(const Device *device, int fd, void *out, size_t size, uint64_t offset, size_t needed,
                             uint64_t *give_up, size_t *got);

#endif
