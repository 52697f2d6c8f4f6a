/* loaders.c - a second Vulkan loader; steps inside of dlopen; Python. */
#define _GNU_SOURCE
#define VK_NO_PROTOTYPES
#include "host.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "../layer/program.h"

/* other-loader LIBRARY: another copy of the loader, which is opened, used and closed beside the program's own. */
static void step_other_loader(char **arguments)
{
    Program program = {0};
    void *library = dlopen(arguments[0], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die("%s", dlerror());
#define LOAD(name) name = (PFN_##name)dlsym(library, #name);
    CALLED_FUNCTIONS(LOAD)
    VkResult result = open_program(&program, &(Wanted){0});
    say("other loader %d", result ? result : use_numbered(&program, VK_NULL_HANDLE, 0));
    close_program(&program);
    dlclose(library);
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
    {"other-loader", 1, step_other_loader},
    {"python", 3, step_python},
    {"no-python-symbols", 0, step_no_python_symbols},
    {0},
};
