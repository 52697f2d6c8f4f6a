/*
 * skip.h - processes that policy leaves alone, decided without an interpreter: the rules that are built in, and those of
 * the policy file from its compiled copy.
 */
#ifndef PYLAYER_SKIP_H
#define PYLAYER_SKIP_H

#include "base.h"

/* What a rule may ask for: names and order in shim/policy/layer_tables.py. */
#define SKIP_CONDITIONS 3

typedef struct SkipRule {
    const char *patterns[SKIP_CONDITIONS]; /* NULL: anything */
} SkipRule;

/* A process as rules see it: UTF-8, or what is taken for it. */
typedef struct SkipProgram {
    const char *texts[SKIP_CONDITIONS];
    size_t sizes[SKIP_CONDITIONS];
} SkipProgram;

typedef enum SkipDecision {
    SKIP_NO,
    SKIP_YES,
    /* There is a policy file and no copy of it that can be used: policy decides, after it has made one. */
    SKIP_UNDECIDED,
} SkipDecision;

/* For an instance; `built_in`: what the built-in rules alone say. */
SkipDecision skip_decide(const PylayerInstanceInfo *application, bool *built_in);

/* What a compiled copy says, whole as it was read; it is changed. SKIP_UNDECIDED: damaged. */
SkipDecision skip_by_copy(char *copy, size_t size, const SkipProgram *program, bool built_in);

/* Whether a pattern of a rule matches a whole text, as pylayer.settings.glob_matches decides. */
bool glob_matches(const char *pattern, size_t pattern_size, const char *text, size_t text_size);

#endif
