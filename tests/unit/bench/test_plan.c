/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a configuration, and what runs of them say together. */
#include <math.h>

#include "plan.h"

static stk_bench_setting setting_of(const planned *p, size_t i)
{
    stk_bench_setting s = {.struct_size = sizeof s};

    stk_bench_plan_get(p->plan, i, &s);
    return s;
}

static stk_bench_row row_of(const planned *p, size_t i)
{
    stk_bench_row row = {.struct_size = sizeof row};

    stk_bench_plan_row(p->plan, i, &row);
    return row;
}

static stk_bench_summary summary_of(const planned *p)
{
    stk_bench_summary s = {.struct_size = sizeof s};

    stk_bench_plan_summary(p->plan, &s);
    return s;
}

static stk_verdict verdict_of(const planned *p, size_t i)
{
    stk_verdict v = {.struct_size = sizeof v};

    stk_bench_plan_judge(p->plan, i, &v);
    return v;
}

static void test_settings(void **state)
{
    planned p = plan_of("dataset: ['images:a/train?x=1', 'images:b/train?x=1']\n"
                        "loader: {num_workers: [0, auto], batch_size: 8}\n"
                        "bench: {ceiling: true, warmup: 2}\n",
                        NULL);
    stk_bench_setting s = setting_of(&p, 1);

    (void)state;
    /* Four combinations, and one more for the batch size that they have. */
    assert_int_equal(stk_bench_plan_count(p.plan), 5);
    assert_string_equal(setting_of(&p, 0).label, "dataset=a num_workers=0");
    assert_string_equal(s.label, "dataset=a num_workers=auto");
    assert_string_equal(s.dataset, "images:a/train?x=1");
    assert_true(s.loader->num_workers == STK_AUTO && s.loader->batch_size == 8);
    assert_true(s.bench->warmup == 2 && s.number == 2 && s.which == 1 && !s.free_data);
    assert_non_null(strstr(s.options_json, "{\"dataset\": \"images:a/train?x=1\", \"step\": null"));
    assert_non_null(strstr(s.options_json, "\"num_workers\": \"auto\""));
    assert_non_null(
        strstr(s.about, "\"data_params\": \"{'batch_size': 8, 'num_workers': 'auto'}\""));
    assert_non_null(strstr(s.about, "\"setting\": 2, \"label\": \"dataset=a num_workers=auto\""));
    s = setting_of(&p, 4);
    assert_true(s.free_data && s.loader->num_workers == 0);
    assert_string_equal(s.label, "ceiling: data free (batch_size 8)");
    s = setting_of(&p, 5);
    assert_true(!s.label && !s.loader && s.struct_size == sizeof s);
    plan_end(&p);
    p = plan_of("dataset: 'digits:'\nbench: {published: true, warmup: 4}\n", NULL);
    s = setting_of(&p, 0);
    assert_string_equal(s.label, "as given");
    assert_true(s.bench->num_epochs == 2 && s.bench->num_batches == 3 && s.bench->warmup == 4);
    assert_true(s.loader->batch_size == 16 && s.bench->train_step_time == 0.1);
    plan_end(&p);
}

/* A bound on bad samples is for the settings that pass them. */
static void test_idle_bound(void **state)
{
    planned p = plan_of("loader: {on_error: [fail, skip], max_errors: 3}\n", NULL);

    (void)state;
    assert_string_equal(setting_of(&p, 0).loader->max_errors, "auto");
    assert_string_equal(setting_of(&p, 1).loader->max_errors, "3");
    plan_end(&p);
}

static stk_status adjust(void *user, stk_bench_setting *setting, stk_loader_options *loader,
                         stk_bench_options *bench, stk_error *err)
{
    (void)bench, (void)err;
    assert_ptr_equal(setting->loader, loader);
    setting->dataset = user;
    loader->batch_size = 5;
    return setting->which == 2 ? STK_ENOTSUP : STK_OK;
}

/* The options of the context may vary, too, and a program changes settings as they are made. */
static void test_adjust(void **state)
{
    const stk_bench_plan_options options = {
        .struct_size = sizeof options, .adjust = adjust, .user = "digits:"};
    planned p = plan_of("context: {compute_threads: [1, 2]}\n", &options);
    stk_error err;

    (void)state;
    assert_string_equal(setting_of(&p, 1).label, "compute_threads=2");
    assert_string_equal(setting_of(&p, 1).dataset, "digits:");
    assert_int_equal(setting_of(&p, 1).loader->batch_size, 5);
    stk_bench_plan_destroy(&p.plan);
    assert_ok(stk_config_set(p.config, "context.compute_threads", "1,2,3", true, &err), &err);
    assert_int_equal(stk_bench_plan_create(p.ctx, p.config, &options, &p.plan, &err), STK_ENOTSUP);
    assert_null(p.plan);
    plan_end(&p);
}

static void test_ranks(void **state)
{
    planned p = plan_of("dataset: 'digits:'\n", NULL);
    stk_figures f[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        f[i] = (stk_figures){.struct_size = sizeof f[i],
                             .steps = 10,
                             .samples_per_s = 100 + i,
                             .samples = 1000,
                             .cpu_s = 2,
                             .peak_bytes = 10,
                             .step_share = 0.5 - 0.1 * i,
                             .step_stretch = 1 + i,
                             .wait = {.mean = 0.1 * (i + 1), .p95 = 0.3}};
    plan_add(&p, 0, 0, STK_OK, &f[0]);
    plan_add(&p, 0, 1, STK_OK, &f[1]);
    stk_bench_row row = row_of(&p, 0);
    assert_true(row.ended && row.runs == 1);
    assert_true(row.figures->samples_per_s == 201 && row.least == 201 && row.most == 201);
    assert_true(row.figures->cpu_s_per_1000 == 2 && row.figures->peak_bytes == 20);
    assert_true(row.figures->step_share == 0.4 && row.figures->step_stretch == 2);
    assert_true(row.figures->wait.mean == 0.2 && row.result->delivered == 2000);
    /* The verdict is about the slowest rank, with the rate of all. */
    assert_true(row.judged->wait.mean == 0.2 && row.judged->samples_per_s == 201);
    plan_end(&p);
    /* What failed says more than what was stopped for it. */
    p = plan_of("dataset: 'digits:'\n", NULL);
    f[0].steps = f[1].steps = 0;
    plan_add(&p, 0, 0, STK_ECANCELED, &f[0]);
    plan_add(&p, 0, 1, STK_EFORMAT, &f[1]);
    row = row_of(&p, 0);
    assert_int_equal(row.result->status, STK_EFORMAT);
    assert_false(row.ended);
    plan_end(&p);
}

static void test_repeats(void **state)
{
    const double rates[] = {300, 100, 200, 400};
    planned p = plan_of("dataset: 'digits:'\n", NULL);
    const stk_figures none = {.struct_size = sizeof none};
    stk_bench_row row;

    (void)state;
    row = row_of(&p, 0);
    assert_true(!row.ended && !row.result && !row.figures && isnan(row.factor));
    assert_int_equal(summary_of(&p).best, STK_BENCH_NONE);
    /* One that failed shows only where all did. */
    plan_add(&p, 0, 0, STK_EIO, &none);
    assert_int_equal(row_of(&p, 0).result->status, STK_EIO);
    for (int i = 0; i < 4; i++)
        plan_add_rate(&p, 0, rates[i], 1);
    row = row_of(&p, 0);
    assert_true(row.runs == 4 && row.least == 100 && row.most == 400);
    assert_true(row.figures->samples_per_s == 200); /* the lower one of the two in the middle */
    assert_int_equal(row.result->status, STK_OK);
    plan_add_rate(&p, 0, 500, 1);
    assert_true(row_of(&p, 0).figures->samples_per_s == 300);
    plan_end(&p);
}

static planned ladder(double last)
{
    planned p = plan_of("loader: {io_depth: [1, 2, 3], num_workers: [0, 1]}\nbench: {ladder: true, "
                        "ceiling: true}\n",
                        NULL);

    plan_add_rate(&p, 0, 100, 0);
    plan_add_rate(&p, 1, 200, 0);
    plan_add_rate(&p, 3, last, 1); /* one between them was not measured */
    plan_add_rate(&p, 4, 9000, 0); /* and a ceiling is none */
    return p;
}

static void test_ladder(void **state)
{
    planned p = ladder(800);

    (void)state;
    assert_int_equal(stk_bench_plan_count(p.plan), 5);
    assert_string_equal(setting_of(&p, 0).label, "1. at first");
    assert_string_equal(setting_of(&p, 1).measure, "io_depth=2");
    assert_string_equal(setting_of(&p, 3).label, "4. num_workers=1");
    assert_non_null(strstr(setting_of(&p, 1).about, "\"rung\": 2, \"measure\": \"io_depth=2\""));
    assert_true(isnan(row_of(&p, 0).factor) && isnan(row_of(&p, 4).factor));
    assert_true(row_of(&p, 1).factor == 2 && row_of(&p, 3).factor == 4);
    assert_true(fabs(row_of(&p, 1).share - 1. / 3) < 1e-12);
    assert_true(fabs(row_of(&p, 3).share - 2. / 3) < 1e-12);
    assert_true(fabs(summary_of(&p).ladder - 8) < 1e-12);
    plan_end(&p);
    /* Rungs are no neighbours: what they measured is no advice. */
    p = plan_of("loader: {num_workers: [0, 1], batch_size: 64}\nbench: {ladder: true}\n", NULL);
    plan_add_rate(&p, 0, 500, 0);
    plan_add_rate(&p, 1, 1000, 1);
    assert_string_equal(verdict_of(&p, 0).knob, "num_workers");
    assert_null(strstr(verdict_of(&p, 0).text, "measured in this sweep"));
    plan_end(&p);
    /* Next to nothing in all is not divided. */
    p = ladder(102);
    assert_true(row_of(&p, 3).factor == 0.51 && isnan(row_of(&p, 3).share));
    plan_end(&p);
    p = plan_of("bench: {ladder: true}\n", NULL);
    plan_add_rate(&p, 0, 100, 0);
    assert_true(isnan(summary_of(&p).ladder));
    plan_end(&p);
}

/* No worker gives more, and the ceiling less than all. */
static planned sweep(const char *workers, const double *rates, const int64_t *found)
{
    char yaml[256];

    snprintf(yaml, sizeof yaml,
             "loader: {num_workers: [%s], cache: [none, decoded], batch_size: 64}\n"
             "bench: {ceiling: true}\n",
             workers);
    planned p = plan_of(yaml, NULL);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < stk_bench_plan_count(p.plan); k++) {
            const stk_bench_setting s = setting_of(&p, k);
            if (s.which / 2 == i && s.loader->cache == STK_CACHE_NONE && !s.free_data)
                plan_add_rate(&p, k, rates[i], found[i]);
        }
    plan_add_rate(&p, stk_bench_plan_count(p.plan) - 1, rates[4], 0);
    return p;
}

static const int64_t asked[] = {0, 1, 2, 4};

static void test_sweep(void **state)
{
    stk_sweep_point points[16];
    size_t from;
    planned p = sweep("0,1,2,4", (const double[]){1600, 1440, 1400, 1300, 1700}, asked);
    stk_bench_summary s = summary_of(&p);

    (void)state;
    assert_true(s.best == 0 && s.baseline == 0 && s.worst == 6 && !s.alike && !s.faster);
    assert_true(row_of(&p, 0).figures->ceiling_samples_per_s == 1700);
    assert_true(row_of(&p, 0).judged->ceiling_samples_per_s == 1700);
    stk_verdict v = verdict_of(&p, 0);
    assert_string_equal(v.knob, "");
    assert_non_null(
        strstr(v.text, "measured in this sweep: 1440 samples/s, no more than the 1600"));
    assert_int_equal(stk_bench_plan_saturation(p.plan, 0, points, 16, &from), 4);
    assert_int_equal(from, 0);
    assert_string_equal(points[0].knob, "num_workers");
    assert_string_equal(points[1].value, "1");
    assert_true(points[3].samples_per_s == 1300);
    assert_int_equal(stk_bench_plan_saturation(p.plan, 1, points, 16, &from), 0);
    /* No more is written than there is room. */
    memset(points, 0x7f, sizeof points);
    assert_int_equal(stk_bench_plan_saturation(p.plan, 0, points, 1, &from), 4);
    assert_int_equal(points[1].knob[0], 0x7f);
    plan_end(&p);
    /* Workers help up to two. */
    p = sweep("0,1,2,4", (const double[]){500, 1000, 1600, 1590, 1500}, asked);
    s = summary_of(&p);
    assert_true(s.best == 4 && s.worst == 0 && s.faster && fabs(s.speed_up - 3.2) < 1e-9);
    v = verdict_of(&p, 0);
    assert_string_equal(v.knob, "num_workers");
    assert_string_equal(v.value, "2");
    assert_true(v.gain > 3.19 && v.gain < 3.21);
    assert_int_equal(stk_bench_plan_saturation(p.plan, 0, points, 16, &from), 4);
    assert_int_equal(from, 2);
    plan_end(&p);
    /* Settings that differ in two options are no neighbours. */
    p = plan_of("loader: {seed: [1, 2], num_workers: [0, 1], batch_size: 64}\n", NULL);
    plan_add_rate(&p, 0, 500, 0);
    plan_add_rate(&p, 3, 1000, 1);
    assert_string_equal(setting_of(&p, 3).label, "seed=2 num_workers=1");
    assert_null(strstr(verdict_of(&p, 0).text, "measured in this sweep"));
    plan_add_rate(&p, 1, 1000, 1);
    assert_string_equal(setting_of(&p, 1).label, "seed=1 num_workers=1");
    assert_non_null(strstr(verdict_of(&p, 0).text, "measured in this sweep"));
    plan_end(&p);
}

/* What "auto" became is no setting of its own where it was asked for, too. */
static void test_auto(void **state)
{
    stk_sweep_point points[16];
    size_t from;
    planned p = sweep("0,1,2,auto", (const double[]){1600, 1440, 1400, 1300, 1700},
                      (const int64_t[]){0, 1, 2, 1});

    (void)state;
    assert_int_equal(stk_bench_plan_saturation(p.plan, 0, points, 16, &from), 3);
    assert_string_equal(points[2].value, "2");
    plan_end(&p);
}

static void test_alike(void **state)
{
    planned p = plan_of("loader: {num_workers: [0, 1]}\n", NULL);

    (void)state;
    plan_add_rate(&p, 0, 500, 0);
    plan_add_rate(&p, 1, 1000, 1);
    assert_true(!summary_of(&p).alike && summary_of(&p).faster);
    /* Ranges that overlap. */
    plan_add_rate(&p, 0, 1001, 0);
    plan_add_rate(&p, 1, 1000, 1);
    assert_true(summary_of(&p).alike && !summary_of(&p).faster);
    plan_end(&p);
}

static void refused(planned *p, const char *key, const char *text, const char *words)
{
    stk_error err;

    assert_ok(stk_config_set(p->config, key, text, true, &err), &err);
    stk_bench_plan_destroy(&p->plan);
    assert_int_equal(stk_bench_plan_create(p->ctx, p->config, NULL, &p->plan, &err), STK_EINVAL);
    assert_null(p->plan);
    assert_non_null(strstr(err.text, words));
}

/* A dataset of Python is an interpreter's to measure, with the options that it has. */
static void test_of_python(void **state)
{
    planned p = plan_of("dataset: 'python:mine:Data'\n"
                        "python: {loader: [stoker, torch], dataset_args: '[1]'}\n"
                        "loader: {num_workers: 2}\nbench: {ceiling: true}\n",
                        NULL);
    stk_bench_setting s = setting_of(&p, 1);
    stk_error err;

    (void)state;
    assert_int_equal(stk_bench_plan_count(p.plan), 3);
    assert_string_equal(s.label, "loader=torch");
    assert_true(s.python && s.python->loader == 1 && s.python->in_order);
    assert_string_equal(s.python->python, "python3");
    assert_non_null(strstr(s.options_json, "\"loader\": \"torch\", \"dataset_args\": \"[1]\""));
    s = setting_of(&p, 2);
    assert_true(s.free_data && s.python && s.python->loader == 0);
    refused(&p, "loader.io_depth", "4", "loader.io_depth: it has no effect on a dataset of Python");
    plan_end(&p);
    p = plan_of("dataset: 'digits:'\n", NULL);
    s = setting_of(&p, 0);
    assert_null(s.python);
    assert_int_equal(stk_bench_exec(&s, 1, &err), STK_EINVAL);
    assert_null(strstr(s.options_json, "dataset_args"));
    refused(&p, "python.loader", "torch",
            "python.loader: it has no effect on a dataset of the library");
    plan_end(&p);
    p = plan_of("dataset: 'digits:'\nbench: {step: 'python:mine:step'}\nloader: {io_depth: 4}\n",
                NULL);
    s = setting_of(&p, 0);
    assert_true(s.python && s.bench->spin && s.bench->train_step_time == 0);
    refused(&p, "python.loader", "torch",
            "python.loader: it has no effect on a dataset of the library");
    plan_end(&p);
    p = plan_of("dataset: 'digits:'\nbench: {step: 'python:mine:step'}\npython: {python: py}\n",
                NULL);
    assert_string_equal(setting_of(&p, 0).python->python, "py");
    refused(&p, "bench.spin", "true", "bench.spin: it has no effect on a real step");
    plan_end(&p);
}

/* What only stoker's loader has is refused where it would measure PyTorch's twice. */
static void test_of_pytorchs_loader(void **state)
{
    planned p = plan_of("dataset: 'python:mine:Data'\n"
                        "python: {loader: [stoker, torch], native: false, rng: stoker}\n",
                        NULL);
    const char *words = "it has no effect on PyTorch's loader (python.loader: torch)";

    (void)state;
    assert_int_equal(stk_bench_plan_count(p.plan), 2);
    plan_end(&p);
    p = plan_of("dataset: 'python:mine:Data'\nbench: {ladder: true}\n"
                "python: {loader: [torch, stoker], native: [auto, false]}\n",
                NULL);
    assert_int_equal(stk_bench_plan_count(p.plan), 3);
    refused(&p, "bench.ladder", "false", words);
    refused(&p, "python.loader", "torch", "python.native: it has no effect on PyTorch's loader");
    plan_end(&p);
    p = plan_of("dataset: 'python:mine:Data'\npython: {loader: torch}\n", NULL);
    refused(&p, "python.rng", "torch", words);
    plan_end(&p);
}

/* Who knows of an interpreter gives it for those that are not named. */
static void test_of_an_interpreter(void **state)
{
    const stk_bench_plan_options how = {.struct_size = sizeof how, .python = "/my/python"};
    planned p = plan_of("dataset: 'python:mine:Data'\n", &how);

    (void)state;
    assert_string_equal(setting_of(&p, 0).python->python, "/my/python");
    plan_end(&p);
    p = plan_of("dataset: 'python:mine:Data'\npython: {python: other}\n", &how);
    assert_string_equal(setting_of(&p, 0).python->python, "other");
    plan_end(&p);
}

static void test_words(void **state)
{
    planned p = plan_of("dataset: 'digits:'\n", NULL);
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures f = {.struct_size = sizeof f};
    char many[8192] = "1";
    stk_error err;

    (void)state;
    assert_int_equal(stk_bench_plan_add(p.plan, 1, 0, &result, &f, &err), STK_EINVAL);
    assert_string_equal(err.text, "the plan has no setting 1");
    assert_int_equal(stk_bench_plan_add(p.plan, 0, 1, &result, &f, &err), STK_EINVAL);
    assert_string_equal(err.text, "setting 0 has no run yet: its first rank is 0");
    f.struct_size = 0;
    assert_int_equal(stk_bench_plan_add(p.plan, 0, 0, &result, &f, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "stk_figures"));
    refused(&p, "bench.ranks", "0", "bench.ranks: '0' is out of range; it takes 1..256");
    refused(&p, "bench.ranks", "1,x", "bench.ranks: 'x'");
    for (int i = 2; i <= 1001; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    assert_ok(stk_config_set(p.config, "bench.ranks", "1", true, &err), &err);
    refused(&p, "loader.batch_size", many, "1001 settings: 1000 at most; give fewer values");
    plan_end(&p);
}

/* A training of two epochs in so many seconds; with a loss below 0 it was interrupted. */
static void add_training_of(planned *p, size_t i, int64_t workers, double seconds, double loss)
{
    stk_bench_result result = {.struct_size = sizeof result, .status = STK_OK};
    stk_figures f = rate_of(1000, workers);
    stk_error err;

    result.interrupted = loss < 0;
    result.status = loss < 0 ? STK_ECANCELED : STK_OK;
    result.training = (stk_bench_training){.seconds = seconds, .epochs = 2, .accuracy = 0.5};
    result.training.loss[0] = 1;
    result.training.loss[1] = result.training.last_loss = loss;
    assert_ok(stk_bench_plan_add(p->plan, i, 0, &result, &f, &err), &err);
}

static void add_training(planned *p, size_t i, double seconds, double loss)
{
    add_training_of(p, i, 0, seconds, loss);
}

/* Each run is compared with the baseline's of the same round, whatever the machine does between
 * rounds; time counts, not samples a second. */
static void test_trainings(void **state)
{
    planned p = plan_of("loader: {num_workers: [0, 2, 4]}\nbench: {repeat: 3}\n", NULL);
    stk_bench_result result = {.struct_size = sizeof result};
    const stk_figures f = rate_of(1000, 0);
    stk_sweep_point points[4];
    stk_error err;
    size_t from;

    (void)state;
    result.training = (stk_bench_training){.seconds = 5, .epochs = 2, .loss = {1, 0.5}};
    for (int round = 0; round < 3; round++) {
        const double slow = round == 1 ? 4 : 1;
        add_training(&p, 0, 10 * slow, 0.5);
        add_training(&p, 1, (round == 2 ? 4 : 5) * slow, 0.5);
        add_training(&p, 2, 8 * slow, round == 2 ? 0.25 : 0.5);
    }
    stk_bench_row row = row_of(&p, 1);
    assert_int_equal(row.pairs, 3);
    assert_float_equal(row.speed_up, 2, 1e-12);
    assert_float_equal(row.speed_up_least, 2, 1e-12);
    assert_float_equal(row.speed_up_most, 2.5, 1e-12);
    assert_float_equal(row.sureness, 0.75, 1e-12);
    assert_float_equal(row.least, 1 / 20.0, 1e-12);
    assert_float_equal(row.most, 1 / 4.0, 1e-12);
    assert_float_equal(row.result->training.seconds, 5, 0);
    assert_false(row.other_losses || row.uneven);
    row = row_of(&p, 0);
    assert_true(row.speed_up == 1 && row.speed_up_least == 1 && row.speed_up_most == 1);
    row = row_of(&p, 2);
    assert_true(row.other_losses && row.uneven);
    /* One that was interrupted took no time to compare. */
    add_training(&p, 1, 1, -1);
    assert_true(row_of(&p, 1).pairs == 3 && row_of(&p, 1).runs == 3);
    const stk_bench_summary s = summary_of(&p);
    assert_true(s.trainings && s.best == 1 && s.baseline == 0 && s.worst == 0);
    assert_float_equal(s.speed_up, 2, 1e-12);
    /* A loss that differs after the epochs that are kept. */
    add_training(&p, 1, 5, 0.5);
    assert_false(row_of(&p, 1).uneven);
    result.training.last_loss = 0.25;
    assert_ok(stk_bench_plan_add(p.plan, 1, 0, &result, &f, &err), &err);
    assert_true(row_of(&p, 1).uneven);
    /* Their rates are none of samples, so no text quotes them. */
    assert_int_equal(stk_bench_plan_saturation(p.plan, 0, points, 4, &from), 0);
    plan_end(&p);
}

/* A verdict quotes what the rounds of a sweep of trainings have measured, and promises nothing. */
static void test_trainings_are_quoted(void **state)
{
    planned p = plan_of("loader: {num_workers: [0, 2, 4]}\nbench: {repeat: 2}\n", NULL);

    (void)state;
    add_training(&p, 0, 10, 0.5);
    assert_string_equal(verdict_of(&p, 0).value, "3");
    add_training_of(&p, 1, 2, 12.5, 0.5);
    stk_verdict v = verdict_of(&p, 0);
    assert_string_equal(v.knob, "");
    assert_true(v.gain == 1);
    assert_non_null(strstr(v.text, "num_workers 2 would be the next to try, but was measured in "
                                   "this sweep: no faster (0.80x, whole trainings)."));
    /* What trained something else is no answer. */
    add_training_of(&p, 2, 4, 2, 0.25);
    assert_string_equal(verdict_of(&p, 0).knob, "");
    plan_end(&p);
    p = plan_of("loader: {num_workers: [0, 2]}\nbench: {repeat: 2}\n", NULL);
    add_training(&p, 0, 10, 0.5);
    add_training_of(&p, 1, 2, 8, 0.5);
    v = verdict_of(&p, 0);
    assert_string_equal(v.value, "2");
    assert_float_equal(v.gain, 1.25, 1e-12);
    assert_non_null(
        strstr(v.text, "Set num_workers to 2: measured in this sweep, 1.25x as fast (whole "));
    /* A round of each that says the opposite: no difference was measured. */
    add_training(&p, 0, 40, 0.5);
    add_training_of(&p, 1, 2, 50, 0.5);
    assert_string_equal(verdict_of(&p, 0).knob, "");
    plan_end(&p);
}

/* Sections of a training may vary, and a rung is compared with the one before. */
static void test_ladder_of_trainings(void **state)
{
    planned p = plan_of("bench: {ladder: true}\n"
                        "trainer: {precision: [32-true, 64-true], max_epochs: [4, 2]}\n"
                        "callbacks: ['', 'early_stopping(monitor=val_loss)']\n",
                        NULL);

    (void)state;
    assert_int_equal(stk_bench_plan_count(p.plan), 4);
    assert_string_equal(setting_of(&p, 1).measure, "precision=64-true");
    assert_string_equal(setting_of(&p, 2).measure, "max_epochs=2");
    assert_string_equal(setting_of(&p, 3).measure, "callbacks=early_stopping(monitor=val_loss)");
    add_training(&p, 0, 16, 0.5);
    add_training(&p, 1, 8, 0.25);
    add_training(&p, 2, 8, 0.25);
    add_training(&p, 3, 4, 0.25);
    stk_bench_row row = row_of(&p, 1);
    assert_true(row.other_losses);
    assert_float_equal(row.share, 0.5, 1e-12);
    row = row_of(&p, 2);
    assert_false(row.other_losses);
    assert_float_equal(row.factor, 1, 1e-12);
    row = row_of(&p, 3);
    assert_float_equal(row.share, 0.5, 1e-12);
    assert_float_equal(row.speed_up, 4, 1e-12);
    assert_float_equal(summary_of(&p).ladder, 4, 1e-12);
    plan_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_idle_bound),
        cmocka_unit_test(test_adjust),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_ladder),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_of_python),
        cmocka_unit_test(test_of_pytorchs_loader),
        cmocka_unit_test(test_of_an_interpreter),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_trainings),
        cmocka_unit_test(test_trainings_are_quoted),
        cmocka_unit_test(test_ladder_of_trainings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
