/* SPDX-License-Identifier: Apache-2.0 */
/* A loader that ends, or goes elsewhere, while its reads wait in a store: each is canceled and
 * ended, none is left behind and none begins. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "loader/parts.h"
#include "unit/loader/run.h"

enum { HELD = 4096 };

/* "held://": reads that nobody ends but cancel(), or the test. */
static struct {
    pthread_mutex_t lock;
    stk_read *reads[HELD];
    size_t submitted, canceled, ended;
    bool past_stopping;  /* cancel() does nothing */
    sem_t *_Atomic lets; /* submit() waits for it before the read is known */
    sem_t submits, cancels;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void held_reset(bool past_stopping)
{
    memset(held.reads, 0, sizeof held.reads);
    held.submitted = held.canceled = held.ended = 0;
    held.past_stopping = past_stopping;
    sem_init(&held.submits, 0, 0);
    sem_init(&held.cancels, 0, 0);
}

static void held_wait(sem_t *what)
{
    while (sem_wait(what) != 0)
        ;
}

/* Take a read that nobody else ends then; NULL: it has ended, or there is none. */
static stk_read *held_take(const stk_read *wanted)
{
    stk_read *read = NULL;

    pthread_mutex_lock(&held.lock);
    for (size_t i = 0; i < held.submitted && !read; i++)
        if (held.reads[i] && (!wanted || held.reads[i] == wanted)) {
            read = held.reads[i];
            held.reads[i] = NULL;
            held.ended++;
        }
    pthread_mutex_unlock(&held.lock);
    return read;
}

static stk_status held_open(stk_context *ctx, const char *url, const void *options, stk_store **out,
                            stk_error *err)
{
    extern const stk_store_ops held_ops;

    (void)url;
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_store){.ops = &held_ops, .context = ctx};
    stk_error_init(err);
    return STK_OK;
}

static void held_close(stk_store *store)
{
    free(store);
}

static stk_status held_submit(stk_store *store, stk_read *read)
{
    sem_t *lets = held.lets;

    (void)store;
    sem_post(&held.submits);
    if (lets)
        held_wait(lets);
    pthread_mutex_lock(&held.lock);
    assert_true(held.submitted < HELD);
    held.reads[held.submitted++] = read;
    pthread_mutex_unlock(&held.lock);
    return STK_OK;
}

static void held_cancel(stk_store *store, stk_read *read)
{
    (void)store;
    pthread_mutex_lock(&held.lock);
    held.canceled++;
    pthread_mutex_unlock(&held.lock);
    if (!held.past_stopping && held_take(read))
        read->done(read, STK_ECANCELED);
    sem_post(&held.cancels);
}

static stk_status held_stat(stk_store *store, const char *key, const stk_store_call *call,
                            stk_object_info *out, stk_error *err)
{
    (void)store;
    (void)key;
    (void)out;
    stk_error_init(err);
    return STK_ENOENT;
}

/* Each range by itself. */
static void held_limits(stk_store *store, stk_store_limits *out)
{
    (void)store;
    out->coalesce_gap = 0;
    out->max_read = COUNTING_BYTES;
}

const stk_store_ops held_ops = {.struct_size = sizeof held_ops,
                                .name = "held",
                                .open = held_open,
                                .close = held_close,
                                .submit = held_submit,
                                .cancel = held_cancel,
                                .stat = held_stat,
                                .limits = held_limits};

/* ---- The tests ---- */

typedef struct fixture {
    stk_context *ctx;
    stk_dataset *dataset;
    stk_loader *loader;
    stk_memory_stats before;
} fixture;

/* A loader whose first reads are under way. */
static void begin(fixture *f, const char *url, int64_t workers, int64_t io_depth)
{
    stk_loader_options o = base_options();
    stk_error err;

    f->ctx = test_context();
    assert_ok(stk_driver_add(f->ctx, STK_DRIVER_STORE, &held_ops, &err), &err);
    const counting_options c = {.size = 2000, .url = url};
    /* What is in memory stays in the context. */
    f->dataset = counting_open(f->ctx, &c);
    stk_dataset_close(&f->dataset);
    f->before.struct_size = sizeof f->before;
    stk_context_memory(f->ctx, &f->before);
    f->dataset = counting_open(f->ctx, &c);
    o.num_workers = workers;
    o.io_depth = io_depth;
    o.retries = 5;
    f->loader = open_loader(f->dataset, &o);
    /* What is stuck for so long is left and would be missed below. */
    f->loader->abandon_ns = UINT64_C(20000000000);
}

/* Wait in vain for a batch: without workers it is this that begins to read. */
static void wait_in_vain(fixture *f, int64_t workers)
{
    stk_batch *batch;
    stk_error err;

    assert_int_equal(stk_loader_next(f->loader, workers ? 0 : 5, &batch, &err), STK_EAGAIN);
    held_wait(&held.submits);
}

static void end(fixture *f)
{
    stk_memory_stats after = {.struct_size = sizeof after};

    stk_loader_destroy(&f->loader);
    assert_null(f->loader);
    stk_dataset_close(&f->dataset);
    stk_context_memory(f->ctx, &after);
    assert_int_equal(after.bytes, f->before.bytes);
    stk_context_destroy(&f->ctx);
}

/* Reads that the store holds, and those that wait for a place among them. */
static void destroy_cancels_reads(void **state)
{
    for (int64_t workers = 0; workers < 4; workers++)
        for (int64_t depth = 1; depth <= 64; depth *= 8) {
            fixture f;
            held_reset(false);
            begin(&f, "held://counting", workers, depth);
            wait_in_vain(&f, workers);
            end(&f);
            assert_int_equal(held.ended, held.submitted);
            assert_true(held.canceled >= held.submitted);
            /* What a cancel makes room for is not sent. */
            assert_true(held.submitted <= (size_t)depth);
        }
}

/* Reads of a store of delays, an hour before they would end. */
static void destroy_in_a_slow_store(void **state)
{
    for (int64_t workers = 0; workers < 4; workers++) {
        fixture f;
        stk_batch *batch;
        stk_loader_stats stats = {.struct_size = sizeof stats};
        stk_error err;
        begin(&f, "slow+mem://counting?latency=3600s&order=random", workers, 16);
        do
            assert_int_equal(stk_loader_next(f.loader, 5, &batch, &err), STK_EAGAIN);
        while (stk_loader_get_stats(f.loader, &stats), stats.requests == 0);
        end(&f);
    }
}

/* Another epoch: reads of the one that is left have ended when it is begun. */
static void another_epoch_cancels_reads(void **state)
{
    for (int64_t workers = 0; workers < 3; workers++) {
        fixture f;
        stk_error err;
        held_reset(false);
        begin(&f, "held://counting", workers, 8);
        for (uint64_t epoch = 1; epoch < 4; epoch++) {
            wait_in_vain(&f, workers);
            pthread_mutex_lock(&held.lock);
            const size_t submitted = held.submitted;
            pthread_mutex_unlock(&held.lock);
            assert_ok(stk_loader_set_epoch(f.loader, epoch, &err), &err);
            pthread_mutex_lock(&held.lock);
            for (size_t i = 0; i < submitted; i++)
                assert_null(held.reads[i]);
            pthread_mutex_unlock(&held.lock);
        }
        end(&f);
        assert_int_equal(held.ended, held.submitted);
    }
}

static void soon(struct timespec *limit)
{
    clock_gettime(CLOCK_REALTIME, limit);
    limit->tv_nsec += 30000000;
    limit->tv_sec += limit->tv_nsec / 1000000000;
    limit->tv_nsec %= 1000000000;
}

static void *destroy(void *argument)
{
    stk_loader_destroy(argument);
    return NULL;
}

/* Reads that are past stopping write into the loader's memory until they end: it waits for them. */
static void destroy_waits_for_what_cannot_be_stopped(void **state)
{
    for (int64_t workers = 0; workers < 3; workers++) {
        fixture f;
        pthread_t destroyer;
        struct timespec limit;
        held_reset(true);
        begin(&f, "held://counting", workers, 4);
        wait_in_vain(&f, workers);
        assert_int_equal(pthread_create(&destroyer, NULL, destroy, &f.loader), 0);
        held_wait(&held.cancels);
        /* However long one looks: it cannot end before they do. */
        soon(&limit);
        assert_int_equal(pthread_timedjoin_np(destroyer, NULL, &limit), ETIMEDOUT);
        assert_int_equal(held.ended, 0);
        for (stk_read *read; (read = held_take(NULL));) {
            memset(read->data, 1, read->length);
            read->done(read, held.ended % 2 ? STK_OK : STK_EIO);
        }
        assert_int_equal(pthread_join(destroyer, NULL), 0);
        assert_int_equal(held.ended, held.submitted);
        end(&f);
    }
}

static void *end_one(void *argument)
{
    stk_read *read = argument;

    memset(read->data, 1, read->length);
    read->done(read, STK_OK);
    return NULL;
}

/* A read that is just being sent, by the thread that ended another: a cancel would find nothing
 * yet, so it has to come later. */
static void destroy_while_a_read_is_sent(void **state)
{
    for (int64_t workers = 0; workers < 3; workers++) {
        fixture f;
        sem_t lets;
        pthread_t sender, destroyer;
        struct timespec limit;
        held_reset(false);
        sem_init(&lets, 0, 0);
        begin(&f, "held://counting", workers, 1);
        wait_in_vain(&f, workers);
        stk_read *first;
        while (!(first = held_take(NULL)))
            ;
        held.lets = &lets;
        assert_int_equal(pthread_create(&sender, NULL, end_one, first), 0);
        held_wait(&held.submits);
        assert_int_equal(pthread_create(&destroyer, NULL, destroy, &f.loader), 0);
        /* However long one looks: nothing can be canceled before it is there. */
        soon(&limit);
        while (sem_timedwait(&held.cancels, &limit) != 0)
            if (errno == ETIMEDOUT)
                break;
        sem_post(&lets);
        assert_int_equal(pthread_join(sender, NULL), 0);
        assert_int_equal(pthread_join(destroyer, NULL), 0);
        held.lets = NULL;
        assert_int_equal(held.submitted, 2);
        assert_int_equal(held.ended, 2);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroy_cancels_reads),
        cmocka_unit_test(destroy_in_a_slow_store),
        cmocka_unit_test(another_epoch_cancels_reads),
        cmocka_unit_test(destroy_waits_for_what_cannot_be_stopped),
        cmocka_unit_test(destroy_while_a_read_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
