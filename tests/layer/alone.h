/* alone.h - what the layer's sources for shaders call, for programs that have these sources without the rest of the layer.
 * Include it below `device`. */
#ifndef ALONE_H
#define ALONE_H

void *dispatch_find(DispatchTable *table, void *key)
{
    (void)table;
    (void)key;
    return &device;
}

void object_names_forget_module(Shaders *of, VkShaderModule module)
{
    (void)of;
    (void)module;
}

void object_names_free(ObjectNames *names)
{
    (void)names;
}

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t number)
{
    (void)type;
    (void)number;
    return NULL;
}

bool mailbox_post(PylayerMessage *message, uint64_t queue_bytes)
{
    (void)message;
    (void)queue_bytes;
    return false;
}

bool mailbox_post_stored(PylayerMessage *message, uint64_t queue_bytes, int64_t timeout_ns)
{
    (void)timeout_ns;
    return mailbox_post(message, queue_bytes);
}

const char *environment_get(const char *name)
{
    (void)name;
    return NULL;
}

bool process_is_forked_child(void)
{
    return false;
}

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
    (void)level;
    (void)format;
}

void object_names_set(Shaders *of, const VkDebugUtilsObjectNameInfoEXT *info)
{
    (void)of;
    (void)info;
}

Mark mark_added(Crash *of, enum PylayerMarkedCall call, unsigned kind, uint64_t fingerprint)
{
    (void)of;
    (void)call;
    (void)kind;
    (void)fingerprint;
    return NULL;
}

void mark_end(Mark mark)
{
    (void)mark;
}

#endif
