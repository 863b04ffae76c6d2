/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of runs that are limited by what one says. */
#ifndef STK_TESTS_UNIT_MEASURE_PLANTED_H
#define STK_TESTS_UNIT_MEASURE_PLANTED_H

#include "support/support.h"

#include <string.h>

/* A step that sleeps, 2 busy workers, 4 usable cores; `wait` seconds a step. */
static inline stk_figures plant(double step, double wait)
{
    stk_figures f = {
        .struct_size = sizeof f,
        .step_time = step,
        .step_stretch = 1,
        .steps = 1000,
        .batch_size = 64,
        .samples = 64000,
        .num_workers = 2,
        .io_depth = 8,
        .prefetch = 2,
        .usable_cores = 4,
        .compute_cores = 1,
        .ranks = 1,
        .cached_share = -1,
    };

    f.wall = 1000 * (step + wait);
    f.wait = (stk_spread){.n = 999,
                          .mean = wait,
                          .p50 = wait,
                          .p95 = wait,
                          .p99 = wait,
                          .max = wait,
                          .min = wait,
                          .sum = 999 * wait};
    f.step_share = step / (step + wait);
    f.samples_per_s = 64000 / f.wall;
    f.prepare_busy = 2 * f.wall;
    f.cpu_s = 2 * f.wall;
    return f;
}

/* Waits of a run with 2 workers on 4 cores that do next to nothing. */
static inline stk_figures plant_waits(void)
{
    stk_figures f = plant(0.010, 0.030);

    f.prepare_busy = 0.1 * f.wall;
    f.prepare_wait_in = 1.9 * f.wall;
    f.cpu_s = 0.1 * f.wall;
    f.requests = 64000;
    f.bytes_read = f.requests * 100000;
    f.bytes_needed = f.bytes_read;
    f.read_seconds = 7.9 * f.wall;
    f.read_latency = f.read_floor = f.read_seconds / 64000;
    f.budget_bytes = 64 << 20;
    f.persistent_workers = true;
    return f;
}

/* What 30 of 40 ms a step were for. */
static inline void wait_for(stk_figures *f, stk_wait part, double share)
{
    f->waits[part] += share * 0.030 * (double)f->steps;
}

static inline stk_verdict judge(const stk_figures *f)
{
    stk_verdict v = {.struct_size = sizeof v};

    stk_judge(f, &v);
    assert_int_equal(v.struct_size, sizeof v);
    assert_true(strlen(v.text) > 0 && strlen(v.text) < sizeof v.text - 1);
    assert_true(v.gain >= 1);
    return v;
}

#endif
