/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/probe.h"
#include "loader/reads.h"

/* One request to a store: a piece of a range. */
typedef struct stk__op {
    stk_read read;
    stk__reads *reads;
    stk__range *range;
    uint32_t tries;
    bool canceled;                   /* (L) its store was asked to end it */
    uint64_t start_ns, first_ns;     /* of the last try and of the first */
    uint64_t under_way;              /* bytes of all reads when it was sent */
    struct stk__op *next, *previous; /* (L) waiting to be sent, in flight, or free */
} op;

static void op_done(stk_read *read, stk_status status);

void stk__reads_init(stk__reads *reads, stk_context *ctx, pthread_mutex_t *lock, uint32_t depth,
                     uint32_t retries)
{
    *reads = (stk__reads){.ctx = ctx, .lock = lock, .depth = depth, .retries = retries};
    stk__cond_init(&reads->ended);
}

void stk__reads_destroy(stk__reads *reads)
{
    if (!reads->ctx)
        return;
    for (op *o = reads->free, *next; o; o = next) {
        next = o->next;
        stk__free(reads->ctx, o);
    }
    pthread_cond_destroy(&reads->ended);
}

/* ---- Queueing ---- */

/* Records of earlier reads for some of `n`; returns how many there were. (L) held. */
static size_t take_free_locked(stk__reads *reads, stk__range *range, size_t n)
{
    size_t taken = 0;

    for (op *o; taken < n && (o = reads->free); taken++) {
        reads->free = o->next;
        o->next = range->first;
        range->first = o;
    }
    return taken;
}

static bool allocate(stk__reads *reads, stk__range *range, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        op *o = stk__alloc(reads->ctx, sizeof *o);
        if (!o)
            return false;
        o->next = range->first;
        range->first = o;
    }
    return true;
}

/* (L) held. */
static void free_ops_locked(stk__reads *reads, stk__range *range)
{
    for (op *o; (o = range->first);) {
        range->first = o->next;
        o->next = reads->free;
        reads->free = o;
    }
}

/* Cut the range into the pieces that its store takes. */
static void fill(stk__reads *reads, stk__range *range, uint64_t max_read)
{
    size_t i = 0;

    for (op *o = range->first, *next; o; o = next, i++) {
        uint64_t offset, length;
        next = o->next;
        stk__plan_split(range->offset, range->length, max_read, i, &offset, &length);
        *o = (op){.reads = reads, .range = range, .next = next};
        o->read = (stk_read){.struct_size = sizeof o->read,
                             .key = range->key,
                             .offset = offset,
                             .length = length,
                             .data = range->data + (offset - range->offset),
                             .done = op_done,
                             .user = o};
        range->last = o;
    }
    range->pending = (uint32_t)i;
    range->status = STK_OK;
}

stk_status stk__reads_prepare(stk__reads *reads, stk__range *range)
{
    stk_store_limits limits;

    stk__store_limits(range->store, &limits);
    const size_t n = stk__plan_pieces(range->length, limits.max_read);
    range->first = range->last = NULL;
    pthread_mutex_lock(reads->lock);
    const size_t taken = take_free_locked(reads, range, n);
    pthread_mutex_unlock(reads->lock);
    if (!allocate(reads, range, n - taken)) {
        pthread_mutex_lock(reads->lock);
        free_ops_locked(reads, range);
        pthread_mutex_unlock(reads->lock);
        return STK_ENOMEM;
    }
    fill(reads, range, limits.max_read);
    return STK_OK;
}

void stk__reads_queue_locked(stk__reads *reads, stk__range *range)
{
    range->times = (stk__read_times){.queued_ns = stk__stamp()};
    if (reads->first)
        reads->last->next = range->first;
    else
        reads->first = range->first;
    reads->last = range->last;
    range->first = range->last = NULL;
}

bool stk__reads_queue_first_locked(stk__reads *reads, stk__range *range)
{
    stk_store_limits limits;

    stk__store_limits(range->store, &limits);
    const size_t n = stk__plan_pieces(range->length, limits.max_read);
    range->first = range->last = NULL;
    if (!allocate(reads, range, n - take_free_locked(reads, range, n))) {
        free_ops_locked(reads, range);
        return false;
    }
    fill(reads, range, limits.max_read);
    range->times = (stk__read_times){.queued_ns = stk__stamp()};
    range->last->next = reads->first;
    if (!reads->first)
        reads->last = range->last;
    reads->first = range->first;
    range->first = range->last = NULL;
    return true;
}

/* ---- The end of a read ---- */

static void unlink_flying_locked(stk__reads *reads, op *o)
{
    if (o->previous)
        o->previous->next = o->next;
    else
        reads->flying = o->next;
    if (o->next)
        o->next->previous = o->previous;
    reads->in_flight--;
}

static void retry_locked(stk__reads *reads, op *o)
{
    o->tries++;
    o->next = reads->first;
    reads->first = o;
    if (!reads->last)
        reads->last = o;
}

static void note_times_locked(stk__reads *reads, const op *o, stk_status status, uint64_t now_ns)
{
    const double took = (double)(now_ns - o->start_ns);
    stk__read_times *times = &o->range->times;

    reads->figures.busy_ns += now_ns - o->start_ns;
    reads->figures.failures += status != STK_OK;
    reads->under_way -= o->read.length;
    if (status == STK_OK)
        stk__trend_add(&reads->trend, (double)o->under_way, took);
    times->first_ns = o->first_ns;
    times->sent_ns = o->start_ns;
    times->arrived_ns = now_ns;
    times->transfer = STK_MIN(1.0, reads->trend.slope * (double)o->under_way / STK_MAX(took, 1.0));
}

/* It will not be tried again. */
static void finish_locked(stk__reads *reads, op *o, stk_status status)
{
    stk__range *range = o->range;

    o->next = reads->free;
    reads->free = o;
    if (range->status == STK_OK)
        range->status = status;
    if (--range->pending == 0)
        range->arrived_locked(range, range->status);
}

static void send_waiting(stk__reads *reads);

static void op_done(stk_read *read, stk_status status)
{
    op *o = read->user;
    stk__reads *reads = o->reads;
    stk__event event = {.kind = STK__EVENT_READ,
                        .status = status,
                        .worker = UINT32_MAX,
                        .start_ns = o->start_ns,
                        .end_ns = stk__stamp(),
                        .bytes = read->length};

    stk__emit(reads->ctx, &event);
    pthread_mutex_lock(reads->lock);
    unlink_flying_locked(reads, o);
    note_times_locked(reads, o, status, event.end_ns);
    if (stk_status_fault(status) == STK_FAULT_MACHINE && o->tries < reads->retries &&
        !reads->stopped)
        retry_locked(reads, o);
    else
        finish_locked(reads, o, status);
    /* Taken while (L) is held: the end waits for whoever sends. */
    const bool pump = reads->first && !reads->pumping && !reads->stopped;
    reads->pumping = reads->pumping || pump;
    if (reads->in_flight == 0 && reads->stopped)
        pthread_cond_broadcast(&reads->ended);
    pthread_mutex_unlock(reads->lock);
    if (pump)
        send_waiting(reads);
}

/* ---- Sending ---- */

/* The first that waits is in flight from now on. (L) held. */
static op *take_first_locked(stk__reads *reads)
{
    op *o = reads->first;

    reads->first = o->next;
    if (!reads->first)
        reads->last = NULL;
    o->previous = NULL;
    o->next = reads->flying;
    if (o->next)
        o->next->previous = o;
    reads->flying = o;
    reads->in_flight++;
    reads->figures.requests++;
    reads->figures.request_bytes += o->read.length;
    reads->under_way += o->read.length;
    o->under_way = reads->under_way;
    o->start_ns = stk__now_ns();
    if (o->tries == 0)
        o->first_ns = o->start_ns;
    return o;
}

/* The caller has set `pumping`: one thread sends, and done() inside submit() leaves what it made
 * room for to the loop. A read that could not even be submitted ends as one that failed. */
static void send_waiting(stk__reads *reads)
{
    pthread_mutex_lock(reads->lock);
    while (reads->first && reads->in_flight < reads->depth && !reads->stopped) {
        op *o = take_first_locked(reads);
        stk_store *store = o->range->store;
        pthread_mutex_unlock(reads->lock);
        const stk_status status = store->ops->submit(store, &o->read);
        if (status != STK_OK)
            op_done(&o->read, status);
        pthread_mutex_lock(reads->lock);
    }
    reads->pumping = false;
    if (reads->stopped)
        pthread_cond_broadcast(&reads->ended);
    pthread_mutex_unlock(reads->lock);
}

void stk__reads_pump(stk__reads *reads)
{
    pthread_mutex_lock(reads->lock);
    const bool pump = reads->first && !reads->pumping;
    reads->pumping = reads->pumping || pump;
    pthread_mutex_unlock(reads->lock);
    if (pump)
        send_waiting(reads);
}

/* ---- Stopping ---- */

void stk__reads_stop_locked(stk__reads *reads, bool stop)
{
    reads->stopped = stop;
}

bool stk__reads_wait_sent_locked(stk__reads *reads, uint64_t until)
{
    while (reads->pumping)
        if (!stk__cond_wait_until(&reads->ended, reads->lock, until))
            return false;
    return true;
}

bool stk__reads_wait_locked(stk__reads *reads, uint64_t until)
{
    while (reads->in_flight || reads->pumping)
        if (!stk__cond_wait_until(&reads->ended, reads->lock, until))
            return false;
    return true;
}

void stk__reads_cancel(stk__reads *reads)
{
    pthread_mutex_lock(reads->lock);
    for (op *o; (o = reads->first);) {
        reads->first = o->next;
        o->range->pending--;
        o->range->status = STK_ECANCELED;
        o->next = reads->free;
        reads->free = o;
    }
    reads->last = NULL;
    /* cancel() may run done(), which changes the list: begin again after each, and mark which was
     * asked. */
    for (op *o = reads->flying; o;) {
        stk_store *store = o->range->store;
        if (o->canceled || !store->ops->cancel) {
            o = o->next;
            continue;
        }
        o->canceled = true;
        pthread_mutex_unlock(reads->lock);
        store->ops->cancel(store, &o->read);
        pthread_mutex_lock(reads->lock);
        o = reads->flying;
    }
    pthread_mutex_unlock(reads->lock);
}

/* ---- Queries ---- */

bool stk__reads_idle_locked(const stk__reads *reads)
{
    return !reads->in_flight && !reads->first && !reads->pumping;
}

uint32_t stk__reads_in_flight_locked(const stk__reads *reads)
{
    return reads->in_flight;
}

void stk__reads_figures_locked(const stk__reads *reads, stk__read_figures *out)
{
    const stk__sums *all = &reads->trend.all;

    *out = reads->figures;
    out->ns_per_byte = reads->trend.slope;
    if (all->ns > 0)
        out->transfer_share = STK_MIN(out->ns_per_byte * all->bytes / all->ns, 1.0);
    out->latency_ns = all->ns * (1 - out->transfer_share);
}

size_t stk__reads_describe_locked(const stk__reads *reads, uint64_t now_ns, char *text, size_t size)
{
    const op *oldest = reads->flying;

    if (!oldest)
        return 0;
    for (const op *o = oldest->next; o; o = o->next)
        if (o->start_ns < oldest->start_ns)
            oldest = o;
    const int n =
        snprintf(text, size, "%u reads in flight, the oldest for %.1f s: %.120s", reads->in_flight,
                 (double)(now_ns - oldest->start_ns) * 1e-9, oldest->read.key);
    return n < 0 ? 0 : STK_MIN((size_t)n, size - 1);
}
