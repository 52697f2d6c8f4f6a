/*
 * How threads get along when they create pipelines at the same time.
 *
 *   threads THREADS hits|misses none|shared|own [COUNT [ROUNDS [FILE]]]
 *
 * hits: COUNT pipelines are created once; then, ROUNDS times, every thread creates all of them. misses: ROUNDS times,
 * every thread creates COUNT that nobody has created before. With no VkPipelineCache, with one that all threads share,
 * or with one for each thread; the caches begin with what FILE holds, and where there is none it gets their data in the
 * end, so that what the first run missed is found for the first time in the second. Prints one JSON object: of each
 * round, the nanoseconds from the start of all threads to the end of the last one, and the processor time of the
 * process. Destroying is not timed.
 *
 * It takes the first GPU, and asks of it what the demo asks of one; DEVICE=NAME or NUMBER chooses another.
 */
#include "../demo/run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 64, MAX_ROUNDS = 100000 };

typedef enum { NO_CACHE, SHARED_CACHE, OWN_CACHES } Caches;

static Context context;
static Objects objects;
static Options options = {.kind = KIND_MIXED, .api = VK_API_VERSION_1_1, .seed = 1};
static Kitchen kitchen = {.objects = &objects, .options = &options};

static uint32_t thread_count, count, rounds;
static bool misses;
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
    must(create(&context, cache, kind, VK_NULL_HANDLE, 1, info_of(recipe, kind), &pipeline), "vkCreate*Pipelines");
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
            vkDestroyPipeline(context.device, pipelines[i], NULL);
    }
    free(pipelines);
    return NULL;
}

static void create_caches(Caches wanted)
{
    caches[0] = objects.cache;
    for (uint32_t i = 1; i < thread_count; ++i) {
        caches[i] = objects.cache;
        if (wanted == OWN_CACHES) {
            Objects others = objects;
            create_cache(&others, context.device, &options);
            caches[i] = others.cache;
        }
    }
}

/* All that the rounds create, once, for every cache. */
static void fill_caches(Caches wanted)
{
    for (uint32_t i = 0; i < count; ++i) {
        prepare_recipe(&recipes[i], i);
        vkDestroyPipeline(context.device, create_one(&recipes[i], caches[0]), NULL);
    }
    for (uint32_t i = 1; i < thread_count && wanted == OWN_CACHES; ++i)
        must(vkMergePipelineCaches(context.device, caches[i], 1, &caches[0]), "vkMergePipelineCaches");
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

static uint32_t argument(char **arguments, int have, int index, uint32_t otherwise, uint32_t most)
{
    if (index >= have)
        return otherwise;
    unsigned long value = strtoul(arguments[index], NULL, 10);
    if (value < 1 || value > most)
        die("wrong number: %s", arguments[index]);
    return (uint32_t)value;
}

int main(int argument_count, char **arguments)
{
    static const char *const names[] = {"none", "shared", "own"};
    uint32_t wanted = 0;
    while (argument_count > 3 && wanted < 3 && strcmp(arguments[3], names[wanted]))
        ++wanted;
    if (argument_count < 4 || wanted == 3 || (strcmp(arguments[2], "hits") && strcmp(arguments[2], "misses")))
        die("usage: threads THREADS hits|misses none|shared|own [COUNT [ROUNDS [FILE]]]");
    misses = !strcmp(arguments[2], "misses");
    thread_count = argument(arguments, argument_count, 1, 1, MAX_THREADS);
    count = argument(arguments, argument_count, 4, misses ? 16 : 256, 4096);
    rounds = argument(arguments, argument_count, 5, misses ? 1 : 20, MAX_ROUNDS);
    options.device = getenv("DEVICE");
    options.cache_file = argument_count > 6 && wanted != NO_CACHE ? arguments[6] : NULL;
    options.cache = wanted == NO_CACHE ? CACHE_NONE : options.cache_file ? CACHE_FILE : CACHE_OBJECT;

    context_create_instance(&context, &options);
    context_create_device(&context, &options);
    objects_create(&objects, &context, &options);
    recipes = allocate((size_t)count * (misses ? thread_count : 1), sizeof *recipes);
    uint64_t *results = allocate(rounds, sizeof *results), *processor = allocate(rounds, sizeof *processor);
    if (pthread_barrier_init(&barrier, NULL, thread_count + 1))
        die("out of memory");
    create_caches((Caches)wanted);
    if (!misses)
        fill_caches((Caches)wanted);
    /* What starts with the device, or follows from filling, is over then. */
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    run_rounds(results, processor);

    printf("{\"threads\": %u, \"creations\": %llu, \"rounds_ns\": [", thread_count,
           (unsigned long long)count * thread_count);
    for (uint32_t round = 0; round < rounds; ++round)
        printf("%s%llu", round ? ", " : "", (unsigned long long)results[round]);
    printf("], \"rounds_processor_ns\": [");
    for (uint32_t round = 0; round < rounds; ++round)
        printf("%s%llu", round ? ", " : "", (unsigned long long)processor[round]);
    printf("]}\n");

    bool saves = options.cache_file && !objects.cache_loaded_bytes;
    for (uint32_t i = 1; i < thread_count && wanted == OWN_CACHES; ++i) {
        if (saves)
            must(vkMergePipelineCaches(context.device, caches[0], 1, &caches[i]), "vkMergePipelineCaches");
        vkDestroyPipelineCache(context.device, caches[i], NULL);
    }
    if (saves)
        cache_save(&objects, context.device, options.cache_file);
    objects_destroy(&objects, context.device);
    context_destroy(&context);
    return 0;
}
