/* SPDX-License-Identifier: Apache-2.0 */
/* Loads whose rate is known in closed form, to be tuned. */
#ifndef STK_TESTS_UNIT_BENCH_TUNED_H
#define STK_TESTS_UNIT_BENCH_TUNED_H

#include <math.h>

#include "plan.h"

#include "base/text.h"
#include "bench/tune.h"

#define BATCH   10
#define STEPS   100
#define MIB     (1024.0 * 1024.0)
#define START   0.4 /* s before a run is measured */
#define SECONDS 3   /* of a whole run, whatever its steps would take */

/* ---- What is true -----------------------------------------------------------------------------
 */

/* Samples that are prepared in `prepare` seconds, after a read of `read`; steps that sleep. */
typedef struct load {
    double prepare, read, step;
    double slower; /* with more than `cores` workers all is so many times as slow */
    int64_t cores;
    double slab;    /* bytes of a batch ahead */
    int64_t broken; /* runs with so many workers fail; -1: none */
    double noise;   /* share that runs differ by */
    double spread;  /* likewise, as of a Gaussian that `seed` begins, */
    double drift;   /* and in waves of 17 runs */
    uint64_t seed;
    uint64_t runs;
} load;

static double rate_in(const load *l, int64_t workers, int64_t depth)
{
    double seconds = STK_MAX(l->prepare / (double)STK_MAX(workers, 1), l->read / (double)depth);

    if (workers == 0)
        return BATCH / (BATCH * (l->prepare + l->read / (double)STK_MIN(depth, BATCH)) + l->step);
    seconds *= workers > l->cores ? l->slower : 1;
    return 1 / STK_MAX(seconds, l->step / BATCH);
}

static double bytes_in(const load *l, int64_t workers, int64_t ahead)
{
    return 8 * MIB + l->slab * (double)(workers * ahead + 1);
}

/* Next to a Gaussian: the sum of twelve numbers that are as likely within one. */
static double gauss(uint64_t *seed)
{
    double sum = -6;

    for (int i = 0; i < 12; i++) {
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*seed >> 11) * 0x1p-53;
    }
    return sum;
}

static stk_figures figures_in(load *l, const stk_loader_options *o)
{
    const int64_t workers = o->num_workers == STK_AUTO ? 2 : o->num_workers,
                  depth = o->io_depth == STK_AUTO ? 4 : o->io_depth;
    const double off = (1 + l->noise * ((double)(l->runs * 7 % 11) / 5 - 1)) *
                       exp(l->spread * gauss(&l->seed) + l->drift * sin((double)l->runs * 0.37)),
                 rate = rate_in(l, workers, depth) * off, wall = STEPS * BATCH / rate;
    l->runs++;
    stk_figures f = {.struct_size = sizeof f,
                     .steps = STEPS,
                     .samples = STEPS * BATCH,
                     .batch_size = BATCH,
                     .samples_per_s = rate,
                     .wall = wall,
                     .step_time = l->step,
                     .step_stretch = 1,
                     .num_workers = workers,
                     .io_depth = depth,
                     .prefetch = o->prefetch_factor,
                     .usable_cores = 4,
                     .compute_cores = 1,
                     .ranks = 1,
                     .budget_bytes = UINT64_C(1) << 30,
                     .bytes_taken = (uint64_t)(STEPS * l->slab),
                     .peak_bytes = (uint64_t)bytes_in(l, workers, o->prefetch_factor)};

    f.prepare_busy = l->prepare * STEPS * BATCH;
    f.wait.mean = STK_MAX(wall / STEPS - l->step, 0.0);
    if (l->read > 0) {
        f.requests = STEPS * BATCH;
        f.read_latency = l->read;
        f.read_seconds = l->read * STEPS * BATCH;
    }
    return f;
}

/* ---- Tuning it --------------------------------------------------------------------------------
 */

typedef struct tuned {
    planned p;
    stk_tune *tune;
    stk_tune_answer answer;
    stk_tune_point best;
    uint64_t runs;
    double seconds; /* that all runs took */
    stk_status status;
    stk_error err;
} tuned;

static void make(tuned *t, const char *yaml, const stk_tune_options *options)
{
    stk_error err;

    *t = (tuned){.answer = {.struct_size = sizeof t->answer},
                 .best = {.struct_size = sizeof t->best}};
    t->p = plan_of(yaml, NULL);
    stk_bench_plan_destroy(&t->p.plan);
    assert_ok(stk_tune_grid(t->p.config, options, &err), &err);
    assert_ok(stk_bench_plan_create(t->p.ctx, t->p.config, NULL, &t->p.plan, &err), &err);
    assert_ok(stk_tune_create(t->p.ctx, t->p.plan, options, &t->tune, &err), &err);
}

/* What setting it up took is not in the figures. */
static void add_run(tuned *t, const stk_tune_run *run, stk_status status, const stk_figures *f)
{
    stk_bench_result result = {
        .struct_size = sizeof result, .status = status, .events = 1000, .delivered = 1000};
    stk_error err;

    result.setup = START + run->length * SECONDS - f->wall;
    t->seconds += result.setup + f->wall;
    assert_ok(stk_bench_plan_add(t->p.plan, run->setting, 0, &result, f, &err), &err);
}

static void run_load(tuned *t, load *l, uint64_t most)
{
    stk_tune_run run = {.struct_size = sizeof run};
    stk_bench_setting s = {.struct_size = sizeof s};

    for (t->runs = 0; t->runs < most; t->runs++) {
        /* Runs take the time that they say; what the machine takes besides is no matter. */
        if (t->tune->begun_ns)
            t->tune->begun_ns = stk__now_ns();
        t->status = stk_tune_next(t->tune, NULL, &run, &t->err);
        if (t->status != STK_OK)
            break;
        stk_bench_plan_get(t->p.plan, run.setting, &s);
        const stk_figures f = figures_in(l, s.loader);
        const stk_figures none = {.struct_size = sizeof none};
        const bool fails = l->broken >= 0 && f.num_workers == l->broken;
        assert_int_equal(run.number, t->runs + 1);
        /* The first is recorded, and whole; of the others a part will do. */
        assert_true(t->runs ? run.length > 0 && run.length < 1 : run.length == 1);
        add_run(t, &run, fails ? STK_EIO : STK_OK, fails ? &none : &f);
    }
    stk_tune_answer_get(t->tune, &t->answer);
    if (t->answer.best != STK_BENCH_NONE)
        stk_tune_point_get(t->tune, t->answer.best, &t->best);
}

static void end(tuned *t)
{
    stk_tune_destroy(&t->tune);
    plan_end(&t->p);
}

/* The greatest rate there is in the grid, and the least memory of what comes near it. */
static inline double best_rate(const tuned *t, const load *l, int64_t most_workers)
{
    double best = 0;

    for (size_t i = 0; i < stk_tune_count(t->tune); i++) {
        stk_tune_point p = {.struct_size = sizeof p};
        stk_tune_point_get(t->tune, i, &p);
        if (p.num_workers >= 0 && p.io_depth > 0 && p.num_workers <= most_workers)
            best = STK_MAX(best, rate_in(l, p.num_workers, p.io_depth));
    }
    return best;
}

static const char digits[] = "dataset: 'digits:'\nloader: {batch_size: 10}\n",
                  few[] = "dataset: 'digits:'\nloader: {batch_size: 10, io_depth: [auto, 16], "
                          "prefetch_factor: [2, 1]}\n";

static const load loads[] = {
    {.prepare = 4e-3, .step = 10e-3, .slab = MIB, .cores = 99, .slower = 1, .broken = -1},
    {.prepare = 1e-3,
     .read = 20e-3,
     .step = 5e-3,
     .slab = MIB,
     .cores = 99,
     .slower = 1,
     .broken = -1},
    {.prepare = 2e-3,
     .read = 8e-3,
     .step = 1e-3,
     .slab = 4 * MIB,
     .cores = 99,
     .slower = 1,
     .broken = -1,
     .noise = 0.01},
    {.prepare = 2e-3, .step = 0.5e-3, .slab = MIB, .cores = 4, .slower = 3, .broken = -1},
    {.prepare = 50e-6, .step = 20e-3, .slab = MIB, .cores = 99, .slower = 1, .broken = -1},
};

static inline stk_tune_point point(double rate, double bytes, int64_t workers)
{
    return (stk_tune_point){.struct_size = sizeof(stk_tune_point),
                            .num_workers = workers,
                            .io_depth = 1,
                            .prefetch_factor = 1,
                            .allowed = true,
                            .samples_per_s = rate,
                            .predicted = rate,
                            .peak_bytes = bytes};
}

#endif
