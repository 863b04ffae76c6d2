/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a fetcher, and transfers before they are sent. */
#include <stdio.h>

#include "store/fetch_room.h"

/* ---- Adding ---- */

static stk__source *find_source_locked(stk__fetcher *f, const stk_store *store)
{
    stk__source *source = f->sources;

    while (source && source->store != store)
        source = source->next;
    return source;
}

static stk_status get_source(stk__fetcher *f, stk_store *store, stk__source **out)
{
    stk_store_limits limits;

    pthread_mutex_lock(&f->mutex);
    *out = find_source_locked(f, store);
    pthread_mutex_unlock(&f->mutex);
    if (*out)
        return STK_OK;
    stk__source *made = stk__calloc(f->ctx, 1, sizeof *made);
    if (!made)
        return STK_ENOMEM;
    stk__store_limits(store, &limits);
    made->fetcher = f;
    made->store = store;
    made->max_read = limits.max_read;
    if (f->options.max_read && (!limits.max_read || f->options.max_read < limits.max_read))
        made->max_read = f->options.max_read;
    made->depth = f->options.depth ? f->options.depth : limits.io_depth;
    pthread_mutex_lock(&f->mutex);
    *out = find_source_locked(f, store);
    if (!*out) {
        made->next = f->sources;
        f->sources = *out = made;
        made = NULL;
    }
    pthread_mutex_unlock(&f->mutex);
    stk__free(f->ctx, made);
    return STK_OK;
}

static stk__piece *get_piece(stk__fetcher *f)
{
    pthread_mutex_lock(&f->mutex);
    stk__piece *piece = f->free;
    if (piece)
        f->free = piece->next_of_transfer;
    pthread_mutex_unlock(&f->mutex);
    return piece ? piece : stk__alloc(f->ctx, sizeof *piece);
}

static void fill_piece(stk__piece *piece, stk__transfer *t, stk__source *source, size_t i)
{
    uint64_t offset, length;

    stk__plan_split(t->offset, t->length, source->max_read, i, &offset, &length);
    *piece = (stk__piece){.transfer = t, .source = source};
    piece->read = (stk_read){.struct_size = sizeof piece->read,
                             .key = t->key,
                             .offset = offset,
                             .length = length,
                             .data = t->data ? (char *)t->data + (offset - t->offset) : NULL,
                             .deadline_ns = t->deadline_ns,
                             .needed_next = t->needed_next,
                             .up_to = t->up_to,
                             .done = stk__piece_done,
                             .user = piece};
}

stk_status stk__fetcher_prepare(stk__fetcher *f, stk__transfer *t)
{
    stk__source *source;

    STK_TRY(get_source(f, t->store, &source));
    const size_t pieces = stk__plan_pieces(t->length, source->max_read);
    fill_piece(&t->piece, t, source, 0);
    stk__piece *last = &t->piece;
    for (size_t i = 1; i < pieces; i++) {
        stk__piece *piece = get_piece(f);
        if (!piece) {
            stk__fetcher_unprepare(f, t);
            return STK_ENOMEM;
        }
        fill_piece(piece, t, source, i);
        last->next_of_transfer = piece;
        last = piece;
    }
    t->pending = 0;
    return STK_OK;
}

void stk__fetcher_unprepare(stk__fetcher *f, stk__transfer *t)
{
    pthread_mutex_lock(&f->mutex);
    for (stk__piece *p = t->piece.next_of_transfer, *next; p; p = next) {
        next = p->next_of_transfer;
        p->next_of_transfer = f->free;
        f->free = p;
    }
    t->piece.next_of_transfer = NULL;
    pthread_mutex_unlock(&f->mutex);
}

void stk__fetcher_add(stk__fetcher *f, stk__transfer *t)
{
    const uint64_t now = stk__fetcher_now(f);

    t->status = STK_OK;
    t->system_error = 0;
    t->got = t->length;
    t->added_ns = now;
    pthread_mutex_lock(&f->mutex);
    t->number = f->added++;
    t->pending = 0;
    for (stk__piece *p = &t->piece; p; p = p->next_of_transfer) {
        t->pending++;
        stk__piece_wait_locked(f, p);
    }
    if (t->deadline_ns && t->deadline_ns < f->nearest_ns) {
        f->nearest_ns = t->deadline_ns;
        f->sooner = true;
    }
    pthread_mutex_unlock(&f->mutex);
}

/* ---- Its life ---- */

static uint64_t real_now(void *clock)
{
    (void)clock;
    return stk__now_ns();
}

stk_status stk__fetcher_create(stk_context *ctx, const stk__fetcher_options *options,
                               stk__fetcher **out)
{
    stk__fetcher *f = stk__calloc(ctx, 1, sizeof *f);

    *out = f;
    if (!f)
        return STK_ENOMEM;
    f->ctx = ctx;
    f->options = *options;
    if (!f->options.now)
        f->options.now = real_now;
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
    pthread_cond_destroy(&f->left);
    pthread_mutex_destroy(&f->mutex);
    stk__free(f->ctx, f);
}

/* ---- Figures ---- */

void stk__fetcher_stats(stk__fetcher *f, stk__fetch_stats *out)
{
    pthread_mutex_lock(&f->mutex);
    *out = f->stats;
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
        length = snprintf(text, size, "; %u reads in flight, the oldest for %.1f s: %.120s",
                          f->stats.under_way, (double)(now - STK_MIN(oldest->sent_ns, now)) * 1e-9,
                          oldest->read.key);
    }
    pthread_mutex_unlock(&f->mutex);
    return length < 0 ? 0 : STK_MIN((size_t)length, size ? size - 1 : 0);
}
