/* SPDX-License-Identifier: Apache-2.0 */
/* to_float of every type, and how near normalize is to exact arithmetic. */
#include <math.h>
#include <stdio.h>

#include "unit/transform/sample.h"

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

static void check_value(stk_dtype dtype, const void *bytes, float want)
{
    const stk_transform_header in = {.dtype = dtype, .rank = 1, .shape = {1}};
    unsigned char src[16 + STK_TAIL] = {0};

    memcpy(src + 1, bytes, stk_dtype_size(dtype));
    stk__pipeline *p = make(context, "to_float", &in);
    unsigned char *out = run_one(p, 0, 0, 0, NULL, src + 1);
    assert_memory_equal(out, &want, sizeof want);
    free(out);
    stk__pipeline_destroy(&p);
}

static void test_to_float(void **state)
{
    check_value(STK_BOOL, &(uint8_t){1}, 1.0f);
    check_value(STK_UINT8, &(uint8_t){255}, 1.0f);
    check_value(STK_INT8, &(int8_t){-128}, -128.0f);
    check_value(STK_UINT16, &(uint16_t){65535}, 65535.0f);
    check_value(STK_INT16, &(int16_t){-32768}, -32768.0f);
    check_value(STK_UINT32, &(uint32_t){UINT32_MAX}, 4294967296.0f);
    check_value(STK_INT32, &(int32_t){INT32_MIN}, -2147483648.0f);
    check_value(STK_UINT64, &(uint64_t){UINT64_MAX}, 18446744073709551616.0f);
    check_value(STK_INT64, &(int64_t){16777217}, 16777216.0f);
    check_value(STK_FLOAT32, &(float){-0.0f}, -0.0f);
    check_value(STK_FLOAT64, &(double){0.1}, 0.1f);
    check_value(STK_FLOAT64, &(double){1e300}, INFINITY);
    /* IEEE binary16: 1.5, the least subnormal, -2, the largest, infinity. */
    check_value(STK_FLOAT16, &(uint16_t){0x3e00}, 1.5f);
    check_value(STK_FLOAT16, &(uint16_t){0x0001}, 0x1p-24f);
    check_value(STK_FLOAT16, &(uint16_t){0xc000}, -2.0f);
    check_value(STK_FLOAT16, &(uint16_t){0x7bff}, 65504.0f);
    check_value(STK_FLOAT16, &(uint16_t){0xfc00}, -INFINITY);
    check_value(STK_FLOAT16, &(uint16_t){0x8000}, -0.0f);
    check_value(STK_BFLOAT16, &(uint16_t){0xbfc0}, -1.5f);
}

/* The stated bound against exact arithmetic: 2^-22 (1 + |mean|) / std. */
static void test_normalize_error(void **state)
{
    const stk_transform_header in = {.dtype = STK_UINT8, .rank = 1, .shape = {256}};
    unsigned char ramp[256 + STK_TAIL] = {0};
    uint64_t random = 6;

    for (int i = 0; i < 256; i++)
        ramp[i] = (unsigned char)i;
    for (int round = 0; round < 300; round++) {
        double mean = (double)(test_random(&random) % 3000001) / 1e6 - 1.5;
        double std = exp((double)(test_random(&random) % 1000) / 100 - 6);
        char text[96], forms[2][96];

        snprintf(text, sizeof text, "normalize(%.17g, %.17g)", mean, std);
        snprintf(forms[0], sizeof forms[0], "%.90s", text);
        snprintf(forms[1], sizeof forms[1], "to_float, %.80s", text);
        for (int k = 0; k < 2; k++) {
            stk__pipeline *p = make(context, forms[k], &in);
            unsigned char *out = run_one(p, 0, 0, 0, NULL, ramp);

            for (int i = 0; i < 256; i++) {
                float x;

                memcpy(&x, out + 4 * i, 4);
                assert_true(fabs((double)x - (i / 255.0 - mean) / std) <=
                            0x1p-22 * (1 + fabs(mean)) / std);
            }
            free(out);
            stk__pipeline_destroy(&p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_float),
        cmocka_unit_test(test_normalize_error),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
