/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of samples, for predictions, and of the steps of a rank. */
#include "support/support.h"

#include <math.h>

#include "measure/kept.h"

/* A task is told by its sum: where that is far beyond others', one of its samples was late. */
static void test_late_sample(void **state)
{
    stk_context *ctx = test_context();
    stk__recorded records = {0};
    uint64_t left = 1000;
    stk_error err;
    double sum = 0;

    (void)state;
    for (int task = 0; task < 8; task++)
        for (int i = 0; i < 4; i++)
            assert_ok(stk__recorded_prepare(ctx, &records,
                                            task == 5   ? 25e-3
                                            : task == 6 ? 3e-3
                                                        : 1e-3,
                                            4, &left),
                      &err);
    assert_ok(stk__recorded_prepare(ctx, &records, 80e-3, 1, &left), &err);
    stk__recorded_part(&records);
    for (uint64_t i = 0; i < records.num_prepare; i++) {
        const double wanted = i == 20 ? 97e-3 : i / 4 == 6 ? 3e-3 : i == 32 ? 80e-3 : 1e-3;
        assert_true(fabs((double)records.prepare[i] - wanted) < 1e-7);
        sum += (double)records.prepare[i];
    }
    assert_true(fabs(sum - (6 * 4e-3 + 100e-3 + 12e-3 + 80e-3)) < 1e-6);
    stk__recorded_release(ctx, &records, &left);
    assert_int_equal(left, 1000);
    stk__recorded_part(&records); /* of nothing */
    stk_context_destroy(&ctx);
}

/* Which steps are kept follows from their numbers alone. */
static void test_marks(void **state)
{
    stk_context *ctx = test_context();
    stk__marks all = {0}, late = {0};
    stk_error err;

    (void)state;
    for (int64_t epoch = 0; epoch < 40; epoch++)
        for (int64_t batch = 0; batch < 100; batch++) {
            const stk__mark mark = {.epoch = epoch, .batch = batch};
            assert_ok(stk__marks_add(ctx, &all, &mark), &err);
            if (epoch > 0)
                assert_ok(stk__marks_add(ctx, &late, &mark), &err);
        }
    assert_true(all.n > STK__MARKS_MAX / 4 && all.n <= STK__MARKS_MAX);
    /* A rank whose first epoch was lost keeps the same. */
    assert_int_equal(all.every, late.every);
    size_t skipped = 0;
    while (all.marks[skipped].epoch == 0)
        skipped++;
    assert_int_equal(all.n - skipped, late.n);
    for (size_t i = 0; i < late.n; i++) {
        assert_int_equal(all.marks[skipped + i].epoch, late.marks[i].epoch);
        assert_int_equal(all.marks[skipped + i].batch, late.marks[i].batch);
    }
    /* Of one number there are no more than fit. */
    for (int i = 0; i < 5000; i++)
        assert_ok(stk__marks_add(ctx, &all, &(stk__mark){0}), &err);
    assert_true(all.n <= STK__MARKS_MAX);
    stk__free(ctx, all.marks);
    stk__free(ctx, late.marks);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_sample),
        cmocka_unit_test(test_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
