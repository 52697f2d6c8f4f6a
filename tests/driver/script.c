/* What the driver does: the statements of PYLAYER_TEST_DRIVER that name a command. */
#include "driver.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- counters in a mapped file: whatever becomes of the process, they are right ---- */

#define NAME_OF(name, text, ...) text,
typedef struct {
    char name[24];
    atomic_ullong value;
} Record;

enum { RECORDS = COUNTER_COUNT + COMMAND_COUNT };

static Record own[RECORDS];
static Record *records = own;

static const char *const command_names[COMMAND_COUNT] = {COMMANDS(NAME_OF)};
static const char *const counter_names[COUNTER_COUNT] = {COUNTERS(NAME_OF)};

static void *map_file(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, sizeof own) != 0)
        return NULL;
    void *mapped = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

__attribute__((constructor(101))) static void open_counts(void)
{
    const char *path = getenv("PYLAYER_TEST_DRIVER_COUNTS");
    if (path && *path)
        records = map_file(path);
    if (!records)
        wrong_script("PYLAYER_TEST_DRIVER_COUNTS cannot be written", path);
    for (int i = 0; i < RECORDS; i++)
        snprintf(records[i].name, sizeof records[i].name, "%s",
                 i < COUNTER_COUNT ? counter_names[i] : command_names[i - COUNTER_COUNT]);
}

void count(Counter counter, uint64_t by)
{
    atomic_fetch_add_explicit(&records[counter].value, by, memory_order_relaxed);
}

static int counter_of(const char *name)
{
    for (int i = 0; i < RECORDS; i++)
        if (strcmp(name, i < COUNTER_COUNT ? counter_names[i] : command_names[i - COUNTER_COUNT]) == 0)
            return i;
    return -1;
}

static uint64_t value_of(int counter)
{
    return atomic_load(&records[counter].value);
}

static void count_call(Command command)
{
    atomic_fetch_add_explicit(&records[COUNTER_COUNT + command].value, 1, memory_order_relaxed);
}

/* ---- statements ---- */

enum { MAX_RULES = 64 };

typedef struct {
    Command command;
    Action action;
    VkResult result;
    const char *argument;
    uint64_t enough;                 /* of a counter */
    unsigned wanted, unwanted;       /* traits */
    unsigned long first, last, each; /* times that it applies */
    atomic_ulong times;
} Rule;

static Rule rules[MAX_RULES];
static size_t rule_count;

static const char *const action_names[ACTION_COUNT] = {ACTIONS(NAME_OF)};
#define COMMANDS_OF(name, text, commands) commands,
static const unsigned commands_of[ACTION_COUNT] = {ACTIONS(COMMANDS_OF)};
static const char *const trait_names[TRAIT_TOTAL] = {TRAITS(NAME_OF)};

static int place_of(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

/* ---- reading ---- */

#define ON_READ                                                                                                        \
    (1u << ACT_INCOMPLETE | 1u << ACT_TIGHT | 1u << ACT_OVERSTATE | 1u << ACT_SHRINK | 1u << ACT_HEADER |              \
     1u << ACT_GARBAGE)

static VkResult read_result(const char *text)
{
    static const struct {
        const char *name;
        VkResult result;
    } names[] = {
        {"out-of-host-memory", VK_ERROR_OUT_OF_HOST_MEMORY},
        {"out-of-device-memory", VK_ERROR_OUT_OF_DEVICE_MEMORY},
        {"initialization-failed", VK_ERROR_INITIALIZATION_FAILED},
        {"device-lost", VK_ERROR_DEVICE_LOST},
        {"too-many-objects", VK_ERROR_TOO_MANY_OBJECTS},
        {"invalid-external-handle", VK_ERROR_INVALID_EXTERNAL_HANDLE},
        {"fragmentation", VK_ERROR_FRAGMENTATION},
        {"feature-not-present", VK_ERROR_FEATURE_NOT_PRESENT},
        {"invalid-shader", VK_ERROR_INVALID_SHADER_NV},
        {"unknown", VK_ERROR_UNKNOWN},
        {"incomplete", VK_INCOMPLETE},
        {"not-ready", VK_NOT_READY},
        {"compile-required", VK_PIPELINE_COMPILE_REQUIRED},
        {"missing", VK_PIPELINE_BINARY_MISSING_KHR},
        {"not-enough-space", VK_ERROR_NOT_ENOUGH_SPACE_KHR},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text && strcmp(text, names[i].name) == 0)
            return names[i].result;
    char *end;
    long value = text ? strtol(text, &end, 10) : 0;
    if (!text || !*text || *end)
        wrong_script("no such VkResult", text ? text : "");
    return (VkResult)value;
}

static void read_argument(Rule *rule, const char *argument)
{
    bool needed = rule->action == ACT_ERROR || rule->action == ACT_SLOW || rule->action == ACT_HEADER ||
                  rule->action == ACT_PARTIAL || rule->action == ACT_WAIT || rule->action == ACT_UNTIL;
    if (needed != (argument != NULL))
        wrong_script(needed ? "needs an argument" : "takes no argument", action_names[rule->action]);
    rule->argument = argument;
    if (rule->action == ACT_ERROR)
        rule->result = read_result(argument);
    else if ((rule->action == ACT_WAIT || rule->action == ACT_UNTIL) && counter_of(argument) < 0)
        wrong_script("no such command or counter", argument);
    else if (rule->action == ACT_SLOW || rule->action == ACT_PARTIAL)
        script_number(argument);
}

static void read_condition(Rule *rule, const char *text)
{
    bool not = text[0] == '!';
    int trait = place_of(text + not, trait_names, TRAIT_TOTAL);
    if (trait < 0)
        wrong_script("no such condition", text);
    *(not? &rule->unwanted : &rule->wanted) |= 1u << trait;
}

static void read_when(Rule *rule, const char *text)
{
    char *end = NULL;
    rule->first = 1;
    rule->last = ULONG_MAX;
    rule->each = 1;
    if (!text)
        return;
    if (text[0] == '/') {
        rule->each = strtoul(text + 1, &end, 10);
    } else {
        rule->first = rule->last = strtoul(text, &end, 10);
        if (*end == '+' && end++)
            rule->last = ULONG_MAX;
    }
    if (*end || rule->first == 0 || rule->each == 0)
        wrong_script("not a time", text);
}

/* What stands behind the first of a character, which is replaced by the end of what stands before it. */
static char *cut(char *text, char at)
{
    char *found = text ? strchr(text, at) : NULL;
    if (found)
        *found++ = '\0';
    return found;
}

static void read_rule(const char *name, char *value)
{
    int number = place_of(name, command_names, COMMAND_COUNT);
    if (number < 0)
        wrong_script("no such statement", name);
    if (rule_count == MAX_RULES)
        wrong_script("too many statements", name);
    Rule *rule = &rules[rule_count];
    rule->command = (Command)number;
    read_when(rule, cut(value, '@'));
    char *conditions = cut(value, '?');
    while (conditions) {
        char *next = cut(conditions, '?');
        read_condition(rule, conditions);
        conditions = next;
    }
    char *argument = cut(value, ':');
    int found = place_of(value, action_names, ACTION_COUNT);
    if (found < 0 || !(commands_of[found] >> number & 1u))
        wrong_script("no such action of it", value);
    rule->action = (Action)found;
    char *enough = rule->action == ACT_UNTIL ? cut(argument, ':') : NULL;
    rule->enough = enough ? script_number(enough) : 1;
    if (rule->command == DO_GET_DATA || rule->command == DO_BINARY_DATA) {
        /* What is done when data are read, and what when their size is asked for. */
        rule->wanted |= 1u << found & ON_READ ? TRAIT_DATA : 0;
        rule->unwanted |= found == ACT_GROW ? TRAIT_DATA : 0;
    }
    read_argument(rule, argument);
    rule_count++;
}

__attribute__((constructor(102))) static void read_script(void)
{
    const char *text = getenv("PYLAYER_TEST_DRIVER");
    /* Never freed: arguments stay in it. */
    char *rest = strdup(text ? text : "");
    for (char *statement; rest && (statement = strsep(&rest, ";")) != NULL;) {
        statement += strspn(statement, " \n");
        size_t length = strlen(statement);
        while (length && strchr(" \n", statement[length - 1]))
            statement[--length] = '\0';
        if (!*statement)
            continue;
        char *value = cut(statement, '=');
        if (!value)
            wrong_script("a statement without a value", statement);
        if (!settings_read(statement, value))
            read_rule(statement, value);
    }
    settings_complete();
}

/* ---- doing ---- */

static bool applies(Rule *rule, unsigned traits)
{
    if ((traits & rule->wanted) != rule->wanted || (traits & rule->unwanted))
        return false;
    unsigned long time = atomic_fetch_add(&rule->times, 1) + 1;
    return time >= rule->first && time <= rule->last && time % rule->each == 0;
}

static void be_slow(const char *milliseconds)
{
    uint32_t wanted = script_number(milliseconds);
    struct timespec time = {.tv_sec = wanted / 1000, .tv_nsec = wanted % 1000 * 1000000l};
    while (nanosleep(&time, &time) != 0)
        continue;
}

static void wait_for(int awaited, uint64_t enough)
{
    while (value_of(awaited) < enough)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Commands are counted when they begin: of two that have begun one is over. */
static void wait_for_more(const char *name)
{
    int awaited = counter_of(name);
    uint64_t enough = value_of(awaited) + (awaited < COUNTER_COUNT ? 1 : 2);
    wait_for(awaited, enough);
}

static atomic_bool hangs;

bool somebody_hangs(void)
{
    return atomic_load(&hangs);
}

/* What does not come back, and waits. */
static void do_drastic(const Rule *rule)
{
    if (rule->action == ACT_SLOW)
        be_slow(rule->argument);
    if (rule->action == ACT_WAIT)
        wait_for_more(rule->argument);
    if (rule->action == ACT_UNTIL)
        wait_for(counter_of(rule->argument), rule->enough);
    if (rule->action == ACT_ABORT)
        abort();
    if (rule->action == ACT_KILL)
        kill(getpid(), SIGKILL);
    if (rule->action == ACT_EXIT)
        _exit(0);
    if (rule->action == ACT_CRASH)
        *(volatile int *)NULL = 1;
    while (rule->action == ACT_HANG) {
        atomic_store(&hangs, true);
        pause();
    }
}

static bool any_includes(Command command)
{
    return command != DO_CREATE_INSTANCE && command != DO_CREATE_DEVICE && command != DO_DESTROY_CACHE &&
           command != DO_PIPELINE && command != DO_ALLOCATE;
}

Verdict act(Command command, unsigned traits)
{
    count_call(command);
    for (size_t i = 0; i < rule_count; i++) {
        Rule *rule = &rules[i];
        if (rule->command != command && !(rule->command == DO_ANY && any_includes(command)))
            continue;
        if (!applies(rule, traits))
            continue;
        count(COUNT_ACTS, 1);
        do_drastic(rule);
        if (rule->action != ACT_SLOW && rule->action != ACT_WAIT && rule->action != ACT_UNTIL)
            return (Verdict){rule->action, rule->result, rule->argument};
    }
    return (Verdict){ACT_NOTHING, VK_SUCCESS, NULL};
}

VkResult act_or_error(Command command)
{
    Verdict verdict = act(command, 0);
    return verdict.action == ACT_ERROR ? verdict.result : VK_SUCCESS;
}

void *allocate(size_t size)
{
    return act_or_error(DO_ALLOCATE) == VK_SUCCESS ? calloc(1, size ? size : 1) : NULL;
}
