/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in C: what every other version must give, bit for bit. */
#include "transform/kernels/kernels_loops.h"

STK__DEFINE_CONVERT(copy1, STK__COPY1)
STK__DEFINE_CONVERT(copy2, STK__COPY2)
STK__DEFINE_CONVERT(copy4, STK__COPY4)
STK__DEFINE_CONVERT(copy8, STK__COPY8)
STK__DEFINE_CONVERT(unit, STK__UNIT)
STK__DEFINE_CONVERT(affine_u8, STK__AFFINE_U8)
STK__DEFINE_CONVERT(unit_affine, STK__UNIT_AFFINE)
STK__DEFINE_CONVERT(affine_f32, STK__AFFINE_F32)

static void reverse(const void *src, void *dst, size_t pixels, size_t pixel_bytes)
{
    stk__reverse(src, dst, pixels, pixel_bytes);
}

static void pack(const void *src, void *dst, size_t pixels, bool reversed)
{
    stk__pack(src, dst, pixels, reversed);
}

STK__DEFINE_KERNELS(stk__kernels_c)

const stk__kernels *stk__kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__kernels_avx2;
#endif
    return &stk__kernels_c;
}
