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

/* `misfit` gathers what int32 loses, so that the loop has no branch. */
#define NARROW(name, type)                                                                         \
    static bool name(const void *from, size_t n, int32_t *out)                                     \
    {                                                                                              \
        uint64_t misfit = 0;                                                                       \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            type x;                                                                                \
            memcpy(&x, (const char *)from + i * sizeof x, sizeof x);                               \
            out[i] = (int32_t)(uint32_t)x;                                                         \
            misfit |= (uint64_t)((int64_t)x ^ (int64_t)out[i]);                                    \
        }                                                                                          \
        return misfit == 0;                                                                        \
    }

NARROW(narrow_u8, uint8_t)
NARROW(narrow_i8, int8_t)
NARROW(narrow_u16, uint16_t)
NARROW(narrow_i16, int16_t)
NARROW(narrow_u32, uint32_t)
NARROW(narrow_i32, int32_t)
NARROW(narrow_i64, int64_t)

stk__dataset_narrow_fn *stk__narrow(stk_dtype dtype)
{
    static stk__dataset_narrow_fn *const all[STK_DTYPE_COUNT] = {
        [STK_BOOL] = narrow_u8,    [STK_UINT8] = narrow_u8,  [STK_INT8] = narrow_i8,
        [STK_UINT16] = narrow_u16, [STK_INT16] = narrow_i16, [STK_UINT32] = narrow_u32,
        [STK_INT32] = narrow_i32,  [STK_INT64] = narrow_i64};

    return dtype < STK_DTYPE_COUNT ? all[dtype] : NULL;
}
