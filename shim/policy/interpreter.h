/* interpreter.h - what the cffi-built module sees of interpreter.c. */
#ifndef PYLAYER_INTERPRETER_H
#define PYLAYER_INTERPRETER_H

#include "../boundary.h"

/* The layer's commands; NULL when the module was imported outside a process with the layer. */
const PylayerShim *pylayer_shim(void);

#endif
