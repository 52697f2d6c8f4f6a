/* own_file.c - see own_file.h */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "device/device.h"
#include "instance/program_name.h"
#include "store/own_file.h"
#include "store/owner.h"

bool own_file_describe(const Device *device, FileHeader *header, const char *suffix,
                       char name[PYLAYER_STORE_NAME_BYTES])
{
    struct timespec now;
    uint64_t random[2];
    clock_gettime(CLOCK_REALTIME, &now);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    owner_write(&header->owner);
    char *title = program_title(device->instance->info.application_name);
    strncpy(header->application, title ? title : "", sizeof header->application);
    free(title);
    header->created_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
    header->salt = random[0] | 1;
    file_header_seal(header);
    snprintf(name, PYLAYER_STORE_NAME_BYTES, "%016llx-%016llx-%016llx%s", (unsigned long long)header->program,
             (unsigned long long)header->created_ns, (unsigned long long)random[1], suffix);
    return true;
}
