/* SPDX-License-Identifier: Apache-2.0 */
/* A program measures a loader over made-up data, as the command does: figures, verdict, log. */
#include "support/support.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <stoker/bench.h>

#include "base/base.h"

enum { BATCH = 16, SAMPLES = 160 };

typedef struct own_step {
    uint64_t steps, alone, rows, last_epoch;
    uint64_t fail_at; /* this step; 0: none */
    stk_bench *cancel;
    uint64_t cancel_at;
} own_step;

static stk_context *ctx;
static stk_loader_options loader;
static stk_bench_options options;
static stk_bench_setting setting;
static stk_bench_result result;
static stk_figures figures;
static stk_error err;
static own_step own;

static stk_status run_step(void *user, const stk_batch *batch, stk_error *e)
{
    own_step *o = user;

    o->steps++;
    o->rows += stk_batch_count(batch);
    o->last_epoch = stk_batch_epoch(batch);
    if (o->steps == o->cancel_at)
        stk_bench_cancel(o->cancel);
    if (o->steps != o->fail_at)
        return STK_OK;
    snprintf(e->text, sizeof e->text, "the model is not finite");
    return e->status = STK_EINTERNAL;
}

static stk_status run_alone(void *user, stk_error *e)
{
    own_step *o = user;
    const uint64_t until = stk__now_ns() + 200000;

    (void)e;
    o->alone++;
    while (stk__now_ns() < until)
        continue;
    return STK_OK;
}

static const stk_bench_step *step_of(uint32_t threads, bool alone)
{
    static stk_bench_step step;

    step = (stk_bench_step){.struct_size = sizeof step,
                            .threads = threads,
                            .run = run_step,
                            .run_alone = alone ? run_alone : NULL,
                            .user = &own};
    return &step;
}

/* A setting that is measured in no time. */
static void reset(void)
{
    stk_loader_options_init(&loader);
    loader.batch_size = BATCH;
    loader.num_workers = 1;
    stk_bench_options_init(&options);
    options.num_epochs = 3;
    options.train_step_time = 0;
    setting = (stk_bench_setting){.struct_size = sizeof setting,
                                  .dataset = "synthetic:?size=160",
                                  .loader = &loader,
                                  .bench = &options};
    memset(&own, 0, sizeof own);
    result = (stk_bench_result){.struct_size = sizeof result};
    figures = (stk_figures){.struct_size = sizeof figures};
}

static int set_up(void **state)
{
    (void)state;
    assert_ok(stk_context_create(NULL, &ctx, &err), &err);
    reset();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stk_context_destroy(&ctx);
    return 0;
}

static stk_status measure(void)
{
    stk_bench *bench = NULL;
    stk_status status = stk_bench_create(ctx, &setting, &bench, &err);

    own.cancel = bench;
    if (status == STK_OK)
        status = stk_bench_run(bench, &result, &figures, &err);
    stk_bench_destroy(&bench);
    assert_null(bench);
    return status;
}

static void test_own_step(void **state)
{
    stk_verdict verdict = {.struct_size = sizeof verdict};

    (void)state;
    setting.step = step_of(1, false);
    assert_ok(measure(), &err);
    /* 3 epochs of 10 batches; the first step opens the window. */
    assert_int_equal(own.steps, 30);
    assert_int_equal(own.rows, 3 * SAMPLES);
    assert_int_equal(own.last_epoch, 2);
    assert_int_equal(figures.steps, 29);
    assert_int_equal(figures.samples, 29 * BATCH);
    assert_int_equal(figures.wait.n, 29);
    assert_true(figures.spin && !figures.no_step);
    assert_true(figures.step_stretch == 1); /* alone it was not run */
    assert_true(figures.wall > 0 && figures.samples_per_s > 0 && figures.first_wait > 0);
    assert_int_equal(figures.num_workers, 1);
    assert_int_equal(result.epochs, 2);
    assert_false(result.check_failed || result.interrupted || result.log_written);
    assert_true(result.events >= result.delivered && result.delivered >= 3 * SAMPLES);
    assert_string_equal(result.environment, "");
    assert_true(result.cores_online >= 1 && result.setup > 0);
    stk_judge(&figures, &verdict);
    assert_non_null(strchr(verdict.text, '.'));
}

/* How long a step takes alone is measured before there is a loader; what to set for its threads is
 * said. */
static void test_step_alone(void **state)
{
    (void)state;
    setting.step = step_of(4, true);
    assert_ok(measure(), &err);
    assert_true(own.alone >= 2);
    assert_true(figures.step_stretch > 0 && figures.step_stretch != 1);
    assert_string_equal(result.environment, "OMP_WAIT_POLICY=passive");
}

static void test_simulated_steps(void **state)
{
    (void)state;
    options.num_epochs = 1;
    options.train_step_time = 0.002;
    assert_ok(measure(), &err);
    assert_int_equal(figures.steps, 9);
    assert_true(figures.step_time >= 0.002 && !figures.spin && !figures.no_step);
    options.spin = true;
    assert_ok(measure(), &err);
    assert_true(figures.spin && figures.step_time > 0 && figures.step_stretch > 0);
    options.train_step_time = 0;
    assert_ok(measure(), &err);
    assert_true(figures.no_step);
}

/* One batch again and again, until there are enough. */
static void test_free_data(void **state)
{
    (void)state;
    setting.free_data = true;
    setting.step = step_of(1, false);
    options.num_epochs = 0;
    options.min_seconds = 0;
    options.min_batches = 50;
    options.warmup = 2;
    assert_ok(measure(), &err);
    assert_int_equal(figures.steps, 50);
    assert_int_equal(figures.samples, 50 * BATCH);
    assert_int_equal(figures.num_workers, 0);
    assert_false(result.check_failed);
}

static void test_data_of_the_caller(void **state)
{
    stk_dataset *dataset = NULL;

    (void)state;
    assert_ok(stk_dataset_open(ctx, "synthetic:?size=160", &dataset, &err), &err);
    setting.dataset = NULL;
    setting.data = dataset;
    setting.step = step_of(1, false);
    assert_ok(measure(), &err);
    assert_int_equal(own.rows, 3 * SAMPLES);
    assert_true(figures.cached_share < 0);
    stk_dataset_close(&dataset);
}

/* Ranks share each batch, and meet where the caller has them meet. */
static int met[4];

static void meet(void *user, int place)
{
    assert_ptr_equal(user, met);
    met[place]++;
}

static void test_rank(void **state)
{
    (void)state;
    options.ranks = 2;
    options.num_epochs = 1;
    setting.rank = 1;
    setting.step = step_of(1, false);
    setting.meet = meet;
    setting.meet_user = met;
    memset(met, 0, sizeof met);
    assert_ok(measure(), &err);
    assert_int_equal(own.rows, SAMPLES / 2);
    assert_int_equal(figures.ranks, 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(met[i], 1);
}

typedef struct hashed {
    stk_bench_hash rows[SAMPLES];
    uint64_t n, most;
} hashed;

static bool keep(void *user, const stk_bench_hash *row)
{
    hashed *h = user;

    if (h->n == h->most)
        return false;
    h->rows[h->n++] = *row;
    return true;
}

static void test_hashes(void **state)
{
    static hashed one, two;

    (void)state;
    one = two = (hashed){.most = SAMPLES};
    options.num_epochs = 1;
    setting.hash = keep;
    setting.hash_user = &one;
    assert_ok(measure(), &err);
    loader.num_workers = 0;
    setting.hash_user = &two;
    assert_ok(measure(), &err);
    assert_int_equal(one.n, SAMPLES);
    assert_memory_equal(one.rows, two.rows, sizeof one.rows);
    for (uint64_t i = 0; i < SAMPLES; i++)
        assert_true(one.rows[i].position == i && one.rows[i].step == i / BATCH &&
                    (i == 0 || one.rows[i].hash != one.rows[i - 1].hash));
    /* Where nothing more is taken the pass ends. */
    two = (hashed){.most = 20};
    assert_int_equal(measure(), STK_EIO);
    assert_string_equal(err.text, "could not hash step 1: input/output error");
    assert_int_equal(figures.steps, 9);
}

static bool log_has(const char *path, const char *text)
{
    char line[16384];
    bool found = false;
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        found |= strstr(line, text) != NULL;
    fclose(f);
    return found;
}

static void test_log_and_trace(void **state)
{
    char folder[256], path[300], trace[300], second[310];

    (void)state;
    test_folder(folder);
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(trace, sizeof trace, "%s/trace", folder);
    snprintf(second, sizeof second, "%s.2", trace);
    setting.log = path;
    setting.about = "\"label\": \"mine\"";
    setting.number = 2;
    options.trace = trace;
    assert_ok(measure(), &err);
    assert_true(result.log_written && !result.log_failed);
    assert_true(log_has(path, "\"run start\", \"time\"") &&
                log_has(path, "\"label\": \"mine\", \"rank\": 0, "
                              "\"world_size\": 1, \"repeat\": 1"));
    assert_true(log_has(path, "\"event\": \"verdict\"") && log_has(path, "\"event\": \"ledger\""));
    assert_true(log_has(path, "\"event\": \"training end\""));
    assert_true(log_has(second, "traceEvents") || log_has(second, "\"ph\""));
    snprintf(path, sizeof path, "%s/summary", folder);
    setting.log_summary = true;
    assert_ok(measure(), &err);
    assert_false(log_has(path, "\"event\": \"training end\""));
    assert_true(log_has(path, "\"event\": \"figures\""));
    snprintf(path, sizeof path, "%s/none/log", folder);
    assert_true(measure() < 0);
    assert_non_null(strstr(err.text, "none/log"));
    test_folder_remove(folder);
}

static void test_ends_early(void **state)
{
    (void)state;
    setting.step = step_of(1, false);
    options.num_epochs = 0;
    options.min_seconds = 3600;
    options.max_seconds = 0;
    own.cancel_at = 40;
    assert_true(measure() >= 0 || err.status == STK_ECANCELED);
    assert_true(result.interrupted);
    /* What was measured until then. */
    assert_in_range(figures.steps, 30, 39);
    memset(&own, 0, sizeof own);
    own.fail_at = 12;
    assert_int_equal(measure(), STK_EINTERNAL);
    assert_string_equal(err.text, "the model is not finite");
    assert_string_equal(result.error.text, "the model is not finite");
    assert_false(result.interrupted);
    assert_int_equal(own.steps, 12);
}

static void test_cancelled_before(void **state)
{
    stk_bench *bench = NULL;

    (void)state;
    assert_ok(stk_bench_create(ctx, &setting, &bench, &err), &err);
    stk_bench_cancel(bench);
    (void)stk_bench_run(bench, &result, &figures, &err);
    assert_true(result.interrupted);
    assert_int_equal(figures.steps, 0);
    stk_bench_destroy(&bench);
    stk_bench_destroy(&bench);
}

static void refused(const char *text)
{
    stk_bench *bench = NULL;

    assert_int_equal(stk_bench_create(ctx, &setting, &bench, &err), STK_EINVAL);
    assert_null(bench);
    assert_string_equal(err.text, text);
    reset();
}

static void test_words(void **state)
{
    (void)state;
    setting.dataset = "";
    refused("no dataset: give a spec ('digits:' needs no files) or one that is open");
    options.ranks = 2;
    loader.world_size = 2;
    refused("bench.ranks: 2 set rank and world_size themselves: leave those of the loader out");
    options.ranks = 2;
    setting.log = "mem://logs/a";
    refused("the log 'mem://logs/a' is one object, which 2 ranks cannot all write; give a local "
            "file");
    options.ranks = 2;
    setting.rank = 2;
    refused("rank 2 of 2");
    options.step = "train:x.yaml";
    refused("bench.step: 'train:x.yaml' names a step, and none is given with the setting");
    setting.step = &(stk_bench_step){.struct_size = sizeof(stk_bench_step)};
    refused("the step has no function 'run'; set stk_bench_step.run");
    setting.struct_size = 0;
    assert_int_equal(measure(), STK_EINVAL);
    assert_non_null(strstr(err.text, "struct_size"));
    reset();
    result.struct_size = 0;
    assert_int_equal(measure(), STK_EINVAL);
    assert_non_null(strstr(err.text, "stk_bench_result"));
    reset();
    setting.dataset = "nonsense:";
    assert_true(measure() < 0);
    assert_non_null(strstr(result.error.text, "nonsense"));
    reset();
    loader.epochs = 1;
    options.num_epochs = 0;
    options.warmup = 10;
    assert_int_equal(measure(), STK_EINVAL);
    assert_string_equal(err.text,
                        "the loader gave no batch to measure: more epochs, or less warmup");
    reset();
    setting.dataset = "digits:?size=10";
    options.num_epochs = 1;
    assert_int_equal(measure(), STK_EINVAL);
    assert_non_null(strstr(err.text, "the run was one batch"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_own_step),
        TEST(test_step_alone),
        TEST(test_simulated_steps),
        TEST(test_free_data),
        TEST(test_data_of_the_caller),
        TEST(test_rank),
        TEST(test_hashes),
        TEST(test_log_and_trace),
        TEST(test_ends_early),
        TEST(test_cancelled_before),
        TEST(test_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
