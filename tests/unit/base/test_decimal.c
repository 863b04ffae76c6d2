/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest decimal of a double. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "support/support.h"

/* repr() of Python of each, without the ".0". */
static void test_decimals(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {3, "3"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1f, "0.10000000149011612"},
        {2.302585092994046, "2.302585092994046"},
        {1e21, "1e+21"},
        {123456789, "123456789"},
        {5e-324, "5e-324"},
        {-2.5e-320, "-2.5e-320"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1e15, "1000000000000000"},
        {1e16, "1e+16"},
        {12345678901234568, "1.2345678901234568e+16"},
        {1234567.5, "1234567.5"},
        {0.0001, "0.0001"},
        {0.00012345678901234567, "0.00012345678901234567"},
        {5e-05, "5e-05"},
        {-1.5, "-1.5"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
    };
    uint64_t seed = 7;
    char text[STK__DECIMAL];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_int_equal(stk__decimal(cases[i].value, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
    for (int i = 0; i < 10000; i++) {
        uint64_t bits = test_random(&seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        stk__decimal(value, text);
        assert_true(strtod(text, NULL) == value);
    }
    /* Where a comma is what numbers have. */
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
        stk__decimal(0.5, text);
        assert_string_equal(text, "0.5");
        setlocale(LC_NUMERIC, "C");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decimals)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
