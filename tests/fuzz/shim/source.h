/* source.h - bytes of an input as numbers, 0 where they are used up, and memory of exact sizes */
#ifndef PYLAYER_FUZZ_SOURCE_H
#define PYLAYER_FUZZ_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the process where what follows from the specification, or from the headers of shim/layer, does not hold. */
#define expect(condition, said)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            broken(__FILE__, __LINE__, said);                                                                          \
    } while (0)
_Noreturn void broken(const char *file, int line, const char *said);

void source_open(const uint8_t *data, size_t size);
/* Frees all room(). */
void source_close(void);
bool source_is_empty(void);
uint8_t take8(void);
uint32_t take32(void);
uint64_t take64(void);
/* From 0 to limit - 1. */
uint32_t below(uint32_t limit);
/* In so many of 16 cases, none at the end of the bytes. */
bool chance(unsigned of_16);
/* Zeroed, and not a byte larger. */
void *room(size_t size);
/* What may not be read. */
void *anywhere(void);
/* Zeroed elements, and bytes; where there are none, anywhere. */
void *array(size_t count, size_t size);
void *bytes(size_t size);
/* Reads every byte. */
void touch(const void *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
