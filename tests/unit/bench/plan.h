/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of texts of YAML, with runs that are made up. */
#ifndef STK_TESTS_UNIT_BENCH_PLAN_H
#define STK_TESTS_UNIT_BENCH_PLAN_H

#include <string.h>

#include "support/support.h"

#include <stoker/bench.h>

typedef struct planned {
    stk_context *ctx;
    stk_config *config;
    stk_bench_plan *plan;
} planned;

static planned plan_of(const char *yaml, const stk_bench_plan_options *options)
{
    planned p = {0};
    stk_error err;

    assert_ok(stk_context_create(NULL, &p.ctx, &err), &err);
    assert_ok(stk_config_create(p.ctx, &p.config, &err), &err);
    assert_ok(stk_config_load_text(p.config, "test", yaml, strlen(yaml), &err), &err);
    assert_ok(stk_bench_plan_create(p.ctx, p.config, options, &p.plan, &err), &err);
    return p;
}

static void plan_end(planned *p)
{
    stk_bench_plan_destroy(&p->plan);
    stk_config_destroy(&p->config);
    stk_context_destroy(&p->ctx);
}

/* Steps of half the time, whose other half is waited; the loader works as long as the run. */
static stk_figures rate_of(double rate, int64_t workers)
{
    stk_figures f = {.struct_size = sizeof f,
                     .steps = 100,
                     .samples = 6400,
                     .samples_per_s = rate,
                     .wall = 6400 / rate,
                     .step_time = 0.5 * 64 / rate,
                     .step_stretch = 1,
                     .usable_cores = 4,
                     .compute_cores = 1,
                     .ranks = 1,
                     .num_workers = workers};

    f.wait.mean = f.step_time;
    f.prepare_busy = f.cpu_s = f.wall / 2;
    return f;
}

static void plan_add(planned *p, size_t i, uint64_t rank, stk_status status, const stk_figures *f)
{
    stk_bench_result result = {.struct_size = sizeof result, .status = status};
    stk_error err;

    result.events = result.delivered = 1000;
    assert_ok(stk_bench_plan_add(p->plan, i, rank, &result, f, &err), &err);
}

static inline void plan_add_rate(planned *p, size_t i, double rate, int64_t workers)
{
    const stk_figures f = rate_of(rate, workers);

    plan_add(p, i, 0, STK_OK, &f);
}

#endif
