/* SPDX-License-Identifier: Apache-2.0 */
/* Which loader keeps up with a step of your own? A sweep, each setting measured here, its verdict;
 * then the loader of the loop itself, while it runs. */
#include <stdio.h>

#include <stoker/bench.h>

static volatile double sink;

static double compute(int64_t rounds)
{
    double x = 0;

    for (int64_t i = 0; i < rounds; i++)
        x = x * 0.5 + (double)i;
    return x;
}

/* The training step: here as much work as there are rows. */
static stk_status step(void *user, const stk_batch *batch, stk_error *err)
{
    (void)user, (void)err;
    sink = compute(2000 * (int64_t)stk_batch_count(batch));
    return STK_OK;
}

/* The same without data, so that it is known how long it takes with no loader beside it. */
static stk_status step_alone(void *user, stk_error *err)
{
    (void)err;
    sink = compute(2000 * *(const int64_t *)user);
    return STK_OK;
}

/* Every setting in this process; for memory figures of each by itself, give each a process. */
static stk_status measure(stk_context *context, stk_bench_plan *plan, const stk_bench_step *own,
                          stk_error *err)
{
    stk_status status = STK_OK;

    for (size_t i = 0; i < stk_bench_plan_count(plan) && status == STK_OK; i++) {
        stk_bench_setting setting = {.struct_size = sizeof setting};
        stk_bench_result result = {.struct_size = sizeof result};
        stk_figures figures = {.struct_size = sizeof figures};
        stk_verdict verdict = {.struct_size = sizeof verdict};
        stk_bench *bench = NULL;

        stk_bench_plan_get(plan, i, &setting);
        setting.step = own;
        status = stk_bench_create(context, &setting, &bench, err);
        status = status ? status : stk_bench_run(bench, &result, &figures, err);
        stk_bench_destroy(&bench);
        status = status ? status : stk_bench_plan_add(plan, i, 0, &result, &figures, err);
        if (status != STK_OK)
            continue;
        stk_bench_plan_judge(plan, i, &verdict);
        printf("%s: %.0f samples/s, waits %.1f %% of the time\n%s\n\n", setting.label,
               figures.samples_per_s, 100 * verdict.lost_share, verdict.text);
        if (*result.environment)
            printf("set %s before the program starts\n", result.environment);
    }
    return status;
}

/* Any loop can ask what its loader does, with no word to it about the steps. */
static stk_status watch(stk_context *context, const stk_bench_setting *setting, stk_error *err)
{
    stk_figures figures = {.struct_size = sizeof figures};
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_meter *meter = NULL;
    stk_batch *batch = NULL;

    stk_status status = stk_dataset_open(context, setting->dataset, &dataset, err);
    status = status ? status : stk_loader_create(dataset, setting->loader, &loader, err);
    status = status ? status : stk_meter_open(context, loader, setting->loader, &meter, err);
    while (status == STK_OK && (status = stk_loader_next(loader, -1, &batch, err)) == STK_OK) {
        status = step(NULL, batch, err);
        stk_batch_release(&batch);
    }
    if (status == STK_EOS) {
        stk_meter_get(meter, &figures);
        printf("an epoch of %llu steps: %.0f samples/s, the step ran %.1f %% of the time\n",
               (unsigned long long)figures.steps, figures.samples_per_s, 100 * figures.step_share);
        status = STK_OK;
    }
    stk_meter_close(&meter);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    return status;
}

int main(void)
{
    int64_t rows = 32;
    const stk_bench_step own = {
        .struct_size = sizeof own, .run = step, .run_alone = step_alone, .user = &rows};
    stk_bench_setting best = {.struct_size = sizeof best};
    stk_bench_summary summary = {.struct_size = sizeof summary};
    stk_context *context = NULL;
    stk_config *config = NULL;
    stk_bench_plan *plan = NULL;
    stk_error err;

    stk_error_init(&err);
    stk_status status = stk_context_create(NULL, &context, &err);
    status = status ? status : stk_config_create(context, &config, &err);
    status = status ? status : stk_config_set(config, "dataset", "digits:?size=3200", false, &err);
    status = status ? status : stk_config_set(config, "loader.batch_size", "32", false, &err);
    /* Several values are a sweep: one setting for each. */
    status = status ? status : stk_config_set(config, "loader.num_workers", "0,1", true, &err);
    status = status ? status : stk_config_set(config, "bench.num_epochs", "3", false, &err);
    status = status ? status : stk_bench_plan_create(context, config, NULL, &plan, &err);
    status = status ? status : measure(context, plan, &own, &err);
    if (status == STK_OK) {
        stk_bench_plan_summary(plan, &summary);
        stk_bench_plan_get(plan, summary.best, &best);
        printf("best: %s, %.2fx the baseline\n", best.label, summary.speed_up);
        status = watch(context, &best, &err);
    }
    if (status != STK_OK)
        fprintf(stderr, "%s: %s\n", stk_status_name(status), err.text);
    stk_bench_plan_destroy(&plan);
    stk_config_destroy(&config);
    stk_context_destroy(&context);
    return status == STK_OK ? 0 : 1;
}
