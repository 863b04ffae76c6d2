/* elements as they are read -> elements as they are written */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_ARRAYS_VALUES_H
#define STK_SRC_CONVERT_ARRAYS_VALUES_H

#include "base/base.h"

/* What becomes of the elements of an array. Zeros but for types and itemsize: nothing. */
typedef struct stk__values {
    stk_dtype from, to; /* NONE of bytes, which stay as they are */
    uint64_t itemsize;  /* of bytes */
    bool unpack;        /* CF: v * scale + offset, and the missing value becomes NaN */
    double scale, offset;
    bool has_missing; /* an element that stands for a missing value, which is not rounded */
    double missing;
    uint32_t keepbits; /* of the fraction; 0: all */
} stk__values;

/* What conversion has cost. */
typedef struct stk__values_loss {
    double worst;        /* |new - old|, the greatest */
    uint64_t overflowed; /* finite values that became infinite */
} stk__values_loss;

/* Whether elements stay as they are. */
bool stk__values_same(const stk__values *values);
uint64_t stk__values_from_size(const stk__values *values);
uint64_t stk__values_to_size(const stk__values *values);
/* `n` elements, from one memory to another; of what becomes an integer, one that is beyond its
 * range is STK_EINVAL that names it. `loss` is added to. */
stk_status stk__values_convert(const stk__values *values, const void *from, void *to, uint64_t n,
                               stk__values_loss *loss, stk_error *err);

#endif
