/* SPDX-License-Identifier: Apache-2.0 */
/* Reading logs while the n-th allocation fails, for every n until all succeed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/report.h>

#include "support/faults.h"
#include "support/support.h"

#define GRID 40 /* settings of a grid in each of some logs */

/* What is there once all has succeeded. */
typedef void expect_fn(stk_report *report, const stk_report_comparison *all);

/* True when no allocation failed. */
static bool run(const char *const *logs, expect_fn *expect, int64_t n, bool for_good)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_report *report = NULL;
    stk_error err;
    const stk_report_comparison *all;
    const char *charts;
    size_t length;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_report_create(ctx, &report, &err);
    for (int i = 0; logs[i] && status == STK_OK; i++)
        status = stk_report_read(report, logs[i], &err);
    if (status == STK_OK)
        status = stk_report_compare(report, &all, &err);
    if (status == STK_OK)
        status = stk_report_charts(report, &charts, &length, &err);
    if (status == STK_OK)
        expect(report, all);
    else if (status != STK_ENOMEM)
        fail_msg("allocation %lld: %s: %s", (long long)n, stk_status_name(status), err.text);
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return f.left > 0 || (status == STK_OK && f.left == 0);
}

static void try_all(const char *const *logs, expect_fn *expect)
{
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!run(logs, expect, n, for_good)) {
            n++;
            assert_true(n < 10000);
        }
        assert_true(n > 50);
    }
}

/* A list of values that could not grow is counted in buckets; steps are all there. */
static void steps_and_bars(stk_report *report, const stk_report_comparison *all)
{
    const stk_report_run *first = stk_report_run_at(report, 0);
    uint64_t bars;

    (void)all;
    assert_int_equal(first->steps, 40);
    assert_int_equal(first->wait.n, 39);
    assert_non_null(stk_report_bars(report, &bars));
    assert_true(bars > 100);
}

/* Logs of several runs, the last of a training. */
static void test_allocations(void **state)
{
    char a[512], b[512], c[512];
    const char *logs[] = {a, b, c, NULL};

    (void)state;
    snprintf(a, sizeof a, "%s/golden/report/baseline.log", TESTS_DIR);
    snprintf(b, sizeof b, "%s/golden/report/ledger.log", TESTS_DIR);
    snprintf(c, sizeof c, "%s/golden/report/training.log", TESTS_DIR);
    try_all(logs, steps_and_bars);
}

static void write_rank(const char *path, int rank)
{
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    fprintf(out, "{\"event\": \"run start\", \"time\": 100.0, \"rank\": %d, \"world_size\": 2}\n",
            rank);
    for (int k = 0; k < 40; k++)
        fprintf(out,
                "{\"event\": \"training start\", \"batch\": %d, \"time\": %.6f, \"wait\": %g}\n"
                "{\"event\": \"training end\", \"batch\": %d, \"time\": %.6f, \"duration\": %g, "
                "\"comm\": %g}\n",
                k, 101 + 0.1 * k + (rank ? 0.04 : 0.01), rank ? 0.04 : 0.01, k,
                101 + 0.1 * k + 0.09, rank ? 0.05 : 0.08, rank ? 0.01 : 0.04);
    for (int k = 0; k < GRID; k++)
        fprintf(out, "{\"event\": \"grid setting\", \"setting\": %d, \"time\": 106.0}\n", k);
    assert_int_equal(fclose(out), 0);
}

static void a_straggler(stk_report *report, const stk_report_comparison *all)
{
    assert_int_equal(stk_report_grid_settings(report), 2 * GRID);
    assert_int_equal(all->num_worlds, 1);
    assert_int_equal(all->worlds[0]->straggler, 1);
    assert_int_equal(all->worlds[0]->num_lined, 2 * STK_REPORT_LINED);
}

static void test_ranks(void **state)
{
    char folder[256], a[300], b[300];
    const char *logs[] = {a, b, NULL};

    (void)state;
    test_folder(folder);
    snprintf(a, sizeof a, "%s/0.log", folder);
    snprintf(b, sizeof b, "%s/1.log", folder);
    write_rank(a, 0);
    write_rank(b, 1);
    try_all(logs, a_straggler);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
