/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a cache. A reading goes through its blocks in order: it looks at the table of the
 * object's file, takes a run of blocks from there that have their sums, or has a run fetched from
 * the store below (below.c). What of the file cannot be read, or does not have its sum, comes from
 * below as if it were not there.
 */
#include <errno.h>

#include "store/cache/reading.h"
#include "store/file.h"

#define NOW_BYTES   (UINT64_C(64) << 10) /* copied within submit() where they are in memory */
#define MOST_STARTS 8                    /* of a read, whose object is changed again and again */
#define KEPT_ROOM   (UINT64_C(1) << 20)  /* of a buffer that stays for the next reading */

/* ---- Readings -------------------------------------------------------------------------------- */

/* One that has ended, and that no thread looks at any more, leaves. */
static void leave_locked(stk__cache_store *store, stk__cache_reading *r)
{
    if (r->outer || r->pins)
        return;
    if (r->next)
        r->next->previous = r->previous;
    *(r->previous ? &r->previous->next : &store->under_way) = r->next;
    if (r->room > KEPT_ROOM) {
        stk__free(store->base.context, r->buffer);
        r->buffer = NULL;
        r->room = 0;
    }
    r->next = store->free_readings;
    store->free_readings = r;
    if (!store->under_way)
        pthread_cond_broadcast(&store->idle);
}

void stk__cache_unpin(stk__cache_reading *r)
{
    stk__cache_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    r->pins--;
    leave_locked(store, r);
    pthread_mutex_unlock(&store->mutex);
}

/* Make one known, with a pin. */
static stk__cache_reading *begin(stk__cache_store *store, stk_read *outer, XXH128_hash_t key)
{
    pthread_mutex_lock(&store->mutex);
    stk__cache_reading *r = store->free_readings;
    if (r)
        store->free_readings = r->next;
    pthread_mutex_unlock(&store->mutex);
    if (!r)
        r = stk__calloc(store->base.context, 1, sizeof *r);
    if (!r)
        return NULL;
    r->store = store;
    r->outer = outer;
    r->key = key;
    r->length = outer->length;
    r->at = r->known = r->from = r->looked_at = r->looks = r->starts = 0;
    r->end = 1; /* until its object is known */
    r->waits_for = STK__CACHE_NOTHING;
    r->changed = r->distrust = r->running = r->submitted = r->asked = r->stop = r->asking = false;
    r->waits = NULL;
    r->pins = 1;
    r->previous = NULL;
    r->inner.system_error = 0;
    pthread_mutex_lock(&store->mutex);
    r->next = store->under_way;
    if (r->next)
        r->next->previous = r;
    store->under_way = r;
    outer->driver[0] = r;
    pthread_mutex_unlock(&store->mutex);
    return r;
}

static void end(stk__cache_reading *r, stk_status status)
{
    stk__cache_store *store = r->store;
    stk_read *outer = r->outer;

    pthread_mutex_lock(&store->mutex);
    outer->driver[0] = NULL;
    pthread_mutex_unlock(&store->mutex);
    outer->system_error = status == STK_OK ? 0 : r->inner.system_error;
    if (outer->up_to)
        outer->got = r->length;
    outer->done(outer, status);
    pthread_mutex_lock(&store->mutex);
    r->outer = NULL;
    leave_locked(store, r);
    pthread_mutex_unlock(&store->mutex);
}

/* ---- Reads of other stores ------------------------------------------------------------------- */

static void inner_done(stk_read *inner, stk_status status)
{
    stk__cache_reading *r = (stk__cache_reading *)inner;

    pthread_mutex_lock(&r->store->mutex);
    r->running = false;
    pthread_mutex_unlock(&r->store->mutex);
    stk__cache_resume(r, status);
}

/* Ask the store that has the read of a reading to cancel it. */
static void cancel_inner(stk__cache_reading *r)
{
    stk__cache_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    const bool ask = r->running && r->submitted && !r->asked;
    r->asked |= ask;
    stk_store *below = r->below;
    pthread_mutex_unlock(&store->mutex);
    if (ask)
        below->ops->cancel(below, &r->inner);
}

/* Submit a read for a reading. STK_EAGAIN: it goes on when that has ended. */
static stk_status send(stk__cache_reading *r, stk_store *below, const char *key, uint64_t offset,
                       uint64_t length, void *data)
{
    stk__cache_store *store = r->store;
    int held = STK__CACHE_HELD;

    pthread_mutex_lock(&store->mutex);
    const bool stop = r->stop;
    if (!stop) {
        r->inner = (stk_read){.struct_size = sizeof r->inner,
                              .key = key,
                              .offset = offset,
                              .length = length,
                              .data = data,
                              .deadline_ns = r->outer->deadline_ns,
                              .needed_next = r->outer->needed_next,
                              .up_to = r->waits_for == STK__CACHE_DIRECT && r->outer->up_to,
                              .got = length,
                              .identity = r->waits_for == STK__CACHE_DIRECT ? &r->answered : NULL,
                              .done = inner_done};
        r->answered = 0;
        r->below = below;
        r->running = true;
        r->submitted = r->asked = false;
        r->pins++;
    }
    pthread_mutex_unlock(&store->mutex);
    if (stop)
        return STK_ECANCELED;
    atomic_store(&r->gate, STK__CACHE_HELD);
    r->sent_ns = stk__stamp();
    const stk_status status = below->ops->submit(below, &r->inner);
    pthread_mutex_lock(&store->mutex);
    r->submitted = status == STK_OK;
    r->running = r->running && r->submitted;
    const bool ask = r->stop && r->running;
    pthread_mutex_unlock(&store->mutex);
    if (ask)
        cancel_inner(r);
    const bool waits =
        status == STK_OK && atomic_compare_exchange_strong(&r->gate, &held, STK__CACHE_WAITING);
    const stk_status outcome = waits ? STK_EAGAIN : status == STK_OK ? r->outcome : status;
    stk__cache_unpin(r);
    return outcome;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

uint64_t stk__cache_copy(const stk__cache_reading *r, const uint8_t *data, uint64_t first,
                         uint64_t count)
{
    const uint64_t start = first * r->place.block, offset = r->outer->offset,
                   from = STK_MAX(start, offset),
                   to = STK_MIN(start + count * r->place.block, offset + r->length);
    char *const place = (char *)r->outer->data + (from - offset);

    if (from >= to)
        return 0;
    if (data + (from - start) != (const uint8_t *)place)
        memcpy(place, data + (from - start), to - from);
    return to - from;
}

/* Where blocks of a reading go: into place where all of them is wanted. NULL: no memory. */
static uint8_t *find_room(stk__cache_reading *r, uint64_t first, uint64_t bytes)
{
    stk_context *ctx = r->store->base.context;
    const uint64_t start = first * r->place.block, offset = r->outer->offset;

    if (start >= offset && start + bytes <= offset + r->length)
        return (uint8_t *)r->outer->data + (start - offset);
    if (bytes <= r->room)
        return r->buffer;
    stk__free(ctx, r->buffer);
    r->room = 0;
    r->buffer = bytes <= stk__memory_left(ctx) ? stk__alloc_buffer(ctx, bytes) : NULL;
    if (r->buffer)
        r->room = bytes;
    return r->buffer;
}

/* None of the next blocks is there. A file that was evicted meanwhile has another under its name,
 * or none. */
static void find_nothing(stk__cache_reading *r)
{
    stk__file_forget((stk__file_store *)r->store->kept, r->place.name, NULL);
    memset(r->sums, 0, r->run * 8);
}

/* From here on the reading takes all from below. */
static void distrust(stk__cache_reading *r)
{
    stk__file_forget((stk__file_store *)r->store->kept, r->place.name, NULL);
    r->distrust = true;
    r->known = r->at;
}

/* Which of the next blocks are there. */
static stk_status look(stk__cache_reading *r)
{
    stk__cache_store *store = r->store;
    const uint64_t count = STK_MIN(r->end - r->at, (uint64_t)STK__CACHE_LOOKED);
    const uint64_t where = STK__CACHE_HEAD + r->at * 8;

    r->from = r->at;
    r->run = count;
    if (r->distrust || !store->kept) {
        memset(r->sums, 0, count * 8);
        r->known = r->at + count;
        return STK_OK;
    }
    if (stk__store_read_now(store->kept, r->place.name, where, count * 8, r->sums)) {
        r->known = r->at + count;
        return STK_OK;
    }
    r->waits_for = STK__CACHE_TABLE;
    return send(r, store->kept, r->place.name, where, count * 8, r->sums);
}

/* Blocks from r->at on that are all there, or all not. */
static uint64_t find_run(const stk__cache_reading *r, bool *there)
{
    uint64_t n = r->at - r->from;
    const uint64_t first = n, most = r->known - r->from;

    *there = r->sums[n] != 0;
    while (n < most && (r->sums[n] != 0) == *there)
        n++;
    return n - first;
}

/* All that is left, straight from below. */
static stk_status read_direct(stk__cache_reading *r)
{
    const uint64_t start = r->place.block ? r->at * r->place.block : 0;
    const uint64_t from = STK_MAX(start, r->outer->offset);
    const uint64_t skipped = from - r->outer->offset;

    r->waits_for = STK__CACHE_DIRECT;
    atomic_fetch_add(&r->store->stats.fetches, 1);
    atomic_fetch_add(&r->store->stats.fetched, r->length - skipped);
    return send(r, r->store->inner, r->outer->key, from, r->length - skipped,
                (char *)r->outer->data + skipped);
}

/* Its object is another one than it was: all bytes are to be of the one version that is there. */
static stk_status start_again(stk__cache_reading *r)
{
    r->changed = r->distrust = false;
    if (++r->starts == MOST_STARTS)
        return STK_ECHANGED;
    r->at = r->known = r->from = r->looked_at = r->looks = 0;
    r->end = 1;
    r->length = r->outer->length;
    if (stk__cache_ask(r))
        return STK_EAGAIN;
    r->place.block = 0;
    return read_direct(r);
}

/* Begin what a reading needs next. STK_OK: it has ended already. */
static stk_status next(stk__cache_reading *r)
{
    bool there;

    if (r->changed)
        return start_again(r);
    if (!r->place.block)
        return read_direct(r);
    if (r->known <= r->at)
        return look(r);
    r->run = find_run(r, &there);
    if (there) {
        const uint64_t bytes = stk__cache_run_bytes(&r->place, r->at, r->run);
        uint8_t *to = find_room(r, r->at, bytes);
        r->waits_for = STK__CACHE_DATA;
        return to ? send(r, r->store->kept, r->place.name,
                         r->place.data_at + r->at * r->place.block, bytes, to)
                  : STK_ENOMEM;
    }
    const stk_status status = stk__cache_want(r, r->run);
    return status == STK_ENOMEM ? read_direct(r) : status;
}

/* Blocks of the file are read. */
static void take_blocks(stk__cache_reading *r)
{
    const uint8_t *data = r->inner.data;
    const uint64_t right =
        stk__cache_sums_right(&r->place, r->at, r->run, data, r->sums + (r->at - r->from));

    const uint64_t bytes = stk__cache_copy(r, data, r->at, right);
    atomic_fetch_add(&r->store->stats.hit_bytes, bytes);
    if (bytes)
        stk__tier_count(r->store->base.context, STK_TIER_DISK, bytes, stk__stamp() - r->sent_ns);
    r->at += right;
    if (right == r->run)
        return;
    atomic_fetch_add(&r->store->stats.wrong, 1);
    distrust(r);
}

/* What a reading waited for has ended. */
static stk_status take(stk__cache_reading *r, stk_status status)
{
    const uint8_t what = r->waits_for;

    r->waits_for = STK__CACHE_NOTHING;
    if (what == STK__CACHE_NOTHING || status == STK_ECANCELED || status == STK_ETIMEDOUT)
        return status;
    if (what == STK__CACHE_DIRECT && status == STK_OK && r->place.block && r->answered &&
        r->answered != r->place.identity) {
        r->changed = true;
        stk__cache_forget_version(r->store, r->key, &r->place);
        return STK_OK;
    }
    if (what == STK__CACHE_DIRECT) {
        if (status == STK_OK && r->outer->up_to)
            r->length -= r->inner.length - r->inner.got;
        if (status == STK_OK)
            stk__tier_count(r->store->base.context, STK_TIER_REMOTE,
                            r->outer->up_to ? r->inner.got : r->inner.length,
                            stk__stamp() - r->sent_ns);
        r->at = r->end;
        return status;
    }
    const bool absent = status == STK_ENOENT || status == STK_ETRUNCATED;
    if (what == STK__CACHE_TABLE && (status == STK_OK || absent)) {
        if (absent)
            find_nothing(r);
        r->known = r->from + r->run;
    } else if (status != STK_OK) {
        distrust(r);
    } else {
        take_blocks(r);
    }
    return STK_OK;
}

static void advance(stk__cache_reading *r, stk_status status)
{
    for (;;) {
        status = take(r, status);
        if (status != STK_OK || r->at == r->end)
            break;
        status = next(r);
        if (status == STK_EAGAIN)
            return;
    }
    end(r, status);
}

void stk__cache_resume(stk__cache_reading *r, stk_status status)
{
    r->outcome = status;
    if (atomic_exchange(&r->gate, STK__CACHE_ENDED) != STK__CACHE_HELD)
        advance(r, status);
}

void stk__cache_identified(stk__cache_reading *r, const stk__cache_id *id)
{
    const stk__cache_store *store = r->store;
    const stk_read *outer = r->outer;

    if (!stk__cache_place_of(store->room.store, id, store->options.block, &r->place)) {
        r->place.block = 0;
        advance(r, STK_OK);
        return;
    }
    const uint64_t there = id->size - STK_MIN(outer->offset, id->size);
    if (there < outer->length && !outer->up_to) {
        /* The store below says so itself, in case that it has grown. */
        r->place.block = 0;
        advance(r, STK_OK);
        return;
    }
    r->length = STK_MIN(outer->length, there);
    r->at = r->known = r->from = outer->offset / r->place.block;
    r->end = r->length ? stk__divide_up(outer->offset + r->length, r->place.block) : r->at;
    advance(r, STK_OK);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

stk_status stk__cache_submit(stk_store *base, stk_read *read)
{
    stk__cache_store *store = (stk__cache_store *)base;
    stk__cache_id id;
    uint64_t end_at;

    if (!read->key || !stk__add_size(read->offset, read->length, &end_at))
        return STK_EINVAL;
    read->system_error = 0;
    read->driver[0] = NULL;
    const uint64_t began = stk__stamp();
    const XXH128_hash_t key = stk__cache_key(read->key);
    const bool known = stk__cache_known(store, key, read->length, &id);
    if (known && !read->up_to && (read->length <= NOW_BYTES || read->needed_next) &&
        stk__cache_now(store, &id, read->offset, read->length, read->data)) {
        stk__cache_count_read(store, read->length, stk__cache_took(began));
        read->done(read, STK_OK);
        return STK_OK;
    }
    stk__cache_reading *r = begin(store, read, key);
    if (!r)
        return STK_ENOMEM;
    stk__cache_count_read(store, read->length, 0);
    if (known) {
        stk__cache_identified(r, &id);
    } else if (!store->kept || !stk__cache_ask(r)) {
        r->place.block = 0;
        advance(r, STK_OK);
    }
    stk__cache_unpin(r);
    return STK_OK;
}

/* ---- Canceling ------------------------------------------------------------------------------- */

/* Called with the mutex held; returns without it. */
static void stop_and_unlock(stk__cache_reading *r)
{
    stk__cache_store *store = r->store;
    stk__cache_fetch *canceled = NULL;

    r->stop = true;
    r->pins++;
    const bool mine = stk__cache_unwait_locked(r, &canceled);
    pthread_mutex_unlock(&store->mutex);
    cancel_inner(r);
    if (canceled)
        stk__cache_fetch_cancel(canceled);
    if (mine)
        stk__cache_resume(r, STK_ECANCELED);
    stk__cache_unpin(r);
}

void stk__cache_cancel(stk_store *base, stk_read *read)
{
    stk__cache_store *store = (stk__cache_store *)base;

    pthread_mutex_lock(&store->mutex);
    stk__cache_reading *r = read->driver[0];
    if (r)
        stop_and_unlock(r);
    else
        pthread_mutex_unlock(&store->mutex);
}

void stk__cache_readings_end(stk__cache_store *store)
{
    pthread_mutex_lock(&store->mutex);
    for (stk__cache_reading *r = store->under_way; r;) {
        if (r->stop || !r->outer) {
            r = r->next;
            continue;
        }
        stop_and_unlock(r);
        pthread_mutex_lock(&store->mutex);
        r = store->under_way;
    }
    while (store->under_way)
        pthread_cond_wait(&store->idle, &store->mutex);
    pthread_mutex_unlock(&store->mutex);
    for (stk__cache_reading *r = store->free_readings, *after; r; r = after) {
        after = r->next;
        stk__free(store->base.context, r->buffer);
        stk__free(store->base.context, r);
    }
}
