/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "support/support.h"

enum { ITEMS = 20000 };

static void try_and_close(void **state)
{
    stk_context *ctx = test_context();
    stk__queue *queue;
    int items[3];
    void *got;

    assert_int_equal(stk__queue_create(ctx, 0, &queue), STK_EINVAL);
    assert_int_equal(stk__queue_create(ctx, 2, &queue), STK_OK);
    assert_int_equal(stk__queue_get(queue, &got, 0), STK_EAGAIN);
    assert_int_equal(stk__queue_put(queue, &items[0], 0), STK_OK);
    assert_int_equal(stk__queue_put(queue, &items[1], 0), STK_OK);
    assert_int_equal(stk__queue_put(queue, &items[2], 0), STK_EAGAIN);
    assert_int_equal(stk__queue_put(queue, &items[2], stk__now_ns() + 1000), STK_EAGAIN);
    stk__queue_close(queue);
    assert_int_equal(stk__queue_put(queue, &items[2], UINT64_MAX), STK_ECANCELED);
    assert_int_equal(stk__queue_get(queue, &got, UINT64_MAX), STK_OK);
    assert_ptr_equal(got, &items[0]);
    assert_int_equal(stk__queue_get(queue, &got, UINT64_MAX), STK_OK);
    assert_int_equal(stk__queue_get(queue, &got, UINT64_MAX), STK_ECANCELED);
    stk__queue_destroy(&queue);
    stk__queue_destroy(&queue);
    stk_context_destroy(&ctx);
}

static void produce(void *argument)
{
    for (uintptr_t i = 1; i <= ITEMS; i++)
        if (stk__queue_put(argument, (void *)i, UINT64_MAX) != STK_OK)
            return;
}

static void nothing_is_lost_between_threads(void **state)
{
    stk_context *ctx = test_context();
    stk__thread threads[3] = {0};
    uint64_t sum = 0, expected = 3 * (uint64_t)ITEMS * (ITEMS + 1) / 2;
    stk__queue_stats stats;
    stk__queue *queue;

    assert_int_equal(stk__queue_create(ctx, 8, &queue), STK_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stk__thread_start(ctx, &threads[i], "producer", produce, queue, NULL),
                         STK_OK);
    for (int i = 0; i < 3 * ITEMS; i++) {
        void *item;
        assert_int_equal(stk__queue_get(queue, &item, UINT64_MAX), STK_OK);
        sum += (uintptr_t)item;
    }
    for (int i = 0; i < 3; i++)
        stk__thread_join(&threads[i]);
    assert_int_equal(sum, expected);
    stk__queue_get_stats(queue, &stats);
    assert_int_equal(stats.items, 3 * ITEMS);
    assert_in_range(stats.occupancy_sum, 3 * ITEMS, 8 * 3 * ITEMS);
    stk__queue_destroy(&queue);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(try_and_close),
        cmocka_unit_test(nothing_is_lost_between_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
