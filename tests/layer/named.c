/* named APPLICATION ENGINE [DIRECTORY] - an instance of these names, a device, and a compute pipeline. With DIRECTORY the
 * working directory is that from before the device on. */
#include "program.h"
#include <unistd.h>

int main(int count, char **arguments)
{
    Program program = {0};
    Wanted wanted = {.application = count > 1 ? arguments[1] : NULL, .engine = count > 2 ? arguments[2] : NULL};
    if (open_instance(&program, &wanted) || (count > 3 && chdir(arguments[3])) || open_device(&program, &wanted) ||
        open_shader(&program) || use_compute(&program, VK_NULL_HANDLE, "main"))
        return 1;
    close_program(&program);
    return 0;
}
