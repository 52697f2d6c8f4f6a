/* shaders.c - see shaders.h */
#include "shaders/shaders.h"

void shaders_open(Shaders *shaders, const Driver *driver, Run *run, Crash *crash)
{
    shaders->driver = driver;
    shaders->run = run;
    shaders->crash = crash;
    shared_map_open(&shaders->modules);
    shared_map_open(&shaders->identified_code);
    shared_map_open(&shaders->libraries);
    pthread_mutex_init(&shaders->names.mutex, NULL);
}

void shaders_close(Shaders *shaders)
{
    shared_map_close(&shaders->modules);
    shared_map_close(&shaders->identified_code);
    shared_map_close(&shaders->libraries);
    object_names_free(&shaders->names);
}
