/* pixels -> pixels: the loops of the transforms, one table for each instruction set */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_KERNELS_KERNELS_H
#define STK_SRC_TRANSFORM_KERNELS_KERNELS_H

#include <stoker/transform.h>

#include "base/base.h"

/* What happens to each element. COPYn moves n bytes; the others read uint8 or float32 and write
 * float32. */
typedef enum stk__value {
    STK__COPY1,
    STK__COPY2,
    STK__COPY4,
    STK__COPY8,
    STK__UNIT,        /* uint8 x -> x / 255, correctly rounded */
    STK__AFFINE_U8,   /* uint8 x -> x * scale + shift, rounded after each operation */
    STK__UNIT_AFFINE, /* uint8 x -> (x / 255) * scale + shift */
    STK__AFFINE_F32,  /* float32 x -> x * scale + shift */
    STK__VALUE_COUNT
} stk__value;

/* FLAT keeps the order of the elements; PLANAR makes HWC to CHW; INTERLEAVED makes CHW to HWC. */
typedef enum stk__arrange {
    STK__FLAT,
    STK__PLANAR,
    STK__INTERLEAVED,
    STK__ARRANGE_COUNT
} stk__arrange;

/* Floats of a vector; patterns of several channels are repeated to whole vectors. */
#define STK__LANES STK_AFFINE_LANES

/*
 * Convert `pixels` pixels of `channels` channels. `plane` is the distance of two planes in elements
 * (of the output when PLANAR, of the input when INTERLEAVED). `affine` is NULL where the value
 * wants none. The source is readable STK_TAIL bytes beyond its end, the destination ends with its
 * last element. Neither needs any alignment; they do not overlap.
 */
typedef void stk__convert_fn(const void *src, void *dst, size_t pixels, uint32_t channels,
                             size_t plane, const stk_transform_affine *affine);

typedef struct stk__kernels {
    stk__convert_fn *convert[STK__ARRANGE_COUNT][STK__VALUE_COUNT];
    /* dst[i] = src[pixels - 1 - i]. The source is readable STK_TAIL bytes beyond its end. */
    void (*reverse)(const void *src, void *dst, size_t pixels, size_t pixel_bytes);
    /* Pixels of four bytes -> their first three; `reversed`: dst[i] is of src[pixels - 1 - i]. The
     * source is readable STK_TAIL bytes beyond its end. */
    void (*pack)(const void *src, void *dst, size_t pixels, bool reversed);
    /* Both rows at once: a = a * own + b * other, b = b * own + a * other, with the old values on
     * the right. */
    void (*mix_f32)(void *a, void *b, size_t n, float own, float other);
    /* The same, rounded to the nearest integer, ties to even. own + other = 1, neither negative. */
    void (*mix_u8)(void *a, void *b, size_t n, float own, float other);
} stk__kernels;

extern const stk__kernels stk__kernels_c;
#ifdef STK_WITH_AVX2
extern const stk__kernels stk__kernels_avx2;
#endif

/* The best table that this context may use. */
const stk__kernels *stk__kernels_of(const stk_context *ctx);

#endif
