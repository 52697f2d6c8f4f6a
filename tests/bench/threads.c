/*
 * How threads get along when they create pipelines at the same time.
 *
 *   threads hits|misses none|shared|own ROUNDS [OPTION]...     options of the demo: --threads, --count, --cache, --device
 *
 * hits: --count pipelines are created once; then, ROUNDS times, every thread creates all of them. misses: ROUNDS times,
 * the threads together create --count that nobody has created before. With the VkPipelineCache that --cache says, if any:
 * one that all threads share, or one for each thread. --cache FILE gets their data in the end where there is no such
 * file, so that what the first run missed is found for the first time in the second. Prints one JSON object: of each
 * round, the nanoseconds from the start of all threads to the end of the last one, and the processor time of the process.
 * Destroying is not timed.
 */
#include "../demo/run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 256 };

static Device device;
static Objects objects;
static Options options;
static Kitchen kitchen = {.objects = &objects, .options = &options};

static uint32_t thread_count, count, rounds;
static bool misses, own;
static Recipe *recipes; /* count of them, or as many for each thread */
static VkPipelineCache caches[MAX_THREADS];
static pthread_barrier_t barrier;
static uint64_t ends[MAX_THREADS];

/* Numbers from 0, the same ones in every process. */
static void prepare_recipe(Recipe *recipe, uint64_t number)
{
    (number % 2 ? graphics_recipe : compute_recipe)(recipe, &kitchen, number / 2);
}

static VkPipeline create_one(Recipe *recipe, VkPipelineCache cache)
{
    VkPipeline pipeline;
    Call kind = recipe->compute.sType ? CALL_COMPUTE : CALL_GRAPHICS;
    must(create(&device, cache, kind, VK_NULL_HANDLE, 1, info_of(recipe, kind), &pipeline), "vkCreate*Pipelines");
    return pipeline;
}

static void *run_thread(void *argument)
{
    uint32_t self = (uint32_t)(uintptr_t)argument;
    Recipe *mine = recipes + (misses ? (size_t)self * count : 0);
    VkPipeline *pipelines = allocate(count, sizeof *pipelines);
    for (uint32_t round = 0; round < rounds; ++round) {
        /* Recipes are there, and the clocks start; all are done, and they were read. */
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        /* From another one on in every thread, so that they do not walk through the cache hand in hand. */
        uint32_t first = (uint32_t)((uint64_t)self * count / thread_count);
        for (uint32_t i = 0; i < count; ++i)
            pipelines[i] = create_one(&mine[(first + i) % count], caches[self]);
        ends[self] = now_ns();
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        for (uint32_t i = 0; i < count; ++i)
            vkDestroyPipeline(device.handle, pipelines[i], NULL);
    }
    free(pipelines);
    return NULL;
}

static void create_caches(void)
{
    caches[0] = objects.cache;
    for (uint32_t i = 1; i < thread_count; ++i) {
        caches[i] = objects.cache;
        if (own) {
            Objects others = objects;
            create_cache(&others, device.handle, &options);
            caches[i] = others.cache;
        }
    }
}

/* All that the rounds create, once, for every cache. */
static void fill_caches(void)
{
    for (uint32_t i = 0; i < count; ++i) {
        prepare_recipe(&recipes[i], i);
        vkDestroyPipeline(device.handle, create_one(&recipes[i], caches[0]), NULL);
    }
    for (uint32_t i = 1; i < thread_count && own; ++i)
        must(vkMergePipelineCaches(device.handle, caches[i], 1, &caches[0]), "vkMergePipelineCaches");
}

static uint64_t processor_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void run_rounds(uint64_t *results, uint64_t *processor)
{
    pthread_t threads[MAX_THREADS];
    for (uint32_t i = 0; i < thread_count; ++i)
        if (pthread_create(&threads[i], NULL, run_thread, (void *)(uintptr_t)i))
            die("pthread_create failed");
    uint64_t next = 0;
    for (uint32_t round = 0; round < rounds; ++round) {
        for (uint32_t i = 0; misses && i < thread_count * count; ++i)
            prepare_recipe(&recipes[i], next++);
        pthread_barrier_wait(&barrier);
        uint64_t used = processor_ns(), start = now_ns(), end = start;
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        processor[round] = processor_ns() - used;
        pthread_barrier_wait(&barrier);
        for (uint32_t i = 0; i < thread_count; ++i)
            end = ends[i] > end ? ends[i] : end;
        results[round] = end - start;
    }
    for (uint32_t i = 0; i < thread_count; ++i)
        pthread_join(threads[i], NULL);
}

static void print_numbers(const char *name, const uint64_t *numbers)
{
    printf(", \"%s\": [", name);
    for (uint32_t round = 0; round < rounds; ++round)
        printf("%s%llu", round ? ", " : "", (unsigned long long)numbers[round]);
    printf("]");
}

int main(int argument_count, char **arguments)
{
    if (argument_count < 4)
        die("usage: threads hits|misses none|shared|own ROUNDS [OPTION]...");
    misses = !strcmp(arguments[1], "misses");
    own = !strcmp(arguments[2], "own");
    rounds = (uint32_t)strtoul(arguments[3], NULL, 10);
    options = options_parse(argument_count - 3, arguments + 3);
    thread_count = options.threads;
    count = options.count / (misses ? thread_count : 1);

    device_open(&device, &options);
    objects_create(&objects, &device, &options);
    recipes = allocate((size_t)count * (misses ? thread_count : 1), sizeof *recipes);
    uint64_t *results = allocate(rounds, sizeof *results), *processor = allocate(rounds, sizeof *processor);
    if (pthread_barrier_init(&barrier, NULL, thread_count + 1))
        die("out of memory");
    create_caches();
    if (!misses)
        fill_caches();
    /* What starts with the device, or follows from filling, is over then. */
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    run_rounds(results, processor);

    printf("{\"threads\": %u, \"creations\": %llu", thread_count, (unsigned long long)count * thread_count);
    print_numbers("rounds_ns", results);
    print_numbers("rounds_processor_ns", processor);
    printf("}\n");

    bool saves = options.cache == CACHE_FILE && !objects.cache_loaded_bytes;
    for (uint32_t i = 1; i < thread_count && own; ++i) {
        if (saves)
            must(vkMergePipelineCaches(device.handle, caches[0], 1, &caches[i]), "vkMergePipelineCaches");
        vkDestroyPipelineCache(device.handle, caches[i], NULL);
    }
    if (saves)
        cache_save(&objects, device.handle, options.cache_file);
    objects_destroy(&objects, device.handle);
    device_close(&device);
    return 0;
}
