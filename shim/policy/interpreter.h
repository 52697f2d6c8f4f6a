/* interpreter.h - what the cffi-built module and the other files see of interpreter.c and isolation.c. */
#ifndef PYLAYER_INTERPRETER_H
#define PYLAYER_INTERPRETER_H

#include "../boundary.h"

/* Returns the layer's commands; NULL if the module was imported in a process without the layer. */
const PylayerShim *pylayer_shim(void);

/* isolation.c: call it before the interpreter starts. */
void isolation_begin(void);

#endif
