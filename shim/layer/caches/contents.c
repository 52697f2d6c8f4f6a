/* contents.c - see contents.h */
#include <stdlib.h>

#include "caches/caches.h"
#include "caches/cells.h"
#include "caches/contents.h"
#include "caches/stored.h"

/* A cache with more is given what it lacks at once. */
#define MOST_CONTENTS 65536

enum Content { ABSENT, OWED, THERE };

bool contents_has(AppCache *app_cache, uint64_t fingerprint)
{
    return fingerprint && shared_map_find(&app_cache->contents, fingerprint) != ABSENT;
}

void contents_add(AppCache *app_cache, uint64_t fingerprint)
{
    if (fingerprint)
        shared_map_put(&app_cache->contents, fingerprint, THERE, MOST_CONTENTS);
}

bool contents_owe(AppCache *app_cache, uint64_t fingerprint)
{
    if (!fingerprint)
        return false;
    if (shared_map_find(&app_cache->contents, fingerprint) == ABSENT)
        shared_map_put(&app_cache->contents, fingerprint, OWED, MOST_CONTENTS);
    return shared_map_find(&app_cache->contents, fingerprint) != ABSENT;
}

/* Returns what is owed, for the caller to free, and notes that it is there. NULL: nothing is owed, or memory is short. */
static uint64_t *take_owed(SharedMap *contents, size_t *count)
{
    *count = 0;
    if (!spread_try_write(&contents->lock))
        return NULL;
    NumberMap *numbers = &contents->numbers;
    uint64_t *owed = numbers->used > 0 ? malloc(numbers->used * sizeof *owed) : NULL;
    for (size_t i = 0; owed && i < numbers->capacity; i++)
        if (numbers->slots[i].key && numbers->slots[i].value == OWED) {
            numbers->slots[i].value = THERE;
            owed[(*count)++] = numbers->slots[i].key;
        }
    spread_unlock_write(&contents->lock);
    return owed;
}

void contents_settle(Caches *caches, AppCache *app_cache)
{
    size_t count;
    uint64_t *owed = take_owed(&app_cache->contents, &count);
    if (count > 0 && !stored_give_to(caches, app_cache, owed, count))
        cells_seed(caches, app_cache);
    free(owed);
}

void contents_forget(AppCache *app_cache)
{
    if (!spread_try_write(&app_cache->contents.lock))
        return;
    number_map_free(&app_cache->contents.numbers);
    spread_unlock_write(&app_cache->contents.lock);
}
