/* SPDX-License-Identifier: Apache-2.0 */
/* The language of lists: what a text means, and what is said where it means nothing. */
#include <string.h>

#include "base/items.h"
#include "support/support.h"

enum { MOST = 64 };

#define THINGS                                                                                     \
    .stage = STK_STAGE_OPTIONS, .list = "things", .item = "thing", .form = "name(key=value)",      \
    .most = MOST

static const stk__items_kind plain = {THINGS}, labelled = {THINGS, .labels = true},
                             patterns = {THINGS, .patterns = true},
                             classes = {THINGS, .classes = true};

static stk_context *context;

static int setup(void **state)
{
    context = test_context();
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&context);
    return 0;
}

static void test_calls(void **state)
{
    stk__items items;
    stk_error err;

    assert_ok(stk__items_parse(context, &plain,
                               " a , b_2( 1 ,key = [2, (3, 4)], 'x, y)' , z=\"=,\" ),\n c() ",
                               &items, &err),
              &err);
    assert_int_equal(items.count, 3);
    assert_string_equal(items.items[0].name, "a");
    assert_int_equal(items.items[0].count, 0);
    assert_string_equal(items.items[1].name, "b_2");
    assert_int_equal(items.items[1].count, 4);
    const stk__argument *a = items.items[1].arguments;
    assert_null(a[0].name);
    assert_string_equal(a[0].value, "1");
    assert_string_equal(a[1].name, "key");
    assert_string_equal(a[1].value, "[2, (3, 4)]");
    assert_null(a[2].name);
    assert_string_equal(a[2].value, "x, y)");
    assert_string_equal(a[3].name, "z");
    assert_string_equal(a[3].value, "=,");
    assert_string_equal(items.items[2].name, "c");
    assert_int_equal(items.items[2].count, 0);
    stk__items_release(context, &items);
    static const char *const blank[] = {NULL, "", " \n\t "};
    for (size_t i = 0; i < STK_COUNT(blank); i++) {
        assert_ok(stk__items_parse(context, &plain, blank[i], &items, &err), &err);
        assert_int_equal(items.count, 0);
        stk__items_release(context, &items);
    }
}

typedef struct refusal {
    const char *text, *message;
} refusal;

static void test_syntax(void **state)
{
    static const refusal rows[] = {
        {",", "name of a thing"},
        {"a,", "after the last \",\""},
        {"a b", "\",\" between"},
        {"a(", "\")\""},
        {"a(1", "\")\""},
        {"a(1,)", "a value"},
        {"a(,1)", "a value"},
        {"a(k=)", "a value"},
        {"a([1)", "no opening one"},
        {"a(1])", "no opening one"},
        {"a('1)", "quote"},
        {"a)", "\",\" between"},
        {"1a", "name of a thing"},
        {"a(1) b", "\",\" between"},
        {"(1)", "name of a thing"},
        {"\x01\xff", "name of a thing"},
    };
    stk__items items;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        assert_fails(stk__items_parse(context, &plain, rows[i].text, &items, &err), STK_EINVAL,
                     &err, rows[i].message);
        assert_null(items.text);
    }
}

/* Bounds of the language: calls, arguments, nesting. */
static void test_limits(void **state)
{
    static char text[200000];
    stk__items items;
    stk_error err;

    for (int i = 0; i < MOST + 1; i++)
        strcat(text, i ? ",a" : "a");
    assert_fails(stk__items_parse(context, &plain, text, &items, &err), STK_EINVAL, &err,
                 "fewer things");
    text[strlen(text) - 2] = '\0';
    assert_ok(stk__items_parse(context, &plain, text, &items, &err), &err);
    assert_int_equal(items.count, MOST);
    stk__items_release(context, &items);
    strcpy(text, "a(1");
    for (int i = 1; i < STK__MAX_ARGUMENTS; i++)
        strcat(text, ",1");
    size_t length = strlen(text);
    strcpy(text + length, ")");
    assert_ok(stk__items_parse(context, &plain, text, &items, &err), &err);
    assert_int_equal(items.items[0].count, STK__MAX_ARGUMENTS);
    stk__items_release(context, &items);
    strcpy(text + length, ",1)");
    assert_fails(stk__items_parse(context, &plain, text, &items, &err), STK_EINVAL, &err,
                 "fewer arguments");
    memset(text, '(', sizeof text - 1);
    memcpy(text, "a", 1);
    assert_fails(stk__items_parse(context, &plain, text, &items, &err), STK_EINVAL, &err,
                 "nest deeper");
}

/* Any bytes give a status and leave nothing behind. */
static void test_noise(void **state)
{
    static const char letters[] = "ab1,,()[]=='\" \x80-_";
    uint64_t random = 77;
    stk_memory_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};

    stk_context_memory(context, &before);
    for (int round = 0; round < 20000; round++) {
        char text[40];
        size_t length = test_random(&random) % (sizeof text - 1);
        stk__items items;
        stk_error err;

        for (size_t i = 0; i < length; i++)
            text[i] = letters[test_random(&random) % (sizeof letters - 1)];
        text[length] = '\0';
        stk_status status = stk__items_parse(context, &plain, text, &items, &err);
        assert_true(status == STK_OK || status == STK_EINVAL);
        for (uint32_t i = 0; status == STK_OK && i < items.count; i++)
            assert_true(strlen(items.items[i].name) > 0);
        if (status == STK_OK)
            stk__items_release(context, &items);
        else
            assert_true(err.text[0] != '\0');
    }
    stk_context_memory(context, &after);
    assert_int_equal(before.bytes, after.bytes);
}

static void test_labels(void **state)
{
    stk__items items;
    stk_error err;

    assert_ok(stk__items_parse(context, &labelled, "conv1 = a(3, from=x), layer1.0.b=c , d", &items,
                               &err),
              &err);
    assert_int_equal(items.count, 3);
    assert_string_equal(items.items[0].label, "conv1");
    assert_string_equal(items.items[0].name, "a");
    assert_int_equal(items.items[0].count, 2);
    assert_string_equal(items.items[0].arguments[1].name, "from");
    assert_string_equal(items.items[1].label, "layer1.0.b");
    assert_string_equal(items.items[1].name, "c");
    assert_null(items.items[2].label);
    stk__items_release(context, &items);
    assert_fails(stk__items_parse(context, &labelled, "x=", &items, &err), STK_EINVAL, &err,
                 "things: expected the name of a thing at the end of the text; a thing is written "
                 "'name(key=value)'");
    assert_fails(stk__items_parse(context, &plain, "x=a", &items, &err), STK_EINVAL, &err,
                 "at character 2, before \"=a\"");
}

/* A pattern is a name; the text stays the caller's. */
static void test_patterns(void **state)
{
    char text[] = "*.bias(1), layer?.[a]";
    stk__items items;
    stk_error err;

    assert_fails(stk__items_cut(context, &patterns, text, &items, &err), STK_EINVAL, &err,
                 "\",\" between");
    memcpy(text, "*.bias(1), layer?.a.b", sizeof text);
    assert_ok(stk__items_cut(context, &patterns, text, &items, &err), &err);
    assert_null(items.text);
    assert_int_equal(items.count, 2);
    assert_ptr_equal(items.items[0].name, text);
    assert_string_equal(items.items[0].name, "*.bias");
    assert_string_equal(items.items[1].name, "layer?.a.b");
    stk__items_release(context, &items);
    assert_fails(stk__items_parse(context, &plain, "*.bias", &items, &err), STK_EINVAL, &err,
                 "name of a thing");
    assert_ok(stk__items_parse(context, &classes, "a.b.C(1)", &items, &err), &err);
    assert_string_equal(items.items[0].name, "a.b.C");
    stk__items_release(context, &items);
    assert_fails(stk__items_parse(context, &plain, "a.b.C(1)", &items, &err), STK_EINVAL, &err,
                 "\",\" between");
}

typedef struct values {
    uint32_t struct_size;
    int64_t a, b;
} values;

static const stk_option rows[] = {
    {"a", STK_OPTION_INT, offsetof(values, a), "1", 0, 9, NULL, NULL, "First."},
    {"b", STK_OPTION_INT, offsetof(values, b), "2", 0, 9, NULL, NULL, "Second."}};
static const stk_option_table table = {"thing", "Options of a thing", sizeof(values), rows, 2};

static void test_options(void **state)
{
    static const struct {
        const char *text, *places;
        int64_t a, b;
    } good[] = {{"t", NULL, 1, 2},      {"t(3)", NULL, 3, 2},     {"t(3, b=4)", NULL, 3, 4},
                {"t(b=4)", NULL, 1, 4}, {"t(3, 4)", "b a", 4, 3}, {"t(3, 4)", NULL, 3, 4}};
    static const struct {
        const char *text, *places, *message;
    } bad[] = {{"t(1, 2, 3)", NULL, "t: takes 2 arguments; \"3\" is one more"},
               {"t(1, 2)", "b", "t: takes 1 arguments by place (b); \"2\" is one more"},
               {"t(a=1, 2)", NULL, "t: \"2\" has no name but comes after \"a=\""},
               {"t(1, a=2)", NULL, "t: a is given twice"},
               {"t(1, b=2)", "b", "t: b is given twice"},
               {"t(c=2)", NULL, "c"}};
    stk__items items;
    stk_error err;
    values v;

    for (size_t i = 0; i < STK_COUNT(good); i++) {
        assert_ok(stk__items_parse(context, &plain, good[i].text, &items, &err), &err);
        assert_ok(stk__item_options(items.items, &table, good[i].places, &v, &err), &err);
        assert_int_equal(v.a, good[i].a);
        assert_int_equal(v.b, good[i].b);
        stk__items_release(context, &items);
    }
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        assert_ok(stk__items_parse(context, &plain, bad[i].text, &items, &err), &err);
        assert_fails(stk__item_options(items.items, &table, bad[i].places, &v, &err), STK_EINVAL,
                     &err, bad[i].message);
        stk__items_release(context, &items);
    }
    assert_ok(stk__items_parse(context, &plain, "t(x=1)", &items, &err), &err);
    assert_fails(stk__item_options(items.items, NULL, NULL, NULL, &err), STK_EINVAL, &err,
                 "t: takes no arguments, not \"x=1\"");
    stk__items_release(context, &items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),   cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_noise),
        cmocka_unit_test(test_labels),  cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
