/* stack.c - threads with little stack, and how much of it a call takes. */
#define _GNU_SOURCE
#include "host.h"

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAINT 0xa5

static unsigned first, how_many;
static VkResult result;

static void *create(void *unused)
{
    result = host_create_pipelines(first, how_many);
    return NULL;
}

static void *create_device_here(void *unused)
{
    run_steps((char *[]){"device", NULL}, NULL);
    return unused;
}

static size_t run_on_stack(size_t bytes, void *(*function)(void *))
{
    /* A page below that cannot be written: what does not fit ends the program. */
    uint8_t *memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    mprotect(memory, 4096, PROT_NONE);
    uint8_t *stack = memory + 4096;
    memset(stack, PAINT, bytes);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t thread;
    if (pthread_attr_setstack(&attributes, stack, bytes) || pthread_create(&thread, &attributes, function, NULL))
        die("no thread with a stack of %zu", bytes);
    pthread_join(thread, NULL);
    size_t untouched = 0;
    while (untouched < bytes && stack[untouched] == PAINT)
        untouched++;
    munmap(memory, bytes + 4096);
    return bytes - untouched;
}

/* stack BYTES hits|misses N: that many pipelines in a thread with so much stack. What was used goes to stderr. */
static void step_stack(char **arguments)
{
    bool misses = strcmp(arguments[1], "misses") == 0;
    how_many = (unsigned)atoi(arguments[2]);
    first = misses ? host_next_pipeline : 0;
    if (misses)
        host_next_pipeline += how_many;
    size_t used = run_on_stack((size_t)atol(arguments[0]), create);
    fprintf(stderr, "stack used: %zu\n", used);
    say("on a small stack: %d", result);
}

/* device-on-stack BYTES */
static void step_device_on_stack(char **arguments)
{
    char **rest = rest_of_steps;
    size_t used = run_on_stack((size_t)atol(arguments[0]), create_device_here);
    rest_of_steps = rest;
    fprintf(stderr, "stack used: %zu\n", used);
}

const Step stack_steps[] = {
    {"stack", 3, step_stack},
    {"device-on-stack", 1, step_device_on_stack},
    {0},
};
