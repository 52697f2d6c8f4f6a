/*
 * commands MINOR [EXTENSION]... -- NAME...: a device of Vulkan 1.MINOR with these extensions. Prints which of these
 * commands vkGetDeviceProcAddr gives, and where each points: library and offset.
 */
#define _GNU_SOURCE
#include "program.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
    char **extensions = arguments + 2, **name = extensions;
    while (count > 2 && *name && strcmp(*name, "--") != 0)
        name++;
    Program program = {0};
    if (count < 3 || !*name ||
        open_program(&program, &(Wanted){.api = VK_MAKE_API_VERSION(0, 1, (uint32_t)atoi(arguments[1]), 0),
                                         .extension_count = (uint32_t)(name - extensions),
                                         .extensions = (const char *const *)extensions}))
        return 1;
    while (*++name) {
        void *pointer = (void *)vkGetDeviceProcAddr(program.device, *name);
        Dl_info where = {0};
        if (pointer && dladdr(pointer, &where))
            printf("%s %s %zx\n", *name, strrchr(where.dli_fname, '/') + 1,
                   (size_t)((char *)pointer - (char *)where.dli_fbase));
    }
    close_program(&program);
    return 0;
}
