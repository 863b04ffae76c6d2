/* SPDX-License-Identifier: Apache-2.0 */
/* Reading logs while the n-th allocation fails, for every n until all succeed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/report.h>

#include "support/faults.h"
#include "support/support.h"

/* Logs of several runs, the last of a training. True when no allocation failed. */
static bool run(const char *const *logs, int64_t n, bool for_good)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_report *report = NULL;
    stk_error err;
    const stk_report_comparison *all;
    const char *charts;
    uint64_t bars;
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
    if (status == STK_OK) {
        /* A list of values that could not grow is counted in buckets; steps are all there. */
        const stk_report_run *first = stk_report_run_at(report, 0);
        assert_int_equal(first->steps, 40);
        assert_int_equal(first->wait.n, 39);
        assert_non_null(stk_report_bars(report, &bars));
        assert_true(bars > 100);
    } else if (status != STK_ENOMEM) {
        fail_msg("allocation %lld: %s: %s", (long long)n, stk_status_name(status), err.text);
    }
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return f.left > 0 || (status == STK_OK && f.left == 0);
}

static void test_allocations(void **state)
{
    char a[512], b[512], c[512];
    const char *logs[] = {a, b, c, NULL};

    snprintf(a, sizeof a, "%s/golden/report/baseline.log", TESTS_DIR);
    snprintf(b, sizeof b, "%s/golden/report/ledger.log", TESTS_DIR);
    snprintf(c, sizeof c, "%s/golden/report/training.log", TESTS_DIR);
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!run(logs, n, for_good)) {
            n++;
            assert_true(n < 10000);
        }
        assert_true(n > 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
