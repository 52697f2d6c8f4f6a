/*
 * layer.h - the layer's files, and what they share: the objects, who owns them, and the calls between rooms.
 *
 * loader.c          negotiation, vkGet*ProcAddr, names to hooks
 * dispatch.c        dispatch key -> Instance or Device
 * instance.c        vkCreateInstance, vkDestroyInstance
 * device.c          vkCreateDevice, vkDestroyDevice, the plan
 * devices.c         the list of devices that policy can name
 * features.c        what is added to VkDeviceCreateInfo
 * pnext.c           reading and copying pNext chains
 * pipeline_cache.c  the application's VkPipelineCache objects
 * sketch.c          what tells a damaged copy of their data
 * pipelines.c       the hooks of vkCreate*Pipelines
 * create.c          to the device's carrier
 * pass.c            to the driver, as the application called
 * batch.c           one such call, and what the carriers have in common
 * carrier_*.c       what each carrier does with it
 * deferred.c        vkCreateRayTracingPipelinesKHR in a deferred operation
 * create_info.c     the three create infos seen as one
 * creations.c       what policy is told of pipelines that were created
 * fingerprints.c    what pipelines are made of, as one number each
 * seen.c            the fingerprints of those that were created
 * shader_modules.c  the code of each shader as one number
 * number_map.c      a hash map
 * identifiers.c     shaders by their VK_EXT_shader_module_identifier
 * digest.c          XXH3
 * allocator.c       memory for the driver's device that is not the application's
 * sentinel.c        what is in the driver's hands, should the process die
 * suspects.c        pipelines at whose creation it died before
 * driver_cache.c    VkPipelineCache objects of the layer's own
 * cells.c           the layer's merged VkPipelineCache and the cells that go into it
 * binaries.c        pipelines created from VkPipelineBinaryKHR, and their binaries read
 * binary_record.c   the binaries of one pipeline as bytes
 * binary_index.c    binaries by pipeline key
 * pipeline_binaries.c  VkPipelineBinaryKHR objects of the application
 * binary_history.c  what the application read of its binaries, in this run and before
 * properties.c      vkGetPhysicalDeviceProperties2: what is said of pipeline binaries
 * merging.c         merging into caches that threads create pipelines with
 * patience.c        mutexes behind which the driver may hang
 * spread_lock.c     the lock for that, and for whatever else all threads read
 * loading.c         stored records on their way into it
 * mailbox.c         messages to the policy thread, and its waiting
 * commands.c        the functions that policy calls
 * kept_plans.c      plans that policy made for the same request before
 * skip.c            processes that are left alone, without an interpreter
 * layer_settings.c  settings by the Vulkan ecosystem's ways
 * program_name.c    what program this is
 * trusted.c         files that nobody else could have written
 * process.c         the program's environment as it was, and whether this process is a fork's child
 * policy_thread.c   finding and running the policy library
 * log.c             PYLAYER_LOG
 *
 * Each source has the header of its name. loader.c exports what the loader looks for, and has none.
 */
#ifndef PYLAYER_LAYER_H
#define PYLAYER_LAYER_H

#include "cells.h"
#include "dispatch.h"
#include "mailbox.h"
#include "pipelines.h"
#include "process.h"

#endif
