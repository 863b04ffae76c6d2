/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/arrays_values.h"

#include <math.h>

#include "array/array.h"

#define BLOCK 512 /* elements that pass as doubles at a time */

bool stk__values_same(const stk__values *v)
{
    return v->from == v->to && !v->unpack && !v->keepbits;
}

uint64_t stk__values_from_size(const stk__values *v)
{
    return v->from == STK_DTYPE_NONE ? v->itemsize : stk_dtype_size(v->from);
}

uint64_t stk__values_to_size(const stk__values *v)
{
    return v->to == STK_DTYPE_NONE ? v->itemsize : stk_dtype_size(v->to);
}

/* ---- Rounding of fractions ------------------------------------------------------------------- */

/*
 * Keep so many bits of the fraction, the rest zeros, rounding half to even [Klöwer et al. 2021, as
 * numcodecs and xbitinfo do]. NaN and infinity stay.
 */
#define ROUND_BITS(type, bits_type, fraction, exponent)                                            \
    static void round_##type(bits_type *v, uint64_t n, uint32_t keep, const bits_type *missing)    \
    {                                                                                              \
        const unsigned drop = fraction - keep;                                                     \
        const bits_type mask = (bits_type)(UINT64_MAX << drop);                                    \
        const bits_type half = (bits_type)(((bits_type)1 << (drop - 1)) - 1);                      \
                                                                                                   \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            const bits_type x = v[i];                                                              \
            if ((x & (exponent)) == (exponent) || (missing && x == *missing))                      \
                continue;                                                                          \
            v[i] = (bits_type)(x + half + (x >> drop & 1)) & mask;                                 \
        }                                                                                          \
    }

ROUND_BITS(half, uint16_t, 10, (uint16_t)0x7c00)
ROUND_BITS(float, uint32_t, 23, UINT32_C(0x7f800000))
ROUND_BITS(double, uint64_t, 52, UINT64_C(0x7ff0000000000000))

static void round_block(const stk__values *v, void *to, uint64_t n)
{
    if (v->to == STK_FLOAT32 && v->keepbits < 23) {
        const float missing = (float)v->missing;
        uint32_t bits;
        memcpy(&bits, &missing, 4);
        round_float(to, n, v->keepbits, v->has_missing ? &bits : NULL);
    } else if (v->to == STK_FLOAT64 && v->keepbits < 52) {
        uint64_t bits;
        memcpy(&bits, &v->missing, 8);
        round_double(to, n, v->keepbits, v->has_missing ? &bits : NULL);
    } else if (v->to == STK_FLOAT16 && v->keepbits < 10) {
        round_half(to, n, v->keepbits, NULL);
    }
}

/* ---- Integers -------------------------------------------------------------------------------- */

static bool is_signed(stk_dtype dtype)
{
    return dtype == STK_INT8 || dtype == STK_INT16 || dtype == STK_INT32 || dtype == STK_INT64;
}

static void take_integer(const void *from, stk_dtype dtype, int64_t *value, bool *beyond)
{
    uint64_t bits = 0;
    const unsigned size = (unsigned)stk_dtype_size(dtype);

    memcpy(&bits, from, size);
    *beyond = dtype == STK_UINT64 && bits > INT64_MAX;
    *value = (int64_t)bits;
    if (is_signed(dtype))
        *value = (int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size);
}

static bool is_integer(stk_dtype dtype)
{
    return is_signed(dtype) || dtype == STK_BOOL || dtype == STK_UINT8 || dtype == STK_UINT16 ||
           dtype == STK_UINT32 || dtype == STK_UINT64;
}

static bool fits(int64_t value, bool beyond, stk_dtype to)
{
    const unsigned bits = 8 * (unsigned)stk_dtype_size(to);

    if (to == STK_BOOL)
        return !beyond && (value == 0 || value == 1);
    if (is_signed(to))
        return !beyond && (bits == 64 || (value >= -(INT64_C(1) << (bits - 1)) &&
                                          value < INT64_C(1) << (bits - 1)));
    if (bits == 64)
        return beyond || value >= 0;
    return !beyond && value >= 0 && value < INT64_C(1) << bits;
}

static stk_status refuse(const stk__values *v, double value, stk_error *err)
{
    return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                     "the value %.17g does not fit %s; choose a wider type for astype", value,
                     stk_dtype_name(v->to));
}

static stk_status integers(const stk__values *v, const char *from, char *to, uint64_t n,
                           stk_error *err)
{
    const uint64_t from_size = stk_dtype_size(v->from), to_size = stk_dtype_size(v->to);

    for (uint64_t i = 0; i < n; i++) {
        int64_t value;
        bool beyond;
        take_integer(from + i * from_size, v->from, &value, &beyond);
        if (!fits(value, beyond, v->to))
            return refuse(v, beyond ? (double)(uint64_t)value : (double)value, err);
        memcpy(to + i * to_size, &value, to_size);
    }
    return STK_OK;
}

/* ---- All others, as doubles ------------------------------------------------------------------ */

static bool is_missing(const stk__values *v, double x)
{
    return v->has_missing && (x == v->missing || (isnan(x) && isnan(v->missing)));
}

static stk_status put_rounded(const stk__values *v, double x, void *at, stk_error *err)
{
    const double whole = rint(x);
    const bool wide = whole >= 0x1p63;

    if (!(whole >= -0x1p63 && whole < 0x1p64))
        return refuse(v, x, err);
    const int64_t value = wide ? (int64_t)(uint64_t)whole : (int64_t)whole;
    if (!fits(value, wide, v->to))
        return refuse(v, x, err);
    memcpy(at, &value, stk_dtype_size(v->to));
    return STK_OK;
}

static void add_loss(const stk__values *v, const double *was, const char *to, uint64_t n,
                     stk__values_loss *loss)
{
    const uint64_t size = stk_dtype_size(v->to);

    for (uint64_t i = 0; i < n; i++) {
        const double is = stk__element_as_double(to + i * size, v->to);
        if (!isfinite(was[i]))
            continue;
        if (isfinite(is))
            loss->worst = fmax(loss->worst, fabs(is - was[i]));
        else
            loss->overflowed++;
    }
}

static stk_status block(const stk__values *v, const char *from, char *to, uint64_t n,
                        stk__values_loss *loss, stk_error *err)
{
    const uint64_t from_size = stk_dtype_size(v->from), to_size = stk_dtype_size(v->to);
    const bool whole = is_integer(v->to);
    double values[BLOCK];

    for (uint64_t i = 0; i < n; i++) {
        double x = stk__element_as_double(from + i * from_size, v->from);
        if (v->unpack)
            x = is_missing(v, x) ? (double)NAN : x * v->scale + v->offset;
        values[i] = x;
        if (whole)
            STK_TRY(put_rounded(v, x, to + i * to_size, err));
        else
            stk__float_bytes(v->to, x, to + i * to_size);
    }
    if (v->keepbits)
        round_block(v, to, n);
    add_loss(v, values, to, n, loss);
    return STK_OK;
}

stk_status stk__values_convert(const stk__values *v, const void *from, void *to, uint64_t n,
                               stk__values_loss *loss, stk_error *err)
{
    const uint64_t from_size = stk__values_from_size(v), to_size = stk__values_to_size(v);

    if (stk__values_same(v)) {
        memcpy(to, from, n * to_size);
        return STK_OK;
    }
    if (!v->unpack && is_integer(v->from) && is_integer(v->to))
        return integers(v, from, to, n, err);
    for (uint64_t at = 0; at < n; at += BLOCK)
        STK_TRY(block(v, (const char *)from + at * from_size, (char *)to + at * to_size,
                      STK_MIN(n - at, (uint64_t)BLOCK), loss, err));
    return STK_OK;
}
