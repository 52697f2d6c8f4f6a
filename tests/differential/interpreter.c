/*
 * interpreter.c - runs scripts of Vulkan calls from standard input, and prints one line a call.
 *
 *   begin SALT        a new device; scripts of other salts have other shaders
 *   device ...        its features
 *   ...               calls
 *   end
 *
 * One process runs any number of scripts. What is printed says nothing that may differ between two runs of one driver.
 */
#include "differential.h"

#include <stdlib.h>
#include <string.h>

int slot_of(const char *word, char letter)
{
    if (!word || word[0] != letter || word[1] < '0' || word[1] > '9' || word[2] != '\0')
        return -1;
    int slot = word[1] - '0';
    return slot < SLOTS ? slot : -1;
}

void skip(const char *why)
{
    printf("skip %s\n", why);
}

static const struct {
    const char *name;
    void (*run)(State *, const Words *);
} simple_lines[] = {
    {"module", run_module},
    {"unmodule", run_unmodule},
    {"identify", run_identify},
    {"cache", run_cache},
    {"uncache", run_uncache},
    {"merge", run_merge},
    {"read", run_read},
    {"unpipeline", run_unpipeline},
    {"key", run_key},
    {"binaries", run_binaries},
    {"bindata", run_binary_data},
    {"release", run_release},
    {"unbinaries", run_unbinaries},
};

/* NULL where the line has no more elements; slash by slash. */
static uint32_t cut_elements(char *text, Words *elements)
{
    uint32_t count = 0;
    char *rest = NULL;
    for (char *element = text ? strtok_r(text, "/", &rest) : NULL; element && count < MAX_BATCH;
         element = strtok_r(NULL, "/", &rest))
        elements[count++] = words_cut(element);
    return count;
}

static void run_line(State *state, char *line)
{
    char *behind = strchr(line, ':');
    if (behind)
        *behind++ = '\0';
    Words words = words_cut(line), elements[MAX_BATCH];
    const char *name = words.count ? words.word[0] : "";
    if (strcmp(name, "globalkey") == 0) {
        run_global_key(state);
        return;
    }
    static const char *const points[] = {"compute", "graphics", "rays"};
    for (int point = POINT_COMPUTE; point <= POINT_RAYS; point++)
        if (strcmp(name, points[point]) == 0) {
            uint32_t count = cut_elements(behind, elements);
            run_pipelines(state, (Point)point, &words, elements, count);
            return;
        }
    for (size_t i = 0; words.count > 1 && i < sizeof simple_lines / sizeof *simple_lines; i++)
        if (strcmp(name, simple_lines[i].name) == 0) {
            simple_lines[i].run(state, &words);
            return;
        }
    skip("line");
}

static void end_script(State *state)
{
    bool counted = state->allocator != NULL;
    if (state->device)
        device_destroy(state);
    if (counted)
        allocator_report();
    puts("end");
    fflush(stdout);
}

/* interpreter [allocator]: the instance, which devices without callbacks of their own allocate from, counts too. */
int main(int count, char **arguments)
{
    State state = {0};
    char line[MAX_LINE];
    bool counted = count > 1 && strcmp(arguments[1], "allocator") == 0;
    const VkAllocationCallbacks *allocator = counted ? allocator_begin() : NULL;
    /* What was printed is there when a call crashes. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    instance_create(&state, allocator);
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "begin ", 6) == 0) {
            shaders_salt((uint32_t)strtoul(line + 6, NULL, 10));
        } else if (strncmp(line, "device", 6) == 0 && !state.device) {
            Words words = words_cut(line);
            printf("result=%d\n", device_create(&state, &words));
        } else if (strcmp(line, "end\n") == 0) {
            end_script(&state);
        } else if (state.device) {
            run_line(&state, line);
        }
    }
    instance_destroy(&state, allocator);
    if (counted)
        allocator_report();
    return 0;
}
