/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the command that can be looked at by themselves: lines of progress, JSON, CSV,
 * signals. */
#include "support/support.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../cli/console.c"
#include "../../cli/output.c"
#include "../../cli/signals.c"
#include "../../cli/text.c"

static void progress_is(int width, const char *what, uint64_t done, uint64_t total, double rate,
                        const char *expected)
{
    char text[256];

    cli_progress_line(text, sizeof text, width, what, done, total, rate);
    assert_string_equal(text, expected);
}

static void test_progress_lines(void **state)
{
    (void)state;
    progress_is(60, "epoch 1", 42, 100, 10,
                "epoch 1  [##########---------------]   42%  10/s  0:05 left");
    progress_is(60, "epoch 1", 0, 100, 0,
                "epoch 1  [----------------------------------------]    0%");
    progress_is(60, "x", 100, 100, 1500,
                "x  [########################################]  100%  1.5k/s");
    progress_is(60, "x", 200, 100, 0, "x  [########################################]  100%");
    progress_is(60, "x", 1234567, 0, 12.3, "x  1.2M done  12/s");
    progress_is(30, "a long name of what is done", 1, 2, 0, "a long name of what is    50%");
    progress_is(10, "name", 1, 2, 3, " 50%  3/s");
    progress_is(4, "name", 1, 2, 3, " 50");
    progress_is(80, "x", 0, UINT64_MAX, 0.001,
                "x  [----------------------------------------]    0%  0.001/s");
    progress_is(80, "x", 0, 9000000, 1,
                "x  [----------------------------------------]    0%  1/s  104 days left");
    progress_is(80, "x", 0, 7265, 1,
                "x  [----------------------------------------]    0%  1/s  2:01:05 left");
}

static void test_progress_lines_fit(void **state)
{
    uint64_t seed = 3;
    char text[512], name[100];

    (void)state;
    memset(name, 'n', sizeof name);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = test_random(&seed);
        int width = 1 + (int)(test_random(&seed) % 200);
        name[bits % 90] = 0;
        uint64_t total = test_random(&seed) >> (bits & 63),
                 done = test_random(&seed) >> (bits >> 8 & 63);
        cli_progress_line(text, sizeof text, width, name, done, total, (double)(bits % 5) * 1e3);
        assert_true((int)strlen(text) < width);
        name[bits % 90] = 'n';
    }
}

/* What `print` writes. */
static char *written(void (*print)(FILE *out, const char *text), const char *text)
{
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);

    assert_non_null(out);
    print(out, text);
    fclose(out);
    return result;
}

static void prints(void (*print)(FILE *out, const char *text), const char *text,
                   const char *expected)
{
    char *result = written(print, text);

    assert_string_equal(result, expected);
    free(result);
}

static void test_json_and_csv(void **state)
{
    (void)state;
    prints(cli_json_string, "", "\"\"");
    prints(cli_json_string, "a \"b\" \\c\n\t\x01", "\"a \\\"b\\\" \\\\c\\u000a\\u0009\\u0001\"");
    prints(cli_json_string, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
           "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    prints(cli_json_string, "\xff\xc3(\xed\xa0\x80\xe2\x82",
           "\"\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
    prints(cli_csv_string, "plain text", "plain text");
    prints(cli_csv_string, "a,b", "\"a,b\"");
    prints(cli_csv_string, "say \"x\"\n", "\"say \"\"x\"\"\n\"");
    static const double values[] = {0, 1, 0.1, 1e300, -2.5e-7, 1.0 / 3, 123456789012345678.0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[64] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        cli_json_number(out, values[i]);
        fclose(out);
        assert_true(strtod(text, NULL) == values[i]);
    }
    char text[64] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    cli_json_number(out, NAN);
    cli_json_number(out, INFINITY);
    fclose(out);
    assert_string_equal(text, "nullnull");
}

static void count(void *user)
{
    ++*(int *)user;
}

static void test_signals(void **state)
{
    int calls = 0, late = 0, status;

    (void)state;
    cli_signals_install();
    cli_on_interrupt(count, &calls);
    assert_int_equal(cli_interrupted(), 0);
    raise(SIGTERM);
    assert_int_equal(calls, 1);
    assert_int_equal(cli_interrupted(), 143);
    /* Who comes late is told at once. */
    cli_on_interrupt(count, &late);
    assert_int_equal(late, 1);
    cli_on_interrupt(NULL, NULL);
    /* The second one ends the process. */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        raise(SIGINT);
        _exit(0);
    }
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_lines),
        cmocka_unit_test(test_progress_lines_fit),
        cmocka_unit_test(test_json_and_csv),
        cmocka_unit_test(test_signals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
