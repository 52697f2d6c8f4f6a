/* state.c - the hooks of what pipelines are made of, shader modules apart (shaders.c) */
#include "device/device.h"
#include "driver/dispatch.h"
#include "process/process.h"

/* A program that asks vkGetInstanceProcAddr gets the hook, even if its device records nothing. */
/* NOLINTBEGIN(bugprone-macro-parentheses): of types */
#define NOTE_CREATED(unused, member, name, kind, Info, Made)                                                           \
    VKAPI_ATTR VkResult VKAPI_CALL layer_##name(VkDevice handle, const Info *info,                                     \
                                                const VkAllocationCallbacks *allocator, Made *made)                    \
    {                                                                                                                  \
        Device *device = dispatch_find(&device_table, dispatch_key(handle));                                           \
        VkResult result = device->driver.member(handle, info, allocator, made);                                        \
        if (result == VK_SUCCESS && device->state.on && !process_is_forked_child())                                    \
            state_note(&device->state, STATE_##kind, info, (uint64_t)*made);                                           \
        return result;                                                                                                 \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

STATE_COMMANDS(NOTE_CREATED, )
