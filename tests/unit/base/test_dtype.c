/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of every type as numbers, and types by name. */
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "support/support.h"

static void elements(void **state)
{
    static const struct {
        stk_dtype dtype;
        uint64_t bits;
        double value;
    } cases[] = {{STK_BOOL, 1, 1},
                 {STK_UINT8, 200, 200},
                 {STK_INT8, 200, -56},
                 {STK_UINT16, 0xfffe, 65534},
                 {STK_INT16, 0xfffe, -2},
                 {STK_UINT32, UINT32_MAX, 4294967295.0},
                 {STK_INT32, UINT32_MAX, -1},
                 {STK_UINT64, UINT64_MAX, 0x1p64},
                 {STK_INT64, UINT64_MAX, -1},
                 {STK_FLOAT32, 0x3fc00000, 1.5},
                 {STK_FLOAT64, UINT64_C(0xc000000000000000), -2},
                 {STK_BFLOAT16, 0x3fc0, 1.5},
                 {STK_FLOAT16, 0x3e00, 1.5},
                 {STK_FLOAT16, 0xc000, -2},
                 {STK_FLOAT16, 0x0001, 0x1p-24},
                 {STK_FLOAT16, 0x83ff, -1023 * 0x1p-24},
                 {STK_FLOAT16, 0x0400, 0x1p-14},
                 {STK_FLOAT16, 0x7bff, 65504}};
    unsigned char bytes[9];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        memcpy(bytes + 1, &cases[i].bits, 8); /* at an odd address */
        assert_true(stk__element_as_double(bytes + 1, cases[i].dtype) == cases[i].value);
    }
    assert_true(isinf(stk__element_as_double(&(uint16_t){0x7c00}, STK_FLOAT16)));
    assert_true(stk__element_as_double(&(uint16_t){0xfc00}, STK_FLOAT16) < 0);
    assert_true(isnan(stk__element_as_double(&(uint16_t){0x7e00}, STK_FLOAT16)));
    assert_true(isnan(stk__element_as_double(&(uint64_t){0}, STK_COMPLEX64)));
    assert_true(signbit(stk__element_as_double(&(uint16_t){0x8000}, STK_FLOAT16)));
}

/* All halves against the definition: (-1)^s 2^(e - 15) (1 + f / 1024), subnormal (-1)^s 2^-14 f /
 * 1024. */
static void halves(void **state)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const int exponent = bits >> 10 & 31, fraction = bits & 1023;
        const double sign = bits >> 15 ? -1 : 1, value = stk__half_to_double((uint16_t)bits);
        if (exponent == 31)
            assert_true(fraction ? isnan(value) : isinf(value) && value * sign > 0);
        else if (exponent == 0)
            assert_true(value == sign * ldexp(fraction, -24));
        else
            assert_true(value == sign * ldexp(1 + fraction / 1024.0, exponent - 15));
    }
}

static void names(void **state)
{
    for (int i = STK_DTYPE_NONE + 1; i < STK_DTYPE_COUNT; i++) {
        const char *name = stk_dtype_name((stk_dtype)i);
        assert_int_equal(stk_dtype_parse(name), i);
        const size_t digits = strcspn(name, "0123456789");
        if (name[digits])
            assert_int_equal(stk_dtype_size((stk_dtype)i) * 8, strtol(name + digits, NULL, 10));
    }
    assert_int_equal(stk_dtype_parse("float"), STK_DTYPE_NONE);
    assert_int_equal(stk_dtype_size(STK_DTYPE_COUNT), 0);
    assert_string_equal(stk_dtype_name(STK_DTYPE_COUNT), "unknown");
}

/* Of one type they are copied as they are, else their values are. */
static void copies(void **state)
{
    const float from[] = {1.5f, -2, 3.25f, 1e30f};
    const int64_t whole[] = {7, -9};
    double wide[4], same[2];
    float narrow[4];

    stk__elements_to(narrow, STK_FLOAT32, from, STK_FLOAT32, 4);
    assert_memory_equal(narrow, from, sizeof from);
    stk__elements_to(same, STK_INT64, whole, STK_INT64, 2);
    assert_memory_equal(same, whole, sizeof whole);
    stk__elements_to(wide, STK_FLOAT64, from, STK_FLOAT32, 4);
    for (int i = 0; i < 4; i++)
        assert_true(wide[i] == (double)from[i]);
    stk__elements_to(narrow, STK_FLOAT32, whole, STK_INT64, 2);
    assert_true(narrow[0] == 7 && narrow[1] == -9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements),
        cmocka_unit_test(halves),
        cmocka_unit_test(names),
        cmocka_unit_test(copies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
