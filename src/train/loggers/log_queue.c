/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of records, each ready to be handed to a logger as it lies: a call copies its names and
 * values behind the last record and returns. The thread looks for work every TICK_NS, so that a
 * call wakes no thread; only a full block, a flush and the end do.
 */
#include "train/loggers/log_queue.h"

#include <stdio.h>

#define BLOCK_BYTES  (UINT64_C(64) << 10)
#define MAX_BYTES    (UINT64_C(64) << 20) /* of blocks that wait; then calls wait */
#define TICK_NS      UINT64_C(100000000)
#define FLUSH_NS     UINT64_C(2000000000)  /* how long a written line may stay in a logger */
#define IDLE_NS      UINT64_C(10000000000) /* between flushes while nothing is logged */
#define STUCK_NS     UINT64_C(60000000000)
#define TELL_NS      UINT64_C(10000000000) /* between words about a logger that is waited for */
#define SPARE_BLOCKS 4                     /* kept for the next lines */

/* One call. Its metrics or parameters follow, then their texts. */
typedef struct record {
    uint32_t bytes; /* of all of it, a multiple of 16 */
    uint32_t n;
    bool hyperparams;
    int64_t step;
    double wall_time;
} record;

typedef struct block block;
struct block {
    block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

struct stk__log_queue {
    stk_context *ctx;
    stk__thread thread;
    stk_logger **loggers;
    bool *broken; /* loggers that failed; the thread's */
    size_t num_loggers;
    atomic_int calling; /* number of the logger that is being called; -1: none */
    atomic_int how;     /* the task ended: a stk_status */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_work, done;
    block *first, *last; /* with records; the last one is being filled */
    block *spare;
    size_t num_spare;
    uint64_t bytes;         /* of the blocks that wait, and of the one that is being written */
    uint64_t made, written; /* blocks */
    uint64_t flushes_wanted, flushes_done;
    uint64_t flush_at;   /* blocks that must be written before the last flush that is wanted */
    uint64_t waited_ns;  /* of calls that have ended */
    uint64_t wait_since; /* when the call that waits for room began to; 0: none does */
    bool closing, ended;
    bool failed; /* `failure` was not told yet */
    stk_error failure;
};

/* ---- The thread ---- */

/* Leave a logger alone from now on. */
static void give_up(stk__log_queue *queue, size_t i, const stk_error *err)
{
    const char *name = queue->loggers[i]->ops->name;

    queue->broken[i] = true;
    stk__message(queue->ctx, STK_MESSAGE_ERROR, "logger '%s' failed and gets nothing more: %s",
                 name ? name : "", err->text);
    pthread_mutex_lock(&queue->lock);
    if (!queue->failed) {
        queue->failed = true;
        queue->failure = *err;
    }
    pthread_mutex_unlock(&queue->lock);
}

/* What is called where there is no line to write. */
static stk_status flush_logger(const stk__log_queue *queue, stk_logger *logger, bool finalize,
                               stk_error *err)
{
    const stk_logger_ops *ops = logger->ops;

    if (finalize && ops->struct_size >= offsetof(stk_logger_ops, ended) + sizeof ops->ended &&
        ops->ended)
        ops->ended(logger, (stk_status)atomic_load(&queue->how));
    if (finalize && ops->struct_size >= offsetof(stk_logger_ops, sync) && ops->finalize)
        return ops->finalize(logger, err);
    return ops->flush ? ops->flush(logger, err) : STK_OK;
}

static void call_logger(stk__log_queue *queue, size_t i, const record *r, bool finalize)
{
    stk_logger *logger = queue->loggers[i];
    const stk_logger_ops *ops = logger->ops;
    stk_status status = STK_OK;
    stk_error err;

    stk_error_init(&err);
    atomic_store_explicit(&queue->calling, (int)i, memory_order_relaxed);
    if (!r)
        status = flush_logger(queue, logger, finalize, &err);
    else if (!r->hyperparams)
        status = ops->log_metrics(logger, (const stk_metric *)(r + 1), r->n, r->step, r->wall_time,
                                  &err);
    else if (ops->log_hyperparams)
        status = ops->log_hyperparams(logger, (const stk_hparam *)(r + 1), r->n, &err);
    atomic_store_explicit(&queue->calling, -1, memory_order_relaxed);
    if (status != STK_OK)
        give_up(queue, i, &err);
}

/* `r` NULL: flush, or finalize. */
static void call_loggers(stk__log_queue *queue, const record *r, bool finalize)
{
    for (size_t i = 0; i < queue->num_loggers; i++)
        if (!queue->broken[i])
            call_logger(queue, i, r, finalize);
}

static void write_block(stk__log_queue *queue, const block *b)
{
    for (size_t at = 0; at < b->used;) {
        const record *r = (const record *)(b->bytes + at);
        call_loggers(queue, r, false);
        at += r->bytes;
    }
}

/* Give a block back. */
static void retire_locked(stk__log_queue *queue, block *b)
{
    queue->bytes -= b->size;
    if (b->size == BLOCK_BYTES && queue->num_spare < SPARE_BLOCKS) {
        b->next = queue->spare;
        queue->spare = b;
        queue->num_spare++;
    } else {
        stk__free(queue->ctx, b);
    }
}

/* Take the oldest block and write it. Returns with the lock held, as it was called. */
static void write_one_locked(stk__log_queue *queue)
{
    block *b = queue->first;

    queue->first = b->next;
    if (!queue->first)
        queue->last = NULL;
    pthread_mutex_unlock(&queue->lock);
    write_block(queue, b);
    pthread_mutex_lock(&queue->lock);
    queue->written++;
    retire_locked(queue, b);
    pthread_cond_broadcast(&queue->done);
}

/* A logger may hold back what it has written, as one that puts it elsewhere at intervals: it is
 * called also while nothing is logged. */
bool stk__log_queue_due(uint64_t dirty_since, uint64_t flushed_at, uint64_t now)
{
    return (dirty_since && now - dirty_since > FLUSH_NS) || now - flushed_at > IDLE_NS;
}

static void queue_run(void *argument)
{
    stk__log_queue *queue = argument;
    uint64_t dirty_since = 0; /* when the first line since the last flush was written; 0: none */
    uint64_t flushed_at = stk__now_ns();

    stk__thread_background();
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        uint64_t when = stk__now_ns() + TICK_NS;
        while (!queue->closing && queue->flushes_wanted == queue->flushes_done &&
               (!queue->first || !queue->first->next) &&
               stk__cond_wait_until(&queue->has_work, &queue->lock, when))
            continue;
        uint64_t flushes = queue->flushes_wanted, flush_at = queue->flush_at;
        bool closing = queue->closing;
        if (queue->first) {
            write_one_locked(queue);
            dirty_since = dirty_since ? dirty_since : stk__now_ns();
        }
        bool wanted = flushes != queue->flushes_done && queue->written >= flush_at;
        bool old = stk__log_queue_due(dirty_since, flushed_at, stk__now_ns());
        bool last = closing && !queue->first;
        if (wanted || old || (last && dirty_since)) {
            pthread_mutex_unlock(&queue->lock);
            call_loggers(queue, NULL, wanted);
            dirty_since = 0;
            flushed_at = stk__now_ns();
            pthread_mutex_lock(&queue->lock);
            if (wanted)
                queue->flushes_done = flushes;
            pthread_cond_broadcast(&queue->done);
        }
        if (last && !queue->first && queue->flushes_wanted == queue->flushes_done)
            break;
    }
    queue->ended = true;
    pthread_cond_broadcast(&queue->done);
    pthread_mutex_unlock(&queue->lock);
}

/* Wait for the thread to get on; say now and then who is waited for. */
static void wait_locked(stk__log_queue *queue)
{
    if (stk__cond_wait_until(&queue->done, &queue->lock, stk__now_ns() + TELL_NS))
        return;
    pthread_mutex_unlock(&queue->lock);
    int i = atomic_load_explicit(&queue->calling, memory_order_relaxed);
    stk__message(queue->ctx, STK_MESSAGE_WARNING, "still waiting for logger '%s' to write",
                 i >= 0 ? queue->loggers[i]->ops->name : "");
    pthread_mutex_lock(&queue->lock);
}

/* ---- The queue ---- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for what is to be logged");
}

static void queue_free(stk__log_queue *queue)
{
    for (block *b = queue->first; b; b = queue->first) {
        queue->first = b->next;
        stk__free(queue->ctx, b);
    }
    for (block *b = queue->spare; b; b = queue->spare) {
        queue->spare = b->next;
        stk__free(queue->ctx, b);
    }
    stk__free(queue->ctx, queue->loggers);
    stk__free(queue->ctx, queue->broken);
    stk__free(queue->ctx, queue);
}

stk_status stk__log_queue_create(stk_context *ctx, stk_logger *const *loggers, size_t n,
                                 stk__log_queue **out, stk_error *err)
{
    *out = NULL;
    stk__log_queue *queue = stk__calloc(ctx, 1, sizeof *queue);
    if (!queue)
        return no_memory(err);
    queue->ctx = ctx;
    atomic_init(&queue->calling, -1);
    pthread_mutex_init(&queue->lock, NULL);
    stk__cond_init(&queue->has_work);
    stk__cond_init(&queue->done);
    queue->loggers = stk__calloc(ctx, n + 1, sizeof(stk_logger *));
    queue->broken = stk__calloc(ctx, n + 1, sizeof *queue->broken);
    stk_status status = queue->loggers && queue->broken ? STK_OK : no_memory(err);
    for (size_t i = 0; i < n && status == STK_OK; i++)
        queue->loggers[i] = loggers[i];
    queue->num_loggers = n;
    if (status == STK_OK)
        status = stk__thread_start(ctx, &queue->thread, "stk-loggers", queue_run, queue, err);
    if (status != STK_OK) {
        queue_free(queue);
        return status;
    }
    *out = queue;
    return STK_OK;
}

void stk__log_queue_destroy(stk__log_queue **in_out)
{
    stk__log_queue *queue = *in_out;

    *in_out = NULL;
    if (!queue)
        return;
    /* In a child of a fork the thread and the files of the loggers are the parent's. */
    if (!stk__context_forked(queue->ctx)) {
        pthread_mutex_lock(&queue->lock);
        queue->closing = true;
        pthread_cond_signal(&queue->has_work);
        while (!queue->ended)
            wait_locked(queue);
        pthread_mutex_unlock(&queue->lock);
        stk__thread_join(&queue->thread);
        for (size_t i = 0; i < queue->num_loggers; i++)
            queue->loggers[i]->ops->close(queue->loggers[i]);
        pthread_cond_destroy(&queue->done);
        pthread_cond_destroy(&queue->has_work);
        pthread_mutex_destroy(&queue->lock);
    }
    queue_free(queue);
}

/* ---- Calls ---- */

/* Until the blocks that wait leave room for one of `size`, or the thread gets nowhere. */
static stk_status await_room_locked(stk__log_queue *queue, uint64_t size, stk_error *err)
{
    uint64_t progress = queue->written, since = stk__now_ns();

    while (queue->bytes && queue->bytes + size > MAX_BYTES) {
        pthread_cond_signal(&queue->has_work);
        stk__cond_wait_until(&queue->done, &queue->lock, stk__now_ns() + STUCK_NS / 10);
        uint64_t now = stk__now_ns();
        if (queue->written != progress) {
            progress = queue->written;
            since = now;
        } else if (now - since >= STUCK_NS) {
            int i = atomic_load_explicit(&queue->calling, memory_order_relaxed);
            return stk__fail(err, STK_ETIMEDOUT, STK_STAGE_TRAIN,
                             "logger '%s' has been stuck for a minute and %llu MiB wait for it: "
                             "log less, or to another disk",
                             i >= 0 ? queue->loggers[i]->ops->name : "",
                             (unsigned long long)(queue->bytes >> 20));
        }
    }
    return STK_OK;
}

static stk_status wait_for_room_locked(stk__log_queue *queue, uint64_t size, stk_error *err)
{
    uint64_t start = stk__now_ns();
    bool first = queue->wait_since == 0;

    if (first)
        queue->wait_since = start;
    stk_status status = await_room_locked(queue, size, err);
    if (first) {
        queue->waited_ns += stk__now_ns() - start;
        queue->wait_since = 0;
    }
    return status;
}

/* A block with room for `bytes` at the end of the list. */
static stk_status add_block_locked(stk__log_queue *queue, uint64_t bytes, stk_error *err)
{
    uint64_t size = STK_MAX(bytes, BLOCK_BYTES);

    if (queue->bytes && queue->bytes + size > MAX_BYTES)
        STK_TRY(wait_for_room_locked(queue, size, err));
    block *b = size == BLOCK_BYTES ? queue->spare : NULL;
    if (b) {
        queue->spare = b->next;
        queue->num_spare--;
    } else {
        b = stk__alloc(queue->ctx, sizeof *b + size);
        if (!b)
            return no_memory(err);
    }
    b->next = NULL;
    b->used = 0;
    b->size = size;
    if (queue->last) {
        queue->last->next = b;
        pthread_cond_signal(&queue->has_work);
    } else {
        queue->first = b;
    }
    queue->last = b;
    queue->made++;
    queue->bytes += size;
    return STK_OK;
}

/* Room for a record at the end; it is `bytes` long. */
static stk_status reserve_locked(stk__log_queue *queue, uint64_t bytes, record **out,
                                 stk_error *err)
{
    if (!queue->last || queue->last->size - queue->last->used < bytes)
        STK_TRY(add_block_locked(queue, bytes, err));
    *out = (record *)(queue->last->bytes + queue->last->used);
    queue->last->used += bytes;
    return STK_OK;
}

/* Bytes of a record, or 0 when it is larger than all that may wait. */
static uint64_t record_bytes(size_t n, size_t each, uint64_t texts)
{
    uint64_t bytes;

    if (!stk__mul_size(n, each, &bytes) || !stk__add_size(bytes, texts, &bytes) ||
        bytes > MAX_BYTES / 2)
        return 0;
    return stk__round_up(sizeof(record) + bytes, 16);
}

static stk_status too_much(size_t n, stk_error *err)
{
    return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                     "%zu values logged at once are too many: %llu MiB are the most", n,
                     (unsigned long long)(MAX_BYTES >> 21));
}

stk_status stk__log_queue_metrics(stk__log_queue *queue, const stk_metric *metrics, size_t n,
                                  int64_t step, stk_error *err)
{
    double wall = stk__wall_seconds();
    uint64_t texts = 0;
    record *r;

    STK_TRY(stk__context_check(queue->ctx, err));
    for (size_t i = 0; i < n; i++)
        texts += strlen(metrics[i].name) + 1;
    uint64_t bytes = record_bytes(n, sizeof *metrics, texts);
    if (bytes == 0)
        return too_much(n, err);
    pthread_mutex_lock(&queue->lock);
    stk_status status = reserve_locked(queue, bytes, &r, err);
    if (status == STK_OK) {
        r->bytes = (uint32_t)bytes;
        r->n = (uint32_t)n;
        r->hyperparams = false;
        r->step = step;
        r->wall_time = wall;
        stk_metric *kept = (stk_metric *)(r + 1);
        char *to = (char *)(kept + n);
        for (size_t i = 0; i < n; i++) {
            kept[i] = (stk_metric){to, metrics[i].value};
            to = stpcpy(to, metrics[i].name) + 1;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

stk_status stk__log_queue_hyperparams(stk__log_queue *queue, const stk_hparam *params, size_t n,
                                      stk_error *err)
{
    uint64_t texts = 0;
    record *r;

    STK_TRY(stk__context_check(queue->ctx, err));
    for (size_t i = 0; i < n; i++)
        texts += strlen(params[i].name) + strlen(params[i].value) + 2;
    uint64_t bytes = record_bytes(n, sizeof *params, texts);
    if (bytes == 0)
        return too_much(n, err);
    pthread_mutex_lock(&queue->lock);
    stk_status status = reserve_locked(queue, bytes, &r, err);
    if (status == STK_OK) {
        r->bytes = (uint32_t)bytes;
        r->n = (uint32_t)n;
        r->hyperparams = true;
        stk_hparam *kept = (stk_hparam *)(r + 1);
        char *to = (char *)(kept + n);
        for (size_t i = 0; i < n; i++) {
            char *value = stpcpy(to, params[i].name) + 1;
            kept[i] = (stk_hparam){to, value};
            to = stpcpy(value, params[i].value) + 1;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

void stk__log_queue_ended(stk__log_queue *queue, stk_status how)
{
    atomic_store(&queue->how, (int)how);
}

stk_status stk__log_queue_flush(stk__log_queue *queue, stk_error *err)
{
    stk_status status = STK_OK;

    STK_TRY(stk__context_check(queue->ctx, err));
    pthread_mutex_lock(&queue->lock);
    uint64_t wanted = ++queue->flushes_wanted;
    queue->flush_at = queue->made;
    pthread_cond_signal(&queue->has_work);
    while (queue->flushes_done < wanted)
        wait_locked(queue);
    if (queue->failed) {
        queue->failed = false;
        if (err)
            *err = queue->failure;
        status = queue->failure.status;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

uint64_t stk__log_queue_waited_ns(const stk__log_queue *queue)
{
    stk__log_queue *q = (stk__log_queue *)queue; /* the lock alone is written */

    pthread_mutex_lock(&q->lock);
    uint64_t waited = q->waited_ns + (q->wait_since ? stk__now_ns() - q->wait_since : 0);
    pthread_mutex_unlock(&q->lock);
    return waited;
}
