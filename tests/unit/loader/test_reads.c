/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads alone, on a store whose answers are given by hand: the lock that ranges are called under,
 * which goes first, what is tried again, and what becomes of those that are stopped. What a fetcher
 * does is tests/unit/store/test_fetch.c's.
 */
#include "loader/reads.h"

#include "support/support.h"

enum { MOST = 16, PIECE = 8, TOO_LATE = 100 /* a read that is past stopping */ };

/* Keeps what was submitted until the test answers it. */
typedef struct script {
    stk_store head;
    stk_read *reads[MOST]; /* in order; NULL once answered */
    uint32_t submitted, canceled;
    stk_status refuse; /* of the next submit */
    bool at_once;      /* answered within submit */
} script;

static stk_status submit(stk_store *store, stk_read *read)
{
    script *s = (script *)store;

    assert_true(s->submitted < MOST);
    if (s->refuse != STK_OK) {
        const stk_status status = s->refuse;
        s->refuse = STK_OK;
        return status;
    }
    s->reads[s->submitted++] = read;
    if (s->at_once) {
        s->reads[s->submitted - 1] = NULL;
        read->done(read, STK_OK);
    }
    return STK_OK;
}

static void answer(script *s, uint32_t i, stk_status status)
{
    stk_read *read = s->reads[i];

    assert_non_null(read);
    s->reads[i] = NULL;
    read->done(read, status);
}

static void cancel(stk_store *store, stk_read *read)
{
    script *s = (script *)store;

    s->canceled++;
    for (uint32_t i = 0; i < s->submitted; i++)
        if (s->reads[i] == read)
            answer(s, i, read->offset == TOO_LATE ? STK_OK : STK_ECANCELED);
}

static void limits(stk_store *store, stk_store_limits *out)
{
    (void)store;
    *out = (stk_store_limits){.struct_size = sizeof *out, .max_read = PIECE, .io_depth = 2};
}

static const stk_store_ops ops = {.struct_size = sizeof ops,
                                  .name = "script",
                                  .submit = submit,
                                  .cancel = cancel,
                                  .limits = limits};

/* A range that notes its end, and may queue another then. */
typedef struct noted {
    stk__range range;
    struct bench *bench;
    uint32_t calls;
    stk_status status;
    struct noted *then;
} noted;

typedef struct bench {
    pthread_mutex_t lock;
    pthread_cond_t work;
    uint32_t sooner; /* so often reads became due earlier */
    stk__reads reads;
    script store;
} bench;

static void arrived(stk__range *range, stk_status status)
{
    noted *n = (noted *)range;

    assert_int_not_equal(pthread_mutex_trylock(&n->bench->lock), 0); /* it is held */
    n->calls++;
    n->status = status;
    if (n->then)
        stk__reads_queue_first_locked(&n->bench->reads, &n->then->range);
}

static void sooner(void *user)
{
    bench *b = user;

    assert_int_not_equal(pthread_mutex_trylock(&b->lock), 0); /* it is held */
    b->sooner++;
    pthread_cond_broadcast(&b->work);
}

static void setup(bench *b, uint32_t depth, uint32_t retries)
{
    *b = (bench){.store.head = {.ops = &ops, .context = test_context()}};
    pthread_mutex_init(&b->lock, NULL);
    stk__cond_init(&b->work);
    b->reads = (stk__reads){.lock = &b->lock, .sooner_locked = sooner, .user = b};
    assert_int_equal(stk__reads_init(&b->reads, b->store.head.context, depth, retries, 1), STK_OK);
}

static void teardown(bench *b)
{
    assert_true(stk__reads_idle_locked(&b->reads));
    stk__reads_destroy(&b->reads);
    pthread_mutex_destroy(&b->lock);
    stk_context_destroy(&b->store.head.context);
}

static noted range_of(bench *b, uint64_t offset, uint64_t length)
{
    static char data[MOST * PIECE];
    noted n = {.bench = b,
               .range = {.transfer = {.store = &b->store.head,
                                      .key = "key",
                                      .offset = offset,
                                      .length = length,
                                      .data = data},
                         .arrived_locked = arrived}};

    return n;
}

static void queue(bench *b, noted *n)
{
    pthread_mutex_lock(&b->lock);
    stk__reads_queue_locked(&b->reads, &n->range);
    pthread_mutex_unlock(&b->lock);
    stk__reads_pump(&b->reads);
}

/* No more than `depth` at once, also where the store takes fewer; the oldest first, but one that is
 * queued first before all, also by a range that arrives. */
static void test_depth_and_order(void **state)
{
    bench b;
    noted n[4], first, second;

    (void)state;
    setup(&b, 3, 0);
    for (uint32_t i = 0; i < 4; i++) {
        n[i] = range_of(&b, i * 100, i ? PIECE : 2 * PIECE);
        queue(&b, &n[i]);
    }
    assert_int_equal(b.store.submitted, 3);
    first = range_of(&b, 1000, PIECE);
    second = range_of(&b, 2000, PIECE);
    n[1].then = &second;
    pthread_mutex_lock(&b.lock);
    stk__reads_queue_first_locked(&b.reads, &first.range);
    pthread_mutex_unlock(&b.lock);
    stk__reads_pump(&b.reads);
    assert_int_equal(b.store.submitted, 3);
    answer(&b.store, 1, STK_OK);
    assert_int_equal(n[0].calls, 0);
    assert_int_equal(b.store.reads[3]->offset, 1000);
    answer(&b.store, 2, STK_OK);
    assert_int_equal(n[1].calls, 1);
    assert_int_equal(b.store.reads[4]->offset, 2000);
    answer(&b.store, 0, STK_OK);
    assert_int_equal(n[0].calls, 1);
    for (uint32_t i = 3; i < b.store.submitted; i++)
        answer(&b.store, i, STK_OK);
    assert_int_equal(b.store.submitted, 7);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(n[i].calls, 1);
    assert_int_equal(first.calls + second.calls, 2);
    assert_true(n[0].range.transfer.added_ns <= n[0].range.transfer.first_ns);
    assert_true(n[0].range.transfer.sent_ns <= n[0].range.transfer.ended_ns);
    teardown(&b);
}

/* What may pass is tried again when it is due: who sleeps on the lock knows when that is. */
static void test_retries(void **state)
{
    bench b;
    stk__read_figures figures;

    (void)state;
    setup(&b, 1, 2);
    noted often = range_of(&b, 0, PIECE), gone = range_of(&b, 200, PIECE);
    queue(&b, &often);
    assert_int_equal(b.reads.due_ns, UINT64_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(often.calls, 0);
        answer(&b.store, i, STK_EIO);
        assert_int_equal(b.sooner, STK_MIN(i + 1, 2u));
        pthread_mutex_lock(&b.lock);
        while (i < 2 && b.store.submitted == i + 1) {
            assert_int_not_equal(b.reads.due_ns, UINT64_MAX);
            stk__cond_wait_until(&b.work, &b.lock, b.reads.due_ns);
            assert_true(stk__reads_pump_due_locked(&b.reads));
        }
        assert_false(stk__reads_pump_due_locked(&b.reads));
        pthread_mutex_unlock(&b.lock);
    }
    assert_int_equal(often.calls, 1);
    assert_int_equal(often.status, STK_EIO);
    queue(&b, &gone);
    answer(&b.store, 3, STK_ENOENT);
    assert_int_equal(gone.calls, 1);
    assert_int_equal(gone.status, STK_ENOENT);
    stk__reads_figures(&b.reads, &figures);
    assert_int_equal(figures.requests, 4);
    assert_int_equal(figures.failures, 4);
    assert_int_equal(figures.request_bytes, 4 * PIECE);
    teardown(&b);
}

/* Stopped: each range is called, nothing is sent or tried again; and then it goes on. */
static void test_stop(void **state)
{
    bench b;

    (void)state;
    setup(&b, 2, 3);
    noted flying = range_of(&b, 0, PIECE), half = range_of(&b, TOO_LATE, 2 * PIECE),
          waits = range_of(&b, 200, PIECE), later = range_of(&b, 300, PIECE);
    queue(&b, &flying);
    queue(&b, &half);
    queue(&b, &waits);
    assert_int_equal(b.store.submitted, 2);
    assert_int_equal(stk__reads_in_flight(&b.reads), 2);
    pthread_mutex_lock(&b.lock);
    assert_false(stk__reads_wait_locked(&b.reads, 0));
    stk__reads_queue_locked(&b.reads, &later.range); /* the fetcher has not heard of it */
    pthread_mutex_unlock(&b.lock);
    stk__reads_stop(&b.reads, true);
    assert_int_equal(b.store.canceled, 2);
    assert_int_equal(b.store.submitted, 2);
    pthread_mutex_lock(&b.lock);
    assert_true(stk__reads_wait_locked(&b.reads, UINT64_MAX));
    pthread_mutex_unlock(&b.lock);
    const noted *all[] = {&flying, &half, &waits, &later};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(all[i]->calls, 1);
        assert_int_equal(all[i]->status, STK_ECANCELED);
    }
    queue(&b, &waits);
    assert_int_equal(waits.calls, 2);
    assert_int_equal(waits.status, STK_ECANCELED);
    stk__reads_stop(&b.reads, false);
    queue(&b, &waits);
    answer(&b.store, 2, STK_OK);
    assert_int_equal(waits.calls, 3);
    assert_int_equal(waits.status, STK_OK);
    teardown(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth_and_order),
        cmocka_unit_test(test_retries),
        cmocka_unit_test(test_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
