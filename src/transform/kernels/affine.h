/* picture -> turned, sheared or moved picture of the same size */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_KERNELS_AFFINE_H
#define STK_SRC_TRANSFORM_KERNELS_AFFINE_H

#include "transform/picture.h"

/* The pixel (x, y) of the result comes from (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), with
 * the centres of pixels at halves, as Pillow's Image.transform(AFFINE). */
typedef struct stk__warp {
    double m[6];
} stk__warp;

/* A uint8 picture [height, width, channels] of 1 or 3 channels. */
typedef struct stk__canvas {
    int64_t height, width;
    uint32_t channels;
    uint8_t fill[3]; /* what comes from outside is this */
    bool avx2;       /* kernels for AVX2 may be used: the same bits */
} stk__canvas;

/* That of a header; what comes from outside a mask is a class. */
static inline stk__canvas stk__canvas_of(const stk_transform_header *in, const stk__extent *extent,
                                         const uint8_t fill[3], uint8_t mask_fill)
{
    stk__canvas canvas = {
        .height = extent->height, .width = extent->width, .channels = (uint32_t)extent->channels};

    for (int c = 0; c < 3; c++)
        canvas.fill[c] = in->mask ? mask_fill : fill[c];
    return canvas;
}

/* How values between pixels are found. */
typedef enum stk__between_pixels { STK__NEAREST, STK__BILINEAR } stk__between_pixels;

/* Sine and cosine of an angle in degrees, within 2^-51 and the same on every machine; exact at
 * multiples of 90. */
void stk__sin_cos(double degrees, double *sine, double *cosine);

/* The bits of Pillow's Image.transform() to the same size, by NEAREST or BILINEAR. `src` and `dst`
 * do not overlap; for BILINEAR `src` is readable STK_TAIL bytes beyond its end. */
void stk__warp_apply(const stk__warp *warp, stk__between_pixels how, const stk__canvas *canvas,
                     const uint8_t *src, uint8_t *dst);
/* As Image.rotate(): `degrees` counter-clockwise about the centre; bilinear within 1 level of it.
 * Turns by 180, and by 90 and 270 of squares, only move pixels. */
void stk__rotate(double degrees, stk__between_pixels how, const stk__canvas *canvas,
                 const uint8_t *src, uint8_t *dst);
/* The warp of a rotation. */
void stk__warp_rotation(double degrees, const stk__canvas *canvas, stk__warp *out);

/* ---- Between pixels ---- */

/* The four pixels around a place, and how far it lies between them. */
typedef struct stk__spot {
    const uint8_t *above, *below; /* rows */
    size_t left, right;           /* bytes in them */
    double along, down;
} stk__spot;

/* False where (x, y) lies outside. Beyond the outermost centres the border pixel goes on. */
static inline __attribute__((always_inline)) bool stk__spot_find(const stk__canvas *canvas,
                                                                 const uint8_t *src, double x,
                                                                 double y, uint32_t channels,
                                                                 stk__spot *out)
{
    int64_t width = canvas->width, height = canvas->height;

    if (!(x >= 0.0 && x < (double)width && y >= 0.0 && y < (double)height))
        return false;
    x -= 0.5;
    y -= 0.5;
    int64_t left = x < 0.0 ? -1 : (int64_t)x, top = y < 0.0 ? -1 : (int64_t)y;
    *out = (stk__spot){.above = src + (size_t)(STK_MAX(top, 0) * width) * channels,
                       .below = src + (size_t)(STK_MIN(top + 1, height - 1) * width) * channels,
                       .left = (size_t)STK_MAX(left, 0) * channels,
                       .right = (size_t)STK_MIN(left + 1, width - 1) * channels,
                       .along = x - (double)left,
                       .down = y - (double)top};
    return true;
}

#ifdef STK_WITH_AVX2
/* The bilinear warp of 3 channels. */
void stk__bilinear_rgb_avx2(const stk__warp *warp, const stk__canvas *canvas, const uint8_t *src,
                            uint8_t *dst);
#endif

/* Read the fill of a picture: one number, or one for each of 3 channels, integers 0 to 255. */
stk_status stk__fill_read(const char *who, const char *name, const char *text, uint8_t fill[3],
                          uint32_t *count, stk_error *err);
/* Fails where there are more numbers than channels. */
stk_status stk__fill_check(const char *who, uint32_t count, int64_t channels, stk_error *err);

#endif
