// corruption: a program whose data was corrupted since it stored it.
//
//   corruption kinds
//   corruption prepare DIRECTORY
//   corruption caches|binaries DIRECTORY KIND FIRST COUNT SEED STATUS [fork]
//   corruption stored DIRECTORY KIND FIRST COUNT SEED STATUS BASE FOLDER SUFFIX cache|binaries|file
//
// `prepare` creates eight pipelines and stores its VkPipelineCache and its pipeline binaries in DIRECTORY. The others do
// with COUNT corrupted inputs, from number FIRST on, what a program does in its next run: `caches` and `binaries` with
// what it stored itself, `stored` with files of the layer's store (BASE: good ones; FOLDER: where the layer reads).
// STATUS is a file of the numbers of `Status`, which are right also where this process died. With `fork` the inputs go
// to processes of their own, and the next one takes over where the driver crashed or hung on one.
//
// What of it reached the driver is what the witness below (tests/witness) says that the driver never gave out.
#include "corruption.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    uint64_t next;    // the input that is at work, or comes next
    uint64_t inputs;  // done, those included in which the driver crashed
    uint64_t created; // all their pipelines were created
    uint64_t missed;  // some were not, without an error: VK_PIPELINE_COMPILE_REQUIRED
    uint64_t failed;  // an error
    uint64_t crashed;
    uint64_t hung;    // the driver came to no end
    uint64_t reached; // inputs of which the driver was given what it never gave out
} Status;

static Status *status;

static void open_status(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *status) != 0)
        die("%s cannot be written", path);
    status = mmap(NULL, sizeof *status, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (status == MAP_FAILED)
        die("%s cannot be mapped", path);
    close(file);
}

// ---- The witness -----------------------------------------------------------------------------------------------

// Lines of the witness's file, since the last time, that say so.
static uint32_t complaints(void)
{
    static int log = -1;
    static off_t place;
    static char text[1 << 16];
    const char *path = getenv("PYLAYER_TEST_DRIVER_WITNESS");
    uint32_t count = 0;
    if (log < 0 && (!path || (log = open(path, O_RDONLY | O_CLOEXEC)) < 0))
        die("there is no witness: PYLAYER_TEST_DRIVER_WITNESS");
    for (ssize_t got; (got = pread(log, text, sizeof text - 1, place)) > 0; place += got) {
        text[got] = '\0';
        for (const char *at = text; (at = strstr(at, "did not give out")) != NULL; ++at)
            ++count;
        for (const char *at = text; (at = strstr(at, "a binary that has no data")) != NULL; ++at)
            ++count;
    }
    return count;
}

// ---- One input -------------------------------------------------------------------------------------------------

typedef struct {
    const char *directory;
    uint32_t kind;
    uint64_t end, seed;
    Bytes cache;
    Archive archive;
    StoredFiles stored;
} Work;

static void note(const Outcome *outcomes, uint32_t count)
{
    Outcome worst = CREATED;
    for (uint32_t i = 0; i < count; ++i)
        worst = outcomes[i] > worst ? outcomes[i] : worst;
    ++*(worst == CREATED ? &status->created : worst == MISSED ? &status->missed : &status->failed);
}

static void give_cache(Program *program, const Work *work, Random *random)
{
    Bytes corrupted = corrupt_cache(&work->cache, work->kind, random);
    VkPipelineCache cache = open_cache(program, &corrupted);
    Outcome outcomes[PIPELINES] = {FAILED};
    for (uint32_t i = 0; i < PIPELINES; ++i)
        outcomes[i] = cache ? probe_pipeline(program, i, cache) : FAILED;
    vkDestroyPipelineCache(program->context.device, cache, NULL);
    free(corrupted.bytes);
    note(outcomes, PIPELINES);
}

static void give_binaries(Program *program, const Work *work, Random *random)
{
    uint32_t pipeline;
    Entry corrupted;
    do {
        pipeline = (uint32_t)below(random, work->archive.count);
        corrupted = corrupt_binaries(&work->archive, pipeline, work->kind, random);
    } while (!corrupted.count);
    Outcome outcome = import_pipeline(program, pipeline, &corrupted);
    entry_free(&corrupted);
    note(&outcome, 1);
}

static void use_cache(Program *program, const Bytes *data, Outcome *outcomes)
{
    VkPipelineCache cache = open_cache(program, data);
    for (uint32_t i = 0; i < PIPELINES; ++i)
        outcomes[i] = cache ? probe_pipeline(program, i, cache) : FAILED;
    vkDestroyPipelineCache(program->context.device, cache, NULL);
}

// The layer's own cache, a cache and binaries of the program's: whatever the files of the store can be for. What counts
// is what these files are for.
static void use_store(Program *program, const Work *work)
{
    enum { STORE, OWN, IMPORTED, USES };
    Outcome outcomes[USES][PIPELINES];
    const char *suffix = work->stored.suffix;
    for (uint32_t i = 0; i < PIPELINES; ++i)
        outcomes[STORE][i] = probe_pipeline(program, i, VK_NULL_HANDLE);
    use_cache(program, &work->cache, outcomes[OWN]);
    for (uint32_t i = 0; i < PIPELINES; ++i)
        outcomes[IMPORTED][i] = import_pipeline(program, i, &work->archive.entries[i]);
    note(outcomes[strcmp(suffix, "attest") == 0 ? OWN : strcmp(suffix, "binaries") == 0 ? IMPORTED : STORE], PIPELINES);
}

static void end_input(uint32_t inputs)
{
    // A store's files come together: what reached the driver is counted by itself.
    uint32_t said = complaints();
    status->reached += said < inputs ? said : inputs;
    status->inputs += inputs;
    status->next += inputs;
}

// An input takes less than a millisecond. Most hang at work, which is seen by the processor's time soon, some asleep.
static void end_when_hung(void)
{
    const struct itimerval work = {.it_value.tv_usec = 20000}, sleep = {.it_value.tv_sec = 5};
    setitimer(ITIMER_PROF, &work, NULL);
    setitimer(ITIMER_REAL, &sleep, NULL);
}

static void give_own(Program *program, const Work *work, bool caches, bool may_hang)
{
    while (status->next < work->end) {
        if (may_hang)
            end_when_hung();
        Random random = random_of(work->seed, work->kind + (caches ? 0 : 100), status->next);
        (caches ? give_cache : give_binaries)(program, work, &random);
        end_input(1);
    }
}

// ---- Modes -----------------------------------------------------------------------------------------------------

static void name_in(char *path, size_t size, const char *directory, const char *name)
{
    snprintf(path, size, "%s/%s", directory, name);
}

static void load(Work *work)
{
    char path[4096];
    const VkPipelineBinaryKeyKHR none = {.keySize = 0};
    name_in(path, sizeof path, work->directory, "program.cache");
    work->cache = read_file(path);
    name_in(path, sizeof path, work->directory, "program.binaries");
    if (archive_load(&work->archive, path, &none, true) != ARCHIVE_LOADED || work->archive.count != PIPELINES)
        die("%s is no archive of this program", path);
}

static void prepare(const char *directory)
{
    Program program;
    Archive archive = {.count = 0};
    const Bytes nothing = {NULL, 0};
    char path[4096];
    program_open(&program);
    program_open_device(&program);
    VkPipelineCache cache = open_cache(&program, &nothing);
    for (uint32_t i = 0; i < PIPELINES; ++i) {
        compile_pipeline(&program, i, VK_NULL_HANDLE);
        compile_pipeline(&program, i, cache);
        Entry entry = capture_pipeline(&program, i);
        archive_add(&archive, &entry);
    }
    Bytes data = read_cache(&program, cache);
    name_in(path, sizeof path, directory, "program.cache");
    write_file(path, data.bytes, data.size);
    name_in(path, sizeof path, directory, "program.binaries");
    archive_save(&archive, path);
    vkDestroyPipelineCache(program.context.device, cache, NULL);
    program_close_device(&program);
    program_close(&program);
}

// Of a kind on which the driver hangs nearly always (noise for a whole payload: 100 of 100), the rest is left out: it tells
// nothing more, and each takes up to five seconds.
enum { MOST_HUNG = 100 };

static void in_processes(Program *program, const Work *work, bool caches)
{
    while (status->next < work->end && status->hung < MOST_HUNG) {
        int how;
        pid_t child = fork();
        if (child == 0) {
            give_own(program, work, caches, true);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &how, 0) != child)
            die("no more processes");
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
            continue;
        bool hung = WIFSIGNALED(how) && (WTERMSIG(how) == SIGPROF || WTERMSIG(how) == SIGALRM);
        ++*(hung ? &status->hung : &status->crashed);
        end_input(1);
    }
}

static void run_own(const Work *work, bool caches, bool forks)
{
    Program program;
    program_open(&program);
    program_open_device(&program);
    complaints();
    // It waits for the store, so that what follows does not depend on when that is loaded.
    probe_pipeline(&program, 0, VK_NULL_HANDLE);
    if (forks)
        in_processes(&program, work, caches);
    else
        give_own(&program, work, caches, false);
    program_close_device(&program);
    program_close(&program);
}

static void run_stored(const Work *work)
{
    Program program;
    program_open(&program);
    while (status->next < work->end) {
        Random random = random_of(work->seed, work->kind + 1000, status->next);
        uint32_t inputs = corrupt_store(&work->stored, &random, work->end - status->next);
        program_open_device(&program);
        use_store(&program, work);
        program_close_device(&program);
        end_input(inputs);
    }
    program_close(&program);
}

int main(int argc, char **argv)
{
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (argc == 2 && strcmp(argv[1], "kinds") == 0) {
        print_kinds();
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "prepare") == 0) {
        prepare(argv[2]);
        return 0;
    }
    if (argc < 8)
        die("see the head of corruption.c");
    const char *mode = argv[1];
    bool caches = strcmp(mode, "caches") == 0, stored = strcmp(mode, "stored") == 0;
    Work work = {.directory = argv[2], .seed = strtoull(argv[6], NULL, 10)};
    open_status(argv[7]);
    status->next = strtoull(argv[4], NULL, 10);
    work.end = status->next + strtoull(argv[5], NULL, 10);
    load(&work);
    if (stored) {
        if (argc != 12)
            die("see the head of corruption.c");
        KindList list = strcmp(argv[11], "cache") == 0      ? OF_CACHE
                        : strcmp(argv[11], "binaries") == 0 ? OF_BINARIES
                                                            : OF_FILE;
        work.kind = kind_number(list, argv[3]);
        work.stored = (StoredFiles){argv[8], argv[9], argv[10], list, work.kind};
        run_stored(&work);
        return 0;
    }
    work.kind = kind_number(caches ? OF_CACHE : OF_BINARIES, argv[3]);
    run_own(&work, caches, argc == 9);
    return 0;
}
