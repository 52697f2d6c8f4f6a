/* interpreter.h - what the cffi-built module and the other files see of interpreter.c, watchdog.c and isolation.c. */
#ifndef PYLAYER_INTERPRETER_H
#define PYLAYER_INTERPRETER_H

#include "../boundary.h"

/* Returns the layer's commands; NULL if the module was imported in a process without the layer. */
const PylayerShim *pylayer_shim(void);

/* watchdog.c: the call of the user's policy class that the policy thread is in. The name stays valid until the next
 * call. */
extern int64_t pylayer_call_began_ns; /* CLOCK_MONOTONIC; 0: no call */
extern int64_t pylayer_call_limit_ns;
extern const char *pylayer_call_name;
extern int32_t pylayer_watching; /* 0: call pylayer_watch() to wake the watchdog */
void pylayer_watch(void);

/* isolation.c: call it before the interpreter starts. */
void isolation_begin(void);

#endif
