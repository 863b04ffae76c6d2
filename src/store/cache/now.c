/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that end within the call, of blocks that are kept and in memory; and what is used. */
#include "store/cache/reading.h"

/* A round lasts until its objects were read so often in the mean, */
#define ROUND_READS 4
/* and after so often, and half of the cache's size, what was not read is not used any more. */
#define ROUND_SURE 2
#define NOW_LOOKED 65 /* blocks of such a read */

bool stk__cache_now(stk__cache_store *store, const stk__cache_id *id, uint64_t offset,
                    uint64_t length, void *data)
{
    stk__cache_place p;
    uint64_t sums[NOW_LOOKED], end;
    uint8_t *buffer = NULL;

    if (!store->kept || !length || !stk__add_size(offset, length, &end) || end > id->size ||
        !stk__cache_place_of(store->room.store, id, store->options.block, &p))
        return false;
    const uint64_t first = offset / p.block, count = stk__divide_up(end, p.block) - first,
                   bytes = stk__cache_run_bytes(&p, first, count), start = first * p.block;
    if (count > NOW_LOOKED ||
        !stk__store_read_now(store->kept, p.name, STK__CACHE_HEAD + first * 8, count * 8, sums))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!sums[i])
            return false;
    if (start != offset || bytes != length)
        buffer = stk__alloc(store->base.context, bytes);
    uint8_t *to = start != offset || bytes != length ? buffer : data;
    const bool right = to &&
                       stk__store_read_now(store->kept, p.name, p.data_at + start, bytes, to) &&
                       stk__cache_sums_right(&p, first, count, to, sums) == count;
    if (right && to == buffer)
        memcpy(data, buffer + (offset - start), length);
    stk__free(store->base.context, buffer);
    return right;
}

/* With an object that is read: whether it is the first time in this round. */
static bool note_use_locked(stk__cache_store *store, stk__cache_id *id, uint64_t length)
{
    stk__cache_round *round = &store->round;
    const bool first = id->round != round->number;

    id->round = round->number;
    round->of_objects += first ? id->size : 0;
    round->read += length;
    if (round->read < store->room.size / 2 || round->read / ROUND_SURE < round->of_objects)
        return first;
    if (atomic_exchange(&store->room.unused_ns, round->start_ns) != round->start_ns)
        atomic_store(&store->room.sulk_ns, 0);
    if (round->read / ROUND_READS >= round->of_objects)
        stk__cache_round_begin(round);
    return first;
}

void stk__cache_round_begin(stk__cache_round *round)
{
    /* Stamps of files may be a little behind. */
    *round = (stk__cache_round){.number = round->number + 1,
                                .start_ns = (int64_t)((stk__wall_seconds() - 1) * 1e9)};
}

bool stk__cache_known(stk__cache_store *store, XXH128_hash_t key, uint64_t length,
                      stk__cache_id *out)
{
    stk__cache_place place;
    bool first = false;

    pthread_mutex_lock(&store->mutex);
    stk__cache_id *id = stk__cache_ids_find(&store->ids, key);
    if (id) {
        first = note_use_locked(store, id, length);
        *out = *id;
    }
    pthread_mutex_unlock(&store->mutex);
    if (first && stk__cache_place_of(store->room.store, out, store->options.block, &place))
        stk__cache_file_touch(&store->room, place.name);
    return id != NULL;
}

void stk__cache_count_read(stk__cache_store *store, uint64_t length, uint64_t hit_ns)
{
    atomic_fetch_add_explicit(&store->stats.reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->stats.read_bytes, length, memory_order_relaxed);
    if (!hit_ns)
        return;
    atomic_fetch_add_explicit(&store->stats.hit_bytes, length, memory_order_relaxed);
    stk__tier_count(store->base.context, STK_TIER_DISK, length, hit_ns);
}

stk_status stk__cache_read_now(stk_store *base, const char *key, uint64_t offset, uint64_t length,
                               void *data)
{
    stk__cache_store *store = (stk__cache_store *)base;
    stk__cache_id id;

    const uint64_t began = stk__stamp();
    if (!stk__cache_known(store, stk__cache_key(key), length, &id) ||
        !stk__cache_now(store, &id, offset, length, data))
        return STK_EAGAIN;
    stk__cache_count_read(store, length, stk__cache_took(began));
    return STK_OK;
}
