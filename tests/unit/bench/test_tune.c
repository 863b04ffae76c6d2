/* SPDX-License-Identifier: Apache-2.0 */
/* Loads whose rate is known in closed form: what a tuner runs of them, and what it finds. */
#include <math.h>

#include "plan.h"

#include "base/text.h"
#include "bench/tune.h"

#define BATCH 10
#define STEPS 100
#define MIB   (1024.0 * 1024.0)

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

static stk_figures figures_in(load *l, const stk_loader_options *o)
{
    const int64_t workers = o->num_workers == STK_AUTO ? 2 : o->num_workers,
                  depth = o->io_depth == STK_AUTO ? 4 : o->io_depth;
    const double off = 1 + l->noise * ((double)(l->runs++ * 7 % 11) / 5 - 1),
                 rate = rate_in(l, workers, depth) * off, wall = STEPS * BATCH / rate;
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

static void run_load(tuned *t, load *l, uint64_t most)
{
    stk_tune_run run = {.struct_size = sizeof run};
    stk_bench_setting s = {.struct_size = sizeof s};

    for (t->runs = 0; t->runs < most; t->runs++) {
        t->status = stk_tune_next(t->tune, NULL, &run, &t->err);
        if (t->status != STK_OK)
            break;
        stk_bench_plan_get(t->p.plan, run.setting, &s);
        const stk_figures f = figures_in(l, s.loader);
        const stk_figures none = {.struct_size = sizeof none};
        const bool fails = l->broken >= 0 && f.num_workers == l->broken;
        assert_int_equal(run.number, t->runs + 1);
        plan_add(&t->p, run.setting, 0, fails ? STK_EIO : STK_OK, fails ? &none : &f);
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
static double best_rate(const tuned *t, const load *l, int64_t most_workers)
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

static void test_speed(void **state)
{
    stk_tune_options options;

    (void)state;
    stk_tune_options_init(&options);
    options.objective = STK_TUNE_SPEED;
    for (size_t i = 0; i < STK_COUNT(loads); i++) {
        load l = loads[i];
        tuned t;
        make(&t, digits, &options);
        run_load(&t, &l, 1000);
        assert_int_equal(t.status, STK_EOS);
        const double best = best_rate(&t, &l, INT64_MAX),
                     is = rate_in(&l, t.best.num_workers, t.best.io_depth);
        if (!(is >= 0.95 * best))
            fail_msg("load %zu: %.0f samples/s of %.0f: %s", i, is, best, t.answer.text);
        assert_true(t.answer.ended && t.runs <= 27 && t.answer.runs == t.runs);
        assert_true(t.answer.predicted > 20);
        end(&t);
    }
}

/* The fewest workers that will do, and then the least memory. */
static void test_wait(void **state)
{
    load l = loads[0];
    tuned t;

    (void)state;
    make(&t, few, NULL);
    run_load(&t, &l, 1000);
    assert_int_equal(t.status, STK_EOS);
    /* Ten samples of 4 ms in a step of 10 ms: four workers. */
    assert_int_equal(t.best.num_workers, 4);
    assert_int_equal(t.best.prefetch_factor, 1);
    assert_true(t.answer.reached && t.answer.gain);
    assert_true(t.answer.speed_up > 1.9 && t.answer.speed_up < 2.1);
    assert_true(t.answer.saturated_workers == 4 && !t.answer.more_workers);
    assert_non_null(strstr(t.answer.text, "Saturated from 4 workers on."));
    /* Nothing is read: how many reads at a time there may be is no matter. */
    assert_true(t.best.auto_depth);
    assert_null(strstr(t.answer.text, "reads at a time"));
    end(&t);
}

/* What hides between the values: nobody waits as little, and it is said. */
static void test_unreached(void **state)
{
    load l = {.prepare = 20e-3, .step = 1e-3, .slab = MIB, .cores = 99, .slower = 1, .broken = -1};
    tuned t;

    (void)state;
    make(&t, few, NULL);
    run_load(&t, &l, 1000);
    assert_true(!t.answer.reached && t.best.num_workers >= 8);
    assert_non_null(strstr(t.answer.text, "No setting waits as little as 2 %"));
    assert_true(t.answer.more_workers);
    assert_non_null(strstr(t.answer.text, "may give still more"));
    end(&t);
}

static void test_nothing_to_gain(void **state)
{
    load l = loads[4];
    tuned t;

    (void)state;
    make(&t, "dataset: 'digits:'\nloader: {batch_size: 10, num_workers: 1, prefetch_factor: 1}\n",
         NULL);
    run_load(&t, &l, 1000);
    assert_int_equal(t.status, STK_EOS);
    assert_true(!t.answer.gain && t.answer.best == t.answer.given && t.answer.speed_up == 1);
    assert_non_null(strstr(t.answer.text, "Nothing to gain"));
    /* The defaults and the baseline stand beside it. */
    assert_true(t.answer.defaults != t.answer.given && t.answer.defaults != STK_BENCH_NONE);
    assert_true(t.answer.baseline != t.answer.given && t.answer.baseline != STK_BENCH_NONE);
    end(&t);
    /* As fast with less memory is no reason to change what is fast enough. */
    stk_tune_options options;
    stk_tune_options_init(&options);
    options.objective = STK_TUNE_SPEED;
    make(&t, "dataset: 'digits:'\nloader: {batch_size: 10, num_workers: 2}\n", &options);
    run_load(&t, &l, 1000);
    assert_true(!t.answer.gain && t.answer.best == t.answer.given);
    end(&t);
}

/* ---- Limits -----------------------------------------------------------------------------------
 */

static void test_limits(void **state)
{
    load l = loads[0];
    stk_tune_options options;
    tuned t;

    (void)state;
    stk_tune_options_init(&options);
    options.objective = STK_TUNE_SPEED;
    options.max_cores = 3;
    make(&t, few, &options);
    run_load(&t, &l, 1000);
    assert_int_equal(t.best.num_workers, 3);
    assert_true(rate_in(&l, 3, 4) >= 0.99 * best_rate(&t, &l, 3));
    end(&t);
    options.max_cores = STK_AUTO;
    /* Room for three batches ahead and the one at hand, beyond what is always there. */
    options.max_memory = (uint64_t)(12.5 * MIB);
    make(&t, few, &options);
    /* A third is kept for what the budget does not count. */
    assert_string_equal(stk_config_get(t.p.config, "loader.memory_budget", 0), "8738134");
    run_load(&t, &l, 1000);
    assert_true(t.best.num_workers >= 2 && t.best.peak_bytes <= 12.5 * MIB);
    assert_true(t.best.num_workers * t.best.prefetch_factor <= 3);
    end(&t);
    /* As given takes more than there may be: another one is a gain, be it as fast. */
    options.max_memory = (uint64_t)(14 * MIB);
    make(&t,
         "dataset: 'digits:'\nloader: {batch_size: 10, io_depth: 16, prefetch_factor: [2, 1], "
         "num_workers: 4}\nbench: {train_step_time: 0.001}\n",
         &options);
    run_load(&t, &l, 1000);
    assert_int_equal(t.best.prefetch_factor, 1);
    assert_true(t.answer.gain);
    assert_null(strstr(t.answer.text, "Nothing to gain"));
    end(&t);
    /* Less than any setting takes. */
    options.max_memory = (uint64_t)MIB;
    make(&t, few, &options);
    run_load(&t, &l, 1000);
    assert_int_equal(t.status, STK_EOS);
    assert_true(t.answer.best == STK_BENCH_NONE);
    assert_non_null(strstr(t.answer.text, "No setting is within the limits"));
    end(&t);
}

static void expect_budget(const char *yaml, uint64_t most, const char *budget)
{
    stk_tune_options options;
    tuned t;

    stk_tune_options_init(&options);
    options.max_memory = most;
    make(&t, yaml, &options);
    assert_string_equal(stk_config_get(t.p.config, "loader.memory_budget", 0), budget);
    end(&t);
}

/* The process stays below the limit with what the budget does not count, which is by the worker. */
static void test_budget(void **state)
{
    (void)state;
    expect_budget("dataset: 'digits:'\nloader: {num_workers: [1, auto, 2]}\n", UINT64_C(256) << 20,
                  "260046848"); /* 2 MiB, and 0.75 for each of eight */
    expect_budget("dataset: 'digits:'\nloader: {num_workers: [1, 40]}\n", UINT64_C(256) << 20,
                  "234881024");
    /* One that is given counts where it is less. */
    expect_budget("dataset: 'digits:'\nloader: {num_workers: 1, memory_budget: 64MiB}\n",
                  UINT64_C(256) << 20, "64MiB");
    expect_budget("dataset: 'digits:'\nloader: {num_workers: [1, 2], memory_budget: 255MiB}\n",
                  UINT64_C(256) << 20, "260046848");
}

/* What a core costs against what an accelerator does. */
static void test_cost(void **state)
{
    load l = {.prepare = 4e-3, .step = 1e-3, .slab = MIB, .cores = 99, .slower = 1, .broken = -1};
    stk_tune_options options;
    tuned t;

    (void)state;
    stk_tune_options_init(&options);
    options.objective = STK_TUNE_COST;
    options.core_price = 0.05;
    options.gpu_price = 3;
    make(&t, few, &options);
    run_load(&t, &l, 1000);
    assert_int_equal(t.best.num_workers, 8);
    /* (9 cores x 0.05 + 3) an hour, 2000 samples a second. */
    assert_true(fabs(t.best.cost - 3.45 / 3600 / 2000 * 1e6) < 0.05 * t.best.cost);
    end(&t);
    options.core_price = 3;
    options.gpu_price = 0;
    l.step = 20e-3;
    make(&t, few, &options);
    run_load(&t, &l, 1000);
    /* Two workers are as fast as the step: 500 for three cores. */
    assert_int_equal(t.best.num_workers, 2);
    end(&t);
}

/* ---- Runs that fail, and those that are not made ----------------------------------------------
 */

static void test_failures(void **state)
{
    load l = loads[0];
    stk_tune_run run = {.struct_size = sizeof run};
    stk_error err;
    tuned t;

    (void)state;
    l.broken = 4;
    make(&t, few, NULL);
    run_load(&t, &l, 1000);
    assert_int_equal(t.status, STK_EOS);
    assert_int_equal(t.best.num_workers, 8);
    end(&t);
    /* The one as given (auto is 2 here) is what all is predicted from. */
    l.broken = 2;
    make(&t, few, NULL);
    run_load(&t, &l, 1000);
    assert_int_equal(t.status, STK_EIO);
    assert_int_equal(t.runs, 1);
    assert_true(t.answer.best == STK_BENCH_NONE);
    end(&t);
    l.broken = -1;
    make(&t, few, NULL);
    assert_ok(stk_tune_next(t.tune, NULL, &run, &err), &err);
    assert_int_equal(run.setting, 0);
    assert_int_equal(stk_tune_next(t.tune, NULL, &run, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "stk_bench_plan_add()"));
    end(&t);
    /* Interrupted: what is known is told. */
    make(&t, few, NULL);
    run_load(&t, &l, 3);
    assert_true(!t.answer.ended && t.answer.best != STK_BENCH_NONE);
    assert_non_null(strstr(t.answer.text, "Not all runs were made"));
    end(&t);
}

/* ---- The grid ---------------------------------------------------------------------------------
 */

static void assert_refused(const char *yaml, const char *text)
{
    planned p = plan_of(yaml, NULL);
    stk_error err;

    assert_int_equal(stk_tune_grid(p.config, NULL, &err), STK_EINVAL);
    if (!strstr(err.text, text))
        fail_msg("%s", err.text);
    plan_end(&p);
}

static void test_grid(void **state)
{
    stk_tune_options options;
    stk_error err;
    tuned t;

    (void)state;
    stk_tune_options_init(&options);
    options.max_cores = 6;
    make(&t,
         "dataset: 'digits:'\nloader: {num_workers: 3, io_depth: [2, 8]}\n"
         "bench: {min_seconds: 1}\n",
         &options);
    static const char *const workers[] = {"3", "auto", "0", "1", "2", "4", "6"};
    assert_int_equal(stk_config_count(t.p.config, "loader.num_workers"), STK_COUNT(workers));
    for (size_t i = 0; i < STK_COUNT(workers); i++)
        assert_string_equal(stk_config_get(t.p.config, "loader.num_workers", i), workers[i]);
    assert_int_equal(stk_config_count(t.p.config, "loader.io_depth"), 2);
    assert_string_equal(stk_config_get(t.p.config, "bench.min_seconds", 0), "1");
    assert_string_equal(stk_config_get(t.p.config, "bench.min_batches", 0), "20");
    assert_int_equal(stk_tune_count(t.tune), 7 * 2 * 3);
    stk_tune_destroy(&t.tune);
    options.max_wait = 2;
    assert_int_equal(stk_tune_create(t.p.ctx, t.p.plan, &options, &t.tune, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "max_wait"));
    end(&t);
    /* What is set by a program, or on the command line, is kept. */
    planned p = plan_of("dataset: 'digits:'\nloader: {num_workers: 3, io_depth: 2}\n", NULL);
    assert_ok(stk_config_set(p.config, "loader.io_depth", "8", false, &err), &err);
    assert_ok(stk_tune_grid(p.config, NULL, &err), &err);
    assert_int_equal(stk_config_count(p.config, "loader.io_depth"), 1);
    assert_true(stk_config_count(p.config, "loader.num_workers") > 5);
    plan_end(&p);
    assert_refused("loader: {batch_size: [8, 16]}\n", "batch_size has 2 values");
    assert_refused("bench: {step: 'fit:a.yaml'}\n", "whole training");
}

/* ---- What is written --------------------------------------------------------------------------
 */

static void add_line(void *user, const char *line)
{
    stk__text_add(user, "%s\n", line);
}

static void test_configuration(void **state)
{
    load l = loads[1];
    stk_loader_options loader;
    stk_config *again = NULL;
    stk_error err;
    tuned t;

    (void)state;
    make(&t, "dataset: 'digits:'\nloader: {batch_size: 10, shuffle: true}\n", NULL);
    stk__text text = {.ctx = t.p.ctx};
    assert_int_equal(stk_tune_write(t.tune, add_line, &text, &err), STK_EINVAL);
    run_load(&t, &l, 1000);
    /* Twenty milliseconds a read, half a one a sample: 64 reads at a time, two workers. */
    assert_true(t.best.num_workers == 2 && t.best.io_depth == 64);
    assert_ok(stk_tune_write(t.tune, add_line, &text, &err), &err);
    assert_non_null(strstr(text.bytes, "# Not tried: batch_size"));
    assert_non_null(strstr(text.bytes, "  io_depth: 64\n"));
    assert_non_null(strstr(text.bytes, " samples/s and "));
    assert_non_null(strstr(text.bytes, "; with 16 "));
    for (char *at = text.bytes, *end; (end = strchr(at, '\n')); at = end + 1)
        assert_true(end - at <= 98);
    /* It is read as what was found. */
    assert_ok(stk_config_create(t.p.ctx, &again, &err), &err);
    assert_ok(stk_config_load_text(again, "tuned", text.bytes, text.length, &err), &err);
    stk_loader_options_init(&loader);
    assert_ok(stk_config_apply(again, stk_option_table_find("loader"), 0, &loader, &err), &err);
    assert_true(loader.batch_size == 10 && loader.num_workers == 2 && loader.io_depth == 64);
    assert_string_equal(stk_config_get(again, "dataset", 0), "digits:");
    assert_int_equal(stk_config_combinations(again), 1);
    stk_config_destroy(&again);
    stk__text_release(&text);
    end(&t);
}

/* ---- Choosing ---------------------------------------------------------------------------------
 */

static stk_tune_point point(double rate, double bytes, int64_t workers)
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

static void test_choice(void **state)
{
    stk_tune_point points[] = {point(100, 9, 8), point(99, 5, 4), point(97, 1, 2), point(200, 1, 9),
                               point(99, 6, 2)};
    const bool only[] = {true, false, true, true, true};
    stk_tune_options options;

    (void)state;
    stk_tune_options_init(&options);
    options.objective = STK_TUNE_SPEED;
    points[3].allowed = false;
    assert_int_equal(stk__tune_best(points, 5, &options, NULL), 1);
    assert_int_equal(stk__tune_best(points, 5, &options, only), 4);
    /* Within the wait the fewest workers count first. */
    options.objective = STK_TUNE_WAIT;
    for (size_t i = 0; i < 5; i++)
        points[i].wait_share = i == 2 ? 0.03 : 0.02;
    assert_int_equal(stk__tune_best(points, 5, &options, NULL), 4);
    stk__tune_front(points, 5);
    assert_true(points[0].front && points[1].front && points[2].front);
    assert_true(!points[3].front && !points[4].front);
    assert_int_equal(stk__tune_best(points, 0, &options, NULL), 0);
}

/* A run of a neighbour moves what was predicted, the more the nearer it is. */
static void test_correction(void **state)
{
    stk_tune_point points[] = {point(100, 1, 1), point(200, 1, 2), point(400, 1, 4),
                               point(3200, 1, 32)};

    (void)state;
    points[0].runs = 1;
    points[0].samples_per_s = 50;
    stk__tune_correct(points, 4);
    assert_true(points[0].samples_per_s == 50);
    assert_true(points[1].samples_per_s < 130 && points[1].samples_per_s > 100);
    const double near = points[1].samples_per_s / 200, far = points[2].samples_per_s / 400,
                 farthest = points[3].samples_per_s / 3200;
    assert_true(near < far && far < farthest && farthest < 1);
    /* Again it is the same: what is corrected is what was predicted. */
    stk__tune_correct(points, 4);
    assert_true(fabs(points[1].samples_per_s / 200 - near) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speed),     cmocka_unit_test(test_wait),
        cmocka_unit_test(test_unreached), cmocka_unit_test(test_nothing_to_gain),
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_budget),
        cmocka_unit_test(test_cost),      cmocka_unit_test(test_failures),
        cmocka_unit_test(test_grid),      cmocka_unit_test(test_configuration),
        cmocka_unit_test(test_choice),    cmocka_unit_test(test_correction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
