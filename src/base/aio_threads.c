/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous reads by a pool of threads that call pread(). One more thread, the keeper, sleeps
 * until the nearest deadline of a waiting read, so that reads fail in time also when every worker
 * is stuck in the kernel. A read in the kernel cannot be called back: it completes when the kernel
 * returns.
 */
#include <errno.h>
#include <unistd.h>

#include "base/aio.h"

typedef struct threads_aio {
    stk__aio base;
    stk__aio_pool pool;
} threads_aio;

/* Between two calls of the kernel: whether the read has been told to stop. */
static stk_status asked_to_stop(stk__aio_pool *pool, stk__aio_read *read)
{
    pthread_mutex_lock(&pool->mutex);
    bool canceled = read->state == STK__AIO_STOP_CANCELED || pool->stopping;
    pthread_mutex_unlock(&pool->mutex);
    if (canceled)
        return STK_ECANCELED;
    return read->deadline_ns && stk__now_ns() >= read->deadline_ns ? STK_ETIMEDOUT : STK_OK;
}

static stk_status read_all(stk__aio_pool *pool, stk__aio_read *read, int *system_error)
{
    while (read->got < read->length) {
        uint64_t want = STK_MIN(read->length - read->got, STK__AIO_MAX_CALL);
        ssize_t n = pread(read->fd, (char *)read->data + read->got, (size_t)want,
                          (off_t)(read->offset + read->got));
        if (n < 0 && errno != EINTR) {
            *system_error = errno;
            return stk__aio_status(errno);
        }
        if (n == 0)
            return STK_ETRUNCATED;
        if (n > 0)
            read->got += (uint64_t)n;
        if (read->got < read->length)
            STK_TRY(asked_to_stop(pool, read));
    }
    return STK_OK;
}

void stk__aio_pool_work(void *argument)
{
    stk__aio_pool *pool = argument;

    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (!pool->queue.head && !pool->stopping)
            pthread_cond_wait(&pool->work, &pool->mutex);
        stk__aio_read *read = pool->queue.head;
        if (!read)
            break;
        stk__aio_unlink(&pool->queue, read);
        read->state = STK__AIO_RUNNING;
        pthread_mutex_unlock(&pool->mutex);

        int system_error = 0;
        stk_status status = STK_ETIMEDOUT;
        if (!read->deadline_ns || stk__now_ns() < read->deadline_ns)
            status = read_all(pool, read, &system_error);

        pthread_mutex_lock(&pool->mutex);
        read->state = STK__AIO_IDLE;
        pthread_mutex_unlock(&pool->mutex);
        read->done(read, status, system_error);
        pthread_mutex_lock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

static void keep_deadlines(void *argument)
{
    stk__aio_pool *pool = argument;

    pthread_mutex_lock(&pool->mutex);
    while (!pool->stopping) {
        stk__aio_list expired = {NULL, NULL};
        if (pool->nearest_ns != UINT64_MAX)
            pool->nearest_ns = stk__aio_expire(&pool->queue, stk__now_ns(), &expired);
        if (expired.head) {
            pthread_mutex_unlock(&pool->mutex);
            stk__aio_finish(&expired, STK_ETIMEDOUT, 0);
            pthread_mutex_lock(&pool->mutex);
            continue;
        }
        stk__cond_wait_until(&pool->earlier, &pool->mutex, pool->nearest_ns);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void stk__aio_pool_init(stk__aio_pool *pool)
{
    pool->nearest_ns = UINT64_MAX;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    stk__cond_init(&pool->earlier);
}

stk_status stk__aio_pool_start(stk_context *ctx, stk__aio_pool *pool, uint32_t workers,
                               stk_error *err)
{
    const uint32_t wanted = STK_MIN(workers, STK__AIO_MAX_WORKERS);
    stk_status status =
        stk__thread_start(ctx, &pool->keeper, "stk-io-time", keep_deadlines, pool, err);

    while (status == STK_OK && pool->num_workers < wanted) {
        status = stk__thread_start(ctx, &pool->workers[pool->num_workers], "stk-io",
                                   stk__aio_pool_work, pool, err);
        pool->num_workers += status == STK_OK;
    }
    return status;
}

void stk__aio_pool_push_locked(stk__aio_pool *pool, stk__aio_read *read)
{
    read->state = STK__AIO_QUEUED;
    stk__aio_push(&pool->queue, read);
    if (read->deadline_ns && read->deadline_ns < pool->nearest_ns) {
        pool->nearest_ns = read->deadline_ns;
        pthread_cond_signal(&pool->earlier);
    }
    pthread_cond_signal(&pool->work);
}

void stk__aio_pool_stop_locked(stk__aio_pool *pool, stk__aio_list *waiting)
{
    pool->stopping = true;
    *waiting = pool->queue;
    pool->queue = (stk__aio_list){NULL, NULL};
    for (stk__aio_read *read = waiting->head; read; read = read->next)
        read->state = STK__AIO_IDLE;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->earlier);
}

void stk__aio_pool_end(stk__aio_pool *pool)
{
    for (uint32_t i = 0; i < pool->num_workers; i++)
        stk__thread_join(&pool->workers[i]);
    stk__thread_join(&pool->keeper);
    pthread_cond_destroy(&pool->earlier);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
}

/* ---- The engine ---- */

static stk_status threads_submit(stk__aio *base, stk__aio_read *read)
{
    stk__aio_pool *pool = &((threads_aio *)base)->pool;

    pthread_mutex_lock(&pool->mutex);
    const bool stopping = pool->stopping;
    if (!stopping)
        stk__aio_pool_push_locked(pool, read);
    pthread_mutex_unlock(&pool->mutex);
    return stopping ? STK_ECANCELED : STK_OK;
}

static void threads_cancel(stk__aio *base, stk__aio_read *read)
{
    stk__aio_pool *pool = &((threads_aio *)base)->pool;

    pthread_mutex_lock(&pool->mutex);
    bool waited = read->state == STK__AIO_QUEUED;
    if (waited) {
        stk__aio_unlink(&pool->queue, read);
        read->state = STK__AIO_IDLE;
    } else if (read->state == STK__AIO_RUNNING) {
        read->state = STK__AIO_STOP_CANCELED;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (waited)
        read->done(read, STK_ECANCELED, 0);
}

static void threads_destroy(stk__aio *base)
{
    stk__aio_pool *pool = &((threads_aio *)base)->pool;
    stk__aio_list waiting;

    pthread_mutex_lock(&pool->mutex);
    stk__aio_pool_stop_locked(pool, &waiting);
    pthread_mutex_unlock(&pool->mutex);
    stk__aio_finish(&waiting, STK_ECANCELED, 0);
    stk__aio_pool_end(pool);
    stk__free(base->context, base);
}

static const stk__aio_ops threads_ops = {
    .engine = STK_IO_THREADS,
    .destroy = threads_destroy,
    .submit = threads_submit,
    .cancel = threads_cancel,
};

stk_status stk__aio_threads_create(stk_context *ctx, uint32_t depth, stk__aio **out, stk_error *err)
{
    threads_aio *aio = stk__calloc(ctx, 1, sizeof *aio);

    *out = NULL;
    if (!aio)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE,
                         "no memory for the pool of reading threads");
    aio->base.ops = &threads_ops;
    aio->base.context = ctx;
    stk__aio_pool_init(&aio->pool);
    stk_status status = stk__aio_pool_start(ctx, &aio->pool, depth, err);
    if (status != STK_OK) {
        threads_destroy(&aio->base);
        return status;
    }
    *out = &aio->base;
    return STK_OK;
}
