/* driver.h - a VkDevice of the next layer: its handle, its functions, and what is enabled on it */
#ifndef PYLAYER_DRIVER_H
#define PYLAYER_DRIVER_H

#include "base.h"
#include "driver/device_commands.h"

/* Constant after vkCreateDevice. A function that only calls the driver takes this, and no Device. */
typedef struct Driver {
    VkDevice handle;
    bool cache_control;
    bool feedback;

    PFN_vkGetDeviceProcAddr get_device_proc_addr;
#define MEMBER(group, member, type, name) type member;
    DEVICE_COMMANDS(MEMBER, MEMBER)
#undef MEMBER
    PFN_vkGetShaderModuleIdentifierEXT get_module_identifier; /* NULL if the application did not enable the feature */
    PFN_vkGetShaderModuleCreateInfoIdentifierEXT get_code_identifier;
} Driver;

#endif
