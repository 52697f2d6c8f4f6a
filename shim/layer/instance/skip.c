/*
 * skip.c - see skip.h.
 *
 * Policy reads the same compiled copy instead of YAML (pylayer/common/compiled.py). The copy's name contains the
 * digest of the policy files' bytes, so a copy can be missing but never out of date. Its first line is the digest of
 * the rest, its second has the rules. Policy writes the copy when it first reads a policy file. So after a change the interpreter starts once,
 * in whichever process comes first. It starts in every process if there can be no copy: the policy file has errors, or
 * the store cannot be written to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "process/aside.h"
#include "process/local.h"
#include "process/process.h"
#include "process/program_name.h"
#include "instance/skip.h"
#include "process/trusted.h"

#include "../../../build/layer_tables.h"

/* The largest copy read here. Policy reads larger ones. */
#define MAX_COPY_BYTES (1u << 20)

/* ---- globs -------------------------------------------------------------------------------------- */

static char lower(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return (char)(letter + ('a' - 'A'));
    return letter;
}

/* Returns the offset of the next UTF-8 character. */
static size_t after_character(const char *text, size_t size, size_t at)
{
    do
        at++;
    while (at < size && ((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}

bool glob_matches(const char *pattern, size_t pattern_size, const char *text, size_t text_size)
{
    size_t at = 0, position = 0, star = SIZE_MAX, mark = 0;
    while (position < text_size) {
        if (at < pattern_size && pattern[at] == '*') {
            star = ++at;
            mark = position;
        } else if (at < pattern_size && pattern[at] == '?') {
            position = after_character(text, text_size, position);
            at++;
        } else if (at < pattern_size && lower(pattern[at]) == lower(text[position])) {
            position++;
            at++;
        } else if (star != SIZE_MAX) {
            at = star;
            position = ++mark;
        } else {
            return false;
        }
    }
    while (at < pattern_size && pattern[at] == '*')
        at++;
    return at == pattern_size;
}

/* ---- rules ---------------------------------------------------------------------------------------- */

/* Decides by rules as skip_line in pylayer/common/compiled.py writes them: for each an s, or an n for one of never_skip,
 * and its patterns, each with a zero behind it. */
static SkipDecision decide_by_rules(const char *rules, size_t size, const SkipProgram *program, bool built_in)
{
    bool skip = built_in, never = false;
    for (const char *at = rules, *end = rules + size; at < end;) {
        bool *decides = *at == 's' ? &skip : &never, holds = true;
        if (*at != 's' && *at != 'n')
            return SKIP_UNDECIDED;
        at++;
        for (size_t c = 0; c < SKIP_CONDITIONS; c++) {
            const char *stop = memchr(at, '\0', (size_t)(end - at));
            if (!stop)
                return SKIP_UNDECIDED;
            holds = holds && glob_matches(at, (size_t)(stop - at), program->texts[c], program->sizes[c]);
            at = stop + 1;
        }
        *decides |= holds;
    }
    return skip && !never ? SKIP_YES : SKIP_NO;
}

/* ---- the compiled copy ------------------------------------------------------------------------------ */

static bool is_whole(const char *copy, size_t size)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    char hex[DIGEST_HEX_BYTES];
    size_t head = sizeof hex; /* the zero of the hex string stands for the newline */
    if (size < head || copy[head - 1] != '\n')
        return false;
    digest128(copy + head, size - head, digest);
    digest_hex(hex, digest);
    return memcmp(hex, copy, head - 1) == 0;
}

SkipDecision skip_by_copy(const char *copy, size_t size, const SkipProgram *program, bool built_in)
{
    const char *rules = copy + DIGEST_HEX_BYTES;
    const char *end = is_whole(copy, size) ? memchr(rules, '\n', size - DIGEST_HEX_BYTES) : NULL;
    return end ? decide_by_rules(rules, (size_t)(end - rules), program, built_in) : SKIP_UNDECIDED;
}

/* ---- the policy files ----------------------------------------------------------------------------------- */

/* Writes the name of the policy files' copy, as pylayer/common/compiled.py names it. Returns CONFIG_NONE if there is no
 * policy file, CONFIG_FAILED if one cannot be used. */
static enum ConfigFile name_copy(char name[DIGEST_HEX_BYTES + 5], char files[POLICY_FILES][PATH_BYTES])
{
    static const char suffix[] = COPY_NAME_SUFFIX;
    uint8_t digest[PYLAYER_DIGEST_BYTES], text[POLICY_FILES * sizeof digest + sizeof suffix - 1];
    enum ConfigFile result = CONFIG_NONE;
    struct stat found;
    for (int which = 0; which < POLICY_FILES; which++) {
        enum ConfigFile one = read_config_file(which, files[which], &found, text + which * sizeof digest);
        if (one == CONFIG_FAILED || (one == CONFIG_READ && result == CONFIG_NONE))
            result = one;
    }
    memcpy(text + POLICY_FILES * sizeof digest, suffix, sizeof suffix - 1);
    digest128(text, sizeof text, digest);
    digest_hex(name, digest);
    memcpy(name + 2 * sizeof digest, ".flat", sizeof ".flat");
    return result;
}

/* What there is of the policy files. */
typedef struct Policy {
    Aside aside;
    char files[POLICY_FILES][PATH_BYTES], directory[PATH_BYTES + 8];
    enum ConfigFile found;
    char *copy; /* malloc'd; NULL if there is none */
    size_t size;
} Policy;

static void read_policy(Aside *aside)
{
    Policy *policy = (Policy *)aside;
    char name[DIGEST_HEX_BYTES + 5];
    policy->found = name_copy(name, policy->files);
    if (policy->found == CONFIG_READ && *policy->directory)
        policy->copy = read_all(open_in_store(policy->directory, name), MAX_COPY_BYTES, 0, &policy->size);
}

static void discard_policy(Aside *aside)
{
    free(((Policy *)aside)->copy);
    free(aside);
}

static SkipDecision decide(const SkipProgram *program, bool built_in)
{
    Policy *policy = calloc(1, sizeof *policy);
    if (!policy)
        return SKIP_UNDECIDED;
    policy->aside = (Aside){.work = read_policy, .discard = discard_policy};
    for (int which = 0; which < POLICY_FILES; which++)
        config_file_path(which, policy->files[which]);
    store_root_path(policy->directory);
    if (*policy->directory)
        memcpy(policy->directory + strlen(policy->directory), "/policy", sizeof "/policy");
    if (!aside_do(&policy->aside, config_is_local() && store_is_local(), ASIDE_WAIT_NS))
        return SKIP_UNDECIDED;
    SkipDecision decision = SKIP_UNDECIDED;
    if (policy->found == CONFIG_NONE)
        decision = built_in ? SKIP_YES : SKIP_NO;
    else if (policy->copy)
        decision = skip_by_copy(policy->copy, policy->size, program, built_in);
    discard_policy(&policy->aside);
    return decision;
}

SkipDecision skip_decide(const PylayerInstanceInfo *application, bool *built_in)
{
    SkipProgram program = {.texts = {"", application->application_name, application->engine_name},
                           .sizes = {0, strlen(application->application_name), strlen(application->engine_name)}};
    const char *executable = executable_name();
    if (executable) {
        program.texts[0] = executable;
        program.sizes[0] = strlen(executable);
    }
    *built_in = decide_by_rules(built_in_rules, sizeof built_in_rules - 1, &program, false) == SKIP_YES;
    SkipDecision decision = decide(&program, *built_in);
    if (decision == SKIP_YES)
        log_line(PYLAYER_LOG_INFO, "a skip rule of %s matches %s; the layer does nothing for it",
                 *built_in ? "pylayer itself" : "the policy file", program.texts[0]);
    return decision;
}
