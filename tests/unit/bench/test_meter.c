/* SPDX-License-Identifier: Apache-2.0 */
/* What a loader in a loop of one's own is limited by. */
#include "support/support.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/bench.h>

#include "base/base.h"
#include "measure/measure.h"

static stk_context *ctx;
static stk_loader_options options;
static stk_dataset *dataset;
static stk_loader *loader;
static stk_error err;

static void make(const char *spec, int64_t workers)
{
    assert_ok(stk_context_create(NULL, &ctx, &err), &err);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    stk_loader_options_init(&options);
    options.batch_size = 8;
    options.num_workers = workers;
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
}

static void end(void)
{
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void turn(uint64_t ns)
{
    for (const uint64_t until = stk__now_ns() + ns; stk__now_ns() < until;)
        continue;
}

static void loop(uint64_t steps, uint64_t step_ns)
{
    stk_batch *batch;

    for (uint64_t i = 0; i < steps;) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        turn(step_ns);
        stk_batch_release(&batch);
        i++;
    }
}

static void test_loop_that_waits(void **state)
{
    stk_figures f = {.struct_size = sizeof f};
    stk_verdict verdict = {.struct_size = sizeof verdict};
    stk_meter *meter = NULL;

    (void)state;
    /* Samples cost 100 us each in the caller's thread, the step next to nothing. */
    make("synthetic:?size=80&cpu=100us", 0);
    loop(5, 0);
    assert_ok(stk_meter_open(ctx, loader, &options, &meter, &err), &err);
    loop(25, 0);
    stk_meter_get(meter, &f);
    assert_int_equal(f.steps, 25);
    assert_int_equal(f.samples, 25 * 8);
    assert_int_equal(f.num_workers, 0);
    assert_true(f.wall > 25 * 8 * 100e-6 && f.wait.sum <= f.wall);
    assert_true(f.wait.sum >= 25 * 8 * 90e-6 && f.step_share < 1);
    assert_true(f.prepare_busy > 25 * 8 * 90e-6);
    double parts = 0;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        parts += f.waits[i];
    assert_true(parts > 0.99 * f.wait.sum && parts < 1.01 * f.wait.sum);
    stk_judge(&f, &verdict);
    assert_int_equal(verdict.limit, STK_LIMIT_ONE_CORE);
    assert_string_equal(verdict.knob, "num_workers");
    stk_meter_close(&meter);
    assert_null(meter);
    stk_meter_close(&meter);
    end();
}

static void test_loop_that_computes(void **state)
{
    stk_figures f = {.struct_size = sizeof f};
    stk_meter *meter = NULL;

    (void)state;
    make("synthetic:?size=80", 0);
    assert_ok(stk_meter_open(ctx, loader, &options, &meter, &err), &err);
    /* Before the first batch there is nothing to tell. */
    stk_meter_get(meter, &f);
    assert_int_equal(f.steps, 0);
    assert_true(f.step_share == 0 && f.samples_per_s == 0);
    loop(20, 2000000);
    stk_meter_get(meter, &f);
    assert_int_equal(f.steps, 20);
    assert_true(f.step_time >= 0.002 && f.step_share > 0);
    assert_true(f.batch_size == 8 && f.usable_cores >= 1 && f.step_stretch == 1);
    stk_meter_close(&meter);
    end();
}

/* Another process keeps a core busy. */
static void other_process(uint64_t ns)
{
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        turn(ns);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* What is behind the end of a loop does not count; another one goes on. */
static void test_loop_that_ends(void **state)
{
    stk_figures f = {.struct_size = sizeof f}, later = f;
    stk_meter *meter = NULL;
    stk_batch *batch;

    (void)state;
    make("synthetic:?size=80", 0);
    assert_ok(stk_meter_open(ctx, loader, &options, &meter, &err), &err);
    loop(5, 1000000);
    stk_meter_stop(meter);
    stk_meter_get(meter, &f);
    assert_int_equal(f.steps, 5);
    turn(20000000);
    other_process(60000000);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    stk_batch_release(&batch);
    stk_meter_stop(meter);
    stk_meter_get(meter, &later);
    assert_true(later.wall == f.wall && later.steps == 5 && later.wait.sum == f.wait.sum);
    assert_true(later.other_cores == f.other_cores && later.runnable_s == f.runnable_s);
    stk_meter_go_on(meter);
    loop(5, 0);
    stk_meter_get(meter, &later);
    assert_int_equal(later.steps, 11);
    assert_true(later.wall >= f.wall + 0.02);
    stk_meter_close(&meter);
    end();
}

static void test_words(void **state)
{
    stk_meter *meter = NULL;

    (void)state;
    make("synthetic:?size=80", 0);
    options.struct_size = 0;
    assert_int_equal(stk_meter_open(ctx, loader, &options, &meter, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "struct_size 0"));
    assert_null(meter);
    end();
}

/* Two looks at counts: what lies between them; members that they do not tell stay. */
static void test_counts(void **state)
{
    stk_loader_stats then = {.struct_size = sizeof then}, now = {.struct_size = sizeof now};
    stk_figures f = {.struct_size = sizeof f, .samples = 77, .requests = 1};

    (void)state;
    then.stages[STK_LOADER_PREPARE].busy_ns = 1000000000;
    now.stages[STK_LOADER_PREPARE].busy_ns = 3000000000;
    then.stages[STK_LOADER_READ].failures = 2;
    now.stages[STK_LOADER_READ].failures = 5;
    now.stages[STK_LOADER_READ].busy_ns = 500000000;
    then.requests = 10;
    now.requests = 15;
    now.workers = 2;
    now.depth = 8;
    then.waits.parts_ns[STK_WAIT_DECODE] = 1000;
    now.waits.parts_ns[STK_WAIT_DECODE] = 2000001000;
    stk__figures_of_loader(&then, &now, &f);
    assert_true(f.prepare_busy == 2 && f.read_seconds == 0.5 && f.read_latency == 0.1);
    assert_int_equal(f.read_failures, 3);
    assert_int_equal(f.requests, 5);
    assert_int_equal(f.prefetch, 4);
    assert_true(f.waits[STK_WAIT_DECODE] == 2);
    assert_int_equal(f.samples, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_that_waits), cmocka_unit_test(test_loop_that_computes),
        cmocka_unit_test(test_loop_that_ends),  cmocka_unit_test(test_words),
        cmocka_unit_test(test_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
