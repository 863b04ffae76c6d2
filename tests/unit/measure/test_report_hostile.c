/* SPDX-License-Identifier: Apache-2.0 */
/* A log is written by anybody: one absurd number in it turns nothing that all others say. */
#include "unit/measure/planted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure/measure.h"
#include "measure/read.h"

#define STEPS 40
#define ROOM  65536

/* Steps of 10 ms that wait 30, with the ledger of their epoch; `figures`: and with its figures. */
static void write_log(FILE *out, bool figures)
{
    stk_figures f = plant_waits();
    char line[8192];

    wait_for(&f, STK_WAIT_STORAGE_LATENCY, 0.9);
    fputs("{\"event\": \"run start\", \"time\": 100.0, \"locals\": {\"batch_size\": 8, "
          "\"num_workers\": 2, \"io_depth\": 4}}\n"
          "{\"event\": \"setup end\", \"time\": 100.5, \"duration\": 0.5}\n"
          "{\"event\": \"epoch start\", \"time\": 100.5, \"epoch\": 0}\n",
          out);
    for (int i = 0; i < STEPS; i++) {
        const double begin = 100.6 + 0.04 * i;
        fprintf(out, "{\"event\": \"read\", \"time\": %.6f, \"duration\": 0.02, \"bytes\": 4096}\n",
                begin - 0.01);
        fprintf(out,
                "{\"event\": \"training start\", \"time\": %.6f, \"batch\": %d, \"wait\": 0.03, "
                "\"ready\": 1}\n",
                begin, i);
        fprintf(out,
                "{\"event\": \"training end\", \"time\": %.6f, \"batch\": %d, \"duration\": "
                "0.01}\n",
                begin + 0.01, i);
    }
    fputs("{\"event\": \"epoch end\", \"time\": 102.3, \"epoch\": 0, \"duration\": 1.8}\n", out);
    for (int i = 0; i < 4; i++)
        fprintf(out,
                "{\"event\": \"ledger\", \"epoch\": %d, \"time\": 102.3, \"duration\": 1.8, "
                "\"wait\": {\"storage_latency\": 0.3, \"worker\": 0.01}}\n",
                i);
    stk__figures_format(&f, line, sizeof line);
    if (figures)
        fprintf(out, "{\"event\": \"figures\", \"time\": 102.4, %s}\n", line);
    fputs("{\"event\": \"run end\", \"time\": 102.5, \"duration\": 2.5}\n", out);
}

static stk_verdict read_log(const char *text, size_t size)
{
    stk_context *ctx = test_context();
    stk_report *report = NULL;
    stk_verdict verdict = {.struct_size = sizeof verdict};
    stk_error err;

    assert_ok(stk_report_create(ctx, &report, &err), &err);
    assert_ok(stk__report_begin(report, "log", &err), &err);
    assert_ok(stk__report_feed(report, text, size, &err), &err);
    assert_ok(stk__report_end(report, &err), &err);
    assert_int_equal(stk_report_runs(report), 1);
    verdict = *stk_report_run_at(report, 0)->verdict;
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
    return verdict;
}

/* The numbers of a text: where one begins, and its length. */
static size_t next_number(const char *text, size_t from, size_t *length)
{
    for (size_t i = from; text[i]; i++) {
        if (text[i] != ' ' || text[i - 1] != ':')
            continue;
        const size_t n = strspn(text + i + 1, "0123456789.e-");
        if (n) {
            *length = n;
            return i + 1;
        }
    }
    return 0;
}

static void replace_each(bool figures)
{
    static const char *const absurd[] = {
        "1e308", "-1e308", "1e11",  "-7",  "1e400", "99999999999999999999",
        "NaN",   "null",   "\"x\"", "[1]", "{}",    "-Infinity"};
    static char text[ROOM], other[ROOM + 64];
    size_t length;

    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    write_log(out, figures);
    fclose(out);
    const stk_verdict want = read_log(text, strlen(text));
    assert_int_equal(want.limit, STK_LIMIT_LATENCY);
    assert_true(want.lost_share > 0.74 && want.lost_share < 0.76);
    /* Figures that miss one are none that can be compared. */
    const char *end = strstr(text, "\"event\": \"figures\"");
    /* Behind the settings, which are what they are. */
    for (size_t at = strcspn(text, "\n"); (at = next_number(text, at, &length)) != 0;
         at += length) {
        for (size_t k = 0; k < STK_COUNT(absurd); k++) {
            if (end && text + at > end && k > 5)
                continue;
            snprintf(other, sizeof other, "%.*s%s%s", (int)at, text, absurd[k], text + at + length);
            const stk_verdict v = read_log(other, strlen(other));
            if (v.limit != want.limit || fabs(v.lost_share - want.lost_share) > 0.05 ||
                !(v.gain >= 1 && v.gain < 1e3))
                fail_msg("%s in the place of %.40s: %s, lost %g, gain %g", absurd[k], text + at,
                         stk_limit_name(v.limit), v.lost_share, v.gain);
        }
    }
}

static void test_events(void **state)
{
    (void)state;
    replace_each(false);
}

static void test_figures(void **state)
{
    (void)state;
    replace_each(true);
}

/* A wait is no longer than the stamps around it are apart, whatever the event says. */
static void test_wait_between_stamps(void **state)
{
    static char text[ROOM], other[ROOM + 64];

    (void)state;
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    write_log(out, false);
    fclose(out);
    const char *at = strstr(strstr(text, "\"batch\": 7"), "0.03");
    snprintf(other, sizeof other, "%.*s1000000%s", (int)(at - text), text, at + 4);
    const stk_verdict v = read_log(other, strlen(other));
    assert_true(v.lost_share > 0.74 && v.lost_share < 0.76);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_wait_between_stamps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
