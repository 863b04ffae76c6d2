/* SPDX-License-Identifier: Apache-2.0 */
/* Many settings predicted from one recording are each what it is when asked for alone. */
#include <string.h>

#include "support/support.h"

#include "measure/measure.h"

static void test_one_after_the_other(void **state)
{
    static const char *const asked[] = {NULL,
                                        "num_workers=4",
                                        "latency=20ms",
                                        "num_workers=4",
                                        "bandwidth=300kB/s",
                                        "train_step_time=20ms",
                                        "io_depth=16,prefetch_factor=4",
                                        NULL};
    stk_figures f = {.struct_size = sizeof f,
                     .steps = 100,
                     .samples = 1000,
                     .batch_size = 10,
                     .num_workers = 1,
                     .io_depth = 4,
                     .prefetch = 2,
                     .step_time = 2e-3,
                     .step_stretch = 1,
                     .samples_per_s = 390,
                     .wall = 1000 / 390.0,
                     .prepare_busy = 1,
                     .budget_bytes = UINT64_C(1) << 30,
                     .bytes_taken = 1000 * 1000,
                     .ranks = 1,
                     .requests = 1000,
                     .bytes_read = 1000 * 1000,
                     .read_latency = 10e-3,
                     .read_seconds = 10};
    const stk_recording recording = {.struct_size = sizeof recording, .figures = &f};
    stk_context *ctx = test_context();
    stk__predictor *predictor;
    stk_error err;

    (void)state;
    assert_ok(stk__predictor_create(ctx, &recording, &predictor, &err), &err);
    for (size_t i = 0; i < STK_COUNT(asked); i++) {
        stk_prediction alone = {.struct_size = sizeof alone}, among = alone;
        stk_what_if what;
        stk_what_if_init(&what);
        if (asked[i])
            assert_ok(stk_what_if_parse(ctx, asked[i], &what, &err), &err);
        const stk_what_if *is = asked[i] ? &what : NULL;
        assert_ok(stk_predict(ctx, &recording, is, &alone, &err), &err);
        assert_ok(stk__predictor_ask(predictor, is, &among, &err), &err);
        assert_true(alone.samples_per_s == among.samples_per_s && alone.low == among.low);
        assert_true(alone.peak_bytes == among.peak_bytes);
        assert_true(alone.wait.p95 == among.wait.p95 && alone.step_time == among.step_time);
    }
    stk__predictor_destroy(&predictor);
    assert_null(predictor);
    f.samples = 0;
    assert_int_equal(stk__predictor_create(ctx, &recording, &predictor, &err), STK_EINVAL);
    assert_null(predictor);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
