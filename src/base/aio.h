/* descriptor, range -> bytes: asynchronous reads with two engines under one contract */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_AIO_H
#define STK_SRC_BASE_AIO_H

#include "base/base.h"

typedef struct stk__aio stk__aio;

/* One read. The caller keeps it and the buffer until done() has run. */
typedef struct stk__aio_read stk__aio_read;
struct stk__aio_read {
    int fd;
    void *data;
    uint64_t offset, length;
    uint64_t deadline_ns; /* monotonic; 0: none */
    /* Exactly once, on any thread, perhaps inside submit. STK_OK only with all `length` bytes; a
     * file that ends earlier is STK_ETRUNCATED. EINTR and short reads are continued. */
    void (*done)(stk__aio_read *read, stk_status status, int system_error);
    uint64_t got; /* the engine's own from here on */
    stk__aio_read *next, *prev;
    int state;
    int retries;
};

/*
 * Make an engine that keeps at most `depth` reads in the kernel; more wait in a queue in the order
 * of submission. AUTO tries io_uring and falls back to threads without a word but a debug line.
 * URING alone fails with STK_ENOTSUP where it is refused.
 */
stk_status stk__aio_create(stk_context *ctx, stk_io_engine engine, uint32_t depth, stk__aio **out,
                           stk_error *err);
/* Cancels what waits, waits for what is in the kernel, joins. Every done() has run when it returns.
 */
void stk__aio_destroy(stk__aio **aio);
/* Any thread; never waits for storage. On failure done() is not called. */
stk_status stk__aio_submit(stk__aio *aio, stk__aio_read *read);
/* Ask for an early done(STK_ECANCELED). A read that is past stopping completes. Any thread. */
void stk__aio_cancel(stk__aio *aio, stk__aio_read *read);

/* ---- Between aio.c and its engines ---- */

typedef struct stk__aio_ops {
    stk_io_engine engine;
    void (*destroy)(stk__aio *aio);
    stk_status (*submit)(stk__aio *aio, stk__aio_read *read);
    void (*cancel)(stk__aio *aio, stk__aio_read *read);
} stk__aio_ops;

/* Every engine begins with this. */
struct stk__aio {
    const stk__aio_ops *ops;
    stk_context *context;
};

/* Where a read is; kept in its `state` under the engine's mutex. */
enum {
    STK__AIO_IDLE, /* not the engine's: before submit, and from just before done() on */
    STK__AIO_QUEUED,
    STK__AIO_RUNNING,       /* in the kernel, or about to be */
    STK__AIO_STOP_CANCELED, /* running; ends with STK_ECANCELED unless it comes through first */
    STK__AIO_STOP_TIMEDOUT
};

#define STK__AIO_MAX_CALL                                                                          \
    (UINT64_C(1) << 30) /* bytes asked of the kernel at once: under its limit of 2 GiB - 4 KiB */

/* Reads in the order of arrival; linked both ways, so that any of them can leave. Guarded by the
 * engine's mutex. */
typedef struct stk__aio_list {
    stk__aio_read *head, *tail;
} stk__aio_list;

void stk__aio_push(stk__aio_list *list, stk__aio_read *read);
void stk__aio_unlink(stk__aio_list *list, stk__aio_read *read);
/* Move the reads of `list` whose deadline has passed to `out`; returns the nearest deadline left,
 * or UINT64_MAX. */
uint64_t stk__aio_expire(stk__aio_list *list, uint64_t now_ns, stk__aio_list *out);
/* Call done() of all reads of a list that no other thread sees; their state is IDLE already. No
 * lock may be held. */
void stk__aio_finish(stk__aio_list *list, stk_status status, int system_error);
/* The status of an errno; never good nor an answer. */
stk_status stk__aio_status(int system_error);

/* Threads that call pread() for what is queued: an engine by itself, and what another falls back
 * to.
 */
#define STK__AIO_MAX_WORKERS                                                                       \
    16 /* beyond this, more threads in the kernel do not make a local disk faster */

typedef struct stk__aio_pool {
    pthread_mutex_t mutex;  /* guards all below up to the threads, and the `state` of reads */
    pthread_cond_t work;    /* a read was queued, or the end */
    pthread_cond_t earlier; /* the nearest deadline moved forward, or the end */
    stk__aio_list queue;
    uint64_t nearest_ns; /* what the keeper sleeps until; no waiting read has an earlier deadline */
    bool stopping;
    uint32_t num_workers;
    stk__thread keeper, workers[STK__AIO_MAX_WORKERS];
} stk__aio_pool;

void stk__aio_pool_init(stk__aio_pool *pool);
/* Start the keeper of deadlines and up to `workers` threads. On failure some may be running: join.
 */
stk_status stk__aio_pool_start(stk_context *ctx, stk__aio_pool *pool, uint32_t workers,
                               stk_error *err);
/* Read what is queued until the end: what a worker does. */
void stk__aio_pool_work(void *pool);
void stk__aio_pool_push_locked(stk__aio_pool *pool, stk__aio_read *read);
/* From now on nothing is queued; what waits becomes `waiting`, to be ended with no lock held. */
void stk__aio_pool_stop_locked(stk__aio_pool *pool, stk__aio_list *waiting);
/* Join the threads, and take the pool down. */
void stk__aio_pool_end(stk__aio_pool *pool);

stk_status stk__aio_threads_create(stk_context *ctx, uint32_t depth, stk__aio **out,
                                   stk_error *err);
/* STK_ENOTSUP where the kernel refuses io_uring, or is too old for what is used of it. */
stk_status stk__aio_uring_create(stk_context *ctx, uint32_t depth, stk__aio **out, stk_error *err);

#endif
