/* SPDX-License-Identifier: Apache-2.0 */
/* A plan, a run and a meter while the n-th allocation fails, for every n until all succeed. */
#include <stdio.h>
#include <string.h>

#include <stoker/bench.h>

#include "support/faults.h"
#include "support/support.h"

static const char yaml[] = "dataset: 'digits:?size=16'\n"
                           "loader: {batch_size: 8, num_workers: [0, 1]}\n"
                           "bench: {ceiling: true}\n";

static char folder[256];

static bool keep(void *user, const stk_bench_hash *row)
{
    return row->position < 16 && ++*(uint64_t *)user;
}

static stk_status run_setting(stk_context *ctx, stk_error *err)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    stk_loader_options loader;
    stk_bench_options options;
    stk_bench *bench = NULL;
    uint64_t hashes = 0;
    char path[300];

    stk_loader_options_init(&loader);
    loader.batch_size = 8;
    loader.num_workers = 0;
    stk_bench_options_init(&options);
    options.num_epochs = 1;
    options.warmup = 0;
    options.train_step_time = 0;
    snprintf(path, sizeof path, "%s/log", folder);
    const stk_bench_setting setting = {.struct_size = sizeof setting,
                                       .dataset = "digits:?size=16",
                                       .loader = &loader,
                                       .bench = &options,
                                       .log = path,
                                       .hash = keep,
                                       .hash_user = &hashes};
    stk_status status = stk_bench_create(ctx, &setting, &bench, err);
    if (status == STK_OK)
        status = stk_bench_run(bench, &result, &figures, err);
    stk_bench_destroy(&bench);
    if (status == STK_OK)
        assert_true(figures.steps == 1 && hashes == 16 && !result.check_failed);
    return status;
}

static stk_status run_plan(stk_context *ctx, stk_error *err)
{
    const stk_bench_result result = {.struct_size = sizeof result};
    stk_bench_plan *plan = NULL;
    stk_config *config = NULL;
    stk_sweep_point points[4];
    stk_verdict verdict = {.struct_size = sizeof verdict};
    size_t from;

    stk_status status = stk_config_create(ctx, &config, err);
    if (status == STK_OK)
        status = stk_config_load_text(config, "plan", yaml, strlen(yaml), err);
    if (status == STK_OK)
        status = stk_bench_plan_create(ctx, config, NULL, &plan, err);
    for (size_t i = 0; status == STK_OK && i < stk_bench_plan_count(plan); i++) {
        const stk_figures figures = {
            .struct_size = sizeof figures, .steps = 10, .samples_per_s = 100 + (double)i};
        status = stk_bench_plan_add(plan, i, 0, &result, &figures, err);
        if (status == STK_OK)
            status = stk_bench_plan_add(plan, i, 0, &result, &figures, err);
        /* Where there is no memory for its neighbours a setting is judged alone. */
        stk_bench_plan_judge(plan, i, &verdict);
    }
    if (status == STK_OK)
        (void)stk_bench_plan_saturation(plan, 0, points, 4, &from);
    stk_bench_plan_destroy(&plan);
    stk_config_destroy(&config);
    return status;
}

static stk_status run_meter(stk_context *ctx, stk_error *err)
{
    stk_figures figures = {.struct_size = sizeof figures};
    stk_loader_options options;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_meter *meter = NULL;

    stk_loader_options_init(&options);
    stk_status status = stk_dataset_open(ctx, "digits:?size=16", &dataset, err);
    if (status == STK_OK)
        status = stk_loader_create(dataset, &options, &loader, err);
    if (status == STK_OK)
        status = stk_meter_open(ctx, loader, &options, &meter, err);
    if (status == STK_OK)
        stk_meter_get(meter, &figures);
    stk_meter_close(&meter);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    return status;
}

/* True when no allocation failed. */
static bool run(stk_status (*work)(stk_context *ctx, stk_error *err), int64_t n, bool for_good)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = work(ctx, &err);
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("allocation %lld: %s: %s", (long long)n, stk_status_name(status), err.text);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return f.left > 0 || (status == STK_OK && f.left == 0);
}

static void each(stk_status (*work)(stk_context *ctx, stk_error *err), int64_t least)
{
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!run(work, n, for_good)) {
            n++;
            assert_true(n < 10000);
        }
        assert_true(n > least);
    }
}

static void test_plan(void **state)
{
    (void)state;
    each(run_plan, 20);
}

static void test_setting(void **state)
{
    (void)state;
    test_folder(folder);
    each(run_setting, 30);
    test_folder_remove(folder);
}

static void test_meter(void **state)
{
    (void)state;
    each(run_meter, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan), cmocka_unit_test(test_setting),
                                       cmocka_unit_test(test_meter)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
