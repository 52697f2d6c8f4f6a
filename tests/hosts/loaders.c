/* loaders.c - the Vulkan loader opened by hand, several times and more than one of it; steps inside of dlopen; Python. */
#define _GNU_SOURCE
#define VK_NO_PROTOTYPES
#include "host.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- steps inside of dlopen (preloaded.c) ------------------------------------------------------ */

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

/* dlopen LIBRARY ... opened: the steps are run by its constructor. */
static void step_dlopen(char **arguments)
{
    inside_until = "opened";
    open_it(arguments[0]);
    inside_until = NULL;
    skip_past("opened");
}

/* dlclose ... closed: the steps are run by its destructor. */
static void step_dlclose(char **unused)
{
    inside_until = "closed";
    dlclose(opened_library);
    inside_until = NULL;
    skip_past("closed");
}

/* dlopen-beside LIBRARY ... opened: another thread is in its constructor until the steps have been run. */
static void step_dlopen_beside(char **arguments)
{
    beside = true;
    sem_init(&is_inside, 0, 0);
    sem_init(&may_leave, 0, 0);
    pthread_t thread = start_thread(open_it, arguments[0]);
    sem_wait(&is_inside);
    rest_of_steps = run_steps(rest_of_steps, "opened");
    sem_post(&may_leave);
    pthread_join(thread, NULL);
    beside = false;
    skip_past("opened");
}

/* ---- a program that comes to embed Python while it runs --------------------------------------------- */

/* python LIBRARY global|local CODE: opens it, starts it, runs code in it; later ones go on with the same. */
static void step_python(char **arguments)
{
    static void *library;
    static int (*run)(const char *);
    if (!library) {
        library = dlopen(arguments[0], RTLD_NOW | (strcmp(arguments[1], "global") ? RTLD_LOCAL : RTLD_GLOBAL));
        if (!library)
            die("%s", dlerror());
        void (*start)(int) = (void (*)(int))dlsym(library, "Py_InitializeEx");
        run = (int (*)(const char *))dlsym(library, "PyRun_SimpleString");
        start(0);
    }
    say("python %d", run(arguments[2]));
}

/* Nothing of the layer's Python can be seen by others. */
static void step_no_python_symbols(char **unused)
{
    static const char *const names[] = {"Py_Initialize", "Py_IsInitialized",  "PyExc_ValueError", "_Py_NoneStruct",
                                        "PyInit_math",   "PyGILState_Ensure", "pylayer_shim"};
    int seen = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        seen += dlsym(RTLD_DEFAULT, names[i]) != NULL;
    say("symbols of Python: %d", seen);
}

const Step loader_steps[] = {
    {"dlopen", 1, step_dlopen},
    {"dlclose", 0, step_dlclose},
    {"dlopen-beside", 1, step_dlopen_beside},
    {"reload", 2, step_reload},
    {"two-loaders", 2, step_two_loaders},
    {"python", 3, step_python},
    {"no-python-symbols", 0, step_no_python_symbols},
    {0},
};
