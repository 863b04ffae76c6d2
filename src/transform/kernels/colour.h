/* pixels -> pixels of other colours: what the transforms that change values share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_KERNELS_COLOUR_H
#define STK_SRC_TRANSFORM_KERNELS_COLOUR_H

#include "transform/operations/arguments.h"
#include "transform/picture.h"

/*
 * The kernels of colours, one table for each instruction set. All take uint8, interleaved; `src`
 * and `dst` are the same or do not overlap, and nothing outside of them is read or written.
 * Arithmetic is of integers, or of float32 with each operation rounded once, in the same order in
 * every table and in Pillow, so that the bits are the same everywhere.
 */
typedef struct stk__colour_kernels {
    /* Pillow's Image.blend() of one grey with `n` bytes: grey + factor * (src - grey), cut to 0 to
     * 255, its fraction dropped. factor >= 0. */
    void (*blend)(const uint8_t *src, uint8_t *dst, size_t n, uint8_t grey, float factor);
    /* The same with a grey of its own for each byte. */
    void (*blend_two)(const uint8_t *grey, const uint8_t *src, uint8_t *dst, size_t n,
                      float factor);
    /* The same for RGB, where the grey of a pixel is its luma. */
    void (*saturate)(const uint8_t *src, uint8_t *dst, size_t pixels, float factor);
    /* RGB -> R = G = B = luma. */
    void (*grey)(const uint8_t *src, uint8_t *dst, size_t pixels);
    /* Sum of the lumas of RGB. */
    uint64_t (*luma_sum)(const uint8_t *src, size_t pixels);
    /* Pillow's filter SMOOTH of `n` bytes whose neighbours lie `step` bytes apart, in three rows:
     * the eight around and five times the byte itself, over 13. `dst` is none of the rows. */
    void (*smooth)(const uint8_t *above, const uint8_t *at, const uint8_t *below, uint8_t *dst,
                   size_t n, size_t step);
    /* Turn the hue of RGB by `sixths` sixths of a circle, -3 to 3. */
    void (*hue)(const uint8_t *src, uint8_t *dst, size_t pixels, float sixths);
} stk__colour_kernels;

extern const stk__colour_kernels stk__colour_kernels_c;
#ifdef STK_WITH_AVX2
extern const stk__colour_kernels stk__colour_kernels_avx2;
#endif

/* The best table that this context may use. */
const stk__colour_kernels *stk__colour_kernels_of(const stk_context *ctx);

/* One pixel, for the kernels and what is left at their ends. */

/* ITU-R 601-2 luma, as Pillow's convert("L") rounds it. */
static inline uint8_t stk__luma(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

static inline uint8_t stk__blend(uint8_t grey, uint8_t value, float factor)
{
    float x = (float)grey + factor * (float)((int)value - (int)grey);

    return x <= 0.0f ? 0 : x >= 255.0f ? 255 : (uint8_t)x;
}

/* The loop of `smooth`, for each table to be compiled by itself. There are no ties to round:
 * (2 sum + 13) / 26 = (sum + 6) / 13, and 5042 / 2^16 divides by 13 exactly up to 13 * 255 + 6. */
static inline __attribute__((always_inline)) void
stk__smooth_loop(const uint8_t *above, const uint8_t *at, const uint8_t *below,
                 uint8_t *restrict dst, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *a = above + i, *b = at + i, *c = below + i;
        uint16_t sum = (uint16_t)(*(a - step) + *a + *(a + step) + *(b - step) + 5 * *b +
                                  *(b + step) + *(c - step) + *c + *(c + step));

        dst[i] = (uint8_t)(((uint32_t)(uint16_t)(sum + 6) * 5042u) >> 16);
    }
}

/* What torchvision multiplies a value of [0, 1] by before it drops the fraction, over 255. */
#define STK__HUE_SCALE (255.999f / 255.0f)

/* ---- Whole pictures; `channels` is 1 or 3 ---- */

/* Pillow's ImageEnhance.Contrast: a blend with the mean luma, rounded. */
void stk__contrast(const stk__colour_kernels *kernels, const uint8_t *src, uint8_t *dst,
                   size_t pixels, uint32_t channels, float factor);
/* Pillow's ImageEnhance.Sharpness: a blend with the picture under the filter SMOOTH, which leaves
 * the border as it is. `src` and `dst` do not overlap. */
void stk__sharpness(const stk__colour_kernels *kernels, const uint8_t *src, uint8_t *dst,
                    size_t height, size_t width, uint32_t channels, float factor);
/* dst[i] = table[channel][src[i]]. */
void stk__map(const uint8_t *src, uint8_t *dst, size_t pixels, uint32_t channels,
              uint8_t table[][256]);
/* The tables of Pillow's ImageOps.autocontrast() and equalize() for a picture. */
void stk__autocontrast_table(const uint8_t *src, size_t pixels, uint32_t channels,
                             uint8_t table[][256]);
void stk__equalize_table(const uint8_t *src, size_t pixels, uint32_t channels,
                         uint8_t table[][256]);

/* What color_jitter does to one picture. */
typedef enum stk__jitter_step {
    STK__BRIGHTNESS,
    STK__CONTRAST,
    STK__SATURATION,
    STK__HUE,
    STK__JITTER_STEPS
} stk__jitter_step;

typedef struct stk__jitter {
    uint8_t order[STK__JITTER_STEPS]; /* a permutation of stk__jitter_step */
    bool active[STK__JITTER_STEPS];   /* of stk__jitter_step: others are left out */
    double factor[STK__JITTER_STEPS]; /* of stk__jitter_step; of hue: in circles, -0.5 to 0.5 */
} stk__jitter;

void stk__jitter_apply(const stk__colour_kernels *kernels, const stk__jitter *jitter,
                       const uint8_t *src, uint8_t *dst, size_t pixels, uint32_t channels);
/* Permutation `number` (0 to 23) of four. */
void stk__jitter_order(uint32_t number, uint8_t order[STK__JITTER_STEPS]);

/* ---- Words and params ---- */

/* A number in [0, 1) of a word, with all its 32 bits. */
static inline double stk__unit(uint32_t word)
{
    return (double)word * 0x1p-32;
}

static inline double stk__between(uint32_t word, double low, double high)
{
    return low + (high - low) * stk__unit(word);
}

/* A double in a param of a plan and back. */
static inline int64_t stk__to_param(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double stk__of_param(int64_t param)
{
    double x;

    memcpy(&x, &param, sizeof x);
    return x;
}

/* ---- Planning ---- */

/* Fails, in the name of `who`, where the header is not of a uint8 picture of 1 or 3 interleaved
 * channels; sizes may vary. */
stk_status stk__colour_extent(const stk_transform_header *in, const char *who, stk__extent *out,
                              stk_error *err);
/* A plan whose result has the header of its input, at so many nanoseconds for each element. */
void stk__same_plan(const stk_transform_header *in, double ns_per_element, stk_transform_plan *out);
/* Read "LOW, HIGH" or one number, which then is both; `numbers` bounds them. Fails where LOW is
 * above HIGH. */

stk_status stk__range_read(const stk__numbers *numbers, double range[2], uint32_t *count,
                           stk_error *err);
/* Copy one picture of this header. */
void stk__copy_picture(const stk_transform_header *in, const void *src, void *dst);

#endif
