/*
 * skip.c - see skip.h.
 *
 * Policy reads the same compiled copy instead of YAML (pylayer/common/compiled.py). The copy's name contains the
 * digest of the policy files' bytes, so a copy can be missing but never out of date. It has the digest of the
 * rest, then a line with the rules. Policy writes the copy when it first reads a policy file. So after a change the
 * interpreter starts once, in whichever process comes first. It starts in every process if there can be no copy: the
 * policy file has errors, or the store cannot be written to.
 */
#include <string.h>

#include "instance/skip.h"
#include "policy/policy.h"
#include "process/program_name.h"

#include "../../../build/layer_tables.h"

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

/* Decides by rules as skip_line in pylayer/common/compiled.py writes them: for each an s, or an n for one of
 * never_skip, and its patterns, each with a zero behind it. */
static enum PylayerSkip decide_by_rules(const char *rules, size_t size, const SkipProgram *program, bool built_in)
{
    bool skip = built_in, never = false;
    for (const char *at = rules, *end = rules + size; at < end;) {
        bool *decides = *at == 's' ? &skip : &never, holds = true;
        if (*at != 's' && *at != 'n')
            return PYLAYER_SKIP_ASK;
        at++;
        for (size_t c = 0; c < SKIP_CONDITIONS; c++) {
            const char *stop = memchr(at, '\0', (size_t)(end - at));
            if (!stop)
                return PYLAYER_SKIP_ASK;
            holds = holds && glob_matches(at, (size_t)(stop - at), program->texts[c], program->sizes[c]);
            at = stop + 1;
        }
        *decides |= holds;
    }
    return skip && !never ? PYLAYER_SKIP_YES : PYLAYER_SKIP_NO;
}

/* ---- the compiled copy ------------------------------------------------------------------------------ */

enum PylayerSkip skip_by_copy(const char *copy, size_t size, const SkipProgram *program, bool built_in)
{
    const char *rules = copy + PYLAYER_DIGEST_BYTES;
    const char *end = digest_leads(copy, size) ? memchr(rules, '\n', size - PYLAYER_DIGEST_BYTES) : NULL;
    return end ? decide_by_rules(rules, (size_t)(end - rules), program, built_in) : PYLAYER_SKIP_ASK;
}

/* ---- deciding ------------------------------------------------------------------------------------------- */

static enum PylayerSkip decide(const SkipProgram *program, bool built_in)
{
    const PolicyFiles *policy = policy_files();
    if (policy->none)
        return built_in ? PYLAYER_SKIP_YES : PYLAYER_SKIP_NO;
    return policy->copy ? skip_by_copy(policy->copy, policy->copy_size, program, built_in) : PYLAYER_SKIP_ASK;
}

enum PylayerSkip skip_decide(const PylayerInstanceInfo *application)
{
    SkipProgram program = {.texts = {executable_name(), application->application_name, application->engine_name}};
    for (size_t i = 0; i < SKIP_CONDITIONS; i++)
        program.sizes[i] = strlen(program.texts[i]);
    static const char built_in_rules[] = BUILT_IN_RULES;
    bool built_in = decide_by_rules(built_in_rules, sizeof built_in_rules - 1, &program, false) == PYLAYER_SKIP_YES;
    enum PylayerSkip decision = decide(&program, built_in);
    if (decision == PYLAYER_SKIP_YES)
        log_line(PYLAYER_LOG_INFO, "a skip rule of %s matches %s; the layer does nothing for it",
                 built_in ? "pylayer itself" : "the policy file", program.texts[0]);
    return decision == PYLAYER_SKIP_ASK && built_in ? PYLAYER_SKIP_ASK_BUILT_IN : decision;
}
