/* SPDX-License-Identifier: Apache-2.0 */
/* The machine in a log, and what a report makes of it. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include <stoker/machine.h>

#include "measure/read.h"

static const char *fact(const stk_report_run *run, const char *name)
{
    for (uint64_t i = 0; i < run->num_machine; i++)
        if (strcmp(run->machine[i].key, name) == 0)
            return run->machine[i].value;
    return NULL;
}

static stk_report *read_text(stk_context *ctx, const char *text)
{
    stk_report *report;
    stk_error err;

    assert_ok(stk_report_create(ctx, &report, &err), &err);
    assert_ok(stk__report_begin(report, "log", &err), &err);
    assert_ok(stk__report_feed(report, text, strlen(text), &err), &err);
    assert_ok(stk__report_end(report, &err), &err);
    return report;
}

#define RUN(machine)                                                                               \
    "{\"event\": \"run start\", \"time\": 100.0, \"locals\": {}, \"machine\": " machine "}\n"

static void count_line(void *user, const char *line)
{
    int *found = user;

    *found += strstr(line, "another machine") != NULL;
}

/* Lists and objects are flattened; what is null is not known. */
static void test_facts(void **state)
{
    stk_report *report = read_text(
        *state,
        RUN("{\"summary\": \"A \\\"b\\\"\", \"cpu\": {\"model\": \"x\", \"cores\": 4, "
            "\"governor\": null, \"sets\": [\"avx\", \"fma\"]}, \"on\": true, \"none\": [], "
            "\"caches\": [{\"level\": 1}, {\"level\": 2}]}"));
    const stk_report_run *run = stk_report_run_at(report, 0);

    assert_string_equal(run->machine_summary, "A \"b\"");
    assert_string_equal(fact(run, "cpu.model"), "x");
    assert_string_equal(fact(run, "cpu.cores"), "4");
    assert_string_equal(fact(run, "cpu.sets.1"), "fma");
    assert_string_equal(fact(run, "caches.1.level"), "2");
    assert_string_equal(fact(run, "on"), "true");
    assert_null(fact(run, "cpu.governor"));
    assert_int_equal(run->num_machine, 8);
    stk_report_destroy(&report);
}

/* A log is anybody's: what is no object, too deep, too long or too much is left out. */
static void test_hostile(void **state)
{
    static const char *const not [] = {RUN("3"), RUN("[1]"), RUN("\"x\""), RUN("null")};
    char *text = malloc(100000);
    size_t n;

    for (size_t i = 0; i < STK_COUNT(not ); i++) {
        stk_report *report = read_text(*state, not [i]);
        const stk_report_run *run = stk_report_run_at(report, 0);
        assert_int_equal(run->num_machine, 0);
        assert_string_equal(run->machine_summary, "");
        stk_report_destroy(&report);
    }
    n = (size_t)sprintf(text, "{\"event\": \"run start\", \"time\": 1, \"machine\": {\"deep\": "
                              "{\"a\": {\"b\": {\"c\": {\"d\": {\"e\": 1}}}}}, \"many\": [");
    for (int i = 0; i < 5000; i++)
        n += (size_t)sprintf(text + n, "%s%d", i ? ", " : "", i);
    n += (size_t)sprintf(text + n, "], \"");
    memset(text + n, 'k', 4000);
    sprintf(text + n + 4000, "\": 1}}\n");
    stk_report *report = read_text(*state, text);
    const stk_report_run *run = stk_report_run_at(report, 0);
    assert_int_equal(run->num_machine, 128);
    assert_string_equal(fact(run, "many.7"), "7");
    assert_null(fact(run, "deep.a.b.c.d.e"));
    stk_report_destroy(&report);
    free(text);
}

/* Runs of another machine than the first are named. */
static void test_another(void **state)
{
    stk_report *report = read_text(*state, RUN("{\"summary\": \"one\"}") RUN(
                                               "{\"summary\": \"one\"}") RUN("{\"summary\": "
                                                                             "\"two\"}") RUN("{}"));
    int found = 0;

    assert_int_equal(stk_report_runs(report), 4);
    stk_report_notes(report, 0, count_line, &found);
    assert_int_equal(found, 1);
    stk_report_destroy(&report);
}

/* What the log writes of this machine is read as it is. */
static void test_written(void **state)
{
    stk_machine machine = {.struct_size = sizeof machine};
    char folder[256], path[300], summary[1024];
    stk_event_log *log;
    stk_report *report;
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/log", folder);
    assert_ok(stk_event_log_open(*state, path, &log, &err), &err);
    stk_event_log_write(log, "run start", NULL, 0, STK_NO_DURATION, "\"locals\": {\"a\": 1}");
    stk_event_log_write(log, "run end", NULL, 0, 5, NULL);
    assert_ok(stk_event_log_close(&log, &err), &err);
    assert_ok(stk_report_create(*state, &report, &err), &err);
    assert_ok(stk_report_read(report, path, &err), &err);
    const stk_report_run *run = stk_report_run_at(report, 0);
    stk_machine_get(*state, NULL, &machine);
    stk_machine_summary(&machine, summary, sizeof summary);
    assert_string_equal(run->machine_summary, summary);
    assert_string_equal(fact(run, "versions.stoker"), stk_version());
    assert_int_equal(run->num_settings, 1);
    assert_false(run->published);
    stk_report_destroy(&report);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, test_context_open, test_context_close)
        TEST(test_facts),
        TEST(test_hostile),
        TEST(test_another),
        TEST(test_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
