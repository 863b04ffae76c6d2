/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of planted causes, recorded by `./dev bench verdicts --record` (bench/verdicts.py) and
 * judged again: verdicts.log holds their figures, verdicts.txt a line "KIND SEED: LIMIT/LIMIT:
 * SHARE [any]" for each with what was planted and the share of the time that it took.
 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/report.h>

#define WITHIN 0.101 /* between the verdict's share and the planted one, as it was rounded */
#define LEAST  27    /* runs, so that a file that was cut does not pass */

static bool is_one_of(const char *limits, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = limits; *at;) {
        const size_t n = strcspn(at, "/");
        if (n == length && memcmp(at, name, n) == 0)
            return true;
        at += n + (at[n] == '/');
    }
    return false;
}

static void check(const stk_report_run *run, char *line)
{
    char *limits = strstr(line, ": "), *share = limits ? strstr(limits + 2, ": ") : NULL;
    const stk_verdict *v = run->verdict;

    assert_non_null(share);
    *share = 0;
    const double lost = strtod(share + 2, NULL);
    const bool any = strstr(share + 2, "any") || v->limit == STK_LIMIT_STEP;
    if (!is_one_of(limits + 2, stk_limit_name(v->limit)) ||
        (!any && fabs(v->limit_share - lost) > WITHIN))
        fail_msg("%s: said %s %.3f, planted %.3f", line, stk_limit_name(v->limit), v->limit_share,
                 lost);
}

static void test_planted(void **state)
{
    stk_context *ctx = test_context();
    stk_report *report = NULL;
    char line[256];
    uint64_t n = 0;
    stk_error err;

    (void)state;
    assert_ok(stk_report_create(ctx, &report, &err), &err);
    assert_ok(stk_report_read(report, TESTS_DIR "/golden/report/verdicts.log", &err), &err);
    FILE *truth = fopen(TESTS_DIR "/golden/report/verdicts.txt", "r");
    assert_non_null(truth);
    while (fgets(line, sizeof line, truth)) {
        const stk_report_run *run = stk_report_run_at(report, n++);
        assert_non_null(run);
        check(run, line);
    }
    fclose(truth);
    assert_true(n >= LEAST);
    assert_int_equal(n, stk_report_runs(report));
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
