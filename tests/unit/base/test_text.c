/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that grow and texts in given room, JSON strings, and events of a trace. */
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include <stoker/options.h>

#include "base/chrome.h"
#include "support/faults.h"
#include "support/support.h"

static void test_grows(void **state)
{
    stk_context *ctx = test_context();
    stk__text text = {.ctx = ctx};

    for (int i = 0; i < 1000; i++) {
        stk__text_add(&text, "%03d", i);
        stk__text_put(&text, ",;", 1);
    }
    assert_false(text.failed);
    assert_int_equal(text.length, 4000);
    assert_int_equal(strlen(text.bytes), 4000);
    assert_memory_equal(text.bytes + 3992, "998,999,", 9);
    stk__text_release(&text);
    assert_null(text.bytes);
    stk_context_destroy(&ctx);
}

/* As snprintf() has it: what is there is whole, cut and counted, at every size. */
static void test_given_room(void **state)
{
    static const char whole[] = "12 \"a\\\"bcd\" 34.005";
    char bytes[32];

    for (size_t room = 0; room < sizeof bytes; room++) {
        stk__text text = {.bytes = bytes, .room = room};
        memset(bytes, '#', sizeof bytes);
        stk__text_add(&text, "%d ", 12);
        stk__text_add_json(&text, "a\"bcd");
        stk__text_put(&text, " ", 1);
        stk__text_add_thousandths(&text, 34005);
        assert_int_equal(text.length, sizeof whole - 1);
        assert_false(text.failed);
        if (room) {
            const size_t fits = STK_MIN(room - 1, sizeof whole - 1);
            assert_memory_equal(bytes, whole, fits);
            assert_int_equal(bytes[fits], 0);
        }
        assert_int_equal(bytes[room], '#');
    }
}

static void test_no_memory(void **state)
{
    faults f = {.left = FAULTS_NONE, .for_good = true};
    stk_context_options options;
    stk_context *ctx;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    stk__text text = {.ctx = ctx};
    stk__text_add(&text, "there");
    f.left = 0;
    stk__text_add(&text, "%0300d", 1);
    assert_true(text.failed && text.length == 5);
    f.left = FAULTS_NONE;
    /* What failed stays failed: a text with a hole is none. */
    stk__text_put(&text, "more", 4);
    stk__text_add(&text, "more");
    assert_true(text.failed && text.length == 5);
    stk__text_release(&text);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
}

/* What another reads back. */
static void test_json(void **state)
{
    static const char *const strings[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\"\\/\b\n\x1f\x7f", "\"\\/\b\n\x1f\x7f"},
        {"Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", NULL},
        {"\xff", "?"},
        {"a\xc3", "a?"},
        {"\xc0\xaf\xed\xa0\x80z", "?????z"},
        {"\xf5\x80\x80\x80\"", "????\""},
    };
    stk_context *ctx = test_context();

    for (size_t i = 0; i < STK_COUNT(strings); i++) {
        const char *from = strings[i][0], *expected = strings[i][1] ? strings[i][1] : from;
        stk__text text = {.ctx = ctx};
        stk__text_add_json(&text, from);
        json_t *value = json_loads(text.bytes, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_string_equal(json_string_value(value), expected);
        json_decref(value);
        stk__text_release(&text);
    }
    stk_context_destroy(&ctx);
}

static void test_chrome(void **state)
{
    stk_context *ctx = test_context();
    stk__text text = {.ctx = ctx};
    const stk__chrome_place at = {7, STK__LANE_WORKERS + 3, 1234567};
    json_t *event;

    stk__chrome_begin_span(&text, "a \"b\"", "test", at, 1235570);
    stk__chrome_batch(&text, 1, 2, 3);
    stk__text_put(&text, "}", 1);
    event = json_loads(text.bytes, 0, NULL);
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "name")), "a \"b\"");
    assert_string_equal(json_string_value(json_object_get(event, "cat")), "test");
    assert_string_equal(json_string_value(json_object_get(event, "ph")), "X");
    assert_int_equal(json_integer_value(json_object_get(event, "pid")), 7);
    assert_int_equal(json_integer_value(json_object_get(event, "tid")), 1003);
    assert_true(json_real_value(json_object_get(event, "ts")) == 1234.567);
    assert_true(json_real_value(json_object_get(event, "dur")) == 1.003);
    json_t *batch = json_object_get(event, "args");
    assert_int_equal(json_integer_value(json_object_get(batch, "epoch")), 1);
    assert_int_equal(json_integer_value(json_object_get(batch, "step")), 2);
    assert_int_equal(json_integer_value(json_object_get(batch, "samples")), 3);
    json_decref(event);

    text.length = 0;
    stk__chrome_name(&text, "thread_name", at, "worker 3");
    event = json_loads(text.bytes, 0, NULL);
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "ph")), "M");
    assert_string_equal(json_string_value(json_object_get(json_object_get(event, "args"), "name")),
                        "worker 3");
    json_decref(event);
    stk__text_release(&text);
    stk_context_destroy(&ctx);
}

/* Cells of CSV, and decimals of which so many are kept. */
static void test_cells(void **state)
{
    char bytes[512];
    stk__text text = {.bytes = bytes, .room = sizeof bytes};

    stk__text_add_csv(&text, "plain text");
    stk__text_put(&text, ",", 1);
    stk__text_add_csv(&text, "a,b");
    stk__text_put(&text, ",", 1);
    stk__text_add_csv(&text, "say \"so\"\n");
    assert_string_equal(bytes, "plain text,\"a,b\",\"say \"\"so\"\"\n\"");
    text.length = 0;
    stk__text_add_fixed(&text, -1234.56789, 3);
    stk__text_put(&text, " ", 1);
    stk__text_add_fixed(&text, 0, 9);
    stk__text_put(&text, " ", 1);
    stk__text_add_fixed(&text, 2.25, 1);
    stk__text_put(&text, " ", 1);
    stk__text_add_fixed(&text, (double)INFINITY, 2);
    assert_string_equal(bytes, "-1234.568 0.000000000 2.2 inf");
    text.length = 0;
    stk__text_add_fixed(&text, -DBL_MAX, 9);
    assert_int_equal(text.length, 1 + 309 + 10);
}

static void test_shapes(void **state)
{
    static const int64_t shape[] = {64, 3, 224};
    char bytes[64];

    for (uint32_t rank = 0; rank <= 3; rank++) {
        static const char *const plain[] = {"[]", "[64]", "[64, 3]", "[64, 3, 224]"};
        static const char *const rows[] = {"[N]", "[N, 64]", "[N, 64, 3]", "[N, 64, 3, 224]"};
        static const char *const tuples[] = {"()", "(64,)", "(64, 3)", "(64, 3, 224)"};
        stk__text text = {.bytes = bytes, .room = sizeof bytes};
        stk__text_add_shape(&text, shape, rank, false);
        assert_string_equal(bytes, plain[rank]);
        text.length = 0;
        stk__text_add_shape(&text, shape, rank, true);
        assert_string_equal(bytes, rows[rank]);
        stk__shape_tuple(shape, rank, bytes, sizeof bytes);
        assert_string_equal(bytes, tuples[rank]);
    }
    stk__shape_tuple(shape, 3, bytes, 6);
    assert_string_equal(bytes, "(64, ");
}

static void test_sizes(void **state)
{
    static const struct {
        double bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},         {1023, "1023 B"},       {1024, "1 KiB"},    {5496131584, "5.12 GiB"},
        {1048575, "1 MiB"}, {104857600, "100 MiB"}, {1e20, "88818 PiB"}};
    char text[32];

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        assert_string_equal(stk_size_text(rows[k].bytes, text), rows[k].text);
}

/* As json.dumps() of Python has them. */
static void test_reals(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{3, "3.0"},      {-0.0, "-0.0"},         {0.1, "0.1"},
                {1e16, "1e+16"}, {2.5e-7, "2.5e-07"},    {(double)0.1f, "0.10000000149011612"},
                {NAN, "NaN"},    {INFINITY, "Infinity"}, {-INFINITY, "-Infinity"}};
    char bytes[32];

    (void)state;
    for (size_t k = 0; k < STK_COUNT(rows); k++) {
        stk__text text = {.bytes = bytes, .room = sizeof bytes};
        stk__text_add_real(&text, rows[k].value);
        assert_string_equal(bytes, rows[k].text);
    }
}

static void test_percent(void **state)
{
    static const char plain[] = "ABCXYZabcxyz0189-._~";
    char out[1024];
    stk__text text = {.bytes = out, .room = sizeof out};

    stk__text_add_percent(&text, plain, strlen(plain), false);
    assert_string_equal(out, plain);
    text.length = 0;
    stk__text_add_percent(&text, "a/b c+d=e:f*%\xc3\xa9", 15, true);
    assert_string_equal(out, "a/b%20c%2Bd%3De%3Af%2A%25%C3%A9");
    text.length = 0;
    stk__text_add_percent(&text, "a/b", 3, false);
    assert_string_equal(out, "a%2Fb");
    /* All other bytes are escaped. */
    text.length = 0;
    for (int c = 1; c < 256; c++) {
        const char byte = (char)c;
        stk__text_add_percent(&text, &byte, 1, false);
    }
    assert_int_equal(text.length, 66 + 3 * (255 - 66));
    /* Whether it fits. */
    text = (stk__text){.bytes = out, .room = 4};
    stk__text_add_percent(&text, "abc", 3, true);
    assert_true(text.length < text.room);
    text.length = 0;
    stk__text_add_percent(&text, "a b", 3, true);
    assert_int_equal(text.length, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percent),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_grows),     cmocka_unit_test(test_given_room),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_json),
        cmocka_unit_test(test_chrome),    cmocka_unit_test(test_cells),
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_reals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
