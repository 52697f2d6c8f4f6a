/* Which bytes of pipeline binaries and caches the driver gave out, in this process and in those before it. */
#include "faults.h"

#include "../known_names.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("PYLAYER_TEST_FAULTS_BINARIES");
    if (path && *path)
        file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

/* What this process and others have appended since the last time. */
static void read_file_locked(void)
{
    static off_t position;
    uint64_t names[512];
    ssize_t got;
    while ((got = pread(file, names, sizeof names, position)) >= (ssize_t)sizeof *names) {
        for (size_t i = 0; i < (size_t)got / sizeof *names; i++)
            remember_locked(names[i]);
        position += got - got % (ssize_t)sizeof *names;
    }
}

/* Of the bytes under their key: drivers whose binary keys collide give out several under one. */
static uint64_t name_of(const VkPipelineBinaryKeyKHR *key, const void *data, size_t size)
{
    uint64_t name = hash_bytes(HASH_START, &key->keySize, sizeof key->keySize);
    name = hash_bytes(name, key->key, key->keySize <= sizeof key->key ? key->keySize : 0);
    name = hash_bytes(name, &size, sizeof size);
    name = hash_bytes(name, data, size);
    return name ? name : 1;
}

static void given_out(uint64_t name)
{
    if (file < 0)
        return;
    pthread_mutex_lock(&lock);
    read_file_locked();
    if (!room || !known[place_of(name)]) {
        ssize_t written = write(file, &name, sizeof name);
        if (written != sizeof name)
            abort(); /* the next process would report what is right */
        read_file_locked();
    }
    pthread_mutex_unlock(&lock);
}

static bool was_given_out(uint64_t name)
{
    pthread_mutex_lock(&lock);
    read_file_locked();
    bool found = room && known[place_of(name)];
    pthread_mutex_unlock(&lock);
    return found;
}

void binary_given_out(const VkPipelineBinaryKeyKHR *key, const void *data, size_t size)
{
    given_out(name_of(key, data, size));
}

bool binary_was_given_out(const VkPipelineBinaryKeyKHR *key, const void *data, size_t size)
{
    return file < 0 || was_given_out(name_of(key, data, size));
}

static uint64_t name_of_cache(const void *data, size_t size)
{
    uint64_t name = hash_bytes(hash_bytes(HASH_START, "cache", 5), &size, sizeof size);
    name = hash_bytes(name, data, size);
    return name ? name : 1;
}

void cache_data_given_out(const void *data, size_t size)
{
    if (faults.witness_caches)
        given_out(name_of_cache(data, size));
}

bool cache_data_was_given_out(const void *data, size_t size)
{
    return file < 0 || !faults.witness_caches || was_given_out(name_of_cache(data, size));
}
