/* interpreter.h - what the cffi-built module sees of interpreter.c and watchdog.c. */
#ifndef PYLAYER_INTERPRETER_H
#define PYLAYER_INTERPRETER_H

#include "../boundary.h"

/* The layer's commands; NULL when the module was imported outside a process with the layer. */
const PylayerShim *pylayer_shim(void);

/* watchdog.c: the call of the user's policy class that the policy thread is in. The name is kept until the next. */
extern int64_t pylayer_call_began_ns; /* CLOCK_MONOTONIC; 0: none */
extern int64_t pylayer_call_limit_ns;
extern const char *pylayer_call_name;
extern int32_t pylayer_watching; /* 0: pylayer_watch() is needed */
void pylayer_watch(void);

/* isolation.c: before the interpreter starts. */
void isolation_begin(void);

#endif
