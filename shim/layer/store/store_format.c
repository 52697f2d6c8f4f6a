/* store_format.c - see store_format.h */
#include "store/store_format.h"

#include <string.h>
#include <time.h>

#include "process/digest.h"

static bool is_ours(const FileHeader *header)
{
    return memcmp(header->magic, "PYLCACHE", sizeof header->magic) == 0;
}

bool file_header_is_newer(const FileHeader *header)
{
    return is_ours(header) && header->version > STORE_VERSION;
}

bool file_header_is_whole(const FileHeader *header, const uint8_t identity[PYLAYER_DIGEST_BYTES])
{
    return is_ours(header) && header->version == STORE_VERSION && header->header_size == sizeof *header &&
           header->hash == digest64(header, offsetof(FileHeader, hash), 0) &&
           memcmp(header->identity, identity, sizeof header->identity) == 0;
}

void file_header_seal(FileHeader *header)
{
    header->hash = digest64(header, offsetof(FileHeader, hash), 0);
}

void record_header_seal(RecordHeader *header, uint64_t salt)
{
    header->hash = digest64(header, offsetof(RecordHeader, hash), salt);
}

bool record_header_is_whole(const RecordHeader *header, uint64_t salt)
{
    return header->hash == digest64(header, offsetof(RecordHeader, hash), salt) &&
           header->size <= STORE_MAX_RECORD_BYTES;
}

bool record_data_is_whole(const RecordHeader *header, const uint8_t *data)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    digest128(data, header->size, digest);
    return memcmp(digest, header->digest, sizeof digest) == 0;
}

bool record_is_recent(const RecordHeader *header)
{
    int64_t age = (int64_t)time(NULL) - (int64_t)header->last_used;
    return age >= -(int64_t)STORE_AHEAD_SECONDS && age <= STORE_RECENT_SECONDS;
}

bool record_is(const RecordHeader *header, const char magic[4])
{
    return memcmp(header->magic, magic, sizeof header->magic) == 0;
}

uint64_t record_space(uint64_t data_size)
{
    return sizeof(RecordHeader) + (data_size + STORE_ALIGNMENT - 1) / STORE_ALIGNMENT * STORE_ALIGNMENT;
}
