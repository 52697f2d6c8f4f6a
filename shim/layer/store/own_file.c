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

bool unique_name(char name[PYLAYER_RUN_NAME_BYTES], uint64_t now_ns)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(name, PYLAYER_RUN_NAME_BYTES, "%016llx-%016llx", (unsigned long long)now_ns, (unsigned long long)random);
    return true;
}

bool own_file_describe(const Device *device, FileHeader *header, const char *suffix,
                       char name[PYLAYER_STORE_NAME_BYTES])
{
    struct timespec now;
    char unique[PYLAYER_RUN_NAME_BYTES];
    clock_gettime(CLOCK_REALTIME, &now);
    header->created_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
    if (!unique_name(unique, header->created_ns) ||
        getrandom(&header->salt, sizeof header->salt, 0) != (ssize_t)sizeof header->salt)
        return false;
    header->salt |= 1;
    owner_write(&header->owner);
    char *title = program_title(device->instance->info.application_name);
    strncpy(header->application, title ? title : "", sizeof header->application);
    free(title);
    file_header_seal(header);
    snprintf(name, PYLAYER_STORE_NAME_BYTES, "%016llx-%s%s", (unsigned long long)header->program, unique, suffix);
    return true;
}
