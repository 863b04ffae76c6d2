/* rows -> blurred rows: a symmetric filter in fixed point */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_KERNELS_BLUR_H
#define STK_SRC_TRANSFORM_KERNELS_BLUR_H

#include "base/base.h"

/*
 * Weights are of 14 bits and sum to exactly 1 << 14, so that a flat picture stays flat. Each is
 * less than one unit from its true value, and those that are too large by as much in all as those
 * too small: with n taps the sums are off by 255 * n / 4 / 2^14 levels at most. With 63 taps both
 * ways that is below half a level, so that what is rounded is 1 level off at most.
 */
#define STK__BLUR_BITS     14
#define STK__BLUR_MAX_TAPS 63
/* Rows between the two passes are in units of 1 / 64 level: what is left of 14 bits. */
#define STK__BLUR_KEPT_BITS 6

typedef struct stk__blur {
    uint32_t radius;
    int16_t weights[STK__BLUR_MAX_TAPS / 2 + 1]; /* weights[k] at a distance of k */
} stk__blur;

/* Weights of exp(-k^2 / (2 sigma^2)) for `taps` (odd) pixels. */
void stk__blur_init(stk__blur *blur, uint32_t taps, double sigma);

typedef struct stk__blur_kernels {
    /* out[i] = sum over k of weights[|k|] * in[i + k * step], for `n` elements, kept to 6 bits
     * behind the point. `in` is readable `radius * step` bytes on both sides and
     * STK_TAIL beyond. */
    void (*row)(const stk__blur *blur, const uint8_t *in, int16_t *out, size_t n, size_t step);
    /* out[i] = sum over k of weights[|k|] * rows[radius + k][i], rounded. Rows are readable
     * STK_TAIL bytes beyond their end. */
    void (*column)(const stk__blur *blur, const int16_t *const *rows, uint8_t *out, size_t n);
} stk__blur_kernels;

extern const stk__blur_kernels stk__blur_kernels_c;
#ifdef STK_WITH_AVX2
extern const stk__blur_kernels stk__blur_kernels_avx2;
#endif
const stk__blur_kernels *stk__blur_kernels_of(const stk_context *ctx);

/* Scratch bytes for a picture; false where they overflow. */
bool stk__blur_scratch(const stk__blur *x, const stk__blur *y, int64_t height, int64_t width,
                       int64_t channels, uint64_t *out);
/* Blur a picture along its rows with `x`, down its columns with `y`. Beyond its border it goes on
 * mirrored, the border itself not repeated. */
void stk__blur_apply(const stk__blur_kernels *kernels, const stk__blur *x, const stk__blur *y,
                     const uint8_t *src, uint8_t *dst, int64_t height, int64_t width,
                     int64_t channels, void *scratch);

#endif
