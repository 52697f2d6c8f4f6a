/* store_index.c - see store.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mailbox/mailbox.h"
#include "store/store.h"

/* Reading the headers of more journals is work for each process. */
#define MANY_JOURNALS 16
/* How names of files begin that concern all programs. */
#define EVERY_PROGRAM "0000000000000000-"

/* Nobody here can repair the system's store, so no run starts policy for it: one that has policy anyway, as the first
 * has, says what is wrong. */
static void tell_damage_of(const Store *store, StoredFile *file)
{
    if (file->damage_told)
        return;
    file->damage_told = true;
    if (file->system && store->found.reviewed)
        log_line(PYLAYER_LOG_WARN, "not used: %s/%s is damaged or cannot be trusted; pylayer ls --verify says more",
                 store->stored.system, file->name);
    if (file->system)
        return;
    PylayerMessage *message = message_new(PYLAYER_MSG_STORE_DAMAGED, store->run->serial);
    if (message)
        snprintf(message->file, sizeof message->file, "%s", file->name);
    mailbox_post(message, true, QUEUE_BYTES);
}

/* ---- reading ----------------------------------------------------------------------------------- */

bool store_read_at(int fd, void *out, size_t size, uint64_t offset)
{
    ssize_t got;
    do
        got = pread(fd, out, size, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got >= 0 && (size_t)got == size;
}

/* Returns where one more item has room, which doubles at each power of two; NULL if memory is short. */
static void *with_room(void *items, size_t count, size_t item_bytes)
{
    bool full = (count & (count - 1)) == 0;
    return full ? realloc(items, (count ? 2 * count : 1) * item_bytes) : items;
}

static void add_entry(StoredFile *file, TableEntry entry)
{
    TableEntry *entries = with_room(file->entries, file->entry_count, sizeof entry);
    if (!entries)
        return;
    file->entries = entries;
    file->entries[file->entry_count++] = entry;
}

static int by_fingerprint(const void *left, const void *right)
{
    const TableEntry *a = left, *b = right;
    if (a->fingerprint != b->fingerprint)
        return a->fingerprint < b->fingerprint ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Notes which pipelines a run said within a day that it used. */
static void take_note(Store *store, int fd, const RecordHeader *header, uint64_t offset, StoredFound *found)
{
    if (!record_is(header, "USED") || !record_is_recent(header))
        return;
    found->used_recently = true;
    uint8_t *data = malloc(header->size + 1);
    if (data && store_read_at(fd, data, header->size, offset + sizeof *header) && record_data_is_whole(header, data))
        for (uint64_t at = 0; at + sizeof(uint64_t) <= header->size; at += sizeof(uint64_t)) {
            uint64_t fingerprint;
            memcpy(&fingerprint, data + at, sizeof fingerprint);
            fingerprints_note(&store->run->seen, fingerprint, SEEN_TOLD);
        }
    free(data);
}

/* Reads the headers of all records; of a pack with a table only those of the notes, which come first. What follows one
 * that does not verify is not found, and compiled again. A torn end is no damage: its writer is still writing, or was
 * killed. */
static void read_headers(Store *store, int fd, uint64_t size, StoredFile *file, StoredFound *found)
{
    RecordHeader header;
    uint64_t at = sizeof(FileHeader);
    for (; at + sizeof header <= size; at += record_space(header.size)) {
        bool whole = store_read_at(fd, &header, sizeof header, at) && record_header_is_whole(&header, file->salt);
        if (!whole)
            tell_damage_of(store, file);
        if (!whole || header.size > size - at - sizeof header || (file->has_table && !record_is(&header, "USED")))
            break;
        if (record_is(&header, "CELL") || record_is(&header, "BINR"))
            add_entry(file, (TableEntry){header.fingerprint, at});
        else if (!file->system) /* what others used says nothing about this user's programs */
            take_note(store, fd, &header, at, found);
    }
    if (file->entry_count > 0 && !file->has_table)
        qsort(file->entries, file->entry_count, sizeof *file->entries, by_fingerprint);
}

static bool read_table(int fd, uint64_t place, StoredFile *file)
{
    RecordHeader header;
    uint8_t *data;
    bool whole = record_read(fd, file->salt, place, &header, &data) == READ_DONE && record_is(&header, "TABL");
    if (!whole) {
        free(data);
        return false;
    }
    file->entries = (TableEntry *)(void *)data;
    file->entry_count = header.size / sizeof(TableEntry);
    return true;
}

/* Counts a journal that policy can compact. */
static void note_journal(const Store *store, const FileHeader *header, uint64_t size, const StoredFile *file,
                         StoredFound *found)
{
    if (file->system || file->has_table || header->program != store->run->info.instance.program_id ||
        (!name_ends(file->name, ".closed") && owner_state(&header->owner) != OWNER_DEAD))
        return;
    found->work |= ++found->journals > MANY_JOURNALS;
    found->journal_bytes += size <= STORE_EXIT_BYTES ? size : 0; /* what each run has time to compact */
}

static void read_file(Store *store, int fd, StoredFile *file, StoredFound *found)
{
    struct stat status;
    FileHeader header;
    bool whole = fstat(fd, &status) == 0 && store_read_at(fd, &header, sizeof header, 0) &&
                 file_header_is_whole(&header, store->stored.identity);
    if (!whole) {
        tell_damage_of(store, file);
        return;
    }
    const uint64_t size = (uint64_t)status.st_size;
    const bool is_pack = memcmp(header.kind, "PACK", 4) == 0 && header.table != 0;
    file->number = (FileNumber){status.st_dev, status.st_ino};
    file->salt = header.salt;
    file->has_table = is_pack && read_table(fd, header.table, file);
    if (is_pack && (!file->has_table || header.size != size))
        tell_damage_of(store, file);
    read_headers(store, fd, size, file, found);
    note_journal(store, &header, size, file, found);
}

/* ---- the folder -------------------------------------------------------------------------------- */

static bool is_known(Stored *stored, const char *name)
{
    bool known = false;
    pthread_mutex_lock(&stored->mutex);
    for (uint32_t i = 0; i < stored->file_count && !known; i++)
        known = strcmp(stored->files[i].name, name) == 0;
    pthread_mutex_unlock(&stored->mutex);
    return known;
}

static void add_file(Store *store, const char *name, bool system, StoredFound *found)
{
    Stored *stored = &store->stored;
    size_t length = strlen(name);
    if (length >= PYLAYER_STORE_NAME_BYTES || is_known(stored, name))
        return;
    int fd = open_in_store(system ? stored->system : stored->directory, name);
    bool gone = fd < 0 && errno == ENOENT; /* or its records have another name now */
    bool later = fd < 0 && open_may_succeed_later(errno);
    if (gone || later)
        atomic_store(&stored->behind, true);
    StoredFile file = {.system = system};
    memcpy(file.name, name, length + 1);
    if (fd < 0 && !gone && (!later || found->reviewed)) /* somebody else's, or the disk fails */
        tell_damage_of(store, &file);
    if (fd < 0)
        return;
    read_file(store, fd, &file, found);
    close(fd);
    found->records += file.entry_count;
    pthread_mutex_lock(&stored->mutex);
    StoredFile *files = with_room(stored->files, stored->file_count, sizeof file);
    if (files) {
        stored->files = files;
        files[stored->file_count++] = file;
    }
    pthread_mutex_unlock(&stored->mutex);
    if (files)
        return;
    free(file.entries);
    atomic_store(&stored->behind, true);
}

typedef struct Reading {
    Store *store;
    StoredFound *found;
    char prefix[PROGRAM_PREFIX_BYTES];
    bool system; /* of the system's store, only packs count */
    bool fine;   /* as index_read_folder returns */
} Reading;

static void look_at(void *to, int directory, const char *name)
{
    Reading *reading = to;
    Store *store = reading->store;
    StoredFound *found = reading->found;
    bool own = name_begins(name, reading->prefix), system = reading->system;
    if (!system && name_ends(name, LIVE_SUFFIX))
        reading->fine &= !live_may_be_dead(directory, name, own, &found->ended);
    if (!system && name_ends(name, ".verdict") && (own || name_begins(name, EVERY_PROGRAM)))
        found->block_files += digest64(name, strlen(name), 0);
    if (!store->kept.reads_all && !own)
        return;
    if (name_ends(name, ".pack") || (!system && (name_ends(name, ".journal") || name_ends(name, ".closed"))))
        add_file(store, name, system, found);
}

static Reading reading_of(Store *store, StoredFound *found)
{
    Reading reading = {.store = store, .found = found, .fine = true};
    program_prefix(reading.prefix, store->run->info.instance.program_id);
    return reading;
}

/* Returns false if the names could not be read. Then the folder is looked into again. */
static bool read_names(Reading *reading)
{
    Stored *stored = &reading->store->stored;
    atomic_store(&stored->behind, false);
    bool read = !stored->own || folder_names(stored->directory, look_at, reading);
    if (!read)
        atomic_store(&stored->behind, true);
    reading->system = true;
    if (read && stored->system)
        folder_names(stored->system, look_at, reading);
    reading->system = false;
    return read;
}

/* Packs first, then by the time at which a file was made, which a name has behind the program's number. */
static int by_time(const void *left, const void *right)
{
    const StoredFile *a = left, *b = right;
    int packs = b->has_table - a->has_table;
    return packs ? packs : strcmp(a->name + PROGRAM_PREFIX_BYTES - 1, b->name + PROGRAM_PREFIX_BYTES - 1);
}

bool index_read_folder(Store *store)
{
    StoredFound *found = &store->found;
    Reading reading = reading_of(store, found);
    bool read = read_names(&reading);
    if (is_own_directory(store->stored.outside))
        folder_names(store->stored.outside, look_at, &reading);
    bool fine = read && store->stored.own && reading.fine && found->block_files == store->kept.block_files;
    if (store->stored.file_count > 0)
        qsort(store->stored.files, store->stored.file_count, sizeof *store->stored.files, by_time);
    return fine || found->reviewed;
}

bool index_read_again(Store *store)
{
    Stored *stored = &store->stored;
    StoredFound found = {0};
    Reading reading = reading_of(store, &found);
    pthread_mutex_lock(&stored->reading);
    if (atomic_load(&stored->behind))
        read_names(&reading);
    pthread_mutex_unlock(&stored->reading);
    return !atomic_load(&stored->behind);
}

void index_tell_damage(Store *store, uint32_t file, enum ReadResult result)
{
    /* A process in a sandbox, which can open no file any more, may not be allowed a thread either. */
    if (result != READ_FAILED && !(result == READ_REFUSED && mailbox_has_policy()))
        return;
    Stored *stored = &store->stored;
    pthread_mutex_lock(&stored->mutex);
    StoredFile known = stored->files[file];
    stored->files[file].damage_told = true;
    pthread_mutex_unlock(&stored->mutex);
    if (*known.name)
        tell_damage_of(store, &known);
}

uint64_t index_stored_since(const Stored *stored, const char *run_name)
{
    uint64_t pipelines = 0;
    for (uint32_t i = 0; i < stored->file_count; i++)
        if (strcmp(stored->files[i].name + PROGRAM_PREFIX_BYTES - 1, run_name + PROGRAM_PREFIX_BYTES - 1) > 0)
            pipelines += stored->files[i].entry_count;
    return pipelines;
}

void index_forget_file(Stored *stored, uint32_t file)
{
    pthread_mutex_lock(&stored->mutex);
    free(stored->files[file].entries);
    stored->files[file].entries = NULL;
    stored->files[file].entry_count = 0;
    *stored->files[file].name = '\0'; /* a file of this name is another one */
    pthread_mutex_unlock(&stored->mutex);
    atomic_store(&stored->behind, true);
}

void index_forget(Stored *stored)
{
    for (uint32_t i = 0; i < stored->file_count; i++)
        free(stored->files[i].entries);
    free(stored->files);
    stored->files = NULL;
    stored->file_count = 0;
}

void stored_close(Stored *stored)
{
    index_forget(stored);
    free(stored->directory);
    free(stored->system);
    number_map_free(&stored->given.numbers);
}

/* ---- looking up -------------------------------------------------------------------------------- */

static Place place_of(uint32_t file, uint64_t offset)
{
    return (uint64_t)(file + 1) << PLACE_OFFSET_BITS | offset;
}

/* Returns the first entry of a file that is not less; NULL if there is none. */
static const TableEntry *first_not_less(const StoredFile *file, TableEntry wanted)
{
    size_t low = 0, high = file->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_fingerprint(&file->entries[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < file->entry_count ? &file->entries[low] : NULL;
}

Place index_next(Store *store, uint64_t fingerprint, Place after)
{
    Stored *stored = &store->stored;
    Place found = 0;
    pthread_mutex_lock(&stored->mutex);
    for (uint32_t i = after ? place_file(after) : 0; i < stored->file_count && !found; i++) {
        const uint64_t least = place_of(i, 0) <= after ? place_offset(after) + 1 : 0;
        const TableEntry *entry = first_not_less(&stored->files[i], (TableEntry){fingerprint, least});
        if (entry && entry->fingerprint == fingerprint && entry->offset >> PLACE_OFFSET_BITS == 0)
            found = place_of(i, entry->offset);
    }
    pthread_mutex_unlock(&stored->mutex);
    return found;
}
