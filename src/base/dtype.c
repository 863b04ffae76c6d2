/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/base.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[STK_DTYPE_COUNT] = {
    [STK_DTYPE_NONE] = {"none", 0},     [STK_BOOL] = {"bool", 1},
    [STK_UINT8] = {"uint8", 1},         [STK_INT8] = {"int8", 1},
    [STK_UINT16] = {"uint16", 2},       [STK_INT16] = {"int16", 2},
    [STK_UINT32] = {"uint32", 4},       [STK_INT32] = {"int32", 4},
    [STK_UINT64] = {"uint64", 8},       [STK_INT64] = {"int64", 8},
    [STK_FLOAT16] = {"float16", 2},     [STK_BFLOAT16] = {"bfloat16", 2},
    [STK_FLOAT32] = {"float32", 4},     [STK_FLOAT64] = {"float64", 8},
    [STK_COMPLEX64] = {"complex64", 8}, [STK_COMPLEX128] = {"complex128", 16},
};

size_t stk_dtype_size(stk_dtype dtype)
{
    return (unsigned)dtype < STK_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *stk_dtype_name(stk_dtype dtype)
{
    return (unsigned)dtype < STK_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

stk_dtype stk_dtype_parse(const char *name)
{
    for (int i = 1; i < STK_DTYPE_COUNT; i++)
        if (!strcmp(dtypes[i].name, name))
            return (stk_dtype)i;
    return STK_DTYPE_NONE;
}

bool stk__shape_bytes(const int64_t *shape, uint32_t rank, uint64_t itemsize, uint64_t *out)
{
    uint64_t bytes = itemsize;
    bool empty = false;

    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return false;
        if (shape[i] == 0)
            empty = true;
        else if (!stk__mul_size(bytes, (uint64_t)shape[i], &bytes) || bytes > INT64_MAX)
            return false;
    }
    *out = empty ? 0 : bytes;
    return true;
}

double stk__half_to_double(uint16_t half)
{
    uint64_t sign = (uint64_t)(half >> 15) << 63;
    int exponent = half >> 10 & 31;
    uint64_t bits, fraction = half & 1023;
    double x;

    if (exponent == 31)
        bits = sign | UINT64_C(2047) << 52 | fraction << 42;
    else if (exponent)
        bits = sign | (uint64_t)(exponent - 15 + 1023) << 52 | fraction << 42;
    else {
        x = (double)fraction * 0x1p-24;
        return sign ? -x : x;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

bool stk__dtype_is_float(stk_dtype dtype)
{
    return dtype == STK_FLOAT16 || dtype == STK_BFLOAT16 || dtype == STK_FLOAT32 ||
           dtype == STK_FLOAT64;
}

double stk__element_as_double(const void *value, stk_dtype dtype)
{
    union {
        float f32;
        double f64;
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
    } v = {0};

    memcpy(&v, value, STK_MIN(stk_dtype_size(dtype), sizeof v));
    switch (dtype) {
    case STK_BOOL:
    case STK_UINT8:
        return v.u8;
    case STK_INT8:
        return v.i8;
    case STK_UINT16:
        return v.u16;
    case STK_INT16:
        return v.i16;
    case STK_UINT32:
        return v.u32;
    case STK_INT32:
        return v.i32;
    case STK_UINT64:
        return (double)v.u64;
    case STK_INT64:
        return (double)v.i64;
    case STK_FLOAT16:
        return stk__half_to_double(v.u16);
    case STK_BFLOAT16:
        v.u32 = (uint32_t)v.u16 << 16;
        return v.f32;
    case STK_FLOAT32:
        return v.f32;
    case STK_FLOAT64:
        return v.f64;
    default:
        return NAN;
    }
}

void stk__elements_to(void *to, stk_dtype type, const void *from, stk_dtype from_type, uint64_t n)
{
    const size_t size = stk_dtype_size(from_type);
    const char *at = from;
    double *wide = to;
    float *narrow = to;

    if (type == from_type)
        memmove(to, from, n * size);
    else if (type == STK_FLOAT64)
        for (uint64_t i = 0; i < n; i++)
            wide[i] = stk__element_as_double(at + i * size, from_type);
    else
        for (uint64_t i = 0; i < n; i++)
            narrow[i] = (float)stk__element_as_double(at + i * size, from_type);
}

static uint64_t round_shift(uint64_t value, unsigned shift)
{
    if (shift == 0)
        return value;
    if (shift > 63)
        return 0;
    uint64_t half = UINT64_C(1) << (shift - 1), low = value & ((half << 1) - 1);
    uint64_t up = value >> shift;
    return up + (low > half || (low == half && (up & 1)));
}

/* A double as a float of so many exponent and mantissa bits, half to even in one rounding. */
static uint64_t narrow(double x, unsigned exponent_bits, unsigned mantissa_bits)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t sign = (bits >> 63) << (exponent_bits + mantissa_bits);
    int64_t bias = (INT64_C(1) << (exponent_bits - 1)) - 1;
    uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << mantissa_bits;

    if (isnan(x))
        return infinity | UINT64_C(1) << (mantissa_bits - 1);
    if (isinf(x))
        return sign | infinity;
    int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 1023 + bias;
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    uint64_t value;
    if ((bits >> 52 & 0x7ff) == 0)
        return sign; /* below every number of fewer bits */
    if (exponent <= 0)
        value = round_shift(mantissa | UINT64_C(1) << 52,
                            (unsigned)STK_MIN(52 - (int64_t)mantissa_bits + 1 - exponent, 64));
    else
        value = ((uint64_t)exponent << mantissa_bits) + round_shift(mantissa, 52 - mantissa_bits);
    return sign | STK_MIN(value, infinity);
}

void stk__floats_to_bf16(uint16_t *to, const float *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        /* Of a NaN the fraction must not become 0. */
        const uint32_t rounded =
            (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
        to[i] = (uint16_t)(rounded >> 16);
    }
}

void stk__bf16_to_floats(float *to, const uint16_t *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

void stk__float_bytes(stk_dtype dtype, double x, void *out)
{
    uint64_t bits;
    float narrowed = (float)x;

    if (dtype == STK_FLOAT64) {
        memcpy(out, &x, 8);
    } else if (dtype == STK_FLOAT32) {
        memcpy(out, &narrowed, 4);
    } else {
        bits = dtype == STK_FLOAT16 ? narrow(x, 5, 10) : narrow(x, 8, 7);
        memcpy(out, &bits, 2);
    }
}
