/* SPDX-License-Identifier: Apache-2.0 */
/* Many settings predicted from one recording are each what it is when asked for alone. */
#include <string.h>

#include "measure/measure.h"
#include "unit/measure/near.h"

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
    assert_ok(stk__predictor_create(ctx, &recording, false, &predictor, &err), &err);
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
    assert_int_equal(stk__predictor_create(ctx, &recording, false, &predictor, &err), STK_EINVAL);
    assert_null(predictor);
    stk_context_destroy(&ctx);
}

/* Chunks of 1,000 bytes that become 4,000 for four samples: ten samples a step, ten steps an epoch.
 * A worker takes 1 ms for a sample and 2 ms more to decode; it waits for nothing. */
static stk_figures decoding(void)
{
    return (stk_figures){.struct_size = sizeof(stk_figures),
                         .steps = 100,
                         .samples = 1000,
                         .batch_size = 10,
                         .num_workers = 1,
                         .io_depth = 64,
                         .prefetch = 2,
                         .step_time = 1e-6,
                         .step_stretch = 1,
                         .samples_per_s = 1 / 3e-3,
                         .wall = 3,
                         .prepare_busy = 1,
                         .prepare_wait_in = 1e-9,
                         .budget_bytes = UINT64_C(1) << 30,
                         .bytes_taken = 1000 * 100,
                         .ranks = 1,
                         .requests = 250,
                         .bytes_read = 250 * 1000,
                         .bytes_decoded = 250 * 4000,
                         .read_latency = 1e-3,
                         .read_seconds = 0.25};
}

static stk_prediction asked(stk_context *ctx, const stk_recording *recording, const char *text)
{
    stk_prediction out = {.struct_size = sizeof out};
    stk_what_if what;
    stk_error err;

    stk_what_if_init(&what);
    assert_ok(stk_what_if_parse(ctx, text, &what, &err), &err);
    assert_ok(stk_predict(ctx, recording, &what, &out, &err), &err);
    return out;
}

/* What was decoded is not decoded again, and takes four times the memory of what was read. */
static void test_decoded(void **state)
{
    static const char *const small[] = {"memory_budget=1999", "batch_size=6000000"};
    stk_figures f = decoding();
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .epoch_steps = 10};
    stk_context *ctx = test_context();
    stk_prediction out = {.struct_size = sizeof out};
    stk_what_if what;
    stk_error err;

    (void)state;
    assert_near(asked(ctx, &recording, "cache=none").samples_per_s, 1 / 3e-3, 0.02);
    assert_near(asked(ctx, &recording, "cache=encoded").samples_per_s, 1 / 3e-3, 0.02);
    const stk_prediction all = asked(ctx, &recording, "cache=decoded");
    assert_near(all.samples_per_s, 1 / 1e-3, 0.02);
    /* An epoch of 100 samples, of which four share 4,000 bytes. */
    assert_near(all.peak_bytes - asked(ctx, &recording, "cache=encoded").peak_bytes,
                100 * (4000 - 1000) / 4, 0.01);
    /* Half of it is kept: half of the budget, but for two batches. */
    assert_near(asked(ctx, &recording, "cache=decoded,memory_budget=104000").samples_per_s,
                1 / 2e-3, 0.05);
    /* Nothing is decoded for several samples: the bytes as read are what is kept. */
    f.bytes_decoded = 0;
    assert_near(asked(ctx, &recording, "cache=decoded").samples_per_s, 1 / 3e-3, 0.02);
    /* No worker has waited: that it decodes, eleven times as long as all else, shows in what it was
     * busy with. */
    float prepare[100];
    for (size_t i = 0; i < STK_COUNT(prepare); i++)
        prepare[i] = 0.25e-3f;
    stk_recording recorded = recording;
    recorded.prepare = prepare;
    recorded.num_prepare = STK_COUNT(prepare);
    f.bytes_decoded = 250 * 4000;
    f.prepare_busy = 3;
    f.prepare_wait_in = 0;
    assert_near(asked(ctx, &recorded, "cache=none").samples_per_s, 1 / 3e-3, 0.02);
    assert_near(asked(ctx, &recorded, "cache=decoded").samples_per_s, 1 / 0.25e-3, 0.02);
    /* Two batches of ten samples of 100 bytes: no loader begins with less. */
    for (size_t i = 0; i < STK_COUNT(small); i++) {
        stk_what_if_init(&what);
        assert_ok(stk_what_if_parse(ctx, small[i], &what, &err), &err);
        assert_int_equal(stk_predict(ctx, &recording, &what, &out, &err), STK_EINVAL);
        assert_non_null(strstr(err.text, "Raise memory_budget"));
    }
    assert_true(asked(ctx, &recording, "memory_budget=2000").samples_per_s > 0);
    stk_what_if_init(&what);
    assert_fails(stk_what_if_parse(ctx, "io_depth=1,cores=2,io_depth=1", &what, &err), STK_EINVAL,
                 &err, "'io_depth' is given twice");
    f.bytes_decoded = 0;
    f.requests = 0;
    assert_ok(stk_what_if_parse(ctx, "cache=decoded", &what, &err), &err);
    assert_int_equal(stk_predict(ctx, &recording, &what, &out, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "Run it with the cache"));
    stk_context_destroy(&ctx);
}

/* Two processes take 400 MiB beside their batches: 200 each. Without any one is left. */
static void test_processes(void **state)
{
    const double mib = 1024.0 * 1024.0;
    stk_figures f = decoding();
    stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .whole_batches = true};
    stk_context *ctx = test_context();

    (void)state;
    f.num_workers = 2;
    f.peak_bytes = 400 << 20;
    assert_near(asked(ctx, &recording, "num_workers=2").peak_bytes, 400 * mib, 0.01);
    assert_near(asked(ctx, &recording, "num_workers=8").peak_bytes, 1600 * mib, 0.01);
    assert_near(asked(ctx, &recording, "num_workers=0").peak_bytes, 200 * mib, 0.01);
    /* Threads share what there is. */
    recording.whole_batches = false;
    assert_near(asked(ctx, &recording, "num_workers=8").peak_bytes, 400 * mib, 0.01);
    stk_context_destroy(&ctx);
}

/* Ranks that go by themselves share cores, and no more: of four on two each has half of one. */
static void test_apart(void **state)
{
    stk_figures f = decoding();
    const stk_recording recording = {.struct_size = sizeof recording, .figures = &f};
    stk_context *ctx = test_context();
    stk_prediction out = {.struct_size = sizeof out};
    stk__predictor *predictor;
    stk_what_if what;
    stk_error err;

    (void)state;
    f.step_time = 10e-3;
    f.samples_per_s = 1000;
    f.prepare_busy = f.cpu_s = 1e-6 * (double)f.samples;
    f.bytes_decoded = f.requests = 0;
    f.wall = 1;
    f.usable_cores = 2;
    f.spin = true;
    f.compute_cores = 1;
    stk_what_if_init(&what);
    what.ranks = 4;
    for (int apart = 0; apart < 2; apart++) {
        assert_ok(stk__predictor_create(ctx, &recording, apart, &predictor, &err), &err);
        assert_ok(stk__predictor_ask(predictor, &what, &out, &err), &err);
        assert_near(out.samples_per_s, apart ? 500 : 500 / 1.35, 0.02);
        assert_near(out.base_samples_per_s, 1000, 0.02);
        stk__predictor_destroy(&predictor);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test(test_decoded),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_processes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
