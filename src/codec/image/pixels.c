/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in C: what every other version must give, bit for bit. */
#include "codec/image/pixels.h"

static void widen(const uint8_t *in, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t three = 3u * in[i];
        out[2 * i] = (uint8_t)((three + in[(ptrdiff_t)i - 1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((three + in[i + 1] + 2) >> 2);
    }
}

static void widen_between(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n)
{
    uint32_t before = 3u * near[-1] + far[-1], here = 3u * near[0] + far[0];

    for (size_t i = 0; i < n; i++) {
        uint32_t next = 3u * near[i + 1] + far[i + 1];
        out[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + next + 7) >> 4);
        before = here;
        here = next;
    }
}

static void between(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n, uint32_t round)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3u * near[i] + far[i] + round) >> 2);
}

static uint8_t clip(int32_t value)
{
    return (uint8_t)STK_MAX(STK_MIN(value, 255), 0);
}

/* Multiples of 2^-16 [JFIF 1.02, "Conversion to and from RGB"]. */
#define R_CR 91881  /* 1.40200 */
#define G_CB -22554 /* -0.34414 */
#define G_CR -46802 /* -0.71414 */
#define B_CB 116130 /* 1.77200 */
#define HALF 32768

static inline void color(const uint8_t *const in[3], uint8_t *out, size_t n, size_t pixel_bytes)
{
    for (size_t i = 0; i < n; i++, out += pixel_bytes) {
        int32_t y = in[0][i], cb = in[1][i] - 128, cr = in[2][i] - 128;
        out[0] = clip(y + ((R_CR * cr + HALF) >> 16));
        out[1] = clip(y + ((G_CB * cb + G_CR * cr + HALF) >> 16));
        out[2] = clip(y + ((B_CB * cb + HALF) >> 16));
        if (pixel_bytes == 4)
            out[3] = 255;
    }
}

static inline void plain(const uint8_t *const in[3], uint8_t *out, size_t n, size_t pixel_bytes)
{
    for (size_t i = 0; i < n; i++, out += pixel_bytes) {
        out[0] = in[0][i];
        out[1] = in[1][i];
        out[2] = in[2][i];
        if (pixel_bytes == 4)
            out[3] = 255;
    }
}

static void color_rgb(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    color(in, out, n, 3);
}

static void color_rgbx(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    color(in, out, n, 4);
}

static void plain_rgb(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    plain(in, out, n, 3);
}

static void plain_rgbx(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    plain(in, out, n, 4);
}

const stk__pixel_kernels stk__pixel_kernels_c = {
    .widen = widen,
    .widen_between = widen_between,
    .between = between,
    .color = {color_rgb, color_rgbx},
    .plain = {plain_rgb, plain_rgbx},
};
