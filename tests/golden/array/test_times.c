/* SPDX-License-Identifier: Apache-2.0 */
/* Times by units and calendars of the CF conventions are the dates that cftime makes of them
 * (times.txt, by scripts/make_time_goldens.py). */
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

#define COLUMNS 5

/* An array of the line's units; its values are not read. */
static stk_array *make(stk_context *ctx, char *const *column)
{
    static unsigned number;
    const int64_t shape[1] = {1};
    stk_array_writer_options o;
    stk_array_writer *writer;
    stk_array *array;
    char url[64], attributes[200];
    stk_error err;

    stk_array_writer_options_init(&o);
    o.dtype = stk_dtype_parse(column[2]);
    o.rank = 1;
    o.shape = o.chunk_shape = shape;
    o.attributes = attributes;
    snprintf(attributes, sizeof attributes, "{\"calendar\": \"%s\", \"units\": \"%s\"}", column[0],
             column[1]);
    snprintf(url, sizeof url, "mem://t%u", number++);
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    return array;
}

static void check(const stk_array *array, char *const *column)
{
    const double real = strtod(column[3], NULL);
    const int64_t whole = strtoll(column[3], NULL, 10);
    char text[64];

    const bool is_real = strcmp(column[2], "float64") == 0;
    const size_t length =
        stk_array_time_text(array, is_real ? (const void *)&real : &whole, text, sizeof text);
    if (length != strlen(column[4]) || strcmp(text, column[4]) != 0)
        fail_msg("%s %s in %s: %s instead of %s", column[3], column[1], column[0],
                 length ? text : "no time", column[4]);
}

static void test_times(void **state)
{
    FILE *file = fopen(TESTS_DIR "/golden/array/times.txt", "r");
    char line[256], last[256] = "", *column[COLUMNS], *rest;
    stk_context *ctx = *state;
    stk_array *array = NULL;
    int lines = 0;

    assert_non_null(file);
    for (; fgets(line, sizeof line, file); lines++) {
        rest = line;
        for (int i = 0; i < COLUMNS; i++)
            assert_non_null(column[i] = strsep(&rest, "\t\n"));
        char units[256];
        snprintf(units, sizeof units, "%s %s %s", column[0], column[1], column[2]);
        if (!array || strcmp(units, last) != 0) {
            stk_array_close(&array);
            array = make(ctx, column);
            snprintf(last, sizeof last, "%s", units);
        }
        check(array, column);
    }
    stk_array_close(&array);
    fclose(file);
    assert_true(lines > 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_times)};

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
