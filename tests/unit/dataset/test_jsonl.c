/* SPDX-License-Identifier: Apache-2.0 */
/* jsonl: what members become, what lines are refused, and files that belong together. */
#include "table_rows.h"

static test_room room_of(const char *text)
{
    test_room r = test_room_open("mem://j");

    test_put(r.store, "a.jsonl", text, strlen(text));
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

    table_refused(r.ctx, "jsonl:mem://j/a.jsonl", status, says);
    test_room_close(&r);
}

#define MIXED                                                                                      \
    "{\"id\": 1, \"t\": \"plain\", \"x\": 0.5, \"ok\": true, \"in\": {\"a\": {\"b\": 7}}, "        \
    "\"l\": [1, 2, 3], \"f\": [0.5, 1]}\r\n"                                                       \
    "\n"                                                                                           \
    "{\"l\":[],\"f\":[],\"ok\":false,\"in\":{\"a\":{\"b\":8}},\"x\":1,\"id\":-2,"                  \
    "\"t\":\"\\u00e9\\ud83d\\ude00\\n\\\"\\u0000.\"}\n"                                            \
    "{\"t\":\"twice longer\",\"t\":\"\",\"id\":3,\"x\":-1e-3,\"ok\":true,\"in\":{\"a\":{\"b\":9}}" \
    ",\"l\":[5,6,7,8],\"l\":[4],\"f\":[NaN],\"other\":{}}"

static void test_members(void **state)
{
    static const int64_t first[] = {1, 2, 3}, third[] = {4};
    static const double reals[] = {0.5, 1};
    test_room r = room_of("\xef\xbb\xbf" MIXED);
    stk_dataset *d = open_one(r.ctx, "jsonl:mem://j/a.jsonl");

    (void)state;
    assert_int_equal(d->size, 3);
    assert_int_equal(d->num_fields, 7);
    row *a = row_take(d, 0), *b = row_take(d, 1), *c = row_take(d, 2);
    row_is_integer(a, "id", 1);
    row_is_text(a, "t", "plain");
    row_is_real(a, "x", 0.5);
    row_is(a, "ok", "\1", 1);
    row_is_integer(a, "in.a.b", 7);
    row_is(a, "l", first, sizeof first);
    row_is(a, "f", reals, sizeof reals);
    row_is_integer(b, "id", -2);
    row_is(b, "t", "\xc3\xa9\xf0\x9f\x98\x80\n\"\0.", 10);
    row_is_real(b, "x", 1);
    row_is(b, "l", first, 0);
    row_is_text(c, "t", ""); /* the later of a key counts */
    row_is_real(c, "x", -1e-3);
    row_is(c, "l", third, sizeof third);
    row_free(a), row_free(b), row_free(c);
    stk_dataset_close(&d);
    test_room_close(&r);
}

/* What is not of the type is a bad sample that says why; the others are good. */
static void test_bad_values(void **state)
{
    static const char *const cases[][2] = {
        {"\"i\":1.5", "is no integer"},     {"\"i\":\"1\"", "is no integer"},
        {"\"x\":[1]", "is no number"},      {"\"b\":0", "is neither true nor false"},
        {"\"t\":1", "is no text"},          {"\"l\":[1,\"a\"]", "is no list of numbers"},
        {"\"l\":3", "is no list"},          {"\"t\":\"\\ud800\"", "half of a surrogate pair"},
        {"\"t\":\"\xff\"", "is not UTF-8"},
    };
    char text[1000];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 "{\"i\":1,\"x\":0.5,\"b\":true,\"t\":\"a\",\"l\":[1]}\n"
                 "{\"i\":1,\"x\":1,\"b\":true,\"t\":\"b\",\"l\":[2],%s}\n"
                 "{\"i\":2,\"x\":1,\"b\":true,\"t\":\"c\",\"l\":[3]}\n",
                 cases[i][0]);
        test_room r = room_of(text);
        stk_dataset *d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?learn=1");
        row_is_bad(d, 1, cases[i][1]);
        row *good = row_take(d, 2);
        row_is_integer(good, "i", 2);
        row_is_text(good, "t", "c");
        row_free(good);
        stk_dataset_close(&d);
        test_room_close(&r);
    }
}

static void test_nulls(void **state)
{
    test_room r = room_of("{\"i\":1,\"t\":\"a\"}\n{\"t\":null}\n{}\n{\"i\":4,\"t\":\"d\"}\n");
    stk_dataset *d = open_one(r.ctx, "jsonl:mem://j/a.jsonl");

    (void)state;
    assert_int_equal(d->size, 4);
    row_is_bad(d, 1, "null");
    stk_dataset_close(&d);
    d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?nulls=drop");
    assert_int_equal(d->size, 2);
    row *a = row_take(d, 1);
    row_is_integer(a, "i", 4);
    row_free(a);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?nulls=zero&types=i:float32");
    a = row_take(d, 2);
    row_is(a, "i", "\0\0\0\0", 4);
    row_is_text(a, "t", "");
    row_free(a);
    stk_dataset_close(&d);
    test_room_close(&r);
}

/* Many pieces: each row is its own. */
static void test_pieces(void **state)
{
    enum { ROWS = 9000 };
    char *text = malloc(ROWS * 80);
    size_t n = 0;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < ROWS; i++)
        n += (size_t)snprintf(text + n, 80, "{\"i\":%d,\"t\":\"text %d\",\"l\":[%d,%d]}\n", i,
                              i * 3, i, -i);
    text[n - 1] = 0; /* no newline at the end */
    test_room r = room_of(text);
    stk_dataset *d = open_one(r.ctx, "mem://j/a.jsonl");
    assert_int_equal(d->size, ROWS);
    for (int i = 0; i < ROWS; i += 97) {
        const int64_t list[] = {i, -i};
        char wanted[40];
        row *a = row_take(d, (uint64_t)i);
        snprintf(wanted, sizeof wanted, "text %d", i * 3);
        row_is_integer(a, "i", i);
        row_is_text(a, "t", wanted);
        row_is(a, "l", list, sizeof list);
        row_free(a);
    }
    stk_dataset_close(&d);
    test_room_close(&r);
    free(text);
}

static void test_refused(void **state)
{
    (void)state;
    refuse_text("", STK_EFORMAT, "has 1 file without a row");
    refuse_text("\n \n", STK_EFORMAT, "has 1 file without a row");
    refuse_text("{}\n", STK_EFORMAT, "no line with a key");
    refuse_text("[{\"a\":1}]", STK_EKIND, "one list of JSON");
    refuse_text("{\"a\":1}\n\n{\"a\":1\n", STK_EFORMAT, "line 3: it is no object of JSON");
    refuse_text("{\"a\":1} {\"a\":2}\n", STK_EFORMAT, "line 1: it is no object of JSON");
    refuse_text("{\"a\":1}\n7\n", STK_EFORMAT, "line 2");
    refuse_text("{\"\":1}\n", STK_EFORMAT, "a key that is empty");
    refuse_text("{\"a\\u0000\":1}\n", STK_EFORMAT, "holds a zero");
    refuse_text("\x1f\x8b\x08", STK_EKIND, "gzip");
    refuse_text("{\"a\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}\n", STK_EFORMAT, "line 1");
    test_room r = room_of("{\"a\":1}\n");
    static const char *const types[] = {"a:long",  "a",        ":int8",     "b:text[]",
                                        "b:[]",    "b:int8[",  "`b:int8",   "`b`int8",
                                        "``:int8", "b:int8,,", "b:int8[][]"};
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        char spec[100];
        snprintf(spec, sizeof spec, "jsonl:mem://j/a.jsonl?types=%s", types[i]);
        table_refused(r.ctx, spec, STK_EINVAL, "is no COLUMN:TYPE");
    }
    test_room_close(&r);
}

/* Keys of later lines and of other files, which types= has: null where a line lacks them. */
static void test_declared(void **state)
{
    static const int32_t list[] = {1, -2};
    test_room r = room_of("{\"a\":1}\n{\"a\":2,\"late\":\"x\",\"l\":[1,-2]}\n");
    const char *more = "{\"in\":{\"x,y\":0.5},\"a\":3}\n{\"a\":4,\"late\":\"y\",\"l\":null}\n";

    (void)state;
    test_put(r.store, "b.jsonl", more, strlen(more));
    stk_dataset *d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?learn=1");
    assert_int_equal(d->num_fields, 1);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "jsonl:mem://j/{a,b}.jsonl?learn=1&nulls=zero&types=late:text,l:int32[],"
                        "`in.x,y`:float32,a:int8");
    assert_int_equal(d->size, 4);
    assert_int_equal(d->num_fields, 4);
    row *rows[4];
    for (uint64_t i = 0; i < 4; i++)
        rows[i] = row_take(d, i);
    row_is_text(rows[0], "late", "");
    row_is_text(rows[1], "late", "x");
    row_is_text(rows[2], "late", "");
    row_is_text(rows[3], "late", "y");
    row_is(rows[0], "l", list, 0);
    row_is(rows[1], "l", list, sizeof list);
    row_is(rows[3], "l", list, 0);
    row_is(rows[1], "in.x,y", "\0\0\0\0", 4);
    row_is(rows[2], "in.x,y", "\0\0\0\x3f", 4);
    row_is(rows[3], "a", "\4", 1);
    for (uint64_t i = 0; i < 4; i++)
        row_free(rows[i]);
    stk_dataset_close(&d);
    d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?learn=1&types=late:text");
    row_is_bad(d, 0, "null");
    stk_dataset_close(&d);
    d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?learn=1&types=late:text&nulls=drop");
    assert_int_equal(d->size, 1);
    stk_dataset_close(&d);
    /* One that no line of any file has; a null is there. */
    table_refused(r.ctx,
                  "jsonl:mem://j/{a,b}.jsonl?learn=1&types=late:text,lat:text,`in.x,y`:float32",
                  STK_EINVAL, "types: no line has a key 'lat'");
    table_refused(r.ctx, "jsonl:mem://j/b.jsonl?types=in:float32", STK_EINVAL, "a key 'in'");
    table_refused(r.ctx, "jsonl:mem://j/b.jsonl?types=x:float32", STK_EINVAL, "a key 'x'");
    d = open_one(r.ctx, "jsonl:mem://j/b.jsonl?learn=1&nulls=zero&types=l:int32[]");
    assert_int_equal(d->num_fields, 3);
    stk_dataset_close(&d);
    /* What is known to be a list stays one. */
    d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?types=l:int32&nulls=zero&columns=l");
    rows[1] = row_take(d, 1);
    row_is(rows[1], "l", list, sizeof list);
    row_free(rows[1]);
    stk_dataset_close(&d);
    /* A value of another type than was said. */
    d = open_one(r.ctx, "jsonl:mem://j/a.jsonl?learn=1&types=late:int64&nulls=zero");
    row_is_bad(d, 1, "is no integer");
    stk_dataset_close(&d);
    test_room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members), cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_nulls),   cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_declared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
