/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous reads by io_uring. One thread, the reaper, alone touches the ring: it hands reads to
 * the kernel, many in one call, and reaps what has completed. Others put reads into a queue and
 * wake it through an eventfd that the ring itself reads. So no read belongs to a thread that may
 * end (the kernel stops the reads of a thread that exits), submitting never copies pages or waits,
 * and the ring needs no lock. A ring that the kernel refuses for good is given up: the reaper
 * becomes one of a pool of threads that read what is queued.
 */
#include <errno.h>
#include <liburing.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/aio.h"

#define MAX_RETRIES 3
#define LARGE_READ                                                                                 \
    (UINT64_C(1) << 20) /* copied by threads of the kernel instead of by the reaper */
#define TROUBLE_PAUSE UINT64_C(1000000) /* ns between tries of a ring the kernel keeps refusing */
#define TROUBLES      100               /* tries after which it is given up */

typedef struct uring_aio {
    stk__aio base;
    uint32_t depth;
    int wake_fd;
    stk__aio_pool pool;    /* its queue and mutex; its threads only once the ring is given up */
    stk__aio_list running; /* these, too, are guarded by the pool's mutex, up to `canceling` */
    uint32_t num_running;
    bool broken;        /* the kernel refuses the ring for good: threads read what is queued */
    bool asleep;        /* the reaper may be in the kernel and wake_fd is not written yet */
    bool canceling;     /* a running read has been told to stop and the kernel not yet */
    stk__thread reaper; /* the rest is the reaper's own */
    struct io_uring ring;
    uint64_t wake_value; /* what the armed read of wake_fd writes */
    bool wake_armed;
    uint32_t troubles; /* entries in a row that the kernel refused */
} uring_aio;

/* What ends during one turn of the reaper, to be told with no lock held. */
typedef struct outcome {
    stk__aio_list good, truncated, canceled, timed_out,
        failed; /* `retries` of `failed` holds the errno */
} outcome;

static void wake_locked(uring_aio *aio)
{
    uint64_t one = 1;

    if (!aio->asleep)
        return;
    aio->asleep = false;
    /* It fails only when the counter is full, and then the reaper is awake anyway. */
    ssize_t ignored = write(aio->wake_fd, &one, sizeof one);
    (void)ignored;
}

static void deliver(outcome *out)
{
    stk__aio_finish(&out->good, STK_OK, 0);
    stk__aio_finish(&out->truncated, STK_ETRUNCATED, 0);
    stk__aio_finish(&out->canceled, STK_ECANCELED, 0);
    stk__aio_finish(&out->timed_out, STK_ETIMEDOUT, 0);
    for (stk__aio_read *read = out->failed.head, *next; read; read = next) {
        int error = read->retries;
        next = read->next;
        read->done(read, stk__aio_status(error), error);
    }
    *out = (outcome){0};
}

static bool any(const outcome *out)
{
    return out->good.head || out->truncated.head || out->canceled.head || out->timed_out.head ||
           out->failed.head;
}

static void end_locked(uring_aio *aio, stk__aio_read *read, stk__aio_list *list)
{
    stk__aio_unlink(&aio->running, read);
    aio->num_running--;
    read->state = STK__AIO_IDLE;
    stk__aio_push(list, read);
}

static void end_stopped_locked(uring_aio *aio, stk__aio_read *read, outcome *out)
{
    end_locked(aio, read, read->state == STK__AIO_STOP_TIMEDOUT ? &out->timed_out : &out->canceled);
}

/* Hand what is left of a running read to the kernel. The ring has room for twice the depth: it
 * cannot be full. */
static bool prepare(uring_aio *aio, stk__aio_read *read)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&aio->ring);
    uint64_t left = read->length - read->got;

    if (!sqe)
        return false;
    io_uring_prep_read(sqe, read->fd, (char *)read->data + read->got,
                       (unsigned)STK_MIN(left, STK__AIO_MAX_CALL), read->offset + read->got);
    if (left >= LARGE_READ || read->retries)
        io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
    io_uring_sqe_set_data(sqe, read);
    return true;
}

static void start_locked(uring_aio *aio)
{
    while (aio->pool.queue.head && aio->num_running < aio->depth) {
        stk__aio_read *read = aio->pool.queue.head;
        if (!prepare(aio, read))
            return;
        stk__aio_unlink(&aio->pool.queue, read);
        read->state = STK__AIO_RUNNING;
        stk__aio_push(&aio->running, read);
        aio->num_running++;
    }
}

/* Asking twice, or too late, does no harm. Without room in the ring the next turn asks again. */
static void ask_kernel_to_stop(uring_aio *aio, stk__aio_read *read)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&aio->ring);

    if (!sqe) {
        aio->canceling = true;
        return;
    }
    io_uring_prep_cancel(sqe, read, 0);
    io_uring_sqe_set_data(sqe, NULL);
}

static void cancel_running_locked(uring_aio *aio)
{
    aio->canceling = false;
    for (stk__aio_read *read = aio->running.head; read; read = read->next) {
        if (aio->pool.stopping && read->state == STK__AIO_RUNNING)
            read->state = STK__AIO_STOP_CANCELED;
        if (read->state != STK__AIO_RUNNING)
            ask_kernel_to_stop(aio, read);
    }
}

static void expire_locked(uring_aio *aio, outcome *out)
{
    uint64_t now = stk__now_ns();

    if (now < aio->pool.nearest_ns)
        return;
    aio->pool.nearest_ns = stk__aio_expire(&aio->pool.queue, now, &out->timed_out);
    for (stk__aio_read *read = aio->running.head; read; read = read->next) {
        if (!read->deadline_ns || read->state != STK__AIO_RUNNING)
            continue;
        if (read->deadline_ns > now) {
            aio->pool.nearest_ns = STK_MIN(aio->pool.nearest_ns, read->deadline_ns);
            continue;
        }
        read->state = STK__AIO_STOP_TIMEDOUT;
        ask_kernel_to_stop(aio, read);
    }
}

/* Let threads read the rest of a read that the kernel does not have, or end it if it was told to
 * stop. */
static void hand_on_locked(uring_aio *aio, stk__aio_read *read, outcome *out)
{
    if (aio->pool.stopping && read->state == STK__AIO_RUNNING)
        read->state = STK__AIO_STOP_CANCELED;
    if (read->state != STK__AIO_RUNNING) {
        end_stopped_locked(aio, read, out);
        return;
    }
    stk__aio_unlink(&aio->running, read);
    aio->num_running--;
    stk__aio_pool_push_locked(&aio->pool, read);
}

static void complete_locked(uring_aio *aio, stk__aio_read *read, int result, outcome *out)
{
    bool again = result == -EINTR || result == -EAGAIN || result == -ECANCELED;

    if (result > 0)
        read->got += (uint64_t)result;
    if (read->got == read->length) {
        end_locked(aio, read, &out->good);
    } else if (result == 0) {
        end_locked(aio, read, &out->truncated);
    } else if (result > 0 || again) {
        if (read->state != STK__AIO_RUNNING || aio->broken) {
            hand_on_locked(aio, read, out);
            return;
        }
        /* A read that was not to stop was interrupted, or found the kernel short of something,
         * which may last: try again. */
        if ((result > 0 || result == -EINTR || read->retries++ < MAX_RETRIES) && prepare(aio, read))
            return;
        read->retries = again ? -result : EAGAIN;
        end_locked(aio, read, &out->failed);
    } else {
        read->retries = -result;
        end_locked(aio, read, &out->failed);
    }
}

static void reap_locked(uring_aio *aio, outcome *out)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    io_uring_for_each_cqe(&aio->ring, head, cqe)
    {
        void *data = io_uring_cqe_get_data(cqe);
        if (data == &aio->wake_value)
            aio->wake_armed = false;
        else if (data)
            complete_locked(aio, data, cqe->res, out);
        count++;
    }
    io_uring_cq_advance(&aio->ring, count);
}

static void arm_wake(uring_aio *aio)
{
    struct io_uring_sqe *sqe = aio->wake_armed ? NULL : io_uring_get_sqe(&aio->ring);

    if (!sqe)
        return;
    io_uring_prep_read(sqe, aio->wake_fd, &aio->wake_value, sizeof aio->wake_value, 0);
    io_uring_sqe_set_data(sqe, &aio->wake_value);
    aio->wake_armed = true;
}

/* Submit what is prepared and wait until something completes or a deadline passes. */
static void enter(uring_aio *aio, uint64_t until_ns)
{
    struct __kernel_timespec limit = {0, 0};
    struct io_uring_cqe *cqe = NULL;

    if (until_ns != UINT64_MAX) {
        uint64_t now = stk__now_ns();
        uint64_t left = until_ns > now ? until_ns - now : 0;
        limit.tv_sec = (long long)(left / 1000000000u);
        limit.tv_nsec = (long long)(left % 1000000000u);
    }
    int result = io_uring_submit_and_wait_timeout(&aio->ring, &cqe, 1,
                                                  until_ns == UINT64_MAX ? NULL : &limit, NULL);
    const bool trouble = result < 0 && result != -EINTR && result != -ETIME && result != -EBUSY;
    aio->troubles = trouble ? aio->troubles + 1 : 0;
    if (trouble && aio->troubles == TROUBLES)
        stk__message(aio->base.context, STK_MESSAGE_WARNING,
                     "io_uring is refused by the kernel from now on (%s): reading with threads",
                     strerrordesc_np(-result));
    if (trouble)
        stk__sleep_until(stk__now_ns() + TROUBLE_PAUSE, NULL);
}

/* Take back the reads that lie in the ring and that the kernel has not taken. */
static void take_back_locked(uring_aio *aio, outcome *out)
{
    const struct io_uring_sq *sq = &aio->ring.sq;

    for (unsigned at = io_uring_smp_load_acquire(sq->khead); at != sq->sqe_tail; at++) {
        const struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];
        stk__aio_read *read = (stk__aio_read *)(uintptr_t)sqe->user_data; /* NULL: a cancel */
        if (read && sqe->user_data != (uintptr_t)&aio->wake_value)
            hand_on_locked(aio, read, out);
    }
}

/*
 * The ring is given up. What the kernel has taken it still ends, and its buffers are the kernel's
 * until then: the ring's memory tells without a call. All else is read by threads, by this one
 * alone where no other can be started.
 */
static void go_on_with_threads(uring_aio *aio, outcome *out)
{
    pthread_mutex_lock(&aio->pool.mutex);
    aio->broken = true;
    take_back_locked(aio, out);
    pthread_mutex_unlock(&aio->pool.mutex);
    stk_status status = stk__aio_pool_start(aio->base.context, &aio->pool, aio->depth - 1, NULL);
    if (status != STK_OK)
        stk__message(aio->base.context, STK_MESSAGE_WARNING,
                     "%u threads could be started for reading",
                     (unsigned)aio->pool.num_workers + 1);
    for (;;) {
        pthread_mutex_lock(&aio->pool.mutex);
        reap_locked(aio, out);
        const bool all = aio->num_running == 0;
        pthread_mutex_unlock(&aio->pool.mutex);
        deliver(out);
        if (all)
            break;
        stk__sleep_until(stk__now_ns() + TROUBLE_PAUSE, NULL);
    }
    stk__aio_pool_work(&aio->pool);
}

static void reap(void *argument)
{
    uring_aio *aio = argument;
    outcome out = {0};

    pthread_mutex_lock(&aio->pool.mutex);
    while (aio->troubles < TROUBLES) {
        expire_locked(aio, &out);
        start_locked(aio);
        if (aio->canceling)
            cancel_running_locked(aio);
        if (!any(&out)) {
            if (aio->pool.stopping && aio->num_running == 0) {
                pthread_mutex_unlock(&aio->pool.mutex);
                return;
            }
            arm_wake(aio);
            aio->asleep = true;
            uint64_t until = aio->pool.nearest_ns;
            pthread_mutex_unlock(&aio->pool.mutex);
            enter(aio, until);
            pthread_mutex_lock(&aio->pool.mutex);
            aio->asleep = false;
            reap_locked(aio, &out);
        }
        if (any(&out)) {
            /* The kernel gets its next reads before done() is called, so that it never idles
             * meanwhile. */
            start_locked(aio);
            pthread_mutex_unlock(&aio->pool.mutex);
            if (io_uring_sq_ready(&aio->ring))
                io_uring_submit(&aio->ring);
            deliver(&out);
            pthread_mutex_lock(&aio->pool.mutex);
        }
    }
    pthread_mutex_unlock(&aio->pool.mutex);
    go_on_with_threads(aio, &out);
}

static stk_status uring_submit(stk__aio *base, stk__aio_read *read)
{
    uring_aio *aio = (uring_aio *)base;

    pthread_mutex_lock(&aio->pool.mutex);
    if (aio->pool.stopping) {
        pthread_mutex_unlock(&aio->pool.mutex);
        return STK_ECANCELED;
    }
    const bool earlier = read->deadline_ns && read->deadline_ns < aio->pool.nearest_ns;
    stk__aio_pool_push_locked(&aio->pool, read);
    if (earlier || aio->num_running < aio->depth)
        wake_locked(aio);
    pthread_mutex_unlock(&aio->pool.mutex);
    return STK_OK;
}

static void uring_cancel(stk__aio *base, stk__aio_read *read)
{
    uring_aio *aio = (uring_aio *)base;

    pthread_mutex_lock(&aio->pool.mutex);
    bool waited = read->state == STK__AIO_QUEUED;
    if (waited) {
        stk__aio_unlink(&aio->pool.queue, read);
        read->state = STK__AIO_IDLE;
    } else if (read->state == STK__AIO_RUNNING) {
        read->state = STK__AIO_STOP_CANCELED;
        aio->canceling = true;
        wake_locked(aio);
    }
    pthread_mutex_unlock(&aio->pool.mutex);
    if (waited)
        read->done(read, STK_ECANCELED, 0);
}

/* Rings that ended. The next one may lie where one of them lay: liburing gives its memory back past
 * the C library, so that nothing else shows ThreadSanitizer which of the two was first. */
static atomic_uint ends;

static void end_ring(struct io_uring *ring)
{
    atomic_fetch_add_explicit(&ends, 1, memory_order_release);
    io_uring_queue_exit(ring);
}

static void release(uring_aio *aio)
{
    if (aio->wake_fd >= 0)
        close(aio->wake_fd);
    stk__aio_pool_end(&aio->pool);
    stk__free(aio->base.context, aio);
}

static void uring_destroy(stk__aio *base)
{
    uring_aio *aio = (uring_aio *)base;
    stk__aio_list waiting;

    pthread_mutex_lock(&aio->pool.mutex);
    aio->canceling = true;
    stk__aio_pool_stop_locked(&aio->pool, &waiting);
    wake_locked(aio);
    pthread_mutex_unlock(&aio->pool.mutex);
    stk__aio_finish(&waiting, STK_ECANCELED, 0);
    stk__thread_join(&aio->reaper);
    end_ring(&aio->ring);
    release(aio);
}

static const stk__aio_ops uring_ops = {
    .engine = STK_IO_URING,
    .destroy = uring_destroy,
    .submit = uring_submit,
    .cancel = uring_cancel,
};

/* Set the ring up: 0 or -errno. Waiting with a time limit came with Linux 5.11, which has all else
 * that is used. */
static int set_up(uring_aio *aio)
{
    unsigned entries = 2 * aio->depth + 8; /* every read once, its cancel once, and the wake-up */
    int result = io_uring_queue_init(entries, &aio->ring, IORING_SETUP_COOP_TASKRUN);

    if (result == -EINVAL)
        result = io_uring_queue_init(entries, &aio->ring, 0);
    if (result < 0)
        return result;
    atomic_load_explicit(&ends, memory_order_acquire);
    if (aio->ring.features & IORING_FEAT_EXT_ARG)
        return 0;
    end_ring(&aio->ring);
    return -ENOSYS;
}

stk_status stk__aio_uring_create(stk_context *ctx, uint32_t depth, stk__aio **out, stk_error *err)
{
    uring_aio *aio = stk__calloc(ctx, 1, sizeof *aio);

    *out = NULL;
    if (!aio)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for the io_uring engine");
    aio->base.ops = &uring_ops;
    aio->base.context = ctx;
    aio->depth = depth;
    stk__aio_pool_init(&aio->pool);
    aio->wake_fd = eventfd(0, EFD_CLOEXEC);
    int error = aio->wake_fd < 0 ? -errno : set_up(aio);
    if (error) {
        const char *text = strerrordesc_np(-error);
        release(aio);
        return stk__fail(
            err, STK_ENOTSUP, STK_STAGE_STORE,
            "io_engine `uring`: the kernel refuses io_uring (%s); use `auto` or `threads`",
            text ? text : "unknown error");
    }
    stk_status status = stk__thread_start(ctx, &aio->reaper, "stk-uring", reap, aio, err);
    if (status != STK_OK) {
        end_ring(&aio->ring);
        release(aio);
        return status;
    }
    *out = &aio->base;
    return STK_OK;
}
