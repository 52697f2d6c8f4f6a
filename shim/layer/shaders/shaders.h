/* shaders.h - what a device knows of shaders, and of what is made of them, by handle */
#ifndef PYLAYER_SHADERS_H
#define PYLAYER_SHADERS_H

#include "crash/crash.h"
#include "driver/driver.h"
#include "process/shared_map.h"
#include "run/run.h"
#include "shaders/object_names.h"

struct Shaders {
    const Driver *driver;
    Run *run;
    Crash *crash;
    SharedMap modules;         /* code of shader modules, by handle */
    SharedMap identified_code; /* the identifiers of inline code seen so far, by the code's digest */
    SharedMap libraries;       /* fingerprints of pipeline libraries, by handle */
    ObjectNames names;
};

void shaders_open(Shaders *shaders, const Driver *driver, Run *run, Crash *crash);
void shaders_close(Shaders *shaders);

#endif
