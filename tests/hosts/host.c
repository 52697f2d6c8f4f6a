/* host.c - runs the steps of the command line. */
#include "host.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Step *const tables[] = {vulkan_steps, file_steps,   process_steps, limit_steps, signal_steps,
                                     ending_steps, loader_steps, thread_steps,  cache_steps};

char **rest_of_steps;

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _Exit(3);
}

int count_threads(bool (*holds)(pid_t thread))
{
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *entry; threads && (entry = readdir(threads));)
        count += atoi(entry->d_name) > 0 && holds(atoi(entry->d_name));
    if (threads)
        closedir(threads);
    return count;
}

pthread_t start_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument))
        die("no thread");
    return thread;
}

static const Step *find(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const Step *step = tables[i]; step->name; step++)
            if (strcmp(step->name, name) == 0)
                return step;
    die("no step '%s'", name);
}

char **run_steps(char **steps, const char *until)
{
    while (*steps && (!until || strcmp(*steps, until) != 0)) {
        const Step *step = find(*steps);
        char **arguments = steps + 1;
        steps = arguments;
        for (int i = 0; i < step->argument_count; i++)
            if (!*steps++)
                die("%s takes %d arguments", step->name, step->argument_count);
        rest_of_steps = steps;
        step->run(arguments);
        steps = rest_of_steps;
    }
    return steps;
}

void skip_past(const char *word)
{
    while (*rest_of_steps && strcmp(*rest_of_steps++, word) != 0)
        continue;
}

int main(int argc, char **argv)
{
    char **steps = argv + 1;
    for (int i = 1; i < argc; i++)
        steps = strcmp(argv[i], "--") == 0 ? argv + i + 1 : steps;
    run_steps(steps, NULL);
    return 0;
}
