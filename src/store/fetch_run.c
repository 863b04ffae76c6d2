/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A piece is in one list at a time: of those that wait for a slot of their store, by priority; of
 * those under way; or of those that wait for their next try, by time. A thread that submits or
 * cancels a piece *holds* it: a read that ends meanwhile, most often within submit() itself, is
 * finished by that thread, with one lock less and without nesting.
 */
#include <xxhash.h>

#include "base/probe.h"
#include "base/random.h"
#include "store/fetch_room.h"

#define RETRY_FIRST_NS UINT64_C(10000000)   /* before the second try */
#define RETRY_MOST_NS  UINT64_C(5000000000) /* before any later one */
/* Ended transfers that are handed over while others can still be sent: few enough that who waits
 * for them does not wait long, enough to save most of what a call costs. */
#define HAND_OVER 32

enum { OPEN, HELD, ENDED };                    /* gate of a piece */
enum { NOWHERE, WAITING, UNDER_WAY, RETRIES }; /* its place */

/* The last word of the counter of Philox: what a draw is for. */
enum { DRAW_RETRY = 0x72747279 };

/* ---- Lists ---- */

static void insert_after(stk__piece_list *list, stk__piece *before, stk__piece *piece)
{
    piece->previous = before;
    piece->next = before ? before->next : list->first;
    *(piece->next ? &piece->next->previous : &list->last) = piece;
    *(before ? &before->next : &list->first) = piece;
}

static void unlink_piece(stk__piece_list *list, stk__piece *piece)
{
    *(piece->previous ? &piece->previous->next : &list->first) = piece->next;
    *(piece->next ? &piece->next->previous : &list->last) = piece->previous;
    piece->next = piece->previous = NULL;
    piece->place = NOWHERE;
}

/* Whether `a` is to be sent before `b`. */
static bool precedes(const stk__piece *a, const stk__piece *b)
{
    const stk__transfer *x = a->transfer, *y = b->transfer;

    if (x->priority != y->priority)
        return x->priority < y->priority;
    if (x->number != y->number)
        return x->number < y->number;
    return a->read.offset < b->read.offset;
}

/* Nearly always behind all others, or, where it is tried again, near the front. */
void stk__piece_wait_locked(stk__fetcher *f, stk__piece *piece)
{
    stk__piece_list *list = &piece->source->waiting;
    stk__piece *before = list->last;

    if (before && precedes(piece, before)) {
        before = NULL;
        for (stk__piece *at = list->first; precedes(at, piece); at = at->next)
            before = at;
    }
    insert_after(list, before, piece);
    piece->place = WAITING;
    f->stats.waiting++;
}

static void wait_for_retry_locked(stk__fetcher *f, stk__piece *piece)
{
    stk__piece *before = f->retries.last;

    while (before && before->due_ns > piece->due_ns)
        before = before->previous;
    insert_after(&f->retries, before, piece);
    piece->place = RETRIES;
    f->stats.waiting++;
    f->stats.retries++;
    f->sooner |= !before;
}

static void take_out_locked(stk__fetcher *f, stk__piece *piece)
{
    if (piece->place == UNDER_WAY) {
        unlink_piece(&f->under_way, piece);
        piece->source->under_way--;
        f->stats.under_way--;
        f->stats.bytes_under_way -= piece->read.length;
    } else {
        unlink_piece(piece->place == WAITING ? &piece->source->waiting : &f->retries, piece);
        f->stats.waiting--;
    }
}

/* ---- Ending ---- */

void stk__transfer_end_locked(stk__fetcher *f, stk__transfer *t)
{
    for (stk__piece *p = t->piece.next_of_transfer, *next; p; p = next) {
        next = p->next_of_transfer;
        p->next_of_transfer = f->free;
        f->free = p;
    }
    t->piece.next_of_transfer = NULL;
    if (t->status != STK_OK)
        t->got = 0;
    t->next = NULL;
    *(f->ended ? &f->last_ended->next : &f->ended) = t;
    f->last_ended = t;
    f->num_ended++;
}

/* A piece in no list has come to its end. */
static void end_piece_locked(stk__fetcher *f, stk__piece *piece, stk_status status)
{
    stk__transfer *t = piece->transfer;
    const uint64_t skipped = piece->read.offset - t->offset;

    if (status == STK_OK && t->up_to && piece->read.got < piece->read.length)
        t->got = STK_MIN(t->got, skipped + piece->read.got);
    if (status != STK_OK && (t->status == STK_OK || piece->read.offset < t->failed_at)) {
        t->status = status;
        t->system_error = piece->read.system_error;
        t->failed_at = piece->read.offset;
    }
    t->size = piece->read.size;
    t->first_ns = piece->first_ns;
    t->sent_ns = piece->sent_ns;
    t->ended_ns = piece->ended_ns;
    t->bytes_before = piece->bytes_before;
    t->tries = piece->tries;
    if (f->trend)
        t->transfer_share =
            STK_MIN(1.0, f->trend->slope * (double)piece->bytes_before /
                             STK_MAX((double)(piece->ended_ns - piece->sent_ns), 1.0));
    if (--t->pending == 0)
        stk__transfer_end_locked(f, t);
}

/* How long to wait before the next try: a function of the seed and of what is read. */
static uint64_t draw_wait(const stk__fetcher *f, const stk__piece *piece)
{
    const uint64_t what = XXH3_64bits(piece->read.key, strlen(piece->read.key)) ^
                          piece->read.offset * UINT64_C(0x9e3779b97f4a7c15);
    const uint32_t counter[4] = {(uint32_t)what, (uint32_t)(what >> 32), piece->tries, DRAW_RETRY},
                   key[2] = {(uint32_t)f->options.seed, (uint32_t)(f->options.seed >> 32)};
    uint32_t words[4];
    uint64_t most = RETRY_FIRST_NS;

    for (uint32_t i = 1; i < piece->tries && most < RETRY_MOST_NS; i++)
        most *= 2;
    most = STK_MIN(most, RETRY_MOST_NS);
    stk__philox(counter, key, words);
    return most / 2 + (uint64_t)((double)(most / 2) * (double)stk__uniform(words[0]));
}

/* A read has ended with `outcome`: the piece is tried again, or ends. */
static void finish_locked(stk__fetcher *f, stk__piece *piece)
{
    const stk__transfer *t = piece->transfer;
    stk_status status = piece->outcome;

    take_out_locked(f, piece);
    f->stats.busy_ns += piece->ended_ns - STK_MIN(piece->sent_ns, piece->ended_ns);
    f->stats.failures += status != STK_OK;
    if (f->trend && status == STK_OK)
        stk__trend_add(f->trend, (double)piece->bytes_before,
                       (double)(piece->ended_ns - piece->sent_ns));
    if (piece->late && status == STK_ECANCELED)
        status = STK_ETIMEDOUT;
    if (stk_status_fault(status) == STK_FAULT_MACHINE && !piece->stop &&
        piece->tries <= piece->source->retries) {
        piece->due_ns = stk__fetcher_now(f) + draw_wait(f, piece);
        if (!t->deadline_ns || piece->due_ns < t->deadline_ns) {
            wait_for_retry_locked(f, piece);
            return;
        }
    }
    end_piece_locked(f, piece, status);
}

/* The thread that holds a piece lets it go, having submitted or canceled it. */
static void let_go_locked(stk__fetcher *f, stk__piece *piece)
{
    int held = HELD;

    if (!atomic_compare_exchange_strong(&piece->gate, &held, OPEN))
        finish_locked(f, piece);
}

static void note_end(stk__piece *piece, stk_status status)
{
    const stk__fetcher *f = piece->source->fetcher;

    piece->outcome = status;
    piece->ended_ns = stk__fetcher_stamp(f);
    if (!f->options.measures)
        return;
    const stk__event event = {.kind = STK__EVENT_READ,
                              .status = status,
                              .worker = UINT32_MAX,
                              .start_ns = piece->sent_ns,
                              .end_ns = piece->ended_ns,
                              .bytes = piece->read.length,
                              .loader = f->options.loader};
    stk__emit(f->ctx, &event);
}

static void hand_over_locked(stk__fetcher *f);
static void run_locked(stk__fetcher *f);

void stk__piece_done(stk_read *read, stk_status status)
{
    stk__piece *piece = read->user;
    stk__fetcher *f = piece->source->fetcher;

    note_end(piece, status);
    if (atomic_exchange(&piece->gate, ENDED) == HELD)
        return;
    pthread_mutex_lock(&f->mutex);
    f->inside++;
    finish_locked(f, piece);
    /* What is added in there may go before all that waits. */
    if (f->ended)
        hand_over_locked(f);
    f->inside--;
    run_locked(f);
    pthread_mutex_unlock(&f->mutex);
}

/* ---- Canceling ---- */

bool stk__piece_canceled(const stk_read *read)
{
    const stk__piece *piece = read->user;
    stk__fetcher *f = piece->source->fetcher;

    pthread_mutex_lock(&f->mutex);
    const bool stop = piece->stop;
    pthread_mutex_unlock(&f->mutex);
    return stop || (f->options.canceled && f->options.canceled(f->options.user));
}

/* Ask stores to cancel what shall end early; what a thread is just submitting, that thread asks
 * for. Lets the lock go. */
static void ask_locked(stk__fetcher *f)
{
    for (stk__piece *piece = f->under_way.first; piece;) {
        int open = OPEN;
        if (!piece->stop || piece->asked ||
            !atomic_compare_exchange_strong(&piece->gate, &open, HELD)) {
            piece = piece->next;
            continue;
        }
        stk_store *store = piece->source->store;
        piece->asked = true;
        pthread_mutex_unlock(&f->mutex);
        store->ops->cancel(store, &piece->read);
        pthread_mutex_lock(&f->mutex);
        let_go_locked(f, piece);
        piece = f->under_way.first;
    }
}

/* End a piece now where it is not under way, else as soon as its store says. */
static void stop_locked(stk__fetcher *f, stk__piece *piece, bool late)
{
    if (piece->place == UNDER_WAY) {
        piece->late |= late && !piece->stop;
        piece->stop = true;
    } else if (piece->place != NOWHERE) {
        take_out_locked(f, piece);
        piece->ended_ns = stk__fetcher_stamp(f);
        end_piece_locked(f, piece, late ? STK_ETIMEDOUT : STK_ECANCELED);
    }
}

static void stop_late_in_locked(stk__fetcher *f, const stk__piece_list *list, uint64_t now)
{
    for (stk__piece *piece = list->first, *next; piece; piece = next) {
        const uint64_t deadline = piece->transfer->deadline_ns;
        next = piece->next;
        if (!deadline || piece->stop)
            continue;
        if (deadline <= now)
            stop_locked(f, piece, true);
        else
            f->nearest_ns = STK_MIN(f->nearest_ns, deadline);
    }
}

/* End what has passed its deadline. Lets the lock go. */
static void stop_late_locked(stk__fetcher *f, uint64_t now)
{
    f->nearest_ns = UINT64_MAX;
    for (stk__source *source = f->sources; source; source = source->next)
        stop_late_in_locked(f, &source->waiting, now);
    stop_late_in_locked(f, &f->retries, now);
    stop_late_in_locked(f, &f->under_way, now);
    ask_locked(f);
}

static void stop_list_locked(stk__fetcher *f, const stk__piece_list *list)
{
    for (stk__piece *piece = list->first, *next; piece; piece = next) {
        next = piece->next;
        stop_locked(f, piece, false);
    }
}

void stk__fetcher_stop(stk__fetcher *f, bool stop)
{
    pthread_mutex_lock(&f->mutex);
    f->stopped = stop;
    if (stop) {
        for (stk__source *source = f->sources; source; source = source->next)
            stop_list_locked(f, &source->waiting);
        stop_list_locked(f, &f->retries);
        stop_list_locked(f, &f->under_way);
        ask_locked(f);
        run_locked(f);
    }
    pthread_mutex_unlock(&f->mutex);
}

/* ---- Sending ---- */

/* The piece to be sent next, if any store has a slot. */
static stk__piece *next_locked(const stk__fetcher *f)
{
    stk__piece *best = NULL;

    for (stk__source *source = f->sources; source; source = source->next) {
        stk__piece *first = source->waiting.first;
        if (first && source->under_way < source->depth && (!best || precedes(first, best)))
            best = first;
    }
    return best;
}

/* What was waited for until now goes its way. Lets the lock go. */
static void look_at_clock_locked(stk__fetcher *f)
{
    if (!f->retries.first && f->nearest_ns == UINT64_MAX)
        return;
    const uint64_t now = stk__fetcher_now(f);
    for (stk__piece *piece; (piece = f->retries.first) && piece->due_ns <= now;) {
        take_out_locked(f, piece);
        stk__piece_wait_locked(f, piece);
    }
    if (f->nearest_ns <= now)
        stop_late_locked(f, now);
}

/* Lets the lock go. */
static void send_locked(stk__fetcher *f, stk__piece *piece)
{
    stk__source *source = piece->source;
    stk_store *store = source->store;

    take_out_locked(f, piece);
    insert_after(&f->under_way, f->under_way.last, piece);
    piece->place = UNDER_WAY;
    source->under_way++;
    f->stats.under_way++;
    f->stats.requests++;
    f->stats.request_bytes += piece->read.length;
    f->stats.bytes_under_way += piece->read.length;
    piece->bytes_before = f->stats.bytes_under_way;
    piece->sent_ns = stk__fetcher_now(f);
    if (piece->tries++ == 0)
        piece->first_ns = piece->sent_ns;
    piece->read.got = piece->read.length; /* a store that knows no `up_to` brings all */
    piece->read.system_error = 0;
    atomic_store_explicit(&piece->gate, HELD, memory_order_relaxed);
    pthread_mutex_unlock(&f->mutex);
    const stk_status status = store->ops->submit(store, &piece->read);
    if (status != STK_OK) {
        note_end(piece, status);
        atomic_store(&piece->gate, ENDED);
    }
    pthread_mutex_lock(&f->mutex);
    const bool stop = piece->stop;
    piece->transfer->at_once &=
        source->reads_now && atomic_load(&piece->gate) == ENDED && piece->outcome == STK_OK;
    let_go_locked(f, piece);
    if (stop)
        ask_locked(f);
}

static void hand_over_locked(stk__fetcher *f)
{
    stk__transfer *list = f->ended;

    f->ended = f->last_ended = NULL;
    f->num_ended = 0;
    pthread_mutex_unlock(&f->mutex);
    f->options.ended(f->options.user, list);
    pthread_mutex_lock(&f->mutex);
}

static uint64_t due_locked(const stk__fetcher *f)
{
    const uint64_t retry = f->retries.first ? f->retries.first->due_ns : UINT64_MAX;

    return STK_MIN(retry, f->nearest_ns);
}

/* Do all there is to do now. Lets the lock go. */
static void run_locked(stk__fetcher *f)
{
    f->inside++;
    for (;;) {
        look_at_clock_locked(f);
        stk__piece *piece = f->num_ended < HAND_OVER ? next_locked(f) : NULL;
        if (piece) {
            send_locked(f, piece);
        } else if (f->ended) {
            hand_over_locked(f);
        } else if (f->sooner) {
            const uint64_t due = due_locked(f);
            f->sooner = false;
            if (!f->options.sooner)
                continue;
            pthread_mutex_unlock(&f->mutex);
            f->options.sooner(f->options.user, due);
            pthread_mutex_lock(&f->mutex);
        } else {
            break;
        }
    }
    if (--f->inside == 0 && f->destroying)
        pthread_cond_signal(&f->left);
}

void stk__fetcher_pump(stk__fetcher *f)
{
    pthread_mutex_lock(&f->mutex);
    run_locked(f);
    pthread_mutex_unlock(&f->mutex);
}

uint64_t stk__fetcher_due(stk__fetcher *f)
{
    pthread_mutex_lock(&f->mutex);
    const uint64_t due = due_locked(f);
    pthread_mutex_unlock(&f->mutex);
    return due;
}
