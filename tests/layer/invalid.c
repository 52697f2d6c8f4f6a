/* Breaks one rule: a pipeline cache is still alive when its device is destroyed. */
#include "program.h"

int main(void)
{
    Program program = {0};
    VkPipelineCache cache;
    if (open_program(&program, &(Wanted){.api = VK_API_VERSION_1_0}) || create_cache(&program, 0, 0, NULL, &cache))
        return 1;
    close_program(&program);
    return 0;
}
