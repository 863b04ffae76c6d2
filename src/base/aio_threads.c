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

#define MAX_WORKERS                                                                                \
    16 /* beyond this, more threads in the kernel do not make a local disk faster                  \
        */

typedef struct threads_aio {
    stk__aio base;
    pthread_mutex_t mutex;  /* guards all below up to the threads, and the `state` of reads */
    pthread_cond_t work;    /* a read was queued, or the end */
    pthread_cond_t earlier; /* the nearest deadline moved forward, or the end */
    stk__aio_list queue;
    uint64_t nearest_ns; /* what the keeper sleeps until; no waiting read has an earlier deadline */
    bool stopping;
    uint32_t num_workers;
    stk__thread keeper, workers[MAX_WORKERS];
} threads_aio;

/* Between two calls of the kernel: whether the read has been told to stop. */
static stk_status asked_to_stop(threads_aio *aio, stk__aio_read *read)
{
    pthread_mutex_lock(&aio->mutex);
    bool canceled = read->state == STK__AIO_STOP_CANCELED || aio->stopping;
    pthread_mutex_unlock(&aio->mutex);
    if (canceled)
        return STK_ECANCELED;
    return read->deadline_ns && stk__now_ns() >= read->deadline_ns ? STK_ETIMEDOUT : STK_OK;
}

static stk_status read_all(threads_aio *aio, stk__aio_read *read, int *system_error)
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
            STK_TRY(asked_to_stop(aio, read));
    }
    return STK_OK;
}

static void work(void *argument)
{
    threads_aio *aio = argument;

    pthread_mutex_lock(&aio->mutex);
    for (;;) {
        while (!aio->queue.head && !aio->stopping)
            pthread_cond_wait(&aio->work, &aio->mutex);
        stk__aio_read *read = aio->queue.head;
        if (!read)
            break;
        stk__aio_unlink(&aio->queue, read);
        read->state = STK__AIO_RUNNING;
        pthread_mutex_unlock(&aio->mutex);

        int system_error = 0;
        stk_status status = STK_ETIMEDOUT;
        if (!read->deadline_ns || stk__now_ns() < read->deadline_ns)
            status = read_all(aio, read, &system_error);

        pthread_mutex_lock(&aio->mutex);
        read->state = STK__AIO_IDLE;
        pthread_mutex_unlock(&aio->mutex);
        read->done(read, status, system_error);
        pthread_mutex_lock(&aio->mutex);
    }
    pthread_mutex_unlock(&aio->mutex);
}

static void keep_deadlines(void *argument)
{
    threads_aio *aio = argument;

    pthread_mutex_lock(&aio->mutex);
    while (!aio->stopping) {
        stk__aio_list expired = {NULL, NULL};
        if (aio->nearest_ns != UINT64_MAX)
            aio->nearest_ns = stk__aio_expire(&aio->queue, stk__now_ns(), &expired);
        if (expired.head) {
            pthread_mutex_unlock(&aio->mutex);
            stk__aio_finish(&expired, STK_ETIMEDOUT, 0);
            pthread_mutex_lock(&aio->mutex);
            continue;
        }
        stk__cond_wait_until(&aio->earlier, &aio->mutex, aio->nearest_ns);
    }
    pthread_mutex_unlock(&aio->mutex);
}

static stk_status threads_submit(stk__aio *base, stk__aio_read *read)
{
    threads_aio *aio = (threads_aio *)base;

    pthread_mutex_lock(&aio->mutex);
    if (aio->stopping) {
        pthread_mutex_unlock(&aio->mutex);
        return STK_ECANCELED;
    }
    read->state = STK__AIO_QUEUED;
    stk__aio_push(&aio->queue, read);
    bool earlier = read->deadline_ns && read->deadline_ns < aio->nearest_ns;
    if (earlier) {
        aio->nearest_ns = read->deadline_ns;
        pthread_cond_signal(&aio->earlier);
    }
    pthread_cond_signal(&aio->work);
    pthread_mutex_unlock(&aio->mutex);
    return STK_OK;
}

static void threads_cancel(stk__aio *base, stk__aio_read *read)
{
    threads_aio *aio = (threads_aio *)base;

    pthread_mutex_lock(&aio->mutex);
    bool waited = read->state == STK__AIO_QUEUED;
    if (waited) {
        stk__aio_unlink(&aio->queue, read);
        read->state = STK__AIO_IDLE;
    } else if (read->state == STK__AIO_RUNNING) {
        read->state = STK__AIO_STOP_CANCELED;
    }
    pthread_mutex_unlock(&aio->mutex);
    if (waited)
        read->done(read, STK_ECANCELED, 0);
}

static void threads_destroy(stk__aio *base)
{
    threads_aio *aio = (threads_aio *)base;
    stk_context *ctx = base->context;

    pthread_mutex_lock(&aio->mutex);
    aio->stopping = true;
    stk__aio_list waiting = aio->queue;
    aio->queue = (stk__aio_list){NULL, NULL};
    for (stk__aio_read *read = waiting.head; read; read = read->next)
        read->state = STK__AIO_IDLE;
    pthread_cond_broadcast(&aio->work);
    pthread_cond_broadcast(&aio->earlier);
    pthread_mutex_unlock(&aio->mutex);
    stk__aio_finish(&waiting, STK_ECANCELED, 0);
    for (uint32_t i = 0; i < aio->num_workers; i++)
        stk__thread_join(&aio->workers[i]);
    stk__thread_join(&aio->keeper);
    pthread_cond_destroy(&aio->earlier);
    pthread_cond_destroy(&aio->work);
    pthread_mutex_destroy(&aio->mutex);
    stk__free(ctx, aio);
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
    uint32_t wanted = STK_MIN(depth, MAX_WORKERS);

    *out = NULL;
    if (!aio)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE,
                         "no memory for the pool of reading threads");
    aio->base.ops = &threads_ops;
    aio->base.context = ctx;
    aio->nearest_ns = UINT64_MAX;
    pthread_mutex_init(&aio->mutex, NULL);
    pthread_cond_init(&aio->work, NULL);
    stk__cond_init(&aio->earlier);
    stk_status status =
        stk__thread_start(ctx, &aio->keeper, "stk-io-time", keep_deadlines, aio, err);
    while (status == STK_OK && aio->num_workers < wanted) {
        status = stk__thread_start(ctx, &aio->workers[aio->num_workers], "stk-io", work, aio, err);
        aio->num_workers += status == STK_OK;
    }
    if (status != STK_OK) {
        threads_destroy(&aio->base);
        return status;
    }
    *out = &aio->base;
    return STK_OK;
}
