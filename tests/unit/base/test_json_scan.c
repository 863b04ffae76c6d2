/* SPDX-License-Identifier: Apache-2.0 */
/* Members of JSON texts, in place. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_scan.h"
#include "support/support.h"

#define MOST (INT64_C(1) << 53)

static const stk__json_range durations = {0, 1e10};

static stk__json_scanned parse(const char *text, stk__json_member *members, size_t *n)
{
    const char *stop;

    return stk__json_scan(text, text + strlen(text), members, 8, n, &stop);
}

/* Any number there is; NaN for what is none. */
static double number(const stk__json_member *m)
{
    double value = NAN;

    (void)stk__json_member_real(m, (stk__json_range){-INFINITY, INFINITY}, &value);
    return value;
}

static void test_members(void **state)
{
    const char *text = "{ \"a\" : 1.5 , \"b\":\"x\\ny\",\"c\":[1,{\"d\":2}],\"e\":{},\"f\":null, "
                       "\"g\":true} rest";
    stk__json_member m[8];
    const char *stop;
    char out[32];
    size_t n;

    assert_int_equal(stk__json_scan(text, text + strlen(text), m, 8, &n, &stop), STK__JSON_DONE);
    assert_int_equal(n, 6);
    assert_string_equal(stop, " rest");
    assert_true(stk__json_member_key_is(&m[0], "a") && !stk__json_member_key_is(&m[0], "aa"));
    assert_true(number(&m[0]) == 1.5);
    assert_int_equal(stk__json_member_text(&m[1], out, sizeof out), 3);
    assert_string_equal(out, "x\ny");
    stk__json_member_text(&m[2], out, sizeof out);
    assert_string_equal(out, "[1,{\"d\":2}]");
    assert_int_equal(m[4].kind, STK__JSON_NULL);
    assert_int_equal(m[5].kind, STK__JSON_TRUE);
    /* More members than there is room for are counted. */
    assert_int_equal(stk__json_scan(text, text + strlen(text), m, 2, &n, &stop), STK__JSON_DONE);
    assert_int_equal(n, 6);
}

/* Each beginning of an object asks for more; none is taken for whole or for broken. */
static void test_prefixes(void **state)
{
    const char *text =
        "{\"a\": -1.5e-3, \"b\": \"\\u00e9\\\\\", \"c\": [true, false, null, {\"d\": "
        "-Infinity}], \"e\": NaN, \"f\": 0}";
    stk__json_member m[8];
    const char *stop;
    size_t n;

    for (size_t i = 0; i < strlen(text); i++)
        assert_int_equal(stk__json_scan(text, text + i, m, 8, &n, &stop), STK__JSON_MORE);
    assert_int_equal(parse(text, m, &n), STK__JSON_DONE);
    assert_true(isnan(number(&m[3])));
}

static void test_broken(void **state)
{
    static const char *const texts[] = {
        "[1]",
        "{a: 1}",
        "{\"a\" 1}",
        "{\"a\": }",
        "{\"a\": 01}",
        "{\"a\": 1.}",
        "{\"a\": +1}",
        "{\"a\": .5}",
        "{\"a\": 1,}",
        "{,}",
        "{\"a\": tru3}",
        "{\"a\": \"\\x\"}",
        "{\"a\": \"\\u12g4\"}",
        "{\"a\": \"\n\"}",
        "{\"a\": 1]",
        "{\"a\": 1 2}",
        "{\"a\": 'b'}",
        "{\"a\": 1e}",
        "{\"a\": --1}",
        "{\"a\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}",
    };
    stk__json_member m[8];
    size_t n;

    for (size_t i = 0; i < STK_COUNT(texts); i++)
        assert_int_equal(parse(texts[i], m, &n), STK__JSON_BAD);
}

/* The same doubles as the C library's, for what the fast way takes and what it does not. */
static void test_numbers(void **state)
{
    static const char *const texts[] = {"0",
                                        "-0.0",
                                        "1710523476.1234567",
                                        "1795247568.93081",
                                        "9.894e-05",
                                        "5e-324",
                                        "1.7976931348623157e308",
                                        "9007199254740993",
                                        "9007199254740993.0",
                                        "4503599627370496.5",
                                        "4503599627370497.5",
                                        "-0.9999999999999999999",
                                        "9999999999999999999",
                                        "123456789012345678901234567890",
                                        "0.000000000000000000000000000001",
                                        "2.2250738585072011e-308"};
    uint64_t seed = 5;
    char text[64];

    for (size_t i = 0; i < STK_COUNT(texts) + 200000; i++) {
        if (i < STK_COUNT(texts))
            snprintf(text, sizeof text, "%s", texts[i]);
        else if (i % 2)
            snprintf(text, sizeof text, "%llu.%0*llu",
                     (unsigned long long)(test_random(&seed) % 20), (int)(i % 3 + 16),
                     (unsigned long long)(test_random(&seed) % 10000000000000000));
        else
            snprintf(text, sizeof text, "%llu.%0*llu",
                     (unsigned long long)(test_random(&seed) % 2000000000), (int)(i % 9 + 1),
                     (unsigned long long)(test_random(&seed) % 10));
        stk__json_member m = {.text = text, .length = strlen(text), .kind = STK__JSON_NUMBER};
        double value = number(&m), want = strtod(text, NULL);
        assert_memory_equal(&value, &want, sizeof value);
    }
    int64_t whole;
    stk__json_member most = {.text = "9223372036854775807", .length = 19, .kind = STK__JSON_NUMBER};
    assert_true(stk__json_member_whole(&most, INT64_MAX, &whole) && whole == INT64_MAX);
    stk__json_member beyond = {
        .text = "9223372036854775808", .length = 19, .kind = STK__JSON_NUMBER};
    assert_false(stk__json_member_whole(&beyond, INT64_MAX, &whole));
    /* Only what is in its range is taken; else nothing is changed. */
    assert_false(stk__json_member_whole(&most, MOST, &whole));
    stk__json_member edge = {.text = "1e10", .length = 4, .kind = STK__JSON_NUMBER};
    double real = 7;
    assert_true(stk__json_member_real(&edge, durations, &real) && real == 1e10);
    edge.text = "1e11";
    assert_false(stk__json_member_real(&edge, durations, &real) || real != 1e10);
    edge.text = "-1.0";
    assert_false(stk__json_member_real(&edge, durations, &real) || real != 1e10);
    edge.length = 3;
    edge.text = "NaN";
    assert_false(stk__json_member_real(&edge, (stk__json_range){-INFINITY, INFINITY}, &real));
    stk__json_member part = {.text = "1.0", .length = 3, .kind = STK__JSON_NUMBER};
    assert_false(stk__json_member_whole(&part, INT64_MAX, &whole));
}

static void test_escapes(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a\\u00e9\\u20ac", "a\xc3\xa9\xe2\x82\xac"},
        {"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
        {"\\ud83d", "\xef\xbf\xbd"}, /* half of a pair */
        {"\\ude00x", "\xef\xbf\xbdx"},
        {"\\u0000", "\xef\xbf\xbd"},
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
    };
    char out[64];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__json_member m = {
            .text = cases[i].text, .length = strlen(cases[i].text), .kind = STK__JSON_STRING};
        stk__json_member_text(&m, out, sizeof out);
        assert_string_equal(out, cases[i].want);
    }
    /* Cut before a character that does not fit. */
    stk__json_member m = {.text = "ab\xe2\x82\xac", .length = 5, .kind = STK__JSON_STRING};
    assert_int_equal(stk__json_member_text(&m, out, 5), 2);
    assert_string_equal(out, "ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members), cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_broken),  cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_escapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
