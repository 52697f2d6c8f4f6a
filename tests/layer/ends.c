/*
 * ends COUNT THREADS END: creates COUNT pipelines. Then THREADS threads create them again and again, and when each has done
 * so four times, the process ends in the middle of that: by exit, _exit, or kill. With exit-meanwhile a thread calls exit
 * soon after the device was created, whatever the others do.
 */
#define _GNU_SOURCE
#include "program.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, LOCAL_SIZE_WORD = 23, TIMES = 4 };

static Program programs[MOST];
static unsigned count;
static atomic_uint ready;

static void create(const Program *program)
{
    if (use_compute(program, VK_NULL_HANDLE, "main"))
        _exit(1);
}

static void *create_again(void *unused)
{
    (void)unused;
    for (unsigned time = 0;; time++) {
        for (unsigned i = 0; i < count; i++)
            create(&programs[i]);
        if (time == TIMES)
            atomic_fetch_add(&ready, 1);
    }
    return NULL;
}

static void *exit_soon(void *unused)
{
    (void)unused;
    usleep(300000);
    exit(0);
}

static void create_first(unsigned number)
{
    uint32_t code[sizeof shader_code / sizeof *shader_code];
    memcpy(code, shader_code, sizeof code);
    code[LOCAL_SIZE_WORD] = number + 1;
    VkShaderModuleCreateInfo info = shader_info;
    info.pCode = code;
    programs[number] = programs[0];
    if (number && vkCreateShaderModule(programs->device, &info, NULL, &programs[number].module))
        _exit(1);
    create(&programs[number]);
}

int main(int argument_count, char **arguments)
{
    count = argument_count == 4 ? (unsigned)atoi(arguments[1]) : MOST + 1;
    if (count > MOST || open_program(programs, &(Wanted){0}))
        return 1;
    if (!strcmp(arguments[3], "exit-meanwhile") && pthread_create(&(pthread_t){0}, NULL, exit_soon, NULL))
        return 1;
    for (unsigned i = 0; i < count; i++)
        create_first(i);
    unsigned threads = (unsigned)atoi(arguments[2]);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&(pthread_t){0}, NULL, create_again, NULL))
            return 1;
    while (atomic_load(&ready) < threads)
        usleep(100);
    if (!strcmp(arguments[3], "exit"))
        exit(0);
    if (!strcmp(arguments[3], "kill"))
        kill(getpid(), SIGKILL);
    _exit(0);
}
