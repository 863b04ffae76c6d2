/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow+URL: any store behind a latency, a bandwidth and failures, for demonstrations and tests.
 *
 * The inner read starts at once and writes the destination. A timer thread tells the caller of it
 * when its time has come. Any number of reads may be under way, as with an object store; the
 * bandwidth is one link that all share, reserved in the order of submission. What each read draws
 * is a function of the seed and of the number of reads before it.
 */
#include "store/slow.h"
#include "base/options.h"
#include "store/url.h"

#define BLOCK_SLOTS 64 /* reads under way that the first block of slots serves */
#define IO_DEPTH    64
#define MAX_GAP     (UINT64_C(1) << 20) /* bytes at most that are worth reading in vain */
#define NOWHERE     SIZE_MAX

typedef struct slow_store slow_store;
typedef struct slow_slot slow_slot;

/* A read under way. */
struct slow_slot {
    stk_read inner; /* first: done() of the inner store finds the slot by it */
    slow_store *store;
    slow_slot *next; /* of the free ones, or of those that end together */
    stk_read *outer; /* NULL: the slot is free */
    uint64_t due_ns,
        deadline_ns;   /* when it may end; when it has failed at the latest, or UINT64_MAX */
    uint64_t number;   /* of the read in the store; tells one use of the slot from the next, too */
    size_t place;      /* in the heap, or NOWHERE */
    stk_status status; /* of the inner read, or planned */
    bool running;      /* the inner read has not ended */
    bool late;         /* its time came while it was running: it ends with the inner read */
    bool submitted, stop; /* known to the inner store; to be canceled */
    bool taken;           /* a thread is calling done(): no other may touch `outer` */
    uint32_t cancelers;   /* threads that look at `inner` to cancel it: not to be used again */
};

typedef struct slow_block slow_block;
struct slow_block {
    slow_block *next;
    size_t count;
    slow_slot slots[];
};

struct slow_store {
    stk_store base;
    stk_store *inner;
    stk__slow_options options;
    atomic_uint_least64_t num_reads; /* ever */
    stk__thread timer;
    pthread_mutex_t mutex; /* guards the rest, and the slots */
    pthread_cond_t sooner; /* something is due before `asleep_until_ns`, or the end */
    pthread_cond_t idle;   /* no read is under way */
    uint64_t asleep_until_ns;
    uint64_t link_free_ns; /* when the link has carried all that was asked of it */
    size_t num_under_way, num_slots;
    slow_slot **heap; /* the first to end on top; room for all slots */
    size_t heap_count;
    slow_slot *free_slots;
    slow_block *blocks;
    bool stopping;
};

/* ---- The heap of what ends when ---- */

static uint64_t end_of(const slow_slot *slot)
{
    return STK_MIN(slot->due_ns, slot->deadline_ns);
}

/* Of two that end at the same time, the one that was submitted first. */
static bool sooner(const slow_slot *a, const slow_slot *b)
{
    uint64_t a_ns = end_of(a), b_ns = end_of(b);

    return a_ns < b_ns || (a_ns == b_ns && a->number < b->number);
}

static void place_locked(slow_store *store, slow_slot *slot, size_t at)
{
    store->heap[at] = slot;
    slot->place = at;
}

/* Move a slot whose time has changed to where it belongs. */
static void sift_locked(slow_store *store, slow_slot *slot)
{
    size_t at = slot->place;

    for (size_t parent; at > 0 && sooner(slot, store->heap[parent = (at - 1) / 2]); at = parent)
        place_locked(store, store->heap[parent], at);
    for (size_t child; (child = 2 * at + 1) < store->heap_count; at = child) {
        if (child + 1 < store->heap_count && sooner(store->heap[child + 1], store->heap[child]))
            child++;
        if (!sooner(store->heap[child], slot))
            break;
        place_locked(store, store->heap[child], at);
    }
    place_locked(store, slot, at);
}

static void insert_locked(slow_store *store, slow_slot *slot)
{
    place_locked(store, slot, store->heap_count++);
    sift_locked(store, slot);
}

static void remove_locked(slow_store *store, slow_slot *slot)
{
    if (slot->place == NOWHERE)
        return;
    slow_slot *last = store->heap[--store->heap_count];
    if (last != slot) {
        place_locked(store, last, slot->place);
        sift_locked(store, last);
    }
    slot->place = NOWHERE;
}

/* ---- Ending ---- */

static void free_slot_locked(slow_store *store, slow_slot *slot)
{
    if (slot->outer || slot->cancelers)
        return;
    slot->next = store->free_slots;
    store->free_slots = slot;
}

/* From here on the read is the calling thread's alone, which has to call tell() with no lock held.
 */
static void take_locked(slow_store *store, slow_slot *slot)
{
    remove_locked(store, slot);
    slot->taken = true;
    slot->outer->driver[0] = NULL;
}

static void tell(slow_slot *slot)
{
    slow_store *store = slot->store;
    stk_status status = slot->status;

    if (slot->stop)
        status = STK_ECANCELED;
    else if (slot->deadline_ns < slot->due_ns)
        status = STK_ETIMEDOUT;
    slot->outer->system_error = slot->inner.system_error;
    slot->outer->got = slot->inner.got;
    slot->outer->done(slot->outer, status);
    pthread_mutex_lock(&store->mutex);
    slot->outer = NULL;
    free_slot_locked(store, slot);
    if (--store->num_under_way == 0)
        pthread_cond_broadcast(&store->idle);
    pthread_mutex_unlock(&store->mutex);
}

static void inner_done(stk_read *inner, stk_status status)
{
    slow_slot *slot = (slow_slot *)inner;
    slow_store *store = slot->store;

    pthread_mutex_lock(&store->mutex);
    slot->running = false;
    slot->status = status;
    bool ends = slot->late || slot->stop;
    if (ends)
        take_locked(store, slot);
    pthread_mutex_unlock(&store->mutex);
    if (ends)
        tell(slot);
}

static void keep_time(void *argument)
{
    slow_store *store = argument;

    pthread_mutex_lock(&store->mutex);
    while (!store->stopping) {
        slow_slot *ended = NULL, **last = &ended;
        uint64_t now = stk__now_ns();
        while (store->heap_count && end_of(store->heap[0]) <= now) {
            slow_slot *slot = store->heap[0];
            if (slot->running) {
                remove_locked(store, slot);
                slot->late = true;
                continue;
            }
            take_locked(store, slot);
            slot->next = NULL;
            *last = slot;
            last = &slot->next;
        }
        if (ended) {
            pthread_mutex_unlock(&store->mutex);
            for (slow_slot *slot = ended, *next; slot; slot = next) {
                next = slot->next;
                tell(slot);
            }
            pthread_mutex_lock(&store->mutex);
            continue;
        }
        store->asleep_until_ns = store->heap_count ? end_of(store->heap[0]) : UINT64_MAX;
        stk__cond_wait_until(&store->sooner, &store->mutex, store->asleep_until_ns);
        store->asleep_until_ns = 0;
    }
    pthread_mutex_unlock(&store->mutex);
}

/* Cancel the inner read of a slot on which this thread has counted itself in `cancelers`. */
static void cancel_inner(slow_slot *slot)
{
    slow_store *store = slot->store;

    store->inner->ops->cancel(store->inner, &slot->inner);
    pthread_mutex_lock(&store->mutex);
    slot->cancelers--;
    free_slot_locked(store, slot);
    pthread_mutex_unlock(&store->mutex);
}

/* Called with the mutex held for a read that has not been taken; returns without it. */
static void stop_and_unlock(slow_store *store, slow_slot *slot)
{
    bool ends = !slot->running, ask = slot->running && slot->submitted && !slot->stop;

    slot->stop = true;
    slot->cancelers += ask;
    if (ends)
        take_locked(store, slot);
    pthread_mutex_unlock(&store->mutex);
    if (ends)
        tell(slot);
    else if (ask)
        cancel_inner(slot);
}

static void slow_cancel(stk_store *base, stk_read *read)
{
    slow_store *store = (slow_store *)base;

    pthread_mutex_lock(&store->mutex);
    if (read->driver[0])
        stop_and_unlock(store, read->driver[0]);
    else
        pthread_mutex_unlock(&store->mutex);
}

/* ---- Submitting ---- */

/* Make as many slots again as there are. */
static stk_status grow(slow_store *store, size_t num_slots)
{
    stk_context *ctx = store->base.context;
    size_t count = STK_MAX(num_slots, (size_t)BLOCK_SLOTS);
    slow_block *block = stk__calloc(ctx, 1, sizeof *block + count * sizeof block->slots[0]);
    slow_slot **heap = stk__calloc(ctx, num_slots + count, sizeof *heap);

    if (!block || !heap) {
        stk__free(ctx, block);
        stk__free(ctx, heap);
        return STK_ENOMEM;
    }
    pthread_mutex_lock(&store->mutex);
    if (store->num_slots == num_slots) {
        block->next = store->blocks;
        block->count = count;
        store->blocks = block;
        store->num_slots += count;
        for (size_t i = 0; i < count; i++) {
            block->slots[i].store = store;
            block->slots[i].next = store->free_slots;
            store->free_slots = &block->slots[i];
        }
        slow_slot **old = store->heap;
        if (store->heap_count)
            memcpy(heap, old, store->heap_count * sizeof *heap);
        store->heap = heap;
        heap = old;
        block = NULL;
    }
    pthread_mutex_unlock(&store->mutex);
    stk__free(ctx, block);
    stk__free(ctx, heap);
    return STK_OK;
}

/* A free slot, with the mutex held on STK_OK. */
static stk_status get_slot_and_lock(slow_store *store, slow_slot **out)
{
    for (;;) {
        pthread_mutex_lock(&store->mutex);
        *out = store->free_slots;
        if (*out) {
            store->free_slots = (*out)->next;
            return STK_OK;
        }
        size_t num_slots = store->num_slots;
        pthread_mutex_unlock(&store->mutex);
        STK_TRY(grow(store, num_slots));
    }
}

/* When the read may end: its bytes take their turn on the link, the latency comes on top. */
static uint64_t due_locked(slow_store *store, uint64_t length, uint64_t latency_ns)
{
    uint64_t now = stk__now_ns();

    if (store->options.bandwidth <= 0)
        return now + latency_ns;
    double carried_ns = STK_MIN((double)length / store->options.bandwidth * 1e9, 1e18);
    store->link_free_ns = STK_MAX(store->link_free_ns, now) + (uint64_t)carried_ns;
    store->link_free_ns = STK_MIN(store->link_free_ns, UINT64_MAX / 2);
    return store->link_free_ns + latency_ns;
}

/* Change times with a read under way: so every order of ends is as likely as any other. */
static void swap_due_locked(slow_store *store, slow_slot *slot, double place)
{
    size_t which = (size_t)(place * (double)(store->heap_count + 1));

    if (which >= store->heap_count)
        return;
    slow_slot *other = store->heap[which];
    uint64_t due_ns = other->due_ns;
    other->due_ns = slot->due_ns;
    slot->due_ns = due_ns;
    sift_locked(store, other);
}

static void plan_locked(slow_store *store, slow_slot *slot, uint64_t number,
                        const stk__slow_draw *drawn, stk_read *read)
{
    slot->number = number;
    slot->outer = read;
    slot->status = drawn->status;
    slot->running = slot->status == STK_OK;
    slot->late = slot->submitted = slot->stop = slot->taken = false;
    slot->deadline_ns = read->deadline_ns ? read->deadline_ns : UINT64_MAX;
    slot->due_ns = due_locked(store, read->length, drawn->latency_ns);
    slot->inner = (stk_read){.struct_size = sizeof slot->inner,
                             .key = read->key,
                             .offset = read->offset,
                             .length = read->length,
                             .data = read->data,
                             .deadline_ns = read->deadline_ns,
                             .up_to = read->up_to,
                             .got = read->length,
                             .identity = read->identity,
                             .done = inner_done};
    if (store->options.order == STK__SLOW_RANDOM)
        swap_due_locked(store, slot, drawn->place);
    insert_locked(store, slot);
    read->driver[0] = slot;
    store->num_under_way++;
    if (end_of(store->heap[0]) < store->asleep_until_ns) {
        store->asleep_until_ns = end_of(store->heap[0]);
        pthread_cond_signal(&store->sooner);
    }
}

static stk_status slow_submit(stk_store *base, stk_read *read)
{
    slow_store *store = (slow_store *)base;
    stk__slow_draw drawn;
    slow_slot *slot;
    uint64_t end;

    if (!read->key || !stk__add_size(read->offset, read->length, &end))
        return STK_EINVAL;
    read->system_error = 0;
    uint64_t number = atomic_fetch_add(&store->num_reads, 1);
    stk__slow_draw_read(&store->options, number, read, &drawn);
    STK_TRY(get_slot_and_lock(store, &slot));
    plan_locked(store, slot, number, &drawn, read);
    bool running = slot->running;
    pthread_mutex_unlock(&store->mutex);
    if (!running)
        return STK_OK;

    stk_status status = store->inner->ops->submit(store->inner, &slot->inner);
    if (status != STK_OK) {
        inner_done(&slot->inner, status);
        return STK_OK;
    }
    /* From now on the inner store is asked to cancel the read, beginning with what came meanwhile.
     */
    pthread_mutex_lock(&store->mutex);
    bool ask = false;
    if (slot->number == number && slot->outer && slot->running && !slot->taken) {
        slot->submitted = true;
        ask = slot->stop;
        slot->cancelers += ask;
    }
    pthread_mutex_unlock(&store->mutex);
    if (ask)
        cancel_inner(slot);
    return STK_OK;
}

/* ---- What is passed on ---- */

static stk_status lacks(const slow_store *store, const char *what, stk_error *err)
{
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_STORE,
                     "a store of the kind '%s' cannot %s objects", store->inner->ops->name, what);
}

static stk_status slow_stat(stk_store *base, const char *key, const stk_store_call *call,
                            stk_object_info *out, stk_error *err)
{
    stk_store *inner = ((slow_store *)base)->inner;

    return inner->ops->stat(inner, key, call, out, err);
}

static stk_status slow_list(stk_store *base, const char *prefix, const stk_store_call *call,
                            stk_list_fn *each, void *user, stk_error *err)
{
    slow_store *store = (slow_store *)base;

    if (!STK__STORE_HAS(store->inner->ops, list))
        return lacks(store, "list", err);
    return store->inner->ops->list(store->inner, prefix, call, each, user, err);
}

static stk_status slow_put(stk_store *base, const char *key, const stk_store_call *call,
                           stk_put **out, stk_error *err)
{
    return stk__store_put_begin(((slow_store *)base)->inner, key, call, out, err);
}

static stk_status slow_remove(stk_store *base, const char *key, const stk_store_call *call,
                              stk_error *err)
{
    slow_store *store = (slow_store *)base;

    if (!STK__STORE_HAS(store->inner->ops, remove))
        return lacks(store, "remove", err);
    return store->inner->ops->remove(store->inner, key, call, err);
}

static stk_status slow_copy(stk_store *base, const char *from, const char *to,
                            const stk_store_call *call, stk_error *err)
{
    slow_store *store = (slow_store *)base;

    if (!STK__STORE_HAS(store->inner->ops, copy))
        return lacks(store, "copy", err);
    return store->inner->ops->copy(store->inner, from, to, call, err);
}

static void slow_know(stk_store *base, const char *key, const stk_object_info *info)
{
    stk__store_know(((slow_store *)base)->inner, key, info);
}

/* As many bytes in vain as the link carries during one latency. */
static void slow_limits(stk_store *base, stk_store_limits *out)
{
    slow_store *store = (slow_store *)base;
    const stk__slow_options *o = &store->options;

    stk__store_limits(store->inner, out);
    if (o->latency > 0) {
        double gap = o->bandwidth > 0 ? o->latency * o->bandwidth : (double)MAX_GAP;
        out->coalesce_gap = (uint64_t)STK_MIN(gap, (double)MAX_GAP);
    }
    out->io_depth = STK_MAX(out->io_depth, IO_DEPTH);
    out->tries_again = false; /* not what is drawn here */
    out->ends = false;
}

/* ---- Opening and closing ---- */

static void stop_all(slow_store *store)
{
    /* No read is submitted any more, so neither blocks nor slots change hands. */
    for (slow_block *block = store->blocks; block; block = block->next) {
        for (size_t i = 0; i < block->count; i++) {
            slow_slot *slot = &block->slots[i];
            pthread_mutex_lock(&store->mutex);
            if (slot->outer && !slot->taken)
                stop_and_unlock(store, slot);
            else
                pthread_mutex_unlock(&store->mutex);
        }
    }
    pthread_mutex_lock(&store->mutex);
    while (store->num_under_way)
        pthread_cond_wait(&store->idle, &store->mutex);
    store->stopping = true;
    pthread_cond_signal(&store->sooner);
    pthread_mutex_unlock(&store->mutex);
}

static void slow_close(stk_store *base)
{
    slow_store *store = (slow_store *)base;
    stk_context *ctx = base->context;

    /* After fork() the locks may be held by threads that do not exist here: nothing can be given
     * back. */
    if (stk__context_forked(ctx))
        return;
    stop_all(store);
    stk__thread_join(&store->timer);
    stk_store_close(&store->inner);
    for (slow_block *block = store->blocks, *next; block; block = next) {
        next = block->next;
        stk__free(ctx, block);
    }
    stk__free(ctx, store->heap);
    pthread_cond_destroy(&store->idle);
    pthread_cond_destroy(&store->sooner);
    pthread_mutex_destroy(&store->mutex);
    stk__free(ctx, store);
    stk__context_unref(ctx);
}

static stk_status slow_open(stk_context *ctx, const char *text, const void *options,
                            stk_store **out, stk_error *err)
{
    stk_store *inner = NULL;
    stk__url url;

    *out = NULL;
    STK_TRY(stk__url_parse(ctx, text, &url, err));
    if (!url.inner)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_STORE,
            "'%.200s' wraps nothing; write slow+URL, such as slow+file:///data?latency=20ms", text);
    STK_TRY(stk__store_open_url(ctx, url.inner, &inner, err));
    slow_store *store = stk__calloc(ctx, 1, sizeof *store);
    if (!store) {
        stk_store_close(&inner);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
    }
    store->base.ops = &stk__store_slow;
    store->base.context = stk__context_ref(ctx);
    store->inner = inner;
    store->options = *(const stk__slow_options *)options;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->idle, NULL);
    stk__cond_init(&store->sooner);
    stk_status status = stk__thread_start(ctx, &store->timer, "stk-slow", keep_time, store, err);
    if (status != STK_OK) {
        slow_close(&store->base);
        return status;
    }
    *out = &store->base;
    return STK_OK;
}

const stk_store_ops stk__store_slow = {
    .struct_size = sizeof(stk_store_ops),
    .name = "slow",
    .doc = "another store with latency and bandwidth of choice, for trials",
    .options = &stk__slow_option_table,
    .open = slow_open,
    .close = slow_close,
    .submit = slow_submit,
    .cancel = slow_cancel,
    .stat = slow_stat,
    .list = slow_list,
    .put = slow_put,
    .remove = slow_remove,
    .limits = slow_limits,
    .copy = slow_copy,
    .know = slow_know,
};
