/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of an array as numbers of the dataset's type: value * scale + offset, and what becomes of
 * NaN. Computed in double, a piece at a time.
 */
#include <math.h>

#include "dataset/window.h"

#define PIECE 256 /* values on the stack */

bool stk__window_is_real(stk_dtype dtype)
{
    return dtype >= STK_BOOL && dtype <= STK_FLOAT64;
}

static double brain_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

#define LOAD(kind, type)                                                                           \
    case kind:                                                                                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            type x;                                                                                \
            memcpy(&x, from + i * sizeof x, sizeof x);                                             \
            to[i] = (double)x;                                                                     \
        }                                                                                          \
        break
#define LOAD_HALF(kind, value)                                                                     \
    case kind:                                                                                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint16_t x;                                                                            \
            memcpy(&x, from + i * sizeof x, sizeof x);                                             \
            to[i] = value(x);                                                                      \
        }                                                                                          \
        break

static void load(stk_dtype dtype, const char *from, size_t n, double *to)
{
    switch (dtype) {
        LOAD(STK_BOOL, uint8_t);
        LOAD(STK_UINT8, uint8_t);
        LOAD(STK_INT8, int8_t);
        LOAD(STK_UINT16, uint16_t);
        LOAD(STK_INT16, int16_t);
        LOAD(STK_UINT32, uint32_t);
        LOAD(STK_INT32, int32_t);
        LOAD(STK_UINT64, uint64_t);
        LOAD(STK_INT64, int64_t);
        LOAD(STK_FLOAT32, float);
        LOAD(STK_FLOAT64, double);
        LOAD_HALF(STK_FLOAT16, stk__half_to_double);
        LOAD_HALF(STK_BFLOAT16, brain_value);
    default:
        break;
    }
}

/* Into the fields' type, which is a float of 32 or 64 bits. */
static void store(stk_dtype dtype, const double *from, size_t n, char *to)
{
    if (dtype == STK_FLOAT64) {
        memcpy(to, from, n * sizeof *from);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float x = (float)from[i];
        memcpy(to + i * sizeof x, &x, sizeof x);
    }
}

bool stk__window_convert(const stk__window *w, const stk__window_variable *v, const void *from,
                         uint64_t n, void *to, uint8_t *mask)
{
    const size_t in = stk_dtype_size(v->info->dtype), out = stk_dtype_size(v->dtype);
    const bool fills = w->options.nan == STK__NAN_FILL || w->options.nan == STK__NAN_MASK;
    double values[PIECE];

    if (v->widen) {
        v->widen(from, (size_t)n, to);
        return true;
    }
    for (uint64_t done = 0; done < n; done += PIECE) {
        size_t count = (size_t)STK_MIN(n - done, PIECE);
        bool any = false;
        load(v->info->dtype, (const char *)from + done * in, count, values);
        for (size_t i = 0; i < count && v->has_missing; i++)
            if (values[i] == v->missing)
                values[i] = (double)NAN;
        for (size_t i = 0; i < count; i++) {
            values[i] = values[i] * v->scale + v->offset;
            any |= values[i] != values[i];
        }
        if (any && w->options.nan == STK__NAN_DROP)
            return false;
        for (size_t i = 0; i < count && mask; i++)
            mask[done + i] = values[i] == values[i];
        for (size_t i = 0; i < count && any && fills; i++)
            if (values[i] != values[i])
                values[i] = w->options.fill;
        store(v->dtype, values, count, (char *)to + done * out);
    }
    return true;
}
