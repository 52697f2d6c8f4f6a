/* loaders.c - the Vulkan loader opened by hand, several times and more than one of it; steps inside of dlopen. */
#define _GNU_SOURCE
#define VK_NO_PROTOTYPES
#include "host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "../layer/program.h"

typedef struct Opened {
    void *library;
    Program program;
} Opened;

static void use_loader(const Opened *opened)
{
#define LOAD(name) name = (PFN_##name)dlsym(opened->library, #name);
    CALLED_FUNCTIONS(LOAD)
}

static VkResult open_loader(Opened *opened, const char *path)
{
    *opened = (Opened){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!opened->library)
        die("%s", dlerror());
    use_loader(opened);
    return open_program(&opened->program, &(Wanted){0});
}

static VkResult create_and_close(Opened *opened, unsigned number)
{
    use_loader(opened);
    VkResult result = use_numbered(&opened->program, VK_NULL_HANDLE, number);
    close_program(&opened->program);
    dlclose(opened->library);
    return result;
}

/* reload LIBRARY TIMES: opened, used, closed, each time. */
static void step_reload(char **arguments)
{
    int wrong = 0;
    for (int i = atoi(arguments[1]); i > 0; i--) {
        Opened opened;
        wrong += open_loader(&opened, arguments[0]) != VK_SUCCESS || create_and_close(&opened, 8) != VK_SUCCESS;
    }
    say("reloads: %d wrong", wrong);
}

/* two-loaders ONE OTHER: both in use at the same time. */
static void step_two_loaders(char **arguments)
{
    Opened one, other;
    VkResult first = open_loader(&one, arguments[0]), second = open_loader(&other, arguments[1]);
    if (first || second)
        die("two loaders: %d %d", first, second);
    first = create_and_close(&one, 16);
    say("two loaders: %d %d", first, create_and_close(&other, 32));
}

/* ---- steps inside of dlopen (constructor.c) ------------------------------------------------------ */

static const char *inside_until; /* NULL: no steps */
static void *opened_library;
static sem_t is_inside, may_leave;
static bool beside;

__attribute__((visibility("default"))) void steps_inside(void);
void steps_inside(void)
{
    if (beside) {
        sem_post(&is_inside);
        sem_wait(&may_leave);
    } else if (inside_until) {
        rest_of_steps = run_steps(rest_of_steps, inside_until);
    }
}

static void *open_it(void *path)
{
    opened_library = dlopen(path, RTLD_NOW);
    if (!opened_library)
        die("%s", dlerror());
    return NULL;
}

static void skip_word(void)
{
    rest_of_steps += *rest_of_steps != NULL;
}

/* dlopen LIBRARY ... opened: the steps are run by its constructor. */
static void step_dlopen(char **arguments)
{
    inside_until = "opened";
    open_it(arguments[0]);
    inside_until = NULL;
    skip_word();
}

/* dlclose ... closed: the steps are run by its destructor. */
static void step_dlclose(char **unused)
{
    inside_until = "closed";
    dlclose(opened_library);
    inside_until = NULL;
    skip_word();
}

/* dlopen-beside LIBRARY ... opened: another thread is in its constructor until the steps have been run. */
static void step_dlopen_beside(char **arguments)
{
    pthread_t thread;
    beside = true;
    sem_init(&is_inside, 0, 0);
    sem_init(&may_leave, 0, 0);
    if (pthread_create(&thread, NULL, open_it, arguments[0]))
        die("no thread");
    sem_wait(&is_inside);
    rest_of_steps = run_steps(rest_of_steps, "opened");
    sem_post(&may_leave);
    pthread_join(thread, NULL);
    beside = false;
    skip_word();
}

const Step loader_steps[] = {
    {"dlopen", 1, step_dlopen}, {"dlclose", 0, step_dlclose},         {"dlopen-beside", 1, step_dlopen_beside},
    {"reload", 2, step_reload}, {"two-loaders", 2, step_two_loaders}, {0},
};
