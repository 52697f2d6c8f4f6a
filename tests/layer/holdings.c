/* holdings [APPLICATION [ENGINE [FILE]]] - an instance of these names, a device and a compute pipeline; then what the
 * process holds, a line each: library FILE, thread NAME. Maps FILE before, as Wine maps a Windows program, and ends
 * after the end of standard input. */
#define _GNU_SOURCE
#include "program.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void print_libraries(void)
{
    char line[8192], last[8192] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');
        if (path && strcmp(path, last) != 0)
            printf("library %s", strcpy(last, path));
    }
    if (maps)
        fclose(maps);
}

static void print_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[64];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file && fgets(name, sizeof name, file))
            printf("thread %s", name);
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
}

int main(int count, char **arguments)
{
    Program program = {0};
    Wanted wanted = {.application = count > 1 ? arguments[1] : NULL, .engine = count > 2 ? arguments[2] : NULL};
    if (count > 3 && mmap(NULL, 1, PROT_READ, MAP_PRIVATE, open(arguments[3], O_RDONLY), 0) == MAP_FAILED)
        return 1;
    if (open_program(&program, &wanted) || use_compute(&program, VK_NULL_HANDLE, "main"))
        return 1;
    print_libraries();
    print_threads();
    fflush(stdout);
    while (count > 3 && getchar() != EOF) {
    }
    close_program(&program);
    return 0;
}
