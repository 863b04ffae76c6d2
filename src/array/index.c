/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shard indexes [zarr-specs "sharding_indexed"]: decoded, checked, and kept by the array up to a
 * limit of bytes; the least recently used go first. A walk inside a shard keeps its index alive.
 */
#include <stdio.h>

#include "array/index.h"

#define BUCKETS 1024u /* a power of two */

typedef struct entry entry;
struct entry {
    entry *newer, *older, *next; /* by last use; in its bucket */
    uint32_t level;
    uint64_t chunk, bytes;
    stk__shard_index *index;
};

struct stk__index_cache {
    stk_context *context;
    uint64_t limit;
    pthread_mutex_t mutex; /* guards the rest */
    uint64_t bytes;
    entry *newest, *oldest;
    entry *buckets[BUCKETS];
};

stk_status stk__index_cache_create(stk_context *ctx, uint64_t limit, stk__index_cache **out)
{
    stk__index_cache *c = stk__calloc(ctx, 1, sizeof *c);

    *out = c;
    if (!c)
        return STK_ENOMEM;
    c->context = ctx;
    c->limit = limit;
    pthread_mutex_init(&c->mutex, NULL);
    return STK_OK;
}

static void unref(stk_context *ctx, stk__shard_index *index)
{
    if (index && atomic_fetch_sub(&index->refs, 1) == 1)
        stk__free(ctx, index);
}

void stk__index_unref(const stk_array *a, stk__shard_index *index)
{
    unref(a->context, index);
}

void stk__index_cache_destroy(stk__index_cache **cache)
{
    stk__index_cache *c = *cache;

    if (!c)
        return;
    *cache = NULL;
    for (entry *e = c->newest, *older; e; e = older) {
        older = e->older;
        unref(c->context, e->index);
        stk__free(c->context, e);
    }
    pthread_mutex_destroy(&c->mutex);
    stk__free(c->context, c);
}

static entry **bucket_of(stk__index_cache *c, uint32_t level, uint64_t chunk)
{
    uint64_t hash = (chunk * 8 + level) * UINT64_C(0x9e3779b97f4a7c15);

    return &c->buckets[hash >> 32 & (BUCKETS - 1)];
}

static entry *find_locked(stk__index_cache *c, uint32_t level, uint64_t chunk)
{
    entry *e = *bucket_of(c, level, chunk);

    while (e && (e->level != level || e->chunk != chunk))
        e = e->next;
    return e;
}

static void unlink_locked(stk__index_cache *c, entry *e)
{
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void push_locked(stk__index_cache *c, entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

/* Take the oldest out. */
static entry *evict_locked(stk__index_cache *c)
{
    entry *e = c->oldest;
    entry **at = bucket_of(c, e->level, e->chunk);

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlink_locked(c, e);
    c->bytes -= e->bytes;
    return e;
}

stk__shard_index *stk__index_get(const stk_array *a, uint32_t level, uint64_t chunk)
{
    stk__index_cache *c = a->indexes;
    stk__shard_index *index = NULL;

    pthread_mutex_lock(&c->mutex);
    entry *e = find_locked(c, level, chunk);
    if (e) {
        unlink_locked(c, e);
        push_locked(c, e);
        index = e->index;
        atomic_fetch_add(&index->refs, 1);
    }
    pthread_mutex_unlock(&c->mutex);
    return index;
}

/* Keep an index; the cache takes a reference of its own. */
static stk_status keep(stk__index_cache *c, uint32_t level, uint64_t chunk, stk__shard_index *index)
{
    entry *e = stk__calloc(c->context, 1, sizeof *e), *evicted = NULL;

    if (!e)
        return STK_ENOMEM;
    e->level = level;
    e->chunk = chunk;
    e->index = index;
    e->bytes = sizeof *e + sizeof *index + 16 * index->count;
    pthread_mutex_lock(&c->mutex);
    if (find_locked(c, level, chunk)) { /* another thread was faster */
        e->next = NULL;
        evicted = e;
        e->index = NULL;
    } else {
        entry **bucket = bucket_of(c, level, chunk);
        e->next = *bucket;
        *bucket = e;
        atomic_fetch_add(&index->refs, 1);
        push_locked(c, e);
        c->bytes += e->bytes;
        while (c->bytes > c->limit && c->oldest != e) {
            entry *old = evict_locked(c);
            old->next = evicted;
            evicted = old;
        }
    }
    pthread_mutex_unlock(&c->mutex);
    for (entry *next; evicted; evicted = next) {
        next = evicted->next;
        unref(c->context, evicted->index);
        stk__free(c->context, evicted);
    }
    return STK_OK;
}

/* ---- Checking ---- */

static stk_status damaged(const stk_array *a, const stk__need *need, uint64_t place,
                          const uint64_t *pair, const char *what, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];

    stk__array_key(a, need->object, key, sizeof key);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, pair[0],
                        "%s: the shard index says that chunk %llu has %llu bytes at byte %llu, "
                        "which %s; copy or write the shard again",
                        key, (unsigned long long)place, (unsigned long long)pair[1],
                        (unsigned long long)pair[0], what);
}

/* Entries lie within [low, high) of the object, relative to `begin`, and do not overlap; they
 * become offsets in the object. */
static stk_status check_entries(const stk_array *a, const stk__need *need, stk__shard_index *index,
                                uint64_t low, uint64_t high, stk_error *err)
{
    stk_store_limits limits = {.coalesce_gap = 0, .max_read = 0};
    stk_status status = STK_OK;
    uint32_t used = 0;

    if (index->count > UINT32_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY, "a shard holds more than 2^32 chunks");
    stk__want *wants = stk__alloc(a->context, index->count * sizeof *wants);
    stk__request *requests = stk__alloc(a->context, index->count * sizeof *requests);
    if (!wants || !requests)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to check a shard index");
    for (uint64_t i = 0; i < index->count && status == STK_OK; i++) {
        uint64_t *pair = &index->pairs[2 * i], end;
        if (pair[0] == UINT64_MAX && pair[1] == UINT64_MAX)
            continue;
        if (!stk__add_size(pair[0], need->begin, &pair[0]) ||
            !stk__add_size(pair[0], pair[1], &end) || pair[0] < low || end > high) {
            status = damaged(a, need, i, pair, "is not within the shard's data", err);
            break;
        }
        wants[used] = (stk__want){0, pair[0], pair[1], (uint32_t)i};
        used += pair[1] != 0;
    }
    if (status == STK_OK)
        (void)stk__plan_reads(wants, used, &limits, requests);
    for (uint32_t i = 1; i < used && status == STK_OK; i++)
        if (wants[i].offset < wants[i - 1].offset + wants[i - 1].length)
            status = damaged(a, need, wants[i].tag, &index->pairs[2 * (uint64_t)wants[i].tag],
                             "overlaps another chunk", err);
    stk__free(a->context, requests);
    stk__free(a->context, wants);
    return status;
}

static stk_status decode_index(const stk_array *a, const stk__need *need, const void *data,
                               uint64_t object_size, stk__codec_state *state,
                               stk__shard_index *index, stk_error *err)
{
    const stk__level *level = &a->levels[need->level];
    uint64_t low = need->begin, high = need->end;
    const char *reason = "";

    stk_status status = stk__chain_decode(level->index_chain, state, data, need->length,
                                          index->pairs, level->inner_total * 16, &reason);
    if (status != STK_OK) {
        char key[STK_MAX_OBJECT_KEY];
        uint64_t offset =
            need->offset == STK__ARRAY_FROM_END ? object_size - need->length : need->offset;
        stk__array_key(a, need->object, key, sizeof key);
        return stk__fail_at(err, status, STK_STAGE_ARRAY, key, offset,
                            "%s: the shard index of %llu bytes at byte %llu: %s%s", key,
                            (unsigned long long)need->length, (unsigned long long)offset, reason,
                            status == STK_ECHECKSUM
                                ? "; checksums=false reads shards that were written with wrong "
                                  "checksums"
                                : "");
    }
    if (high == STK__ARRAY_UNKNOWN)
        high = object_size;
    if (level->index_at_start)
        low += need->length;
    else if (high != STK__ARRAY_UNKNOWN)
        high -= need->length;
    return check_entries(a, need, index, low, high, err);
}

stk_status stk__array_give_index(stk_array *a, stk__walk *walk, const stk__need *need,
                                 const void *data, uint64_t object_size, stk__codec_state *state,
                                 stk_error *err)
{
    uint64_t count = data ? a->levels[need->level].inner_total : 0;
    stk__shard_index *index = stk__alloc(a->context, sizeof *index + 16 * count);
    stk_status status = STK_OK;

    if (!index)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY,
                         "no memory for a shard index of %llu bytes",
                         (unsigned long long)(16 * count));
    index->count = count;
    index->absent = !data;
    atomic_init(&index->refs, 1);
    if (data)
        status = decode_index(a, need, data, object_size, state, index, err);
    if (status == STK_OK) {
        status = keep(a->indexes, need->level, need->chunk, index);
        if (status != STK_OK)
            stk__fail(err, status, STK_STAGE_ARRAY, "no memory to keep a shard index");
    }
    if (status == STK_OK && walk)
        stk__walk_enter(walk, index);
    else
        unref(a->context, index);
    return status;
}
