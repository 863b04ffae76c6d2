/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacked runs of a container, for reads of parts of them. A run that several reads want is
 * unpacked once: the first brings it, the others wait. All blocks together take at most what
 * unpacked_cache says; one for which there is no room waits until others are done with.
 */
#include "store/container_store.h"

#include <xxhash.h>

/* ---- Where blocks are ------------------------------------------------------------------------ */

static stk__container_block **bucket_of(stk__container_store *store, uint64_t at)
{
    return &store->buckets[XXH3_64bits(&at, sizeof at) % STK__CONTAINER_BUCKETS];
}

/* Runs of hostile tables may begin at one place and be different ones. */
static stk__container_block *find_locked(stk__container_store *store, const stk__container_run *run)
{
    stk__container_block *b = *bucket_of(store, run->at);

    while (b && (b->at != run->at || b->stored != run->stored || b->size != run->decoded))
        b = b->next;
    return b;
}

static void unlink_locked(stk__container_store *store, stk__container_block *b)
{
    stk__container_block **at = bucket_of(store, b->at);

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
}

static void leave_order_locked(stk__container_store *store, stk__container_block *b)
{
    *(b->newer ? &b->newer->older : &store->newest) = b->older;
    *(b->older ? &b->older->newer : &store->oldest) = b->newer;
}

static void become_newest_locked(stk__container_store *store, stk__container_block *b)
{
    b->newer = NULL;
    b->older = store->newest;
    *(b->older ? &b->older->newer : &store->oldest) = b;
    store->newest = b;
}

static void queue_locked(stk__container_store *store, stk__container_block *b, bool in_front)
{
    b->queued = true;
    b->newer = in_front ? store->first_queued : NULL;
    if (!store->first_queued || in_front)
        store->first_queued = b;
    else
        store->last_queued->newer = b;
    if (!b->newer)
        store->last_queued = b;
}

static void unqueue_locked(stk__container_store *store, stk__container_block *b)
{
    stk__container_block *before = NULL;

    b->queued = false;
    for (stk__container_block *at = store->first_queued; at != b; at = at->newer)
        before = at;
    *(before ? &before->newer : &store->first_queued) = b->newer;
    if (store->last_queued == b)
        store->last_queued = before;
}

/* Make room for `size` bytes of what nobody uses. False: there is none now. */
static bool make_room_locked(stk__container_store *store, uint64_t size)
{
    const uint64_t most = store->options.unpacked_cache;

    for (stk__container_block *b = store->oldest, *newer; b; b = newer) {
        newer = b->newer;
        if (store->cache_bytes + size <= most)
            break;
        if (b->pins)
            continue;
        leave_order_locked(store, b);
        unlink_locked(store, b);
        store->cache_bytes -= b->size;
        stk__free(store->base.context, b->data);
        stk__free(store->base.context, b);
    }
    return store->cache_bytes + size <= most;
}

/* ---- Bringing -------------------------------------------------------------------------------- */

/* Have the first waiter of a block that has room bring it. */
static void carry(stk__container_store *store, stk__container_block *b, stk__container_part *part)
{
    stk_context *ctx = store->base.context;
    const stk__container_reading *r = part->reading;
    stk_status status = STK_ENOMEM;
    stk__container_run run;

    if (b->size <= stk__memory_left(ctx))
        b->data = stk__alloc_buffer(ctx, b->size);
    if (b->data)
        status = stk__container_find_run(store->container, r->file, part->from, &run);
    if (status == STK_OK)
        status = stk__container_submit_part(part, &run);
    if (status != STK_OK)
        stk__container_block_end(part, status, 0);
}

/* Bring queued blocks while there is room. One thread at a time, so that a block that ends at once
 * does not nest. */
static void pump(stk__container_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->pump_again = true;
    while (store->pump_again && !store->pumping) {
        store->pump_again = false;
        stk__container_block *b = store->first_queued;
        if (!b || !make_room_locked(store, b->size))
            break;
        unqueue_locked(store, b);
        stk__container_part *part = b->waiters;
        b->waiters = part->next_job;
        part->waits = NULL;
        part->carries = b;
        store->cache_bytes += b->size;
        store->pumping = true;
        pthread_mutex_unlock(&store->mutex);
        carry(store, b, part);
        pthread_mutex_lock(&store->mutex);
        store->pumping = false;
        store->pump_again = true;
    }
    pthread_mutex_unlock(&store->mutex);
}

/* Copy what a part wants of a block that has its bytes. */
static stk_status copy_part(const stk__container_part *part, const stk__container_block *b)
{
    const stk__container_reading *r = part->reading;
    stk__container_run run;

    STK_TRY(stk__container_find_run(r->store->container, r->file, part->from, &run));
    memcpy(stk__container_place_of(r, part->from), b->data + run.skip, part->length);
    return STK_OK;
}

void stk__container_block_end(stk__container_part *carrier, stk_status status, int32_t system_error)
{
    stk__container_block *const b = carrier->carries;
    stk__container_store *const store = carrier->reading->store;
    stk__container_part *waiters = NULL;

    pthread_mutex_lock(&store->mutex);
    carrier->carries = NULL;
    /* What its own read wished is no matter of the others, one of which brings it. */
    const bool again = b->waiters && (status == STK_ECANCELED || status == STK_ETIMEDOUT);
    if (status != STK_OK) {
        store->cache_bytes -= b->size;
        stk__free(store->base.context, b->data);
        b->data = NULL;
    }
    if (again) {
        queue_locked(store, b, true);
    } else {
        waiters = b->waiters;
        b->waiters = NULL;
        for (stk__container_part *w = waiters; w; w = w->next_job)
            w->waits = NULL;
    }
    if (status == STK_OK) {
        b->ready = true;
        b->pins++;
        become_newest_locked(store, b);
    } else if (!again) {
        unlink_locked(store, b);
    }
    pthread_mutex_unlock(&store->mutex);
    for (stk__container_part *w = waiters, *next; w; w = next) {
        next = w->next_job;
        stk__container_end_one(w->reading, status == STK_OK ? copy_part(w, b) : status,
                               system_error);
    }
    /* The store stays until the last of them has ended. */
    if (status != STK_OK && !again)
        stk__free(store->base.context, b);
    pump(store);
    if (status == STK_OK) {
        status = copy_part(carrier, b);
        pthread_mutex_lock(&store->mutex);
        b->pins--;
        pthread_mutex_unlock(&store->mutex);
        pump(store);
    }
    stk__container_end_one(carrier->reading, status, system_error);
}

/* ---- Wanting --------------------------------------------------------------------------------- */

/* Copy from a block that is ready. False: it is not. */
static bool copy_ready(stk__container_reading *r, uint64_t from, uint64_t length,
                       const stk__container_run *run)
{
    stk__container_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    stk__container_block *b = find_locked(store, run);
    const bool ready = b && b->ready;
    if (ready) {
        b->pins++;
        leave_order_locked(store, b);
        become_newest_locked(store, b);
    }
    pthread_mutex_unlock(&store->mutex);
    if (!ready)
        return false;
    memcpy(stk__container_place_of(r, from), b->data + run->skip, length);
    pthread_mutex_lock(&store->mutex);
    b->pins--;
    const bool queued = store->first_queued != NULL;
    pthread_mutex_unlock(&store->mutex);
    if (queued)
        pump(store);
    return true;
}

stk_status stk__container_share(stk__container_reading *r, uint64_t from, uint64_t length,
                                const stk__container_run *run)
{
    stk__container_store *store = r->store;
    stk_context *ctx = store->base.context;
    stk_status status = STK_OK;

    if (run->decoded > store->options.unpacked_cache) {
        stk__container_warn(store, r->file,
                            "it is packed, larger than unpacked_cache, and read in parts; make "
                            "unpacked_cache larger, or store the file unpacked");
        return STK_ELIMIT;
    }
    if (copy_ready(r, from, length, run))
        return STK_OK;
    stk__container_block *made = stk__calloc(ctx, 1, sizeof *made);
    stk__container_part *part = made ? stk__container_add_part(r, from, length) : NULL;
    if (!part) {
        stk__free(ctx, made);
        return STK_ENOMEM;
    }
    part->kind = STK__PART_SHARED;
    made->at = run->at;
    made->stored = run->stored;
    made->size = run->decoded;
    pthread_mutex_lock(&store->mutex);
    stk__container_block *b = find_locked(store, run);
    if (r->stop || (b && b->ready)) {
        /* Meanwhile: it is taken up once more below. */
        status = r->stop ? STK_ECANCELED : STK_EAGAIN;
        r->pending--;
    } else {
        if (!b) {
            b = made;
            made = NULL;
            b->next = *bucket_of(store, b->at);
            *bucket_of(store, b->at) = b;
            queue_locked(store, b, false);
        }
        part->waits = b;
        part->next_job = b->waiters;
        b->waiters = part;
    }
    pthread_mutex_unlock(&store->mutex);
    stk__free(ctx, made);
    if (status == STK_EAGAIN)
        return copy_ready(r, from, length, run) ? STK_OK
                                                : stk__container_share(r, from, length, run);
    if (status == STK_OK)
        pump(store);
    return status;
}

void stk__container_stop_waiting(stk__container_reading *r)
{
    stk__container_store *store = r->store;

    pthread_mutex_lock(&store->mutex);
    for (stk__container_part *part = r->parts; part; part = part->next) {
        stk__container_block *b = part->waits;
        if (!b)
            continue;
        stk__container_part **at = &b->waiters;
        while (*at != part)
            at = &(*at)->next_job;
        *at = part->next_job;
        part->waits = NULL;
        if (!b->waiters && b->queued) {
            unqueue_locked(store, b);
            unlink_locked(store, b);
            stk__free(store->base.context, b);
        }
        pthread_mutex_unlock(&store->mutex);
        stk__container_end_one(r, STK_ECANCELED, 0);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
}

void stk__container_cache_free(stk__container_store *store)
{
    for (stk__container_block *b = store->oldest, *newer; b; b = newer) {
        newer = b->newer;
        stk__free(store->base.context, b->data);
        stk__free(store->base.context, b);
    }
}
