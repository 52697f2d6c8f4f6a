/*
 * skip.h - decides without an interpreter which processes policy skips: by the built-in rules, and by the policy
 * file's rules, read from its compiled copy.
 */
#ifndef PYLAYER_SKIP_H
#define PYLAYER_SKIP_H

#include "base.h"

/* The conditions of a rule: executable, application, engine. */
#define SKIP_CONDITIONS 3

/* A process as rules see it. Texts are treated as UTF-8. */
typedef struct SkipProgram {
    const char *texts[SKIP_CONDITIONS];
    size_t sizes[SKIP_CONDITIONS];
} SkipProgram;

enum PylayerSkip skip_decide(const PylayerInstanceInfo *application);

/* Decides by a compiled copy, passed complete as it was read. Returns PYLAYER_SKIP_ASK if it is damaged, or has rules
 * that only policy can read. */
enum PylayerSkip skip_by_copy(const char *copy, size_t size, const SkipProgram *program, bool built_in);

/* Returns true if a rule's pattern matches the whole text, as glob_matches in pylayer/common/settings.py does. */
bool glob_matches(const char *pattern, size_t pattern_size, const char *text, size_t text_size);

#endif
