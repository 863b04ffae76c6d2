/* SPDX-License-Identifier: Apache-2.0 */
/* What is promised beside what was measured, and what is not said of too little. */
#include "measure/measure.h"
#include "unit/measure/planted.h"

static stk_sweep_point point(const char *value, double rate)
{
    stk_sweep_point p = {"num_workers", "", rate, rate, rate};

    snprintf(p.value, sizeof p.value, "%s", value);
    return p;
}

/* One core that does it all, where a sweep has tried workers. */
static void test_measured_is_quoted(void **state)
{
    stk_figures f = plant(0.010, 0.030);
    stk_sweep_point others[3] = {point("1", 1440), point("2", 1410), point("8", 1300)};
    stk_verdict v = {.struct_size = sizeof v};

    (void)state;
    f.num_workers = 0;
    f.prepare_busy = f.cpu_s = 1000 * 0.030;
    stk_sweep_point self = point("0", 1600);
    stk_judge(&f, &v);
    assert_true(v.gain > 3.9 && strstr(v.text, "Set num_workers to 3"));
    /* Nothing that was measured gave more: no advice, and no promise. */
    stk__judge_sweep(&f, &self, others, 3, &v);
    assert_int_equal(v.limit, STK_LIMIT_ONE_CORE);
    assert_string_equal(v.knob, "");
    assert_true(v.gain == 1);
    assert_null(strstr(v.text, "Set num_workers"));
    assert_non_null(strstr(v.text, "num_workers 1 would be the next to try, but was measured in "
                                   "this sweep: 1440 samples/s, no more than the 1600 here."));
    /* What gave more is quoted, whatever would have been promised. */
    others[1] = point("2", 2000);
    stk__judge_sweep(&f, &self, others, 3, &v);
    assert_string_equal(v.value, "2");
    assert_true(v.gain > 1.2499 && v.gain < 1.2501);
    assert_non_null(strstr(v.text, "measured in this sweep, 2000 samples/s instead of 1600"));
    /* Not where the runs of the two overlap. */
    others[1].least = 1500;
    others[1].most = 2100;
    stk__judge_sweep(&f, &self, others, 3, &v);
    assert_string_equal(v.knob, "");
    /* Settings of another option say nothing. */
    for (int i = 0; i < 3; i++)
        snprintf(others[i].knob, sizeof others[i].knob, "io_depth");
    stk__judge_sweep(&f, &self, others, 3, &v);
    assert_string_equal(v.value, "3");
    /* Fewer than the setting has say nothing of more. */
    f.num_workers = 1;
    f.prepare_busy = f.cpu_s = f.wall;
    others[0] = point("0", 800);
    stk__judge_sweep(&f, &self, others, 1, &v);
    assert_int_equal(v.limit, STK_LIMIT_WORKERS);
    assert_string_equal(v.value, "3");
}

/* A verdict that advises nothing says nothing against what another setting gave. */
static void test_more_was_measured(void **state)
{
    static const char none[] = "More workers do not help any more",
                      bound[] = "no setting of it can give",
                      quoted[] = "Set num_workers to 8: measured in this sweep, 2000 samples/s";
    stk_sweep_point self = point("4", 1600), same = point("8", 1601), more = point("8", 2000);
    stk_figures f = plant(0.010, 0.030);
    stk_verdict v = {.struct_size = sizeof v};

    (void)state;
    f.num_workers = 4;
    f.prepare_busy = f.cpu_s = 4 * f.wall;
    stk__judge_sweep(&f, &self, &same, 1, &v);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_non_null(strstr(v.text, none));
    assert_null(strstr(v.text, "Set num_workers"));
    stk__judge_sweep(&f, &self, &more, 1, &v);
    assert_null(strstr(v.text, none));
    assert_non_null(strstr(v.text, quoted));
    assert_string_equal(v.value, "8");
    f = plant(0.010, 0.0001);
    stk__judge_sweep(&f, &self, &same, 1, &v);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
    assert_non_null(strstr(v.text, bound));
    stk__judge_sweep(&f, &self, &more, 1, &v);
    assert_null(strstr(v.text, bound));
    assert_non_null(strstr(v.text, quoted));
}

/* Workers that come too late: to have none is advice, too, which a sweep may have measured. */
static void test_none_was_measured(void **state)
{
    static const char said[] = "(num_workers 0) where that is little work";
    stk_sweep_point self = point("1", 1600), slower = point("0", 1200), faster = point("0", 2000);
    stk_figures f = plant(0.010, 0.002);
    stk_verdict v = {.struct_size = sizeof v};

    (void)state;
    f.num_workers = 1;
    f.cpu_s = f.prepare_busy = 0.1 * f.wall;
    f.prepare_wait_out = 0.9 * f.wall;
    f.other_cores = 3.5;
    assert_non_null(strstr(judge(&f).text, said));
    stk__judge_sweep(&f, &self, &slower, 1, &v);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_string_equal(v.knob, "");
    assert_null(strstr(v.text, said));
    assert_non_null(strstr(v.text, "num_workers 0 would be the next to try, but was measured"));
    stk__judge_sweep(&f, &self, &faster, 1, &v);
    assert_string_equal(v.value, "0");
    assert_null(strstr(v.text, said));
    assert_non_null(strstr(v.text, "Set num_workers to 0: measured in this sweep"));
}

static void test_saturation(void **state)
{
    const stk_sweep_point rising[] = {point("0", 100), point("1", 200), point("2", 300)};
    const stk_sweep_point flat[] = {point("0", 100), point("1", 200), point("2", 201),
                                    point("4", 203), point("8", 150)};
    stk_sweep_point wide[] = {point("0", 100), point("1", 200), point("2", 240)};

    (void)state;
    assert_int_equal(stk__sweep_saturation(rising, 3), 3);
    assert_int_equal(stk__sweep_saturation(rising, 2), 2);
    assert_int_equal(stk__sweep_saturation(flat, 5), 1);
    assert_int_equal(stk__sweep_saturation(wide, 3), 3);
    wide[1].most = 245;
    wide[2].least = 190;
    assert_int_equal(stk__sweep_saturation(wide, 3), 1);
}

/* No advice gets more out of the cores than they have. */
static void test_cores_bound(void **state)
{
    stk_figures f = plant(0.010, 0.030);

    (void)state;
    f.num_workers = 0;
    f.prepare_busy = f.cpu_s = 1000 * 0.030;
    f.spin = true;
    /* 10 ms of step and 30 of work on four cores; other programs leave one and a half. */
    f.other_cores = 2.5;
    const stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_ONE_CORE);
    assert_true(v.gain > 1.499 && v.gain < 1.501);
}

/* A machine that does other things makes no verdict of a loader that is not waited for. */
static void test_healthy_but_busy(void **state)
{
    stk_figures f = plant(0.010, 0.00004);

    (void)state;
    f.step_stretch = 1.6;
    f.cpu_s = 0.1 * f.wall;
    f.prepare_busy = 0.1 * f.wall;
    f.prepare_wait_out = 1.9 * f.wall;
    f.other_cores = 3.5;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
    assert_non_null(strstr(v.text, "other programs keep 3.5 of 4 usable cores busy"));
    f.spin = true;
    f.num_workers = 4;
    assert_int_equal(judge(&f).limit, STK_LIMIT_STEP);
    f.other_cores = 0;
    assert_int_equal(judge(&f).limit, STK_LIMIT_OVERSUBSCRIBED);
    /* Where there is no worker the first thing to do is to have some. */
    f = plant(0.010, 0.005);
    f.num_workers = 0;
    f.step_stretch = 2.6;
    f.cpu_s = f.prepare_busy = 5;
    f.other_cores = 3.9;
    assert_int_equal(judge(&f).limit, STK_LIMIT_ONE_CORE);
    /* Waits that the loader knows nothing of are not its workers'. */
    f = plant(0.010, 0.002);
    f.cpu_s = f.prepare_busy = 0.1 * f.wall;
    f.prepare_wait_out = 1.9 * f.wall;
    f.other_cores = 3.5;
    f.waits[STK_WAIT_OTHER] = 0.01;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_non_null(strstr(v.text, "The thread of the step comes too late"));
    assert_null(strstr(v.text, "workers come too late"));
}

static void test_few_steps(void **state)
{
    stk_figures f = plant(0.010, 0);

    (void)state;
    f.steps = 19;
    f.validation_s = 1;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
    assert_string_equal(v.knob, "");
    assert_non_null(strstr(v.text, "Only 19 steps"));
    f.steps = 20;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_VALIDATION);
    assert_null(strstr(v.text, "Only"));
}

static void test_bad_samples_come_first(void **state)
{
    stk_figures f = plant(0.010, 0.0001);

    (void)state;
    f.bad_samples = 16000;
    stk_verdict v = judge(&f);
    assert_ptr_equal(strstr(v.text, "16000 of the 80000 samples measured (20.0 %) are bad"),
                     v.text);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
    f.samples = 0;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_UNKNOWN);
    assert_ptr_equal(strstr(v.text, "All 16000 samples are bad"), v.text);
    assert_null(strstr(v.text, "keeps up"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_is_quoted), cmocka_unit_test(test_more_was_measured),
        cmocka_unit_test(test_none_was_measured),  cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_cores_bound),        cmocka_unit_test(test_healthy_but_busy),
        cmocka_unit_test(test_few_steps),          cmocka_unit_test(test_bad_samples_come_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
