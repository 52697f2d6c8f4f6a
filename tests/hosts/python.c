/* python.c - a program that comes to embed Python while it runs. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <string.h>

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

const Step python_steps[] = {
    {"python", 3, step_python},
    {"no-python-symbols", 0, step_no_python_symbols},
    {0},
};
