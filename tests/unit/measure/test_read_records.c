/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of samples, for predictions. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_sample),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
