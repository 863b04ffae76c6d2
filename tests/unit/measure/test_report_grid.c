/* SPDX-License-Identifier: Apache-2.0 */
/* Grids of tunings in logs that anybody may have written. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>

#include "measure/read.h"

#define RUN "{\"event\": \"run start\", \"time\": 100.0, \"locals\": {\"batch_size\": 8}}\n"
#define SET "{\"event\": \"grid setting\", \"setting\": "

static stk_context *ctx;
static stk_report *report;
static stk_error err;

static int set_up(void **state)
{
    (void)state;
    ctx = test_context();
    return stk_report_create(ctx, &report, &err) == STK_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
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

/* Each log has its own; what is written again takes the place of what was. */
static void test_again(void **state)
{
    (void)state;
    take(RUN SET "0, \"time\": 101, \"samples_per_s\": 1}\n" SET
                 "1, \"time\": 101, \"samples_per_s\": 2}\n" SET
                 "2, \"time\": 101, \"samples_per_s\": 3}\n");
    assert_int_equal(stk_report_grid_settings(report), 3);
    take(RUN SET "0, \"time\": 101, \"samples_per_s\": 4}\n" SET
                 "1, \"time\": 101, \"samples_per_s\": 5}\n" SET
                 "0, \"time\": 102, \"samples_per_s\": 6, \"best\": true, \"runs\": 2}\n");
    assert_int_equal(stk_report_grid_settings(report), 4);
    const stk_report_grid_setting *g = stk_report_grid_setting_at(report, 2);
    assert_true(g->file == 0 && g->setting == 2 && g->samples_per_s == 3 && !g->best);
    g = stk_report_grid_setting_at(report, 3);
    assert_true(g->file == 1 && g->setting == 0 && g->samples_per_s == 6 && g->best);
    assert_int_equal(g->runs, 2);
    assert_null(stk_report_grid_setting_at(report, 4));
}

/* What is absurd is not known. */
static void test_absurd(void **state)
{
    (void)state;
    take(RUN SET "-1, \"time\": 101, \"samples_per_s\": 1}\n" SET
                 "1e99, \"time\": 101, \"samples_per_s\": 1}\n" SET
                 "\"0\", \"time\": 101}\n{\"event\": \"grid setting\", \"time\": 101}\n");
    assert_int_equal(stk_report_grid_settings(report), 0);
    take(RUN SET "7, \"time\": 101, \"num_workers\": -4, \"io_depth\": null, \"runs\": -3, "
                 "\"prefetch_factor\": 1.5, \"samples_per_s\": -1, \"least\": \"x\", \"most\": "
                 "1e300, \"wait_share\": 2, \"wait_mean\": -1, \"cpu_cores\": 1e99, "
                 "\"peak_bytes\": -5, \"allowed\": 1, \"best\": \"true\"}\n");
    assert_int_equal(stk_report_grid_settings(report), 1);
    const stk_report_grid_setting *g = stk_report_grid_setting_at(report, 0);
    assert_true(g->setting == 7 && g->num_workers == -1 && g->io_depth == -1);
    assert_true(g->prefetch_factor == -1 && g->runs == 0 && !g->allowed && !g->best);
    assert_true(isnan(g->samples_per_s) && isnan(g->least) && isnan(g->most));
    assert_true(isnan(g->wait_share) && isnan(g->wait) && isnan(g->cpu_cores));
    assert_true(isnan(g->peak_bytes) && isnan(g->cost) && isnan(g->predicted));
}

static void note(void *user, const char *line)
{
    *(bool *)user |= strstr(line, "1 settings of a grid beyond the first 16,384") != NULL;
}

static void test_many(void **state)
{
    char line[96];
    bool told = false;

    (void)state;
    assert_ok(stk__report_begin(report, "log", &err), &err);
    assert_ok(stk__report_feed(report, RUN, strlen(RUN), &err), &err);
    for (int i = 0; i <= STK__GRID_MAX; i++) {
        const int n = snprintf(line, sizeof line, SET "%d, \"time\": 101}\n", i);
        assert_ok(stk__report_feed(report, line, (size_t)n, &err), &err);
    }
    assert_ok(stk__report_end(report, &err), &err);
    assert_int_equal(stk_report_grid_settings(report), STK__GRID_MAX);
    stk_report_notes(report, 0, note, &told);
    assert_true(told);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_again), TEST(test_absurd), TEST(test_many)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
