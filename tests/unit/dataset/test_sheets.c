/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of blocks that are mixed, decoded to rows: what they are one page at a time. */
#include "parquet.h"

enum { ROWS = 200000, COLUMNS = 6, LEAST = 4 << 20 };

static double number(uint64_t row, unsigned column)
{
    return (double)(row * COLUMNS + column) / 8;
}

/* Some cells of the third column are empty; the fourth is text. */
static void write_lines(const char *folder)
{
    char *text = malloc((size_t)ROWS * COLUMNS * 16 + 100), *at = text;

    assert_non_null(text);
    at += sprintf(at, "a,b,c,d,e,f\n");
    for (uint64_t r = 0; r < ROWS; r++)
        for (unsigned c = 0; c < COLUMNS; c++) {
            const char *end = c + 1 < COLUMNS ? "," : "\n";
            if (c == 2 && r % 5 == 3)
                at += sprintf(at, "%s", end);
            else if (c == 3)
                at += sprintf(at, "t%d%s", (int)(r % 7), end);
            else
                at += sprintf(at, "%.3f%s", number(r, c), end);
        }
    test_write(folder, "a.csv", text, (size_t)(at - text));
    free(text);
}

static void write_parquet(stk_context *ctx, const char *folder)
{
    stk_conversion_report report = {.struct_size = sizeof report};
    char source[400], target[400];
    stk_conversion *conversion = NULL;
    stk_convert_options options;
    stk_error err;

    write_lines(folder);
    snprintf(source, sizeof source, "csv:%s/a.csv", folder);
    snprintf(target, sizeof target, "%s/a.parquet", folder);
    stk_convert_options_init(&options);
    assert_ok(stk_conversion_create(ctx, source, target, &conversion, &err), &err);
    assert_ok(stk_conversion_run(conversion, &options, NULL, &report, &err), &err);
    stk_conversion_destroy(&conversion);
}

static void check_row(stk_dataset *d, uint64_t index, const char *columns)
{
    row *r = row_take(d, index);

    assert_int_equal(r->sample.status, STK_OK);
    for (const char *c = columns; *c; c++) {
        const char name[] = {*c, '\0'}, mask[] = {*c, '_', 'm', 'a', 's', 'k', '\0'};
        const bool null = *c == 'c' && index % 5 == 3;
        const double value = null ? 0 : number(index, (unsigned)(*c - 'a'));
        row_is(r, name, &value, sizeof value);
        if (*c == 'c')
            row_is(r, mask, null ? "\0" : "\1", 1);
    }
    row_free(r);
}

static uint32_t needs_of(stk_dataset *d, uint64_t index, uint64_t *decoded)
{
    row *r = row_take(d, index);
    const uint32_t n = r->num_needs;

    *decoded = r->needs[0].size;
    row_free(r);
    return n;
}

/* A sheet of what is neighbours in the file: the text parts three columns from two. */
static void test_sheets(void **state)
{
    char folder[256], spec[400];
    stk_context *ctx = test_context();
    uint64_t seed = 3, decoded;
    stk_dataset *d;
    stk_error err;

    (void)state;
    test_folder(folder);
    write_parquet(ctx, folder);
    snprintf(spec, sizeof spec, "parquet:%s/a.parquet?nulls=mask", folder);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    assert_int_equal(d->size, ROWS);
    for (int i = 0; i < 12; i++)
        check_row(d, test_random(&seed) % ROWS, "abcef");
    row_blocks = row_mixed = true;
    assert_true(d->block_bytes > 0);
    assert_true(needs_of(d, 0, &decoded) < 5);
    /* Some columns are decoded before the others. */
    assert_true(decoded > LEAST);
    for (int i = 0; i < 12; i++)
        check_row(d, test_random(&seed) % ROWS, "abcef");
    check_row(d, ROWS - 1, "abcef");
    stk_dataset_close(&d);
    /* Of the columns that are asked for; what lies between them is not read for nothing. */
    snprintf(spec, sizeof spec, "parquet:%s/a.parquet?nulls=mask&columns=a,c,f", folder);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    assert_int_equal(needs_of(d, 0, &decoded), 3);
    check_row(d, 77777, "acf");
    row_blocks = row_mixed = false;
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sheets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
