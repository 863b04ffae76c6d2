/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a fetcher, and transfers before they are sent. */
#include <stdio.h>

#include "store/fetch_room.h"
#include "store/store.h"
#include "store/url.h"

/* ---- Depth ---- */

static void set_depth_locked(const stk__fetcher *f, stk__source *source)
{
    source->depth = source->first_depth;
    if (f->move_of)
        source->depth =
            (uint32_t)STK_MAX((uint64_t)source->first_depth * f->move_to / f->move_of, 1u);
}

void stk__fetcher_move(stk__fetcher *f, uint32_t depth, uint32_t of)
{
    pthread_mutex_lock(&f->mutex);
    f->move_to = depth;
    f->move_of = of;
    for (stk__source *source = f->sources; source; source = source->next)
        set_depth_locked(f, source);
    pthread_mutex_unlock(&f->mutex);
}

/* ---- Adding ---- */

static stk__source *find_source_locked(stk__fetcher *f, const stk_store *store)
{
    stk__source *source = f->sources;

    while (source && source->store != store)
        source = source->next;
    return source;
}

/* Lets the lock go where the store is new. NULL: no memory. */
static stk__source *source_locked(stk__fetcher *f, stk_store *store)
{
    stk__source *source = find_source_locked(f, store);
    stk_store_limits limits;

    if (source)
        return source;
    pthread_mutex_unlock(&f->mutex);
    stk__source *made = stk__calloc(f->ctx, 1, sizeof *made);
    stk__store_limits(store, &limits);
    pthread_mutex_lock(&f->mutex);
    source = find_source_locked(f, store);
    if (source || !made) {
        stk__free(f->ctx, made);
        return source;
    }
    made->fetcher = f;
    made->store = store;
    made->retries = limits.tries_again ? 0 : f->options.retries;
    made->reads_now = STK__STORE_HAS(store->ops, read_now);
    made->max_read = limits.max_read;
    if (f->options.max_read && (!limits.max_read || f->options.max_read < limits.max_read))
        made->max_read = f->options.max_read;
    made->first_depth = f->options.depth ? f->options.depth : limits.io_depth;
    set_depth_locked(f, made);
    made->next = f->sources;
    return f->sources = made;
}

/* Lets the lock go where there is none of an earlier transfer. NULL: no memory. */
static stk__piece *piece_locked(stk__fetcher *f)
{
    stk__piece *piece = f->free;

    if (piece) {
        f->free = piece->next_of_transfer;
        return piece;
    }
    pthread_mutex_unlock(&f->mutex);
    piece = stk__alloc(f->ctx, sizeof *piece);
    pthread_mutex_lock(&f->mutex);
    return piece;
}

static void fill_piece(stk__piece *piece, stk__transfer *t, stk__source *source, uint64_t max_read,
                       size_t i)
{
    uint64_t offset, length;

    stk__plan_split(t->offset, t->length, max_read, i, &offset, &length);
    *piece = (stk__piece){.transfer = t, .source = source};
    piece->read = (stk_read){.struct_size = sizeof piece->read,
                             .key = t->key,
                             .offset = offset,
                             .length = length,
                             .data = t->data ? (char *)t->data + (offset - t->offset) : NULL,
                             .deadline_ns = t->deadline_ns,
                             .needed_next = t->needed_next,
                             .up_to = t->up_to,
                             .from_end = t->from_end,
                             .canceled = stk__piece_canceled,
                             .done = stk__piece_done,
                             .user = piece};
}

/* Cut a transfer into the reads that its store takes. Lets the lock go where it allocates. */
static stk_status cut_locked(stk__fetcher *f, stk__transfer *t)
{
    stk__source *source = source_locked(f, t->store);
    uint64_t end;

    t->piece.next_of_transfer = NULL;
    if (!source)
        return STK_ENOMEM;
    /* What ends beyond 2^64 the store refuses, as it is. */
    const bool whole = t->from_end || !stk__add_size(t->offset, t->length, &end);
    const uint64_t max_read = whole ? 0 : source->max_read;
    const size_t pieces = stk__plan_pieces(t->length, max_read);
    stk__piece *last = &t->piece;
    fill_piece(last, t, source, max_read, 0);
    /* Of several they might be named by several threads. */
    if (pieces <= 1)
        last->read.error = t->error;
    for (size_t i = 1; i < pieces; i++) {
        stk__piece *piece = piece_locked(f);
        if (!piece)
            return STK_ENOMEM;
        fill_piece(piece, t, source, max_read, i);
        last->next_of_transfer = piece;
        last = piece;
    }
    return STK_OK;
}

void stk__fetcher_add(stk__fetcher *f, stk__transfer *list)
{
    const uint64_t now = stk__fetcher_stamp(f);

    pthread_mutex_lock(&f->mutex);
    for (stk__transfer *t = list, *next; t; t = next) {
        next = t->next;
        t->system_error = 0;
        t->got = t->length;
        t->at_once = true;
        t->added_ns = now;
        t->first_ns = t->sent_ns = t->ended_ns = 0;
        t->tries = 0;
        t->transfer_share = 0;
        t->pending = 0;
        t->number = f->added++;
        t->status = cut_locked(f, t);
        if (t->status == STK_OK && f->stopped)
            t->status = STK_ECANCELED;
        if (t->status != STK_OK) {
            stk__transfer_end_locked(f, t);
            continue;
        }
        for (stk__piece *p = &t->piece; p; p = p->next_of_transfer) {
            t->pending++;
            stk__piece_wait_locked(f, p);
        }
        if (t->deadline_ns && t->deadline_ns < f->nearest_ns) {
            f->nearest_ns = t->deadline_ns;
            f->sooner = true;
        }
    }
    pthread_mutex_unlock(&f->mutex);
}

/* ---- Its life ---- */

uint64_t stk__fetcher_bytes(void)
{
    return sizeof(stk__fetcher) + sizeof(stk__trend);
}

stk_status stk__fetcher_create(stk_context *ctx, const stk__fetcher_options *options,
                               stk__fetcher **out)
{
    stk__fetcher *f = stk__calloc(ctx, 1, sizeof *f);

    *out = NULL;
    if (!f)
        return STK_ENOMEM;
    if (options->measures) {
        f->trend = stk__calloc(ctx, 1, sizeof *f->trend);
        if (!f->trend) {
            stk__free(ctx, f);
            return STK_ENOMEM;
        }
    }
    *out = f;
    f->ctx = ctx;
    f->options = *options;
    f->nearest_ns = UINT64_MAX;
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->left, NULL);
    return STK_OK;
}

void stk__fetcher_destroy(stk__fetcher **fetcher)
{
    stk__fetcher *f = *fetcher;

    *fetcher = NULL;
    if (!f)
        return;
    pthread_mutex_lock(&f->mutex);
    f->destroying = true;
    while (f->inside)
        pthread_cond_wait(&f->left, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    for (stk__source *source = f->sources, *next; source; source = next) {
        next = source->next;
        stk__free(f->ctx, source);
    }
    for (stk__piece *piece = f->free, *next; piece; piece = next) {
        next = piece->next_of_transfer;
        stk__free(f->ctx, piece);
    }
    stk__free(f->ctx, f->trend);
    pthread_cond_destroy(&f->left);
    pthread_mutex_destroy(&f->mutex);
    stk__free(f->ctx, f);
}

/* ---- Figures ---- */

void stk__fetcher_stats(stk__fetcher *f, stk__fetch_stats *out)
{
    pthread_mutex_lock(&f->mutex);
    *out = f->stats;
    if (f->trend) {
        const stk__sums *all = &f->trend->all;
        out->ns_per_byte = f->trend->slope;
        if (all->ns > 0)
            out->transfer_share = STK_MIN(out->ns_per_byte * all->bytes / all->ns, 1.0);
        out->latency_ns = all->ns * (1 - out->transfer_share);
    }
    pthread_mutex_unlock(&f->mutex);
}

size_t stk__fetcher_describe(stk__fetcher *f, char *text, size_t size)
{
    const stk__piece *oldest = NULL;
    int length = 0;

    pthread_mutex_lock(&f->mutex);
    for (const stk__piece *piece = f->under_way.first; piece; piece = piece->next)
        if (!oldest || piece->sent_ns < oldest->sent_ns)
            oldest = piece;
    if (oldest) {
        const uint64_t now = stk__fetcher_now(f);
        length = snprintf(text, size, "%u reads in flight, the oldest for %.1f s: %.120s",
                          f->stats.under_way, (double)(now - STK_MIN(oldest->sent_ns, now)) * 1e-9,
                          oldest->read.key);
    }
    pthread_mutex_unlock(&f->mutex);
    return length < 0 ? 0 : STK_MIN((size_t)length, size ? size - 1 : 0);
}
