/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of a training: every value while they are few, the least and the greatest of many. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/read.h"

#define VALUES 5000

static stk_context *ctx;
static stk_report *report;
static stk_error err;

static int set_up(void **state)
{
    ctx = test_context();
    return stk_report_create(ctx, &report, &err) == STK_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
    return 0;
}

static void take(const char *text)
{
    assert_ok(stk__report_begin(report, "log", &err), &err);
    assert_ok(stk__report_feed(report, text, strlen(text), &err), &err);
    assert_ok(stk__report_end(report, &err), &err);
}

static const stk_report_curve *curve_at(uint64_t run, uint64_t i)
{
    const stk_report_run *r = stk_report_run_at(report, run);

    assert_non_null(r);
    assert_true(i < r->num_curves);
    return &r->curves[i];
}

/* What JSON cannot say, Python's NaN and what is absurd are gaps; other things are no values. */
static void test_values(void **state)
{
    (void)state;
    take("{\"event\": \"run start\", \"time\": 10.0, \"label\": \"a\"}\n"
         "{\"event\": \"metrics\", \"epoch\": 0, \"time\": 11.0, \"step\": 4, \"epochs\": 0.5, "
         "\"metrics\": {\"train_loss\": 2.5, \"lr\": 0.1, \"note\": \"text\"}}\n"
         "{\"event\": \"metrics\", \"epoch\": 0, \"time\": 12.0, \"step\": 9, \"epochs\": 1, "
         "\"metrics\": {\"train_loss\": null, \"lr\": 0.1}}\n"
         "{\"event\": \"metrics\", \"epoch\": 1, \"time\": 13.0, \"step\": 14, "
         "\"metrics\": {\"train_loss\": NaN}}\n"
         "{\"event\": \"metrics\", \"epoch\": 1, \"time\": 14.0, \"step\": 19, "
         "\"metrics\": {\"train_loss\": 1e300}}\n"
         "{\"event\": \"metrics\", \"epoch\": 1, \"time\": 15.0, \"step\": 24, \"epochs\": 2.5, "
         "\"metrics\": {\"train_loss\": -1.5}}\n"
         "{\"event\": \"metrics\", \"time\": 16.0, \"metrics\": 3}\n");
    const stk_report_run *run = stk_report_run_at(report, 0);
    assert_int_equal(run->num_curves, 2);
    assert_int_equal(run->num_series, 0);
    const stk_report_curve *loss = curve_at(0, 0);
    assert_string_equal(loss->name, "train_loss");
    assert_int_equal(loss->num_points, 5);
    assert_true(loss->values == 2 && loss->gaps == 3);
    assert_true(loss->points[0].mean == 2.5 && loss->points[0].step == 4);
    assert_true(loss->points[0].epoch == 0.5 && loss->points[0].time == 1);
    for (int i = 1; i < 4; i++)
        assert_true(isnan(loss->points[i].mean) && loss->points[i].gaps == 1);
    /* Without "epochs" it is the number of the epoch. */
    assert_true(loss->points[2].epoch == 1);
    assert_true(loss->last == -1.5 && loss->least == -1.5 && loss->least_step == 24);
    assert_true(loss->most == 2.5 && loss->most_step == 4);
    assert_string_equal(curve_at(0, 1)->name, "lr");
    assert_int_equal(curve_at(0, 1)->num_points, 2);
}

/* Neighbours are put together: nothing that is extreme is lost, and no value is counted twice. */
static void test_many(void **state)
{
    const size_t size = VALUES * 128;
    char *log = malloc(size);
    size_t used = 0, sum = 0, gaps = 0;
    double mean = 0;

    (void)state;
    assert_non_null(log);
    used += (size_t)snprintf(log, size, "{\"event\": \"run start\", \"time\": 10.0}\n");
    for (int i = 0; i < VALUES; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", i == 3001 ? -70 : i == 1234 ? 90 : i % 10);
        used += (size_t)snprintf(log + used, size - used,
                                 "{\"event\": \"metrics\", \"time\": %d, \"step\": %d, "
                                 "\"metrics\": {\"x\": %s}}\n",
                                 11 + i, 5 * i, i == 2000 ? "null" : value);
        mean += i == 2000 ? 0 : atoi(value);
    }
    take(log);
    free(log);
    const stk_report_curve *x = curve_at(0, 0);
    assert_true(x->num_points <= STK__POINTS_MAX && x->num_points > STK__POINTS_MAX / 2 - 1);
    double least = INFINITY, most = -INFINITY, all = 0, step = -1;
    for (uint64_t i = 0; i < x->num_points; i++) {
        const stk_report_point *p = &x->points[i];
        sum += p->values;
        gaps += p->gaps;
        all += p->mean * p->values;
        least = fmin(least, p->least);
        most = fmax(most, p->most);
        /* All stand for as many values, but for the last. */
        if (i + 1 < x->num_points)
            assert_int_equal(p->values + p->gaps, x->points[0].values + x->points[0].gaps);
        assert_true(p->step > step && p->least <= p->mean && p->mean <= p->most);
        step = p->step;
    }
    assert_true(step == 5.0 * (VALUES - 1));
    assert_true(sum == VALUES - 1 && gaps == 1 && x->values == sum && x->gaps == gaps);
    assert_true(least == -70 && most == 90 && fabs(all - mean) < 1e-6);
    assert_true(x->least_step == 5 * 3001 && x->most_step == 5 * 1234);
}

/* The loss of each epoch of a whole training is a curve over epochs. */
static void test_epochs(void **state)
{
    (void)state;
    take("{\"event\": \"run start\", \"time\": 10.0}\n"
         "{\"event\": \"training epoch\", \"time\": 11.0, \"loss\": 0.5}\n"
         "{\"event\": \"training epoch\", \"time\": 12.0, \"loss\": null}\n"
         "{\"event\": \"training epoch\", \"time\": 13.0, \"loss\": 0.25}\n");
    const stk_report_curve *loss = curve_at(0, 0);
    assert_string_equal(loss->name, "train_loss (epoch)");
    assert_int_equal(loss->num_points, 3);
    assert_true(loss->points[2].epoch == 3 && isnan(loss->points[2].step));
    assert_true(loss->points[2].mean == 0.25 && isnan(loss->points[1].mean) && loss->gaps == 1);
}

/* More names than are kept are counted. */
static void test_names(void **state)
{
    char log[8192];
    size_t used = (size_t)snprintf(log, sizeof log, "{\"event\": \"run start\", \"time\": 1}\n");

    (void)state;
    for (int i = 0; i < STK__CURVES_MAX + 3; i++)
        used += (size_t)snprintf(log + used, sizeof log - used,
                                 "{\"event\": \"metrics\", \"time\": 2, \"step\": 1, \"metrics\": "
                                 "{\"m%d\": 1}}\n",
                                 i);
    take(log);
    assert_int_equal(stk_report_run_at(report, 0)->num_curves, STK__CURVES_MAX);
    assert_int_equal(stk_report_run_at(report, 0)->curves_left_out, 3);
}

/* Runs that are shown together: those with curves; of repeated runs the one in the middle. */
static void test_overlaid(void **state)
{
    static const struct {
        const char *about;
        double seconds;
        bool shown;
    } runs[] = {{"\"label\": \"a\", \"repeat\": 1", 8, false},
                {"\"label\": \"a\", \"repeat\": 2", 6, true},
                {"\"label\": \"a\", \"repeat\": 3", 4, false},
                {"\"label\": \"b\"", 5, true},
                {"\"label\": \"b\"", 5, true},
                {"\"label\": \"c\"", 0, false}};
    const stk_report_comparison *all;
    const char *json;
    char log[4096] = "";
    size_t length;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(runs); i++) {
        const size_t used = strlen(log);
        snprintf(log + used, sizeof log - used,
                 "{\"event\": \"run start\", \"time\": %zu, %s}\n"
                 "{\"event\": \"trained\", \"time\": %zu, \"seconds\": %g}\n%s"
                 "{\"event\": \"run end\", \"time\": %zu}\n",
                 10 * i + 1, runs[i].about, 10 * i + 3, runs[i].seconds,
                 runs[i].seconds > 0 ? "{\"event\": \"metrics\", \"time\": 1, \"step\": 1, "
                                       "\"metrics\": {\"<x>\": 1, \"y\": null}}\n"
                                     : "",
                 10 * i + 4);
    }
    take(log);
    assert_ok(stk_report_compare(report, &all, &err), &err);
    for (size_t i = 0; i < STK_COUNT(runs); i++)
        assert_int_equal(stk_report_overlaid(report, i), runs[i].shown);
    assert_false(stk_report_overlaid(report, STK_COUNT(runs)));
    assert_ok(stk_report_charts(report, &json, &length, &err), &err);
    assert_non_null(strstr(json, "\"overlaid\":[1,3,4],"));
    /* Places that are the same are there once; what could end a script is not there. */
    assert_non_null(strstr(json, "\"curves\":[{\"name\":\"\\u003cx\\u003e\",\"values\":1,\"at\":{"
                                 "\"step\":[1],\"epoch\":[null],"));
    assert_non_null(strstr(json, "{\"name\":\"y\",\"values\":0,\"at\":0,\"mean\":[null],"
                                 "\"gaps\":[1]}"));
    assert_null(strchr(json, '<'));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_values), TEST(test_many), TEST(test_epochs),
                                       TEST(test_names), TEST(test_overlaid)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
