/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of "key value" lines: what is written is read, and nothing else is. */
#include <math.h>

#include "base/lines.h"
#include "support/support.h"

static void numbers(void **state)
{
    static const char *const no_uint[] = {
        "", "-1", "+1", " 1", "00", "01", "x", "18446744073709551616", "99999999999999999999"};
    static const char *const no_int[] = {"-0", "--1", "-", "9223372036854775808",
                                         "-9223372036854775809"};
    static const char *const no_double[] = {"", "3ff000000000000", "3FF0000000000000",
                                            "0x3ff00000000000"};
    const char *at;
    uint64_t n;
    int64_t i;
    double x;

    for (size_t k = 0; k < STK_COUNT(no_uint); k++) {
        at = no_uint[k];
        assert_false(stk__take_uint(&at, &n));
        assert_ptr_equal(at, no_uint[k]);
    }
    for (size_t k = 0; k < STK_COUNT(no_int); k++) {
        at = no_int[k];
        assert_false(stk__take_int(&at, &i));
        assert_ptr_equal(at, no_int[k]);
    }
    for (size_t k = 0; k < STK_COUNT(no_double); k++) {
        at = no_double[k];
        assert_false(stk__take_double(&at, &x));
    }
    at = "18446744073709551615 0";
    assert_true(stk__take_uint(&at, &n) && n == UINT64_MAX && stk__take(&at, ' '));
    assert_true(stk__take_uint(&at, &n) && n == 0 && !*at);
    at = "-9223372036854775808";
    assert_true(stk__take_int(&at, &i) && i == INT64_MIN && !*at);
    at = "9223372036854775807x";
    assert_true(stk__take_int(&at, &i) && i == INT64_MAX && *at == 'x');
    at = "bff8000000000000";
    assert_true(stk__take_double(&at, &x) && x == -1.5 && !*at);
    at = "7ff0000000000000";
    assert_true(stk__take_double(&at, &x) && isinf(x));
}

static stk_status collect(void *to, const char *value, stk_error *err)
{
    char *text = to;

    if (strcmp(value, "bad") == 0)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_OPTIONS, "a bad one");
    snprintf(text + strlen(text), 64 - strlen(text), "[%s]", value);
    return STK_OK;
}

static void lines(void **state)
{
    static const struct {
        const char *text, *why; /* NULL: it is sound */
    } cases[] = {
        {"n 7\nx 3ff0000000000000\nname a b\nw 1 2 3\n", NULL},
        {"w 1 2 3\nname \nall one\nx 3ff0000000000000\nall two words\nn 10\n", NULL},
        {"n 11\nx 3ff0000000000000\nname a\nw 1 2 3\n", "none at \"n 11\""},
        {"n 7\nn 7\nx 3ff0000000000000\nname a\nw 1 2 3\n", "second line"},
        {"n 7\nx 3ff0000000000000\nname a\n", "missing at \"w\""},
        {"n 7\nx 3ff0000000000000\nname a\nw 1 2\n", "none at \"w 1 2\""},
        {"n 7\nx 3ff0000000000000\nname a\nw 1 2 3 4\n", "none at \"w"},
        {"n 7\nx 3ff0000000000000 \nname a\nw 1 2 3\n", "none at \"x"},
        {"n 7\nx 3ff0000000000000\nname a\nw 1 2 3", "without its end"},
        {"n 7\nx 3ff0000000000000\nname a\nw 1 2 3\nother 1\n", "unknown"},
        {"n 7\nx 3ff0000000000000\nname a\nw 1 2 3\nall bad\n", "a bad one"},
        {"n\nx 3ff0000000000000\nname a\nw 1 2 3\n", "no key and value"},
        {"n 7\n\nx 3ff0000000000000\nname a\nw 1 2 3\n", "no key and value"},
        {NULL, "missing at \"n\""},
    };
    stk_context *ctx = test_context();
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        uint64_t n = 0, w[3] = {0};
        double x = 0;
        char *name = NULL, all[64] = "";
        const stk__line table[] = {
            {"n", STK__LINE_UINT, .to = &n, .most = 10},
            {"x", STK__LINE_DOUBLE, .to = &x},
            {"name", STK__LINE_TEXT, .to = &name},
            {"w", STK__LINE_WORDS, .to = w, .most = 3},
            {"all", STK__LINE_EACH, .to = all, .each = collect},
        };
        stk_status status =
            stk__lines_read(ctx, "it", cases[i].text, table, STK_COUNT(table), &err);
        if (cases[i].why) {
            assert_fails(status, STK_EFORMAT, &err, cases[i].why);
        } else {
            assert_ok(status, &err);
            assert_true(n == 7 + 3 * i && x == 1 && w[0] == 1 && w[2] == 3);
            assert_string_equal(name, i ? "" : "a b");
            assert_string_equal(all, i ? "[one][two words]" : "");
        }
        stk__free(ctx, name);
    }
    stk_context_destroy(&ctx);
}

/* A count without a bound of its own has one, so that one more is still a count. */
static void counts(void **state)
{
    static const char *const texts[][2] = {{"n 9007199254740992\nw 0 9007199254740992\n", NULL},
                                           {"n 9007199254740993\nw 0 0\n", "none at \"n "},
                                           {"n 18446744073709551615\nw 0 0\n", "none at \"n "},
                                           {"n 0\nw 0 9007199254740993\n", "none at \"w "}};
    stk_context *ctx = test_context();
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        uint64_t n = 0, w[2] = {0};
        const stk__line table[] = {{"n", STK__LINE_UINT, .to = &n},
                                   {"w", STK__LINE_WORDS, .to = w, .most = 2}};
        const stk_status status =
            stk__lines_read(ctx, "it", texts[i][0], table, STK_COUNT(table), &err);
        if (texts[i][1])
            assert_fails(status, STK_EFORMAT, &err, texts[i][1]);
        else
            assert_ok(status, &err);
        assert_true(texts[i][1] || (n == STK__MOST_COUNTED && w[1] == STK__MOST_COUNTED));
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(lines),
                                       cmocka_unit_test(counts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
