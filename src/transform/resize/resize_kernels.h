/* pixels under a filter -> a pixel: the sums of the resampler, one table for each instruction set
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_RESIZE_RESIZE_KERNELS_H
#define STK_SRC_TRANSFORM_RESIZE_RESIZE_KERNELS_H

#include "base/base.h"

/* Pixels of the result that are made together, and taps of a group of weights. */
#define STK__ACROSS_PIXELS 4
#define STK__ACROSS_TAPS   4
/* Bytes that a kernel may write beyond its row, and may read beyond the pixels that count. */
#define STK__RESIZE_SLACK 32

/*
 * The weights of rows. Four pixels of the result stand together: for each group of four taps the
 * four weights of the first pixel, of the second, the third, the fourth. All pixels have the same
 * number of groups, filled with zeros. `pixels` is a multiple of four: the last ones repeat.
 */
typedef struct stk__across {
    uint32_t pixels, groups;
    uint32_t bits;   /* the weights of a pixel sum to 1 << bits */
    bool half_group; /* the last two weights of the last group are 0 everywhere, and not read */
    const uint32_t *start; /* byte of a row of the first tap of a pixel */
    const int16_t *weights;
} stk__across;

/* Weight `tap` of pixel `i`. */
static inline size_t stk__across_at(uint32_t groups, uint32_t i, uint32_t tap)
{
    size_t block = (size_t)(i / STK__ACROSS_PIXELS) * groups + tap / STK__ACROSS_TAPS;

    return (block * STK__ACROSS_PIXELS + i % STK__ACROSS_PIXELS) * STK__ACROSS_TAPS +
           tap % STK__ACROSS_TAPS;
}

/* Resample `rows` rows, at least 1, that are `stride` bytes apart, each to its place dst[row]. */
typedef void stk__across_fn(const stk__across *taps, const uint8_t *src, size_t stride,
                            uint8_t *const *dst, uint32_t rows);

/* Sums are rounded (halves up) after the shift by the bits of the weights, and clipped. */
typedef struct stk__resize_kernels {
    stk__across_fn *across[5]; /* by the bytes of a pixel, 1 to 4 */
    /* One row of `bytes` of `count` rows, at least 1: dst[i] = the sum of rows[k][i] * weights[k].
     */
    void (*down)(const uint8_t *const *rows, const int16_t *weights, uint32_t count, uint32_t bits,
                 size_t bytes, uint8_t *dst);
    /* The same in parts: add the rows to sums, and make a row of the sums. There are `bytes` sums
     * rounded up to 32, in an order of the table's own, and all are 0 before the first part. */
    void (*add)(const uint8_t *const *rows, const int16_t *weights, uint32_t count, size_t bytes,
                int32_t *sums);
    void (*finish)(const int32_t *sums, uint32_t bits, size_t bytes, uint8_t *dst);
} stk__resize_kernels;

extern const stk__resize_kernels stk__resize_kernels_c;
#ifdef STK_WITH_AVX2
extern const stk__resize_kernels stk__resize_kernels_avx2;
#endif

/* The best table that this context may use. */
const stk__resize_kernels *stk__resize_kernels_of(const stk_context *ctx);

#endif
