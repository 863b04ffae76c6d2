/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and identities of the objects below, so that each is asked for once. */
#include "store/cache/cache.h"

#define UNKNOWN UINT64_MAX /* the size of one that was forgotten */

XXH128_hash_t stk__cache_key(const char *key)
{
    XXH128_hash_t hash = XXH3_128bits(key, strlen(key));

    hash.low64 |= !hash.high64 && !hash.low64;
    return hash;
}

/* Where a key is, or belongs; the table has a free place. */
static stk__cache_id *place_of(const stk__cache_ids *ids, XXH128_hash_t key)
{
    size_t at = (size_t)key.low64 & (ids->room - 1);

    while ((ids->table[at].key.high64 || ids->table[at].key.low64) &&
           !XXH128_isEqual(ids->table[at].key, key))
        at = (at + 1) & (ids->room - 1);
    return &ids->table[at];
}

stk__cache_id *stk__cache_ids_find(const stk__cache_ids *ids, XXH128_hash_t key)
{
    stk__cache_id *id = ids->room ? place_of(ids, key) : NULL;

    return id && XXH128_isEqual(id->key, key) && id->size != UNKNOWN ? id : NULL;
}

/* Twice the room, of which at most half is taken then. */
static bool grow(stk_context *ctx, stk__cache_ids *ids)
{
    stk__cache_ids more = {.room = ids->room ? ids->room * 2 : 1024};

    if (more.room * sizeof *more.table > stk__memory_left(ctx) / 4)
        return false;
    more.table = stk__calloc(ctx, more.room, sizeof *more.table);
    if (!more.table)
        return false;
    for (size_t i = 0; i < ids->room; i++) {
        const stk__cache_id *id = &ids->table[i];
        if ((id->key.high64 || id->key.low64) && id->size != UNKNOWN) {
            *place_of(&more, id->key) = *id;
            more.count++;
        }
    }
    more.bytes = ids->bytes;
    stk__free(ctx, ids->table);
    *ids = more;
    return true;
}

void stk__cache_ids_set(stk_context *ctx, stk__cache_ids *ids, const stk__cache_id *id,
                        stk__cache_id *old)
{
    *old = (stk__cache_id){0};
    if ((ids->count + 1) * 4 > ids->room * 3 && !grow(ctx, ids) && ids->count + 1 >= ids->room)
        return;
    stk__cache_id *at = place_of(ids, id->key);
    if (XXH128_isEqual(at->key, id->key) && at->size != UNKNOWN)
        *old = *at;
    else if (!XXH128_isEqual(at->key, id->key))
        ids->count++;
    ids->bytes += id->size - old->size;
    *at = *id;
}

void stk__cache_ids_forget(stk__cache_ids *ids, XXH128_hash_t key)
{
    stk__cache_id *id = ids->room ? place_of(ids, key) : NULL;

    if (!id || !XXH128_isEqual(id->key, key) || id->size == UNKNOWN)
        return;
    ids->bytes -= id->size;
    id->size = UNKNOWN;
}
