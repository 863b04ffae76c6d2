/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that are not kept: read below, whole, once for all that want them. Within a process the
 * first reading makes a fetch, which others wait for and take bytes of until they are in the
 * object's file. Among processes the blocks are locked in that file from before they are read until
 * they are written: who finds them locked looks there now and then, and reads them itself where
 * that takes too long.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "store/cache/reading.h"

#define POLL_NS     UINT64_C(3000000) /* from look to look at what another process fetches */
#define MOST_LOOKS  8                 /* at blocks that are said to be kept, and are not found */
#define PATIENCE_NS UINT64_C(20000000000) /* with which it is waited for */

/* ---- Fetches --------------------------------------------------------------------------------- */

static stk__cache_fetch **bucket_of(stk__cache_store *store, XXH128_hash_t key)
{
    return &store->buckets[key.high64 % STK__CACHE_BUCKETS];
}

/* The fetch of a block; else NULL, and *run is cut where one begins. */
static stk__cache_fetch *find_locked(stk__cache_store *store, const stk__cache_reading *r,
                                     uint64_t *run)
{
    for (stk__cache_fetch *f = *bucket_of(store, r->key); f; f = f->next) {
        if (!XXH128_isEqual(f->key_hash, r->key) || f->place.seed != r->place.seed || f->stop)
            continue;
        if (r->at >= f->first && r->at - f->first < f->count)
            return f;
        if (f->first > r->at)
            *run = STK_MIN(*run, f->first - r->at);
    }
    return NULL;
}

static void unlist_locked(stk__cache_store *store, stk__cache_fetch *f)
{
    stk__cache_fetch **at = bucket_of(store, f->key_hash);

    if (!f->listed)
        return;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    f->listed = false;
}

/* Made with a reference, and room for it. NULL: there is none. */
static stk__cache_fetch *make(stk__cache_reading *r, uint64_t run)
{
    stk__cache_store *store = r->store;
    stk_context *ctx = store->base.context;
    const char *key = r->outer->key;
    const size_t length = strlen(key) + 1;
    const uint64_t bytes = stk__cache_run_bytes(&r->place, r->at, run);

    pthread_mutex_lock(&store->mutex);
    const bool fits = store->buffer_bytes + bytes <= store->most_bytes;
    store->buffer_bytes += fits ? bytes : 0;
    pthread_mutex_unlock(&store->mutex);
    if (!fits)
        return NULL;
    stk__cache_fetch *f = stk__calloc(ctx, 1, sizeof *f + length);
    uint8_t *buffer = bytes <= stk__memory_left(ctx) ? stk__alloc_buffer(ctx, bytes) : NULL;
    if (!f || !buffer) {
        stk__free(ctx, f);
        stk__free(ctx, buffer);
        pthread_mutex_lock(&store->mutex);
        store->buffer_bytes -= bytes;
        pthread_mutex_unlock(&store->mutex);
        return NULL;
    }
    memcpy(f->key, key, length);
    f->store = store;
    f->key_hash = r->key;
    f->place = r->place;
    f->first = r->at;
    f->count = run;
    f->bytes = bytes;
    f->buffer = buffer;
    f->fd = -1;
    f->refs = 1;
    f->distrust = r->distrust;
    pthread_mutex_lock(&store->mutex);
    store->num_fetches++;
    pthread_mutex_unlock(&store->mutex);
    return f;
}

void stk__cache_fetch_unref(stk__cache_fetch *f)
{
    stk__cache_store *store = f->store;
    stk_context *ctx = store->base.context;

    pthread_mutex_lock(&store->mutex);
    const bool last = --f->refs == 0;
    if (last)
        unlist_locked(store, f);
    pthread_mutex_unlock(&store->mutex);
    if (!last)
        return;
    const uint64_t bytes = f->bytes;
    if (f->fd >= 0)
        close(f->fd); /* which unlocks */
    stk__free(ctx, f->buffer);
    stk__free(ctx, f);
    pthread_mutex_lock(&store->mutex);
    store->buffer_bytes -= bytes;
    if (--store->num_fetches == 0)
        pthread_cond_broadcast(&store->idle);
    pthread_mutex_unlock(&store->mutex);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* Give a reading the blocks that it wants next. */
static void serve(stk__cache_reading *r, const stk__cache_fetch *f)
{
    const uint64_t skipped = r->at - f->first, n = STK_MIN(f->count - skipped, r->end - r->at);

    stk__cache_copy(r, f->buffer + skipped * f->place.block, r->at, n);
    r->at += n;
}

/* Somebody else has kept what a reading waits for, or was to. */
static void look_again(stk__cache_reading *r)
{
    r->known = r->at;
    r->looks = r->looked_at == r->at ? r->looks + 1 : 0;
    r->looked_at = r->at;
    r->distrust |= r->looks == MOST_LOOKS;
}

/*
 * A fetch has come to its end, and its reference is given up or handed on. STK_EAGAIN: nothing was
 * fetched, and those that wait look again at what is kept. What was fetched of another version than
 * is expected is neither kept nor given to anybody: those that wait begin anew.
 */
static void end(stk__cache_fetch *f, stk_status status)
{
    stk__cache_store *store = f->store;
    bool kept = false;
    const bool changed = status == STK_OK && f->answered && f->answered != f->place.identity;

    if (changed) {
        status = STK_EAGAIN;
        stk__cache_forget_version(store, f->key_hash, &f->place);
    }
    pthread_mutex_lock(&store->mutex);
    stk__cache_reading *waiters = f->waiters, *const owner = f->owner;
    f->waiters = NULL;
    for (stk__cache_reading *r = waiters; r; r = r->next_waiter)
        r->waits = NULL;
    f->ready = status == STK_OK;
    f->refs++;
    if (f->ready && f->fd >= 0)
        kept = stk__cache_keep_locked(f);
    if (!kept)
        unlist_locked(store, f);
    pthread_mutex_unlock(&store->mutex);
    if (f->ready && !kept)
        atomic_fetch_add(&store->stats.not_kept, f->bytes);
    for (stk__cache_reading *r = waiters, *after; r; r = after) {
        after = r->next_waiter;
        /* What its owner wished is no matter of the others. */
        const bool again = status == STK_EAGAIN ||
                           (r != owner && (status == STK_ECANCELED || status == STK_ETIMEDOUT));
        r->changed = changed;
        if (status == STK_OK)
            serve(r, f);
        else if (again)
            look_again(r);
        else
            r->inner.system_error = f->inner.system_error;
        stk__cache_resume(r, again ? STK_OK : status);
    }
    if (!kept) {
        stk__cache_not_begun(f);
        stk__cache_fetch_unref(f);
    }
    stk__cache_fetch_unref(f);
}

static void inner_done(stk_read *inner, stk_status status)
{
    stk__cache_fetch *f = (stk__cache_fetch *)inner;

    pthread_mutex_lock(&f->store->mutex);
    f->running = false;
    pthread_mutex_unlock(&f->store->mutex);
    if (status == STK_OK)
        stk__tier_count(f->store->base.context, STK_TIER_REMOTE, f->bytes,
                        stk__stamp() - f->sent_ns);
    end(f, status);
}

/* ---- Canceling ------------------------------------------------------------------------------- */

/* Ask the store below to cancel the read of a fetch that is referenced for this, and ends here. */
void stk__cache_fetch_cancel(stk__cache_fetch *f)
{
    stk__cache_store *store = f->store;

    pthread_mutex_lock(&store->mutex);
    const bool ask = f->running && f->submitted && !f->asked;
    f->asked |= ask;
    pthread_mutex_unlock(&store->mutex);
    if (ask)
        store->inner->ops->cancel(store->inner, &f->inner);
    stk__cache_fetch_unref(f);
}

bool stk__cache_unwait_locked(stk__cache_reading *r, stk__cache_fetch **canceled)
{
    stk__cache_store *store = r->store;
    stk__cache_fetch *f = r->waits;
    stk__cache_reading **at = &store->first_asking, *before = NULL;

    if (f) {
        for (at = &f->waiters; *at != r; at = &(*at)->next_waiter)
            ;
        *at = r->next_waiter;
        r->waits = NULL;
        if (f->owner == r)
            f->owner = NULL;
        if (!f->waiters) {
            f->stop = true;
            f->refs++;
            *canceled = f;
        }
        return true;
    }
    if (!r->asking)
        return false;
    for (; *at != r; at = &(*at)->next_waiter)
        before = *at;
    *at = r->next_waiter;
    if (store->last_asking == r)
        store->last_asking = before;
    r->asking = false;
    return true;
}

/* ---- Reading below --------------------------------------------------------------------------- */

static void submit(stk__cache_fetch *f)
{
    stk__cache_store *store = f->store;

    pthread_mutex_lock(&store->mutex);
    const bool stop = f->stop;
    const stk_read *outer = f->owner ? f->owner->outer : NULL;
    f->answered = 0;
    f->inner = (stk_read){.struct_size = sizeof f->inner,
                          .key = f->key,
                          .offset = f->first * f->place.block,
                          .length = f->bytes,
                          .data = f->buffer,
                          .deadline_ns = outer ? outer->deadline_ns : 0,
                          .needed_next = outer && outer->needed_next,
                          .got = f->bytes,
                          .identity = &f->answered,
                          .done = inner_done};
    f->running = !stop;
    f->refs++;
    pthread_mutex_unlock(&store->mutex);
    if (stop) {
        end(f, STK_ECANCELED);
        stk__cache_fetch_unref(f);
        return;
    }
    atomic_fetch_add(&store->stats.fetches, 1);
    atomic_fetch_add(&store->stats.fetched, f->bytes);
    f->sent_ns = stk__stamp();
    const stk_status status = store->inner->ops->submit(store->inner, &f->inner);
    if (status != STK_OK) {
        inner_done(&f->inner, status);
        stk__cache_fetch_unref(f);
        return;
    }
    pthread_mutex_lock(&store->mutex);
    f->submitted = f->running;
    const bool ask = f->stop && f->running;
    pthread_mutex_unlock(&store->mutex);
    if (ask)
        stk__cache_fetch_cancel(f);
    else
        stk__cache_fetch_unref(f);
}

static void not_kept(stk__cache_fetch *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

/*
 * Take the blocks among processes, and read them. False: another process has them; or, with
 * `give_up`, they are read all the same.
 */
static bool take(stk__cache_fetch *f, bool give_up)
{
    const bool locked = f->fd >= 0 && stk__cache_lock(f->fd, F_WRLCK, f->first, f->count);

    if (f->fd >= 0 && !locked) {
        const bool busy = errno == EAGAIN || errno == EACCES;
        if (busy && !give_up)
            return false;
        not_kept(f);
    }
    /* Perhaps somebody had some of them until now. */
    if (locked && !f->distrust && stk__cache_file_has(f->fd, f->first, f->count))
        end(f, STK_EAGAIN);
    else
        submit(f);
    return true;
}

/* ---- Waiting for another process ------------------------------------------------------------- */

static void poll_all(void *user)
{
    stk__cache_store *store = user;
    stk__cache_fetch *list, *left;

    pthread_mutex_lock(&store->mutex);
    for (;;) {
        while (!store->polled && !store->stopping)
            pthread_cond_wait(&store->look, &store->mutex);
        if (!store->polled)
            break;
        if (!store->stopping)
            stk__cond_wait_until(&store->look, &store->mutex, stk__now_ns() + POLL_NS);
        list = store->polled;
        store->polled = NULL;
        const bool stopping = store->stopping;
        pthread_mutex_unlock(&store->mutex);
        left = NULL;
        for (stk__cache_fetch *f = list, *after; f; f = after) {
            after = f->next_job;
            pthread_mutex_lock(&store->mutex);
            const bool stop = f->stop || stopping;
            f->stop = stop;
            pthread_mutex_unlock(&store->mutex);
            if (take(f, stop || stk__now_ns() >= f->give_up_ns))
                continue;
            f->next_job = left;
            left = f;
        }
        pthread_mutex_lock(&store->mutex);
        for (stk__cache_fetch *f = left, *after; f; f = after) {
            after = f->next_job;
            f->next_job = store->polled;
            store->polled = f;
        }
    }
    pthread_mutex_unlock(&store->mutex);
}

/* Have a fetch wait for another process. False: nobody can look. */
static bool wait_for_other(stk__cache_fetch *f)
{
    stk__cache_store *store = f->store;

    pthread_mutex_lock(&store->mutex);
    if (store->stopping || (!store->poller.started &&
                            stk__thread_start(store->base.context, &store->poller, "stk-cache-poll",
                                              poll_all, store, NULL) != STK_OK)) {
        pthread_mutex_unlock(&store->mutex);
        return false;
    }
    const uint64_t deadline = f->owner ? f->owner->outer->deadline_ns : 0;
    const uint64_t now = stk__now_ns();
    f->give_up_ns = now + PATIENCE_NS;
    if (deadline)
        f->give_up_ns = STK_MIN(f->give_up_ns, now + (deadline - STK_MIN(deadline, now)) / 2);
    f->next_job = store->polled;
    store->polled = f;
    pthread_cond_signal(&store->look);
    pthread_mutex_unlock(&store->mutex);
    return true;
}

void stk__cache_poller_end(stk__cache_store *store)
{
    pthread_mutex_lock(&store->mutex);
    pthread_cond_signal(&store->look);
    pthread_mutex_unlock(&store->mutex);
    stk__thread_join(&store->poller);
}

/* ---- Wanting --------------------------------------------------------------------------------- */

static void begin(stk__cache_fetch *f)
{
    stk__cache_store *store = f->store;

    if (store->room.state >= 0 && stk__cache_keeper_start(store)) {
        f->fd = stk__cache_file_open(&store->room, &f->place);
        if (f->fd < 0 && errno != ENOENT && errno != EMFILE && errno != ENFILE)
            stk__cache_room_warn(&store->room, "make a file", errno);
    }
    if (!take(f, false) && !wait_for_other(f))
        take(f, true);
}

stk_status stk__cache_want(stk__cache_reading *r, uint64_t run)
{
    stk__cache_store *store = r->store;
    stk__cache_fetch *made = NULL;
    uint64_t most = run;

    for (;;) {
        pthread_mutex_lock(&store->mutex);
        if (r->stop)
            break;
        stk__cache_fetch *f = find_locked(store, r, &run);
        if (f && f->ready) {
            f->refs++;
            pthread_mutex_unlock(&store->mutex);
            serve(r, f);
            stk__cache_fetch_unref(f);
            if (made)
                stk__cache_fetch_unref(made);
            return STK_OK;
        }
        if (!f && (!made || made->count != run)) {
            pthread_mutex_unlock(&store->mutex);
            if (made)
                stk__cache_fetch_unref(made);
            made = make(r, run);
            if (!made)
                return STK_ENOMEM;
            run = most;
            continue;
        }
        atomic_store(&r->gate, f ? STK__CACHE_WAITING : STK__CACHE_HELD);
        if (!f) {
            made->listed = true;
            made->next = *bucket_of(store, r->key);
            *bucket_of(store, r->key) = made;
            made->owner = r;
            r->pins++;
        }
        r->waits = f ? f : made;
        r->next_waiter = r->waits->waiters;
        r->waits->waiters = r;
        pthread_mutex_unlock(&store->mutex);
        if (f) {
            if (made)
                stk__cache_fetch_unref(made);
            return STK_EAGAIN;
        }
        begin(made);
        int held = STK__CACHE_HELD;
        const bool waits = atomic_compare_exchange_strong(&r->gate, &held, STK__CACHE_WAITING);
        const stk_status outcome = waits ? STK_EAGAIN : r->outcome;
        stk__cache_unpin(r);
        return outcome;
    }
    pthread_mutex_unlock(&store->mutex);
    if (made)
        stk__cache_fetch_unref(made);
    return STK_ECANCELED;
}
