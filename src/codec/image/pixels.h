/* rows of samples -> rows of pixels */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libjpeg's "fancy" upsampling [jdsample.c] and its colour conversion [jdcolor.c] give, bit
 * for bit. Rows may be read STK__PIXELS_BEYOND samples beyond what is asked for, and written up to
 * STK__PIXELS_BEYOND pixels beyond it.
 */
#ifndef STK_SRC_CODEC_IMAGE_PIXELS_H
#define STK_SRC_CODEC_IMAGE_PIXELS_H

#include "base/base.h"

#define STK__PIXELS_BEYOND 32

/* `n` samples -> 2 n, across. in[-1] and in[n] are the neighbours, or repeat the edge. */
typedef void stk__widen_fn(const uint8_t *in, uint8_t *out, size_t n);
/* The same of a row between two: `near` is the one it lies next to. */
typedef void stk__widen_between_fn(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n);
/* `n` samples of a row between two; `round` is 1 where `far` lies above, 2 where it lies below. */
typedef void stk__between_fn(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n,
                             uint32_t round);
/* Rows of three components -> `n` pixels. */
typedef void stk__join_fn(const uint8_t *const in[3], uint8_t *out, size_t n);

enum { STK__PIXELS_RGB, STK__PIXELS_RGBX, STK__PIXELS_KINDS };

typedef struct stk__pixel_kernels {
    stk__widen_fn *widen;
    stk__widen_between_fn *widen_between;
    stk__between_fn *between;
    stk__join_fn *color[STK__PIXELS_KINDS]; /* of YCbCr */
    stk__join_fn *plain[STK__PIXELS_KINDS]; /* of RGB; grey gives the same row thrice */
} stk__pixel_kernels;

extern const stk__pixel_kernels stk__pixel_kernels_c;
#ifdef STK_WITH_AVX2
extern const stk__pixel_kernels stk__pixel_kernels_avx2;
#endif

#endif
