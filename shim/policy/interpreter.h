/* interpreter.h - what the cffi-built module and the other files see of interpreter.c and isolation.c. */
#ifndef PYLAYER_INTERPRETER_H
#define PYLAYER_INTERPRETER_H

#include <stdbool.h>

#include "../boundary.h"

/* Returns the layer's commands; NULL if the module was imported in a process without the layer. */
const PylayerShim *pylayer_shim(void);

/* What the layer knows of the program. */
typedef struct IsolatedFrom {
    char **environment;                        /* a copy */
    const char *(*variable)(const char *name); /* in it; NULL if it is not there */
    const char *site;                          /* the directory of the package */
    bool (*holds_python)(void);
    void (*policy_ended)(void);
    void (*links)(bool begins); /* brackets each dlopen */
} IsolatedFrom;

/* Runs policy until the process ends. Returns 0, or -1 if it could not start. */
typedef int (*PolicyRunFn)(const PylayerShim *shim, const IsolatedFrom *program);

/* isolation.c: call it before the interpreter starts. */
void isolation_begin(const IsolatedFrom *from);

#endif
