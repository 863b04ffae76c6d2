/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads alone, on a store whose answers are given by hand: how many are under way, which goes
 * first, what is tried again, and what becomes of those that are stopped.
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

/* A range that notes its end. */
typedef struct noted {
    stk__range range;
    uint32_t calls;
    stk_status status;
} noted;

static void arrived(stk__range *range, stk_status status)
{
    noted *n = (noted *)range;

    n->calls++;
    n->status = status;
}

typedef struct bench {
    pthread_mutex_t lock;
    stk__reads reads;
    script store;
} bench;

static void setup(bench *b, uint32_t depth, uint32_t retries)
{
    *b = (bench){.store.head = {.ops = &ops, .context = test_context()}};
    pthread_mutex_init(&b->lock, NULL);
    stk__reads_init(&b->reads, test_context(), &b->lock, depth, retries);
}

static void teardown(bench *b)
{
    assert_true(stk__reads_idle_locked(&b->reads));
    stk__reads_destroy(&b->reads);
    pthread_mutex_destroy(&b->lock);
}

static noted range_of(bench *b, uint64_t offset, uint64_t length)
{
    static char data[MOST * PIECE];
    noted n = {.range = {.store = &b->store.head,
                         .key = "key",
                         .offset = offset,
                         .length = length,
                         .data = data,
                         .arrived_locked = arrived}};

    return n;
}

static void queue(bench *b, noted *n)
{
    assert_int_equal(stk__reads_prepare(&b->reads, &n->range), STK_OK);
    pthread_mutex_lock(&b->lock);
    stk__reads_queue_locked(&b->reads, &n->range);
    pthread_mutex_unlock(&b->lock);
    stk__reads_pump(&b->reads);
}

/* A range longer than the store takes is read in pieces, each to its place, and called once. */
static void test_pieces(void **state)
{
    bench b;

    (void)state;
    setup(&b, 8, 0);
    noted n = range_of(&b, 100, 2 * PIECE + 3);
    queue(&b, &n);
    assert_int_equal(b.store.submitted, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const stk_read *read = b.store.reads[i];
        assert_int_equal(read->offset, 100 + i * PIECE);
        assert_int_equal(read->length, i < 2 ? PIECE : 3);
        assert_ptr_equal(read->data, n.range.data + i * PIECE);
    }
    answer(&b.store, 2, STK_OK);
    answer(&b.store, 0, STK_OK);
    assert_int_equal(n.calls, 0);
    answer(&b.store, 1, STK_OK);
    assert_int_equal(n.calls, 1);
    assert_int_equal(n.status, STK_OK);
    assert_true(n.range.times.queued_ns <= n.range.times.first_ns);
    assert_true(n.range.times.sent_ns <= n.range.times.arrived_ns);
    teardown(&b);
}

/* No more than `depth` at once; the oldest first, but one that is queued first before all. */
static void test_depth_and_order(void **state)
{
    bench b;
    noted n[4], first;

    (void)state;
    setup(&b, 2, 0);
    for (uint32_t i = 0; i < 4; i++) {
        n[i] = range_of(&b, i * 100, PIECE);
        queue(&b, &n[i]);
    }
    assert_int_equal(b.store.submitted, 2);
    first = range_of(&b, 1000, PIECE);
    pthread_mutex_lock(&b.lock);
    assert_true(stk__reads_queue_first_locked(&b.reads, &first.range));
    pthread_mutex_unlock(&b.lock);
    stk__reads_pump(&b.reads);
    assert_int_equal(b.store.submitted, 2);
    answer(&b.store, 1, STK_OK);
    assert_int_equal(n[1].calls, 1);
    assert_int_equal(b.store.submitted, 3);
    assert_int_equal(b.store.reads[2]->offset, 1000);
    answer(&b.store, 0, STK_OK);
    answer(&b.store, 2, STK_OK);
    assert_int_equal(b.store.reads[3]->offset, 200);
    assert_int_equal(b.store.reads[4]->offset, 300);
    answer(&b.store, 3, STK_OK);
    answer(&b.store, 4, STK_OK);
    assert_int_equal(first.calls, 1);
    teardown(&b);
}

/* What may pass is tried again, before what waits and so often; what is for good is not. */
static void test_retries(void **state)
{
    bench b;
    stk__read_figures figures;

    (void)state;
    setup(&b, 1, 2);
    noted often = range_of(&b, 0, PIECE), good = range_of(&b, 100, PIECE),
          gone = range_of(&b, 200, 2 * PIECE);
    queue(&b, &often);
    queue(&b, &good);
    queue(&b, &gone);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(b.store.reads[i]->offset, 0);
        assert_int_equal(often.calls, 0);
        answer(&b.store, i, STK_EIO);
    }
    assert_int_equal(often.calls, 1);
    assert_int_equal(often.status, STK_EIO);
    assert_true(often.range.times.first_ns <= often.range.times.sent_ns);
    answer(&b.store, 3, STK_EIO);
    answer(&b.store, 4, STK_OK);
    assert_int_equal(good.calls, 1);
    assert_int_equal(good.status, STK_OK);
    /* Of several pieces the first failure counts. */
    answer(&b.store, 5, STK_ENOENT);
    assert_int_equal(gone.calls, 0);
    answer(&b.store, 6, STK_ETRUNCATED);
    assert_int_equal(gone.calls, 1);
    assert_int_equal(gone.status, STK_ENOENT);
    stk__reads_figures_locked(&b.reads, &figures);
    assert_int_equal(figures.requests, 7);
    assert_int_equal(figures.failures, 6);
    assert_int_equal(figures.request_bytes, 7 * PIECE);
    teardown(&b);
}

/* A store that answers within submit(), and one that refuses it. */
static void test_submit(void **state)
{
    bench b;

    (void)state;
    setup(&b, 1, 1);
    b.store.at_once = true;
    noted n = range_of(&b, 0, 4 * PIECE), refused = range_of(&b, 0, PIECE);
    queue(&b, &n);
    assert_int_equal(n.calls, 1);
    assert_int_equal(b.store.submitted, 4);
    b.store.refuse = STK_EIO; /* once: the second try is taken */
    queue(&b, &refused);
    assert_int_equal(refused.calls, 1);
    assert_int_equal(refused.status, STK_OK);
    b.store.refuse = STK_ELIMIT;
    refused.calls = 0;
    queue(&b, &refused);
    assert_int_equal(refused.calls, 1);
    assert_int_equal(refused.status, STK_ELIMIT);
    teardown(&b);
}

/* Stopped: what waits is dropped, what is in flight is asked to end, nothing is sent or tried
 * again. */
static void test_stop(void **state)
{
    bench b;

    (void)state;
    setup(&b, 2, 3);
    noted flying = range_of(&b, 0, PIECE), half = range_of(&b, TOO_LATE, 2 * PIECE),
          waits = range_of(&b, 200, PIECE);
    queue(&b, &flying);
    queue(&b, &half);
    queue(&b, &waits);
    assert_int_equal(b.store.submitted, 2);
    pthread_mutex_lock(&b.lock);
    stk__reads_stop_locked(&b.reads, true);
    assert_true(stk__reads_wait_sent_locked(&b.reads, 0));
    assert_int_equal(stk__reads_in_flight_locked(&b.reads), 2);
    assert_false(stk__reads_wait_locked(&b.reads, 0));
    pthread_mutex_unlock(&b.lock);
    stk__reads_cancel(&b.reads);
    assert_int_equal(b.store.canceled, 2);
    assert_int_equal(b.store.submitted, 2);
    assert_int_equal(flying.calls, 1);
    assert_int_equal(flying.status, STK_ECANCELED);
    assert_int_equal(half.calls, 1); /* of which a piece was never sent */
    assert_int_equal(half.status, STK_ECANCELED);
    assert_int_equal(waits.calls, 0);
    pthread_mutex_lock(&b.lock);
    assert_true(stk__reads_wait_locked(&b.reads, UINT64_MAX));
    stk__reads_stop_locked(&b.reads, false);
    pthread_mutex_unlock(&b.lock);
    queue(&b, &waits);
    answer(&b.store, 2, STK_OK);
    assert_int_equal(waits.calls, 1);
    teardown(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),  cmocka_unit_test(test_depth_and_order),
        cmocka_unit_test(test_retries), cmocka_unit_test(test_submit),
        cmocka_unit_test(test_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
