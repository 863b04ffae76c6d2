/* SPDX-License-Identifier: Apache-2.0 */
/* Which loader keeps up with a step of your own? A sweep, each setting measured, its verdict. */
#include <stdio.h>

#include <stoker/bench.h>

static const char text[] = "{dataset: 'digits:?size=3200', bench: {num_epochs: 3},\n"
                           " loader: {batch_size: 32, num_workers: [0, 1]}}\n"; /* two settings */
static volatile double sink;

static void compute(uint64_t rows)
{
    double x = 0;

    for (uint64_t i = 0; i < 2000 * rows; i++)
        x = x * 0.5 + (double)i;
    sink = x;
}

static stk_status step(void *user, const stk_batch *batch, stk_error *err)
{
    (void)user, (void)err;
    compute(stk_batch_count(batch));
    return STK_OK;
}

/* The same without data, so that it is known how long it takes with no loader beside it. */
static stk_status step_alone(void *rows, stk_error *err)
{
    (void)err;
    compute(*(const uint64_t *)rows);
    return STK_OK;
}

/* In this process; for memory figures of each setting by itself, give each a process. */
static stk_status measure(stk_context *context, stk_bench_plan *plan, size_t i,
                          const stk_bench_step *own, stk_error *err)
{
    stk_bench_setting setting = {.struct_size = sizeof setting};
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    stk_verdict verdict = {.struct_size = sizeof verdict};
    stk_bench *bench = NULL;

    stk_bench_plan_get(plan, i, &setting);
    setting.step = own;
    stk_status status = stk_bench_create(context, &setting, &bench, err);
    status = status ? status : stk_bench_run(bench, &result, &figures, err);
    stk_bench_destroy(&bench);
    if (status || (status = stk_bench_plan_add(plan, i, 0, &result, &figures, err)))
        return status;
    stk_bench_plan_judge(plan, i, &verdict);
    printf("measured: %s\n", setting.label);
    fprintf(stderr, "%.0f samples/s: %s\n", figures.samples_per_s, verdict.text);
    return STK_OK;
}

int main(void)
{
    uint64_t rows = 32;
    const stk_bench_step own = {sizeof own, 1, step, step_alone, &rows};
    stk_context *context = NULL;
    stk_config *config = NULL;
    stk_bench_plan *plan = NULL;
    stk_error err;

    stk_status status = stk_context_create(NULL, &context, &err);
    status = status ? status : stk_config_create(context, &config, &err);
    status = status ? status : stk_config_load_text(config, "", text, sizeof text - 1, &err);
    status = status ? status : stk_bench_plan_create(context, config, NULL, &plan, &err);
    for (size_t i = 0; status == STK_OK && i < stk_bench_plan_count(plan); i++)
        status = measure(context, plan, i, &own, &err);
    if (status != STK_OK)
        fprintf(stderr, "%s: %s\n", stk_status_name(status), err.text);
    stk_bench_plan_destroy(&plan);
    stk_config_destroy(&config);
    stk_context_destroy(&context);
    return status == STK_OK ? 0 : 1;
}
