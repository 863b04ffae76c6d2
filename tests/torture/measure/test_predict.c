/* SPDX-License-Identifier: Apache-2.0 */
/* Predicting while the n-th allocation fails, for every n until all succeed. */
#include <math.h>

#include "support/faults.h"
#include "support/support.h"

#define RECORDS 300

static stk_status predict_scale(stk_context *ctx, const stk_recording *recording, stk_error *err)
{
    stk_scaled out = {.struct_size = sizeof out};
    uint64_t ranks[STK_SCALE_RANKS];
    stk_what_if what;
    stk_scale scale;
    size_t n;

    stk_scale_init(&scale);
    stk_what_if_init(&what);
    stk_status status =
        stk_scale_parse(ctx, "ranks=6,per_machine=2", &scale, &what, ranks, &n, err);
    if (status == STK_OK)
        status = stk_predict_scale(ctx, recording, &what, &scale, &out, err);
    if (status == STK_OK)
        assert_true(out.samples_per_s > 0 && isfinite(out.samples_per_s));
    return status;
}

/* True when no allocation failed. */
static bool run(const stk_recording *recording, int64_t n, bool for_good, bool scaled)
{
    faults f = {n, for_good, 0};
    stk_prediction out = {.struct_size = sizeof out};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_what_if what;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_what_if_init(&what);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK && scaled)
        status = predict_scale(ctx, recording, &err);
    if (status == STK_OK)
        status = stk_what_if_parse(ctx, "num_workers=3,ranks=2", &what, &err);
    if (status == STK_OK)
        status = stk_predict(ctx, recording, &what, &out, &err);
    if (status == STK_OK)
        assert_true(out.samples_per_s > 0 && isfinite(out.samples_per_s));
    else if (status != STK_ENOMEM)
        fail_msg("allocation %lld: %s: %s", (long long)n, stk_status_name(status), err.text);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return f.left > 0 || (status == STK_OK && f.left == 0);
}

static void test_allocations(void **state)
{
    static float prepare[RECORDS];
    static stk_recorded_read reads[RECORDS];
    const stk_figures figures = {.struct_size = sizeof figures,
                                 .steps = 30,
                                 .samples = RECORDS,
                                 .batch_size = 10,
                                 .num_workers = 1,
                                 .io_depth = 4,
                                 .prefetch = 1,
                                 .step_time = 1e-3,
                                 .wall = 1,
                                 .requests = RECORDS,
                                 .read_latency = 2e-3,
                                 .read_seconds = 2e-3 * RECORDS,
                                 .prepare_busy = 1e-3 * RECORDS,
                                 .budget_bytes = 1 << 20,
                                 .chunk_seconds = 5e-4 * RECORDS,
                                 .chunks_needed = RECORDS,
                                 .chunks_decoded = RECORDS / 2,
                                 .bytes_decoded = 4096 * RECORDS / 2,
                                 .bytes_taken = 100 * RECORDS,
                                 .claims = {.slab = 1000,
                                            .step = 3000,
                                            .shared = 1 << 20,
                                            .mixed_blocks = 8,
                                            .mixed = 100,
                                            .samples = 3000,
                                            .streams = 1,
                                            .reads = true}};
    const stk_recording recording = {.struct_size = sizeof recording,
                                     .figures = &figures,
                                     .prepare = prepare,
                                     .num_prepare = RECORDS,
                                     .reads = reads,
                                     .num_reads = RECORDS};

    for (int i = 0; i < RECORDS; i++) {
        prepare[i] = 1e-3f;
        reads[i] = (stk_recorded_read){.start = i * 1e-3, .seconds = 2e-3f, .bytes = 1000};
    }
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!run(&recording, n, for_good, false))
            n++;
        assert_true(n > 20);
        /* The runs of the model are many, and alike. */
        for (n = 0; !run(&recording, n, for_good, true);)
            n += n < 100 ? 1 : 113;
        assert_true(n > 500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
