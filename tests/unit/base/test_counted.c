/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that are counted, and the threads that share them. */
#include "base/counted.h"
#include "support/faulty_threads.h"
#include "support/support.h"

#define MANY   (INT64_C(1) << 30)
#define PIECES 1000

typedef struct job {
    stk__counted pieces;
    atomic_uint taken[PIECES];
    atomic_uint callers, returned; /* threads */
} job;

static void work(void *user)
{
    job *j = user;
    uint64_t first, end;

    atomic_fetch_add(&j->callers, 1);
    while (stk__counted_take(&j->pieces, &first, &end))
        for (uint64_t i = first; i < end; i++)
            atomic_fetch_add(&j->taken[i], 1);
    atomic_fetch_add(&j->returned, 1);
}

/* In their order, whatever is taken at a time. */
static void test_order(void **state)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 7, 999, 1000};
    stk__counted pieces;
    uint64_t first, end;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(counts); i++)
        for (uint64_t at_a_time = 1; at_a_time <= 7; at_a_time += 3) {
            uint64_t next = 0;
            stk__counted_init(&pieces, counts[i], at_a_time);
            while (stk__counted_take(&pieces, &first, &end)) {
                assert_int_equal(first, next);
                assert_int_equal(end - first, STK_MIN(at_a_time, counts[i] - first));
                next = end;
            }
            assert_int_equal(next, counts[i]);
            assert_false(stk__counted_take(&pieces, &first, &end));
            assert_ok(stk__counted_end(&pieces, NULL), NULL);
        }
}

/* Threads that were started for `helpers`; those after the first `good` cannot be. */
static int64_t share(stk_context *ctx, uint64_t helpers, int64_t good)
{
    static job j;

    j = (job){.callers = 0};
    stk__counted_init(&j.pieces, PIECES, 3);
    thread_faults.left = good;
    thread_faults.for_good = true;
    stk__thread_share(ctx, "stk-test", helpers, work, &j);
    const int64_t tried = good - thread_faults.left;
    thread_faults.left = FAULTS_NONE;
    thread_faults.for_good = false;
    assert_ok(stk__counted_end(&j.pieces, NULL), NULL);
    assert_int_equal(j.returned, j.callers);
    for (size_t i = 0; i < PIECES; i++)
        assert_int_equal(j.taken[i], 1);
    assert_int_equal(j.callers, 1 + STK_MIN(tried, good));
    return tried;
}

static void test_threads(void **state)
{
    (void)state;
    stk_context *ctx = test_context();
    assert_int_equal(share(ctx, 0, MANY), 0);
    assert_int_equal(share(ctx, 1, MANY), 1);
    assert_int_equal(share(ctx, 15, MANY), 15);
    assert_int_equal(share(ctx, STK__MOST_HELPERS, MANY), STK__MOST_HELPERS);
    assert_int_equal(share(ctx, 1000, MANY), STK__MOST_HELPERS);
    share(ctx, 8, 0);
    share(ctx, 8, 3);
    stk_context_destroy(&ctx);
}

/* The failure of the first piece is kept, whichever comes first. */
static void test_failures(void **state)
{
    static const uint64_t orders[][3] = {{3, 5, 4}, {5, 3, 4}, {4, 5, 3}, {5, 4, 3}};
    stk__counted pieces;
    uint64_t first, end;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(orders); i++) {
        stk__counted_init(&pieces, PIECES, 1);
        assert_true(stk__counted_take(&pieces, &first, &end));
        for (size_t k = 0; k < 3; k++) {
            const stk_status status = orders[i][k] == 3 ? STK_EFORMAT : STK_EIO;
            stk__fail(&err, status, STK_STAGE_NONE, "piece %d", (int)orders[i][k]);
            stk__counted_fail(&pieces, orders[i][k], status, &err);
            assert_false(stk__counted_take(&pieces, &first, &end));
        }
        stk_error_init(&err);
        assert_int_equal(stk__counted_end(&pieces, &err), STK_EFORMAT);
        assert_int_equal(err.status, STK_EFORMAT);
        assert_string_equal(err.text, "piece 3");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
