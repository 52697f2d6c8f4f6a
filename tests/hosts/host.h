/*
 * host.h - a program of steps, for what programs do to the process that they share with the layer.
 *
 *   host [WORD --] STEP [ARGUMENT] STEP ...
 *
 * What steps print is the same without the layer and with it that must be the same without the layer and with it.
 */
#ifndef TEST_HOSTS_HOST_H
#define TEST_HOSTS_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <vulkan/vulkan.h>

typedef struct Step {
    const char *name;
    int argument_count;
    void (*run)(char **arguments); /* in front of them is the name */
} Step;

extern const Step vulkan_steps[], file_steps[], process_steps[], limit_steps[], signal_steps[], ending_steps[],
    loader_steps[], thread_steps[], cache_steps[];

/* Runs the steps up to the end, or to `until`, which is not run; returns where it stopped. */
char **run_steps(char **steps, const char *until);

/* The steps that come after the one that runs. */
extern char **rest_of_steps;

/* They go on behind this word, where there is one. */
void skip_past(const char *word);

pthread_t start_thread(void *(*function)(void *), void *argument);

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);

/* What vulkan.c holds: one instance, one device, pipelines numbered from 0. */
extern VkDevice host_device;
extern VkPipelineCache host_cache; /* caches.c */
VkResult host_create_pipelines(unsigned first, unsigned count);
extern unsigned host_next_pipeline;

/* How many of the process's threads it holds for. */
int count_threads(bool (*holds)(pid_t thread));

#endif
