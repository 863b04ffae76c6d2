/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of the kernels of colours, and the loops over whole pictures that are made of
 * them. */
#include "transform/kernels/colour.h"

/* ---- One pixel ---- */

/*
 * A turn of the hue keeps the largest and the smallest of the three values; the third lies between
 * them as far as the hue lies between two corners of the hexagon R Y G C B M. `position` is that
 * hue, 0 to 6; an odd corner is where the third value begins to fall.
 *
 * This is torchvision's adjust_hue() of tensors with its terms collected; the results differ by 1
 * level at most, where its float32 and ours fall on two sides of an integer.
 */
static void hue_pixel(const uint8_t *src, uint8_t *dst, float sixths)
{
    int r = src[0], g = src[1], b = src[2];
    int high = STK_MAX(r, STK_MAX(g, b)), low = STK_MIN(r, STK_MIN(g, b)), range = high - low;
    float position = r == high ? (float)(g - b) : g == high ? (float)(b - r) : (float)(r - g);
    float middle;

    position = position / (float)STK_MAX(range, 1);
    position = position + (r == high ? 0.0f : g == high ? 2.0f : 4.0f);
    position = position + sixths;
    position = position + (position < 0.0f ? 6.0f : 0.0f);
    position = position - (position >= 6.0f ? 6.0f : 0.0f);
    int corner = (int)position;
    float along = (float)range * (position - (float)corner);
    middle = (corner & 1 ? (float)high - along : (float)low + along) * STK__HUE_SCALE;
    uint8_t third = (uint8_t)STK_MIN(STK_MAX((int)middle, 0), 255);
    static const uint8_t from[6][3] = {{2, 1, 0}, {1, 2, 0}, {0, 2, 1},
                                       {0, 1, 2}, {1, 0, 2}, {2, 0, 1}};
    const uint8_t values[3] = {(uint8_t)low, third, (uint8_t)high};

    for (int c = 0; c < 3; c++)
        dst[c] = values[from[corner][c]];
}

/* ---- Kernels ---- */

/* Every byte is one of 256: a table is faster than the formula. */
static void blend(const uint8_t *src, uint8_t *dst, size_t n, uint8_t grey, float factor)
{
    uint8_t table[256];

    for (int i = 0; i < 256; i++)
        table[i] = stk__blend(grey, (uint8_t)i, factor);
    for (size_t i = 0; i < n; i++)
        dst[i] = table[src[i]];
}

static void blend_two(const uint8_t *grey, const uint8_t *src, uint8_t *dst, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = stk__blend(grey[i], src[i], factor);
}

static void saturate(const uint8_t *src, uint8_t *dst, size_t pixels, float factor)
{
    for (size_t i = 0; i < 3 * pixels; i += 3) {
        uint8_t luma = stk__luma(src + i);

        for (size_t c = 0; c < 3; c++)
            dst[i + c] = stk__blend(luma, src[i + c], factor);
    }
}

static void grey(const uint8_t *src, uint8_t *dst, size_t pixels)
{
    for (size_t i = 0; i < 3 * pixels; i += 3)
        dst[i] = dst[i + 1] = dst[i + 2] = stk__luma(src + i);
}

static uint64_t luma_sum(const uint8_t *src, size_t pixels)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < 3 * pixels; i += 3)
        sum += stk__luma(src + i);
    return sum;
}

static void smooth(const uint8_t *above, const uint8_t *at, const uint8_t *below, uint8_t *dst,
                   size_t n, size_t step)
{
    stk__smooth_loop(above, at, below, dst, n, step);
}

static void hue(const uint8_t *src, uint8_t *dst, size_t pixels, float sixths)
{
    for (size_t i = 0; i < 3 * pixels; i += 3)
        hue_pixel(src + i, dst + i, sixths);
}

const stk__colour_kernels stk__colour_kernels_c = {
    .blend = blend,
    .blend_two = blend_two,
    .saturate = saturate,
    .grey = grey,
    .luma_sum = luma_sum,
    .smooth = smooth,
    .hue = hue,
};

const stk__colour_kernels *stk__colour_kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__colour_kernels_avx2;
#endif
    return &stk__colour_kernels_c;
}

/* ---- Whole pictures ---- */

void stk__contrast(const stk__colour_kernels *kernels, const uint8_t *src, uint8_t *dst,
                   size_t pixels, uint32_t channels, float factor)
{
    uint64_t sum = 0;

    if (channels == 3)
        sum = kernels->luma_sum(src, pixels);
    else
        for (size_t i = 0; i < pixels; i++)
            sum += src[i];
    uint8_t mean = (uint8_t)((double)sum / (double)pixels + 0.5);
    kernels->blend(src, dst, pixels * channels, mean, factor);
}

void stk__map(const uint8_t *src, uint8_t *dst, size_t pixels, uint32_t channels,
              uint8_t table[][256])
{
    if (channels == 1) {
        for (size_t i = 0; i < pixels; i++)
            dst[i] = table[0][src[i]];
        return;
    }
    for (size_t i = 0; i < 3 * pixels; i += 3)
        for (size_t c = 0; c < 3; c++)
            dst[i + c] = table[c][src[i + c]];
}

static void count(const uint8_t *src, size_t pixels, uint32_t channels, uint64_t counts[][256])
{
    memset(counts, 0, channels * sizeof counts[0]);
    for (size_t i = 0; i < pixels; i++)
        for (uint32_t c = 0; c < channels; c++)
            counts[c][src[i * channels + c]]++;
}

void stk__autocontrast_table(const uint8_t *src, size_t pixels, uint32_t channels,
                             uint8_t table[][256])
{
    uint64_t counts[3][256];

    count(src, pixels, channels, counts);
    for (uint32_t c = 0; c < channels; c++) {
        int low = 0, high = 255;

        while (low < 255 && !counts[c][low])
            low++;
        while (high > 0 && !counts[c][high])
            high--;
        double scale = high > low ? 255.0 / (high - low) : 1.0;
        double shift = high > low ? -low * scale : 0.0;
        for (int i = 0; i < 256; i++) {
            double x = i * scale + shift;

            table[c][i] = (uint8_t)STK_MIN(STK_MAX(x, 0.0), 255.0);
        }
    }
}

void stk__equalize_table(const uint8_t *src, size_t pixels, uint32_t channels, uint8_t table[][256])
{
    uint64_t counts[3][256];

    count(src, pixels, channels, counts);
    for (uint32_t c = 0; c < channels; c++) {
        int last = 255;

        while (last > 0 && !counts[c][last])
            last--;
        /* The pixels of the brightest value do not count; a step of 0 also means one value. */
        uint64_t step = (pixels - counts[c][last]) / 255, n = step / 2;
        for (int i = 0; i < 256; i++) {
            table[c][i] = (uint8_t)(step ? STK_MIN(n / step, 255) : (uint64_t)i);
            n += counts[c][i];
        }
    }
}

void stk__sharpness(const stk__colour_kernels *kernels, const uint8_t *src, uint8_t *dst,
                    size_t height, size_t width, uint32_t channels, float factor)
{
    size_t stride = width * channels;

    memcpy(dst, src, height * stride);
    if (height < 3 || width < 3)
        return;
    for (size_t y = 1; y + 1 < height; y++) {
        const uint8_t *in = src + y * stride;
        uint8_t *out = dst + y * stride;

        kernels->smooth(in - stride + channels, in + channels, in + stride + channels,
                        out + channels, stride - 2 * channels, channels);
        kernels->blend_two(out + channels, in + channels, out + channels, stride - 2 * channels,
                           factor);
    }
}

/* ---- Jitter ---- */

void stk__jitter_order(uint32_t number, uint8_t order[STK__JITTER_STEPS])
{
    uint8_t left[STK__JITTER_STEPS] = {0, 1, 2, 3};
    uint32_t places = 6; /* permutations of what follows the first */

    for (uint32_t i = 0; i < STK__JITTER_STEPS; i++) {
        uint32_t take = i + 1 < STK__JITTER_STEPS ? number / places : 0;

        order[i] = left[take];
        for (uint32_t k = take; k + 1 < STK__JITTER_STEPS; k++)
            left[k] = left[k + 1];
        number %= places;
        places = places == 6 ? 2 : 1;
    }
}

void stk__jitter_apply(const stk__colour_kernels *kernels, const stk__jitter *jitter,
                       const uint8_t *src, uint8_t *dst, size_t pixels, uint32_t channels)
{
    for (uint32_t i = 0; i < STK__JITTER_STEPS; i++) {
        stk__jitter_step step = (stk__jitter_step)jitter->order[i];
        double factor = jitter->factor[step];

        if (!jitter->active[step] || (channels == 1 && step >= STK__SATURATION))
            continue;
        switch (step) {
        case STK__BRIGHTNESS:
            kernels->blend(src, dst, pixels * channels, 0, (float)factor);
            break;
        case STK__CONTRAST:
            stk__contrast(kernels, src, dst, pixels, channels, (float)factor);
            break;
        case STK__SATURATION:
            kernels->saturate(src, dst, pixels, (float)factor);
            break;
        case STK__HUE:
            kernels->hue(src, dst, pixels, (float)(6.0 * factor));
            break;
        case STK__JITTER_STEPS:
            break;
        }
        src = dst;
    }
    if (src != dst)
        memcpy(dst, src, pixels * channels);
}

/* ---- Planning ---- */

stk_status stk__colour_extent(const stk_transform_header *in, const char *who, stk__extent *out,
                              stk_error *err)
{
    char text[160];

    STK_TRY(stk__picture_extent(in, who, out, err));
    if (in->dtype == STK_UINT8 && !in->chw &&
        (out->channels == 1 || out->channels == 3 || out->channels == -1))
        return STK_OK;
    stk__header_text(in, text, sizeof text);
    if (in->dtype == STK_UINT8 && !in->chw)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: takes pictures of 1 or 3 channels, not %s", who, text);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                     "%s: takes uint8 pictures [height, width, channels], not %s: put it before "
                     "to_float, normalize and layout",
                     who, text);
}

void stk__same_plan(const stk_transform_header *in, double ns_per_element, stk_transform_plan *out)
{
    uint64_t elements = 0;

    *out = (stk_transform_plan){.out = *in};
    if (stk__header_elements(in, &elements))
        out->cost_ns = 50.0 + ns_per_element * (double)elements;
}

stk_status stk__range_read(const stk__numbers *numbers, double range[2], uint32_t *count,
                           stk_error *err)
{
    STK_TRY(stk__numbers_read(numbers, range, 2, count, err));
    if (*count == 1)
        range[1] = range[0];
    if (range[0] > range[1])
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: %s [%g, %g] falls: give the smaller number first", numbers->who,
                         numbers->argument, range[0], range[1]);
    return STK_OK;
}

void stk__copy_picture(const stk_transform_header *in, const void *src, void *dst)
{
    uint64_t bytes;

    if (stk__header_bytes(in, &bytes))
        memcpy(dst, src, bytes);
}
