/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/widen.h"

#define WIDEN(name, type)                                                                          \
    static void name(const void *from, size_t n, int64_t *out)                                     \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            type x;                                                                                \
            memcpy(&x, (const char *)from + i * sizeof x, sizeof x);                               \
            out[i] = (int64_t)x;                                                                   \
        }                                                                                          \
    }

WIDEN(widen_u8, uint8_t)
WIDEN(widen_i8, int8_t)
WIDEN(widen_u16, uint16_t)
WIDEN(widen_i16, int16_t)
WIDEN(widen_u32, uint32_t)
WIDEN(widen_i32, int32_t)
WIDEN(widen_i64, int64_t)

stk__dataset_widen_fn *stk__widen_c(stk_dtype dtype)
{
    switch (dtype) {
    case STK_BOOL:
    case STK_UINT8:
        return widen_u8;
    case STK_INT8:
        return widen_i8;
    case STK_UINT16:
        return widen_u16;
    case STK_INT16:
        return widen_i16;
    case STK_UINT32:
        return widen_u32;
    case STK_INT32:
        return widen_i32;
    case STK_INT64:
        return widen_i64;
    default:
        return NULL;
    }
}

stk__dataset_widen_fn *stk__widen(const stk_context *ctx, stk_dtype dtype)
{
#if defined(STK_WITH_AVX2)
    if (stk__cpu_has_avx2(ctx) && dtype == STK_UINT16)
        return stk__widen_u16_avx2;
    if (stk__cpu_has_avx2(ctx) && dtype == STK_UINT32)
        return stk__widen_u32_avx2;
#endif
    (void)ctx;
    return stk__widen_c(dtype);
}
