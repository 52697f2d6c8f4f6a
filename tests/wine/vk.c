/* vk.c - a Windows program that creates compute pipelines and ends in one of several ways
 *
 *   vk.exe COUNT [END] [THREADS]
 *
 * COUNT pipelines, which differ by a word of their shader. Then it prints "ready", and ends:
 *
 *   return          destroys all, and returns from main (the default)
 *   exit            calls ExitProcess while THREADS threads create the same pipelines again
 *   terminate       calls TerminateProcess at once, while THREADS threads create the same pipelines again (none by default)
 *   terminate-late  the same after 200 ms
 *   loop            not by itself, with the same threads
 *   threads         before "ready", THREADS threads with stacks of 64 KiB have created COUNT pipelines each, all at once, and
 *                   the main thread none
 *   faults          the same. Before each pipeline the thread writes to memory that it may not write to and raises an
 *                   exception, and a handler of the program's mends both
 *   start ARGV0     starts COUNT pipelines in a process whose command line begins with ARGV0
 *
 * Without a Vulkan of Wine's or a device it says so and exits with 2. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define VK_NO_PROTOTYPES
#include "../layer/program.h"

static Program program;
static LONG next; /* the number of the next new pipeline, for threads */
static uint32_t count;
static HANDLE start_all;   /* an event for create_own */
#define RAISED 0x20000043u /* an exception of the program's own */

static void check(const char *what, VkResult result)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "vk.exe: %s: VkResult %d\n", what, result);
    exit(2);
}

static void load(void)
{
    HMODULE library = LoadLibraryA("vulkan-1.dll");
    check("vulkan-1.dll", library ? VK_SUCCESS : VK_ERROR_INITIALIZATION_FAILED);
#define LOAD(name) name = (PFN_##name)(void *)GetProcAddress(library, #name);
    CALLED_FUNCTIONS(LOAD)
    check("Vulkan", open_program(&program, &(Wanted){.application = "App"}));
}

static void create(uint32_t number)
{
    check("vkCreateComputePipelines", use_changed(&program, VK_NULL_HANDLE, GENERATOR_WORD, number));
}

/* Called for what the program's own threads raise: lets them write where they tried to, and go on. */
static LONG CALLBACK mend(EXCEPTION_POINTERS *raised)
{
    const EXCEPTION_RECORD *what = raised->ExceptionRecord;
    DWORD old;
    if (what->ExceptionCode == RAISED)
        return EXCEPTION_CONTINUE_EXECUTION;
    if (what->ExceptionCode != EXCEPTION_ACCESS_VIOLATION || what->NumberParameters < 2)
        return EXCEPTION_CONTINUE_SEARCH;
    return VirtualProtect((void *)what->ExceptionInformation[1], 1, PAGE_READWRITE, &old) ? EXCEPTION_CONTINUE_EXECUTION
                                                                                          : EXCEPTION_CONTINUE_SEARCH;
}

/* Creates `count` pipelines of its own. */
static DWORD WINAPI create_own(void *faults)
{
    uint32_t mine = (uint32_t)InterlockedExchangeAdd(&next, (LONG)count);
    volatile uint32_t *page = faults ? VirtualAlloc(NULL, 4096, MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS) : NULL;
    WaitForSingleObject(start_all, INFINITE);
    for (uint32_t i = 0; i < count; i++) {
        DWORD old;
        if (page) {
            VirtualProtect((void *)page, 4096, PAGE_NOACCESS, &old);
            *page = i;
            RaiseException(RAISED, 0, 0, NULL);
            check("the page", *page == i ? VK_SUCCESS : VK_ERROR_UNKNOWN);
        }
        create(mine + i);
    }
    return 0;
}

static void create_in_threads(int threads, bool faults)
{
    HANDLE *all = calloc((size_t)threads, sizeof *all);
    start_all = CreateEventA(NULL, TRUE, FALSE, NULL);
    if (faults)
        AddVectoredExceptionHandler(1, mend);
    for (int i = 0; i < threads; i++) {
        all[i] = CreateThread(NULL, 64 << 10, create_own, faults ? all : NULL, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
        check("CreateThread", all[i] ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY);
    }
    SetEvent(start_all);
    for (int i = 0; i < threads; i++) {
        WaitForSingleObject(all[i], INFINITE);
        CloseHandle(all[i]);
    }
    free(all);
}

static DWORD WINAPI again(void *unused)
{
    for (uint32_t i = 0;; i++)
        create(i % (count ? count : 1));
    return 0;
}

static void end(const char *how, int threads)
{
    for (int i = 0; i < threads; i++)
        CreateThread(NULL, 0, again, NULL, 0, NULL);
    if (!strcmp(how, "exit")) {
        Sleep(100);
        ExitProcess(0);
    }
    if (!strncmp(how, "terminate", 9)) {
        Sleep(strcmp(how, "terminate") ? 200 : 0);
        TerminateProcess(GetCurrentProcess(), 0);
    }
    while (!strcmp(how, "loop"))
        Sleep(1000);
}

/* Runs this file with a command line that begins with another name: lpApplicationName alone says which file. */
static int start(const char *argv0, const char *pipelines)
{
    char path[MAX_PATH], line[1000];
    GetModuleFileNameA(NULL, path, sizeof path);
    snprintf(line, sizeof line, "%s %s", argv0, pipelines);
    STARTUPINFOA info = {.cb = sizeof info};
    PROCESS_INFORMATION process;
    DWORD status = 2;
    if (!CreateProcessA(path, line, NULL, NULL, TRUE, 0, NULL, NULL, &info, &process))
        return 2;
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &status);
    return (int)status;
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[2] : "return";
    if (!strcmp(how, "start"))
        return start(argc > 3 ? argv[3] : "map1", argv[1]);
    count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    load();
    int threads = argc > 3 ? atoi(argv[3]) : !strcmp(how, "exit");
    bool faults = !strcmp(how, "faults"), own = faults || !strcmp(how, "threads");
    for (uint32_t i = 0; i < count && !own; i++)
        create(i);
    if (own)
        create_in_threads(threads, faults);
    printf("ready\n");
    fflush(stdout);
    if (!own)
        end(how, threads);
    close_program(&program);
    return 0;
}
