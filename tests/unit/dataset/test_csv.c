/* SPDX-License-Identifier: Apache-2.0 */
/* csv: and tsv: what cells become, what lines are refused, and files that belong together. */
#include "table_rows.h"

static test_room room_of(const char *text)
{
    test_room r = test_room_open("mem://c");

    test_put(r.store, "a.csv", text, strlen(text));
    return r;
}

static stk_dataset *open_one(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

static void refuse_text(const char *text, stk_status status, const char *says)
{
    test_room r = room_of(text);

    table_refused(r.ctx, "csv:mem://c/a.csv", status, says);
    test_room_close(&r);
}

#define MIXED                                                                                      \
    "id,name,x,ok,label\r\n"                                                                       \
    "1,plain,0.1,true,3\r\n"                                                                       \
    "-9223372036854775808,\"a,b\",-1e-3,False,4\r\n"                                               \
    "\r\n"                                                                                         \
    "3,\"two\r\nlines and \"\"quotes\"\"\",1.7976931348623157e308,TRUE,5\r\n"                      \
    "+4,\"\",2.2250738585072011e-308,false, 6"

static void test_cells(void **state)
{
    test_room r = room_of("\xef\xbb\xbf" MIXED);
    stk_dataset *d = open_one(r.ctx, "csv:mem://c/a.csv");

    (void)state;
    assert_int_equal(d->size, 4);
    assert_int_equal(d->num_fields, 5);
    assert_int_equal(d->fields[0].dtype, STK_INT64);
    assert_int_equal(d->fields[1].layout, STK_BYTES);
    assert_int_equal(d->fields[2].dtype, STK_FLOAT64);
    assert_int_equal(d->fields[3].dtype, STK_BOOL);
    row *a = row_take(d, 0), *b = row_take(d, 1), *c = row_take(d, 2), *e = row_take(d, 3);
    row_is_integer(a, "id", 1);
    row_is_text(a, "name", "plain");
    row_is_real(a, "x", 0.1);
    row_is_integer(b, "id", INT64_MIN);
    row_is_text(b, "name", "a,b");
    row_is_real(b, "x", -1e-3);
    row_is(b, "ok", "\0", 1);
    row_is_text(c, "name", "two\r\nlines and \"quotes\"");
    row_is_real(c, "x", 1.7976931348623157e308);
    row_is(c, "ok", "\1", 1);
    row_is_text(e, "name", "");
    row_is_real(e, "x", 2.2250738585072011e-308);
    row_is_integer(e, "label", 6);
    row_free(a), row_free(b), row_free(c), row_free(e);
    stk_dataset_close(&d);
    test_room_close(&r);
}

static void test_types(void **state)
{
    test_room r = room_of("a;y;t\n1;2;007\n3;4;008\n200;5;9\n");
    stk_dataset *d = open_one(r.ctx, "csv:mem://c/a.csv?types=a:uint8,t:text&columns=t,a,y");
    const float three = 3;

    (void)state;
    row *a = row_take(d, 1);
    row_is(a, "a", "\3", 1);
    row_is_integer(a, "label", 4); /* the one column of that name */
    row_is_text(a, "t", "008");
    row_free(a);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?types=a:float32");
    a = row_take(d, 1);
    row_is(a, "a", &three, sizeof three);
    row_free(a);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?types=a:int8");
    row_is_bad(d, 2, "its column 'a' is no integer of its type");
    stk_dataset_close(&d);
    table_refused(r.ctx, "csv:mem://c/a.csv?types=a:int9", STK_EINVAL,
                  "'a:int9' is no COLUMN:TYPE");
    table_refused(r.ctx, "csv:mem://c/a.csv?types=b:int8", STK_EINVAL, "has no column 'b'");
    table_refused(r.ctx, "csv:mem://c/a.csv?columns=b", STK_EINVAL, "the columns are a,y,t");
    table_refused(r.ctx, "csv:mem://c/a.csv?columns=a,,t", STK_EINVAL, "an empty name");
    test_room_close(&r);
}

static void test_header(void **state)
{
    test_room r = room_of("1|2\n3|4\n");
    stk_dataset *d = open_one(r.ctx, "csv:mem://c/a.csv");

    (void)state;
    assert_int_equal(d->size, 2);
    row *a = row_take(d, 0);
    row_is_integer(a, "c1", 2);
    row_free(a);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?header=true&delimiter=,");
    assert_int_equal(d->size, 1);
    assert_string_equal(d->fields[0].name, "1|2");
    stk_dataset_close(&d);
    table_refused(r.ctx, "csv:mem://c/a.csv?delimiter=ab", STK_EINVAL, "no single sign");
    test_put(r.store, "b.tsv", "a\tb\nx y\t1\n", 10);
    d = open_one(r.ctx, "mem://c/b.tsv");
    assert_string_equal(d->ops->name, "tsv");
    a = row_take(d, 0);
    row_is_text(a, "a", "x y");
    row_free(a);
    stk_dataset_close(&d);
    test_room_close(&r);
}

static void test_nulls(void **state)
{
    test_room r = room_of("a,t\n1,x\n,\n3,\"\"\n");
    stk_dataset *d = open_one(r.ctx, "csv:mem://c/a.csv");

    (void)state;
    row_is_bad(d, 1, "its column 'a' has no value; choose nulls=zero");
    row *a = row_take(d, 2); /* a text in quotes is there, though empty */
    row_is_text(a, "t", "");
    row_free(a);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?nulls=zero");
    a = row_take(d, 1);
    row_is_integer(a, "a", 0);
    row_is_text(a, "t", "");
    row_free(a);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?nulls=mask");
    assert_int_equal(d->num_fields, 4);
    a = row_take(d, 1);
    row_is(a, "a_mask", "\0", 1);
    row_is(a, "t_mask", "\0", 1);
    row_free(a);
    a = row_take(d, 2);
    row_is(a, "a_mask", "\1", 1);
    row_is(a, "t_mask", "\1", 1);
    row_is_integer(a, "a", 3);
    row_free(a);
    stk_dataset_close(&d);
    test_put(r.store, "m.csv", "a,a_mask\n1,2\n", 13);
    table_refused(r.ctx, "csv:mem://c/m.csv?nulls=mask", STK_EINVAL, "there is a column 'a_mask'");
    test_room_close(&r);
}

static void test_bad_values(void **state)
{
    test_room r = room_of("a,x,ok,t\n1,1.5,true,u\n1x,1.5.2,yes,\xc3\n2,,,\n");
    stk_dataset *d;

    (void)state;
    /* Types as the first line has them. */
    d = open_one(r.ctx, "csv:mem://c/a.csv?learn=1&columns=a");
    row_is_bad(d, 1, "its column 'a' is no integer");
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?learn=1&columns=x");
    row_is_bad(d, 1, "its column 'x' is no number");
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?learn=1&columns=ok&nulls=zero");
    row_is_bad(d, 1, "its column 'ok' is neither true nor false");
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?columns=t");
    row_is_bad(d, 1, "its column 't' is not UTF-8");
    stk_dataset_close(&d);
    d = open_one(r.ctx, "csv:mem://c/a.csv?columns=t&text=bytes");
    row *a = row_take(d, 1);
    row_is_text(a, "t", "\xc3");
    row_free(a);
    stk_dataset_close(&d);
    test_room_close(&r);
}

static void test_wrong_lines(void **state)
{
    (void)state;
    refuse_text("a,b\n1,2\n3\n", STK_EFORMAT,
                "a.csv, byte 8: line 3, column 2: the line has 1 cell");
    refuse_text("a,b\n\"x\ny\",2\n3,4,5\n", STK_EFORMAT, "line 4, column 3: the line has 3 cells");
    refuse_text("a,b\n1,\"2\n3,4\n", STK_EFORMAT, "line 2, column 2: a quote is not closed");
    refuse_text("a,b\n1,\"2\"3\n", STK_EFORMAT, "line 2, column 2: text follows a closing quote");
    refuse_text("a,b\r1,2\r", STK_EFORMAT, "a carriage return without a line feed");
    refuse_text("a,a\n1,2\n", STK_EFORMAT, "two columns have the name 'a'");
    refuse_text("a,b\n", STK_EFORMAT, "a.csv has 1 file without a row; name files with rows");
    refuse_text("", STK_EFORMAT, "a.csv has 1 file without a row");
    refuse_text("\x1f\x8b zipped", STK_EKIND, "compressed by gzip");
    refuse_text("\xff\xfe"
                "a",
                STK_EKIND, "UTF-16");
}

/* Pieces and windows end where they may: in quotes, between the bytes of a line end. */
static void test_many_lines(void **state)
{
    enum { LINES = 300000 };
    char *text = malloc((size_t)LINES * 40 + 16);
    size_t size = (size_t)sprintf(text, "i,t\r\n");

    (void)state;
    for (int i = 0; i < LINES; i++)
        size += (size_t)sprintf(text + size, "%d,\"%.*s\r\n\"\"%d\"\r\n", i, i % 13,
                                "xxxxxxxxxxxxx", i % 7);
    test_room r = room_of(text);
    stk_dataset *d = open_one(r.ctx, "csv:mem://c/a.csv,mem://c/a.csv");
    assert_int_equal(d->size, 2 * LINES);
    for (uint64_t k = 0; k < 300; k++) {
        const uint64_t i = k * 7919 % LINES;
        char wanted[64];
        row *a = row_take(d, i + k % 2 * LINES);
        snprintf(wanted, sizeof wanted, "%.*s\r\n\"%d", (int)(i % 13), "xxxxxxxxxxxxx",
                 (int)(i % 7));
        row_is_integer(a, "i", (int64_t)i);
        row_is_text(a, "t", wanted);
        row_free(a);
    }
    stk_dataset_close(&d);
    test_room_close(&r);
    free(text);
}

static void test_open_quote(void **state)
{
    const size_t size = (size_t)18 << 20;
    char *text = malloc(size + 1);

    (void)state;
    memset(text, 'x', size);
    memcpy(text, "a,b\n1,\"", 7);
    text[size] = 0;
    refuse_text(text, STK_ELIMIT, "line 2 has more than 16777216 bytes; a quote may not be closed");
    free(text);
}

static void test_files(void **state)
{
    test_room r = room_of("a,b\n1,x\n2,y\n");
    stk_dataset *d, *one;

    (void)state;
    test_put(r.store, "d/1.csv", "a,b\n1,x\n", 8);
    test_put(r.store, "d/2.csv", "b,a\n", 4);        /* no rows */
    test_put(r.store, "d/e/3.csv", "b,a\ny,2\n", 8); /* in another order, in a folder */
    test_put(r.store, "d/_SUCCESS.csv", "?", 1);
    d = open_one(r.ctx, "csv:mem://c/d");
    assert_int_equal(d->size, 2);
    row *a = row_take(d, 1), *b = row_take(d, 0);
    row_is_integer(a, "a", 2);
    row_is_text(a, "b", "y");
    row_is_integer(b, "a", 1);
    row_free(a), row_free(b);
    stk_dataset_close(&d);
    one = open_one(r.ctx, "csv:mem://c/a.csv");
    d = open_one(r.ctx, "csv:mem://c/a.csv,mem://c/d/{1,2}.csv");
    assert_int_equal(d->size, 3);
    assert_int_not_equal(d->fingerprint, one->fingerprint);
    stk_dataset_close(&d);
    stk_dataset_close(&one);
    test_put(r.store, "w.csv", "a,c\n1,2\n", 8);
    table_refused(r.ctx, "csv:mem://c/a.csv::mem://c/w.csv", STK_EFORMAT, "has the column 'c'");
    table_refused(r.ctx, "csv:mem://c/a.csv::mem://c/w.csv?columns=b", STK_EFORMAT,
                  "the column 'b' of w.csv is not there");
    table_refused(r.ctx, "csv:mem://c/no.csv", STK_ENOENT, "is not there");
    table_refused(r.ctx, "csv:mem://c/d/e/f", STK_ENOENT, "f");
    test_room_close(&r);
}

/* ---- Rows that are taken ---- */

/* The rows 0 to 9: n, x (null in row 3), t, ok. */
static test_room ten_rows(void)
{
    char text[1024];
    size_t size = (size_t)sprintf(text, "n,x,t,ok\n");

    for (int i = 0; i < 10; i++) {
        size += (size_t)sprintf(text + size, "%d,", i);
        if (i != 3)
            size += (size_t)sprintf(text + size, "%.1f", i * 0.5);
        size += (size_t)sprintf(text + size, ",%s,true\n", i % 2 ? "odd" : "even");
    }
    return room_of(text);
}

static void takes(test_room *r, const char *where, const char *digits)
{
    char spec[400];
    stk_error err;
    stk_dataset *d = NULL;

    snprintf(spec, sizeof spec, "csv:mem://c/a.csv?columns=n&where=%s", where);
    stk_error_init(&err);
    assert_ok(stk_dataset_open(r->ctx, spec, &d, &err), &err);
    assert_int_equal(d->num_fields, 1);
    assert_int_equal(d->size, strlen(digits));
    for (uint64_t i = 0; i < d->size; i++) {
        row *a = row_take(d, i);
        row_is_integer(a, "n", digits[i] - '0');
        row_free(a);
    }
    stk_dataset_close(&d);
}

static void test_where(void **state)
{
    test_room r = ten_rows();

    (void)state;
    takes(&r, "n > 7", "89");
    takes(&r, "n>=7.5", "89");
    takes(&r, "not n <= 7", "89");
    takes(&r, "t == 'odd' and n < 6", "135");
    takes(&r, "t == \"even\" or n == 9", "024689");
    takes(&r, "t in ('odd', 'x') and not (n == 1 or n == 9)", "357");
    takes(&r, "n not in (1, 2, 3)", "0456789");
    takes(&r, "x is null", "3");
    takes(&r, "x is not null and n < 5", "0124");
    takes(&r, "x < 2", "012");        /* null is neither less */
    takes(&r, "not x < 2", "456789"); /* nor not less */
    takes(&r, "x < 2 or n == 3", "0123");
    takes(&r, "ok and `n` != 0 AND NOT n > 1", "1");
    takes(&r, "t != 'odd' and n == +4", "4");
    takes(&r, "t > 'even' and t <= 'odd' and n < 2", "1");
    test_room_close(&r);
}

static void refuse_where(test_room *r, const char *where, const char *says)
{
    char spec[400];

    snprintf(spec, sizeof spec, "csv:mem://c/a.csv?where=%s", where);
    table_refused(r->ctx, spec, STK_EINVAL, says);
}

static void test_wrong_where(void **state)
{
    test_room r = ten_rows();

    (void)state;
    refuse_where(&r, "n = 3", "character 3, at '= 3': write == to compare");
    refuse_where(&r, "n == ", "character 6, at '': a number, true, false or a text in quotes");
    refuse_where(&r, "(n == 3", "character 8, at '': a ) is missing");
    refuse_where(&r, "n == 3 t == 'x'", "character 8, at 't == 'x'': and, or, or the end");
    refuse_where(&r, "t == 'x", "character 6, at ''x': the text does not end");
    refuse_where(&r, "t == 3", "the column has texts; write the value in quotes");
    refuse_where(&r, "n == '3'", "the column has numbers; write the value without quotes");
    refuse_where(&r, "n", "a column by itself has to be of bool");
    refuse_where(&r, "n in 3", "a list in parentheses");
    refuse_where(&r, "n is 3", "null is expected");
    refuse_where(&r, "m == 3", "has no column 'm'; the columns are ");
    refuse_where(&r, "n == 30", "of 10 rows none is left by where=n == 30");
    char deep[200] = "";
    memset(deep, '(', 100);
    refuse_where(&r, deep, "nested too deep");
    test_room_close(&r);
}

static void test_drop(void **state)
{
    test_room r = ten_rows();
    stk_dataset *d = open_one(r.ctx, "csv:mem://c/a.csv?nulls=drop"), *all;

    (void)state;
    assert_int_equal(d->size, 9);
    row *a = row_take(d, 3);
    row_is_integer(a, "n", 4);
    row_is_real(a, "x", 2);
    row_free(a);
    all = open_one(r.ctx, "csv:mem://c/a.csv?nulls=drop&columns=n,t");
    assert_int_equal(all->size, 10);
    stk_dataset_close(&all);
    all = open_one(r.ctx, "csv:mem://c/a.csv?nulls=drop&where=n < 5");
    assert_int_equal(all->size, 4);
    assert_int_not_equal(all->fingerprint, d->fingerprint);
    stk_dataset_close(&all);
    stk_dataset_close(&d);
    test_room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),       cmocka_unit_test(test_types),
        cmocka_unit_test(test_header),      cmocka_unit_test(test_nulls),
        cmocka_unit_test(test_bad_values),  cmocka_unit_test(test_wrong_lines),
        cmocka_unit_test(test_many_lines),  cmocka_unit_test(test_open_quote),
        cmocka_unit_test(test_files),       cmocka_unit_test(test_where),
        cmocka_unit_test(test_wrong_where), cmocka_unit_test(test_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
