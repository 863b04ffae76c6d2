/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/digits.h"
#include "support/support.h"

/* Each character, against strtoul(). */
static void test_characters(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        const char text[2] = {(char)c, 0};
        char *end;
        const int value = (int)strtoul(text, &end, 16);
        assert_int_equal(stk__hex_digit((char)c), end == text + 1 ? value : -1);
        assert_int_equal(stk__is_digit((char)c), end == text + 1 && value < 10);
    }
    assert_int_equal(stk__hex_digit(0), -1);
    assert_false(stk__is_digit(0));
}

static void test_numbers(void **state)
{
    static const char *const none[] = {"",
                                       "0123456789abcde",
                                       "0123456789abcdeF",
                                       "0123456789abcde ",
                                       "+123456789abcdef",
                                       "0x23456789abcdef",
                                       "0123456789abcdeg"};
    uint64_t value = UINT64_C(0xfedcba9876543210), is;
    char text[24];

    (void)state;
    for (unsigned digits = 0; digits <= 16; digits++) {
        const uint64_t expected = digits ? value >> (64 - 4 * digits) : 0;
        snprintf(text, sizeof text, "%016" PRIx64 "Z", value);
        assert_true(stk__hex_number(text, digits, &is));
        assert_int_equal(is, expected);
    }
    for (size_t i = 0; i < STK_COUNT(none); i++)
        assert_false(stk__hex_number(none[i], 16, &is));
}

static void test_texts(void **state)
{
    uint8_t bytes[256];
    char text[2 * sizeof bytes + 2], expected[3];

    (void)state;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    memset(text, 'x', sizeof text);
    stk__hex_text(bytes, sizeof bytes, text);
    for (unsigned i = 0; i < sizeof bytes; i++) {
        snprintf(expected, sizeof expected, "%02x", i);
        assert_memory_equal(text + 2 * i, expected, 2);
    }
    assert_int_equal(text[2 * sizeof bytes], 0);
    assert_int_equal(text[2 * sizeof bytes + 1], 'x');
    stk__hex_text(bytes, 0, text);
    assert_int_equal(text[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
