/* SPDX-License-Identifier: Apache-2.0 */
/* The order of values is that of their type, "TypeDefinedOrder" of parquet.thrift. */
#include "convert/parquet.h"

typedef enum order_kind { NO_ORDER, INTEGERS, WHOLE_NUMBERS, REALS } order_kind;

static order_kind order_of(stk_dtype dtype)
{
    switch (dtype) {
    case STK_INT8:
    case STK_INT16:
    case STK_INT32:
    case STK_INT64:
        return INTEGERS;
    case STK_BOOL:
    case STK_UINT8:
    case STK_UINT16:
    case STK_UINT32:
    case STK_UINT64:
        return WHOLE_NUMBERS;
    case STK_FLOAT32:
    case STK_FLOAT64:
        return REALS;
    default:
        return NO_ORDER;
    }
}

bool stk__parquet_out_has_bounds(const stk__parquet_out_column *c)
{
    return c->kind <= STK__PARQUET_NUMBERS && order_of(c->field->dtype) != NO_ORDER;
}

static stk__parquet_out_value value_at(stk_dtype dtype, const uint8_t *at)
{
    const unsigned size = (unsigned)stk_dtype_size(dtype);
    const uint64_t bits = stk__little_endian(at, size);
    stk__parquet_out_value value = {.whole = bits};
    float single;

    if (dtype == STK_FLOAT32) {
        memcpy(&single, at, sizeof single);
        value.real = (double)single;
    } else if (order_of(dtype) == INTEGERS && size < 8 && bits >> (8 * size - 1)) {
        value.whole = bits | UINT64_MAX << (8 * size);
    }
    return value;
}

static bool less(order_kind kind, stk__parquet_out_value a, stk__parquet_out_value b)
{
    return kind == INTEGERS ? a.integer < b.integer
           : kind == REALS  ? a.real < b.real
                            : a.whole < b.whole;
}

static void widen(order_kind kind, stk__parquet_out_value least, stk__parquet_out_value most,
                  stk__parquet_out_bounds *to)
{
    if (!to->any || less(kind, least, to->least))
        to->least = least;
    if (!to->any || less(kind, to->most, most))
        to->most = most;
    to->any = true;
}

void stk__parquet_out_bounds_take(stk_dtype dtype, const void *values, uint64_t count,
                                  stk__parquet_out_bounds *to)
{
    const size_t size = stk_dtype_size(dtype);
    const order_kind kind = order_of(dtype);
    const uint8_t *at = values;

    for (uint64_t i = 0; i < count; i++, at += size) {
        const stk__parquet_out_value value = value_at(dtype, at);
        if (kind != REALS || value.real == value.real)
            widen(kind, value, value, to);
    }
}

void stk__parquet_out_bounds_merge(stk_dtype dtype, const stk__parquet_out_bounds *from,
                                   stk__parquet_out_bounds *to)
{
    if (from->any)
        widen(order_of(dtype), from->least, from->most, to);
}

bool stk__parquet_out_bounds_ascend(stk_dtype dtype, const stk__parquet_out_bounds *before,
                                    const stk__parquet_out_bounds *after)
{
    const order_kind kind = order_of(dtype);

    return !less(kind, after->least, before->least) && !less(kind, after->most, before->most);
}

size_t stk__parquet_out_bound_put(stk_dtype dtype, const stk__parquet_out_bounds *bounds, bool most,
                                  uint8_t out[8])
{
    stk__parquet_out_value value = most ? bounds->most : bounds->least;

    /* Zeros of both signs are alike: between the bounds are both. */
    if (order_of(dtype) == REALS && value.real == 0)
        value.real = most ? 0.0 : -0.0;
    const float single = order_of(dtype) == REALS ? (float)value.real : 0;
    if (dtype == STK_FLOAT32)
        memcpy(out, &single, sizeof single);
    else
        for (unsigned k = 0; k < 8; k++)
            out[k] = (uint8_t)(value.whole >> (8 * k));
    return dtype == STK_BOOL ? 1 : stk__parquet_out_width(dtype);
}
