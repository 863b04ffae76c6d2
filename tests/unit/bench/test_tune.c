/* SPDX-License-Identifier: Apache-2.0 */
/* What a tuner finds of loads whose rate is known in closed form. */
#include <stdlib.h>

#include "tuned.h"

#include "base/options.h"

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
    /* With 8 none was run, as 4 are enough. */
    assert_non_null(strstr(t.answer.text, "Saturated from 4 workers on (predicted)."));
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
    /* More were not tried, or they were: auto comes to two. */
    assert_non_null(strstr(t.answer.text, "More than 3 workers may give still more"));
    end(&t);
    options.max_cores = 1;
    make(&t, few, &options);
    run_load(&t, &l, 1000);
    assert_non_null(strstr(t.answer.text,
                           "Settings with more than 1 worker are beyond the limits: with 2 "
                           "there were 500 samples/s."));
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
    assert_refused("bench: {repeat: 2}\n", "bench.repeat: it has no effect");
    assert_refused("bench: {ceiling: true}\n", "bench.ceiling: it has no effect");
    assert_refused("bench: {ladder: true}\n", "bench.ladder: it has no effect");
    assert_refused("bench: {hash: '-'}\n", "bench.hash: it has no effect");
}

/* The help says what the grid does: the defaults are those that a configuration gets, and what is
 * refused is not there. */
static void test_table(void **state)
{
    static const char *const none[] = {"hash", "repeat", "ceiling", "ladder"};
    const stk_option_table *table = stk_tune_bench_table(), *of = stk_option_table_find("bench");
    planned p = plan_of("dataset: 'digits:'\nbench: {repeat: 1, ceiling: false}\n", NULL);
    stk_error err;

    (void)state;
    assert_ok(stk__options_check(table, &err), &err);
    for (size_t i = 0; i < STK_COUNT(none); i++)
        assert_null(stk_options_find(table, none[i]));
    assert_int_equal(table->count + STK_COUNT(none), of->count);
    assert_ok(stk_tune_grid(p.config, NULL, &err), &err);
    for (size_t i = 0; i < table->count; i++) {
        const stk_option *option = &table->options[i], *its = stk_options_find(of, option->name);
        char key[64];
        snprintf(key, sizeof key, "bench.%s", option->name);
        const char *got = stk_config_get(p.config, key, 0);
        if (strcmp(option->name, "max_seconds") == 0)
            assert_true(strtod(got, NULL) == 6 && !option->initial);
        else if (got)
            assert_string_equal(option->initial, got);
        else if (its->initial)
            assert_string_equal(option->initial, its->initial);
        assert_true(option->offset == its->offset && option->type == its->type);
    }
    plan_end(&p);
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
    stk_bench_options bench;
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
    /* The step that was assumed is said; how long runs of a tuner are is not for those of others.
     */
    stk_bench_options_init(&bench);
    assert_ok(stk_config_apply(again, stk_option_table_find("bench"), 0, &bench, &err), &err);
    assert_int_equal(stk_config_count(again, "bench.train_step_time"), 1);
    assert_true(bench.train_step_time == 0.01);
    assert_non_null(strstr(t.answer.text, "The step was assumed to take 10 ms"));
    assert_int_equal(stk_config_count(again, "bench.min_seconds"), 0);
    assert_int_equal(stk_config_count(again, "bench.min_batches"), 0);
    assert_int_equal(stk_config_count(again, "bench.max_seconds"), 0);
    assert_int_equal(stk_config_combinations(again), 1);
    stk_config_destroy(&again);
    stk__text_release(&text);
    end(&t);
    /* What was given stays. */
    make(&t,
         "dataset: 'digits:'\nloader: {batch_size: 10, num_workers: [0, 1]}\n"
         "bench: {train_step_time: 3ms, min_seconds: 3, min_batches: 20}\n",
         NULL);
    text = (stk__text){.ctx = t.p.ctx};
    l.step = 3e-3;
    run_load(&t, &l, 1000);
    assert_ok(stk_tune_write(t.tune, add_line, &text, &err), &err);
    assert_non_null(strstr(text.bytes, "  train_step_time: 3ms\n"));
    assert_non_null(strstr(text.bytes, "  min_seconds: 3"));
    assert_non_null(strstr(text.bytes, "  min_batches: 20\n"));
    assert_null(strstr(text.bytes, "assumed"));
    stk__text_release(&text);
    end(&t);
}

/* ---- Choosing ---------------------------------------------------------------------------------
 */

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
    for (size_t i = 0; i < 4; i++) {
        points[i].least = 0.8 * points[i].predicted;
        points[i].most = 1.25 * points[i].predicted;
    }
    points[0].runs = 1;
    points[0].samples_per_s = 50;
    stk__tune_correct(points, 4);
    /* So does it narrow the interval: the more, the nearer. */
    assert_true(points[1].most / points[1].samples_per_s < 1.25);
    assert_true(points[3].most / points[3].samples_per_s >
                points[1].most / points[1].samples_per_s);
    const double most = points[1].most;
    assert_true(points[0].samples_per_s == 50);
    assert_true(points[1].samples_per_s < 130 && points[1].samples_per_s > 100);
    const double near = points[1].samples_per_s / 200, far = points[2].samples_per_s / 400,
                 farthest = points[3].samples_per_s / 3200;
    assert_true(near < far && far < farthest && farthest < 1);
    /* Again it is the same: what is corrected is what was predicted. */
    for (size_t i = 1; i < 4; i++) {
        points[i].samples_per_s = points[i].predicted;
        points[i].least = 0.8 * points[i].predicted;
        points[i].most = 1.25 * points[i].predicted;
    }
    stk__tune_correct(points, 4);
    assert_true(fabs(points[1].samples_per_s / 200 - near) < 1e-9);
    assert_true(fabs(points[1].most - most) < 1e-9);
    /* Neighbours that are off otherwise leave it wider than those that agree. */
    points[2].runs = 1;
    points[2].samples_per_s = 400;
    points[1].samples_per_s = 200;
    points[1].least = 160;
    points[1].most = 250;
    stk__tune_correct(points, 4);
    assert_true(points[1].most / points[1].samples_per_s > 1.25);
}

/* Processes that work take memory that nobody foresaw: as much for each. */
static void test_memory(void **state)
{
    stk_tune_point points[] = {point(100, 50, 0), point(200, 110, 2), point(400, 70, 4),
                               point(400, 90, 8), point(400, 7, -1)};
    double predicted[] = {40, 60, 70, 90, 7};

    (void)state;
    points[0].runs = points[1].runs = 1;
    stk__tune_correct_bytes(points, predicted, 5);
    assert_true(points[0].peak_bytes == 50 && points[1].peak_bytes == 110);
    assert_true(fabs(points[2].peak_bytes - (70 + 10 + 4 * 20)) < 1e-9);
    assert_true(fabs(points[3].peak_bytes - (90 + 10 + 8 * 20)) < 1e-9);
    assert_true(points[4].peak_bytes == 7);
    /* Of one number of workers, and where more take less, all are off alike. */
    points[0].runs = 0;
    stk__tune_correct_bytes(points, predicted, 5);
    assert_true(points[3].peak_bytes == 90 + 50 && points[0].peak_bytes == 40 + 50);
    points[0].runs = 1;
    points[0].peak_bytes = 110;
    stk__tune_correct_bytes(points, predicted, 5);
    assert_true(points[3].peak_bytes == 90 + 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speed),         cmocka_unit_test(test_wait),
        cmocka_unit_test(test_unreached),     cmocka_unit_test(test_nothing_to_gain),
        cmocka_unit_test(test_limits),        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_cost),          cmocka_unit_test(test_failures),
        cmocka_unit_test(test_grid),          cmocka_unit_test(test_table),
        cmocka_unit_test(test_configuration), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_correction),    cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
