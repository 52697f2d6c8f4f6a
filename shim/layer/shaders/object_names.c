/*
 * object_names.c - see shaders.h. Policy learns the name of a shader with each pipeline that it is told of, and the
 * name of a pipeline if it was told of that before. So a run that only hits sends no message.
 */
#define _GNU_SOURCE
#include "shaders/shaders.h"

#include <stdlib.h>
#include <string.h>

#include "mailbox/mailbox.h"
#include "process/process.h"

/* Pipelines that may be named. Later ones get no name. */
#define MOST_PIPELINES 65536

void object_names_free(ObjectNames *names)
{
    NumberMap *modules = &names->modules;
    for (size_t i = 0; i < modules->capacity; i++)
        if (modules->slots[i].key)
            free((char *)(uintptr_t)modules->slots[i].value);
    number_map_free(modules);
    number_map_free(&names->pipelines);
}

/* Without the extension the member is NULL. */
static bool is_wanted(const Shaders *shaders)
{
    return shaders->driver->set_object_name && shaders->run->plan.tell_creations && !process_is_forked_child();
}

static void name_module(ObjectNames *names, uint64_t module, const char *text)
{
    char *copy = text && *text ? strndup(text, PYLAYER_OBJECT_NAME_BYTES - 1) : NULL;
    pthread_mutex_lock(&names->mutex);
    free((char *)(uintptr_t)number_map_find(&names->modules, module));
    number_map_remove(&names->modules, module);
    if (copy && !number_map_put(&names->modules, module, (uintptr_t)copy))
        free(copy);
    pthread_mutex_unlock(&names->mutex);
}

void object_names_forget_module(Shaders *shaders, VkShaderModule module)
{
    if (is_wanted(shaders))
        name_module(&shaders->names, (uint64_t)module, NULL);
}

void object_names_describe(Shaders *shaders, PylayerCell *about, const VkPipelineShaderStageCreateInfo *stages)
{
    if (!is_wanted(shaders))
        return;
    pthread_mutex_lock(&shaders->names.mutex);
    for (uint32_t i = 0; i < PYLAYER_SHADERS && about->shaders[i].stage; i++) {
        uint64_t module = (uint64_t)stages[i].module;
        const char *text = module ? (char *)(uintptr_t)number_map_find(&shaders->names.modules, module) : NULL;
        if (text)
            strncpy(about->shaders[i].name, text, sizeof about->shaders[i].name - 1);
    }
    pthread_mutex_unlock(&shaders->names.mutex);
    fingerprints_note(&shaders->run->seen, about->fingerprint, SEEN_RECORDED);
}

void object_names_note(Shaders *shaders, VkPipeline pipeline, uint64_t fingerprint)
{
    if (!is_wanted(shaders) || pipeline == VK_NULL_HANDLE)
        return;
    NumberMap *pipelines = &shaders->names.pipelines;
    pthread_mutex_lock(&shaders->names.mutex);
    if (pipelines->used < MOST_PIPELINES || number_map_find(pipelines, (uint64_t)pipeline))
        number_map_put(pipelines, (uint64_t)pipeline, fingerprint);
    pthread_mutex_unlock(&shaders->names.mutex);
}

static void name_pipeline(Shaders *shaders, uint64_t pipeline, const char *text)
{
    pthread_mutex_lock(&shaders->names.mutex);
    uint64_t fingerprint = number_map_find(&shaders->names.pipelines, pipeline);
    pthread_mutex_unlock(&shaders->names.mutex);
    if (!text || !*text || !fingerprint || !(fingerprint_known(&shaders->run->seen, fingerprint) & SEEN_RECORDED))
        return;
    PylayerMessage *message = message_new(PYLAYER_MSG_CELL, shaders->run->serial);
    if (message) {
        message->cell.outcome = PYLAYER_OUTCOME_NAMED;
        message->cell.fingerprint = fingerprint;
        message->cell.start_ns = now_ns();
        strncpy(message->cell.shaders[0].name, text, sizeof message->cell.shaders[0].name - 1);
    }
    mailbox_post(message, false, QUEUE_BYTES);
}

void object_names_set(Shaders *shaders, const VkDebugUtilsObjectNameInfoEXT *info)
{
    if (!is_wanted(shaders))
        return;
    if (info->objectType == VK_OBJECT_TYPE_SHADER_MODULE)
        name_module(&shaders->names, info->objectHandle, info->pObjectName);
    else if (info->objectType == VK_OBJECT_TYPE_PIPELINE)
        name_pipeline(shaders, info->objectHandle, info->pObjectName);
}
