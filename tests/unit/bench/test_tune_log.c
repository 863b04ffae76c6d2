/* SPDX-License-Identifier: Apache-2.0 */
/* What a tuner knows of its grid, in a log and read again: every number of every setting. */
#include "tuned.h"

#include <stoker/report.h>

static char folder[256], path[300];

static int set_up(void **state)
{
    (void)state;
    test_folder(folder);
    snprintf(path, sizeof path, "%s/grid.log", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static void assert_same(double a, double b)
{
    if (!(a == b || (isnan(a) && isnan(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

/* One setting as the tuner has it, and as the log does. */
static void assert_point(const tuned *t, const stk_report_grid_setting *g, size_t i)
{
    stk_tune_point p = {.struct_size = sizeof p};

    stk_tune_point_get(t->tune, i, &p);
    assert_int_equal(g->file, 0);
    assert_int_equal(g->setting, p.setting);
    assert_true(g->num_workers == p.num_workers && g->io_depth == p.io_depth);
    assert_int_equal(g->prefetch_factor, p.prefetch_factor);
    assert_true(g->auto_workers == p.auto_workers && g->auto_depth == p.auto_depth);
    assert_true(g->allowed == p.allowed && g->front == p.front);
    assert_int_equal(g->runs, p.runs);
    assert_true(g->best == (t->answer.best == i));
    assert_same(g->samples_per_s, p.samples_per_s);
    assert_same(g->least, p.least);
    assert_same(g->most, p.most);
    assert_same(g->predicted, p.predicted);
    assert_same(g->wait_share, p.wait_share);
    assert_same(g->wait, p.wait);
    assert_same(g->cpu_cores, p.cpu_cores);
    assert_same(g->peak_bytes, p.peak_bytes);
    assert_same(g->cost, p.cost);
}

/* How many of them are predictions. */
static size_t expect_log(const tuned *t)
{
    stk_report *report;
    size_t predicted = 0;
    stk_error err;

    assert_ok(stk_report_create(t->p.ctx, &report, &err), &err);
    assert_ok(stk_report_read(report, path, &err), &err);
    assert_int_equal(stk_report_grid_settings(report), stk_tune_count(t->tune));
    for (size_t i = 0; i < stk_tune_count(t->tune); i++) {
        const stk_report_grid_setting *g = stk_report_grid_setting_at(report, i);
        assert_point(t, g, i);
        predicted += !g->runs && g->samples_per_s > 0;
    }
    stk_report_destroy(&report);
    return predicted;
}

/* Before any run that checks them, and again once all is known: that stands in the end. */
static void test_grid(void **state)
{
    load l = loads[1];
    stk_tune_run run = {.struct_size = sizeof run};
    stk_error err;
    tuned t;

    (void)state;
    make(&t, digits, NULL);
    run_load(&t, &l, 1);
    assert_ok(stk_tune_next(t.tune, NULL, &run, &err), &err);
    assert_int_equal(run.number, 2);
    assert_ok(stk_tune_log(t.tune, path, &err), &err);
    stk_tune_answer_get(t.tune, &t.answer);
    /* All but the one that was run, and what "auto" comes to where it moves. */
    const size_t predicted = expect_log(&t);
    assert_true(predicted > 20 && predicted == t.answer.predicted);
    end(&t);
    make(&t, digits, NULL);
    run_load(&t, &l, 1000);
    assert_int_equal(t.status, STK_EOS);
    assert_ok(stk_tune_log(t.tune, path, &err), &err);
    const size_t left = expect_log(&t);
    assert_true(left < predicted && left > 0);
    end(&t);
}

/* A log that cannot be written is told. */
static void test_refused(void **state)
{
    stk_error err;
    tuned t;

    (void)state;
    make(&t, few, NULL);
    snprintf(path, sizeof path, "%s/no/such.log", folder);
    assert_int_equal(stk_tune_log(t.tune, path, &err), STK_ENOENT);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_grid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
