/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in C: what every other version must give, bit for bit. */
#include "transform/kernels_loops.h"

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

static void mix_f32(void *a, void *b, size_t n, float own, float other)
{
    stk__mix_f32(a, b, n, own, other);
}

static void mix_u8(void *a, void *b, size_t n, float own, float other)
{
    stk__mix_u8(a, b, n, own, other);
}

const stk__kernels stk__kernels_c = {
    .convert =
        {
            {flat_copy1, flat_copy2, flat_copy4, flat_copy8, flat_unit, flat_affine_u8,
             flat_unit_affine, flat_affine_f32},
            {planar_copy1, planar_copy2, planar_copy4, planar_copy8, planar_unit, planar_affine_u8,
             planar_unit_affine, planar_affine_f32},
            {interleaved_copy1, interleaved_copy2, interleaved_copy4, interleaved_copy8,
             interleaved_unit, interleaved_affine_u8, interleaved_unit_affine,
             interleaved_affine_f32},
        },
    .reverse = reverse,
    .pack = pack,
    .mix_f32 = mix_f32,
    .mix_u8 = mix_u8,
};

const stk__kernels *stk__kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__kernels_avx2;
#endif
    return &stk__kernels_c;
}
