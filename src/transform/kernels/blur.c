/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of the blur: weights, the two passes, and the order in which rows are kept. */
#include "transform/kernels/blur.h"

#include <math.h>

#include "transform/pipeline/batch.h"

/*
 * Round down, then give the missing units to the weights that lost most, in pairs left and right;
 * an odd unit goes to the middle.
 */
void stk__blur_init(stk__blur *blur, uint32_t taps, double sigma)
{
    double exact[STK__BLUR_MAX_TAPS / 2 + 1], sum = 0;
    uint32_t radius = taps / 2;
    int32_t missing = 1 << STK__BLUR_BITS;

    for (uint32_t k = 0; k <= radius; k++) {
        double x = (double)k / sigma;

        exact[k] = stk__e_to(-0.5 * x * x);
        sum += k ? 2.0 * exact[k] : exact[k];
    }
    blur->radius = radius;
    for (uint32_t k = 0; k <= radius; k++) {
        exact[k] *= (double)(1 << STK__BLUR_BITS) / sum;
        blur->weights[k] = (int16_t)exact[k];
        exact[k] -= blur->weights[k];
        missing -= blur->weights[k] * (k ? 2 : 1);
    }
    for (; missing > 1; missing -= 2) {
        uint32_t most = radius ? 1 : 0;

        for (uint32_t k = 2; k <= radius; k++)
            if (exact[k] > exact[most])
                most = k;
        blur->weights[most]++;
        exact[most] -= 1.0;
    }
    blur->weights[0] = (int16_t)(blur->weights[0] + missing);
}

/* ---- Kernels ---- */

static void row(const stk__blur *blur, const uint8_t *in, int16_t *out, size_t n, size_t step)
{
    const int shift = STK__BLUR_BITS - STK__BLUR_KEPT_BITS;

    for (size_t i = 0; i < n; i++) {
        int32_t sum = blur->weights[0] * in[i] + (1 << (shift - 1));

        for (uint32_t k = 1; k <= blur->radius; k++)
            sum += blur->weights[k] * (in[i + k * step] + *(in + i - k * step));
        out[i] = (int16_t)(sum >> shift);
    }
}

static void column(const stk__blur *blur, const int16_t *const *rows, uint8_t *out, size_t n)
{
    const int shift = STK__BLUR_BITS + STK__BLUR_KEPT_BITS;
    uint32_t radius = blur->radius;

    for (size_t i = 0; i < n; i++) {
        int32_t sum = blur->weights[0] * rows[radius][i] + (1 << (shift - 1));

        for (uint32_t k = 1; k <= radius; k++)
            sum += blur->weights[k] * (rows[radius + k][i] + rows[radius - k][i]);
        out[i] = (uint8_t)(sum >> shift);
    }
}

const stk__blur_kernels stk__blur_kernels_c = {.row = row, .column = column};

const stk__blur_kernels *stk__blur_kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__blur_kernels_avx2;
#endif
    return &stk__blur_kernels_c;
}

/* ---- A picture ---- */

/* Where the pixel `at` of a line of `size`, mirrored at both ends, comes from. */
static int64_t mirror(int64_t at, int64_t size)
{
    int64_t period = 2 * (size - 1);

    if (size == 1)
        return 0;
    at %= period;
    if (at < 0)
        at += period;
    return at < size ? at : period - at;
}

/* Rows that are kept between the passes: those under the filter. */
static int64_t kept_rows(const stk__blur *y, int64_t height)
{
    return STK_MIN(height, 2 * (int64_t)y->radius + 1);
}

/* Bytes of a row with its mirrored ends, and of one between the passes; both with a tail. */
static uint64_t wide_bytes(const stk__blur *x, int64_t width, int64_t channels)
{
    uint64_t bytes = (uint64_t)(width + 2 * (int64_t)x->radius) * (uint64_t)channels;

    return stk__round_up(bytes + STK_TAIL, STK_CACHE_LINE);
}

static uint64_t kept_bytes(int64_t width, int64_t channels)
{
    return stk__round_up((uint64_t)width * (uint64_t)channels * sizeof(int16_t) + STK_TAIL,
                         STK_CACHE_LINE);
}

bool stk__blur_scratch(const stk__blur *x, const stk__blur *y, int64_t height, int64_t width,
                       int64_t channels, uint64_t *out)
{
    uint64_t kept;

    return stk__mul_size((uint64_t)kept_rows(y, height), kept_bytes(width, channels), &kept) &&
           stk__add_size(kept, wide_bytes(x, width, channels) + STK_CACHE_LINE, out);
}

/* `row` with `radius` mirrored pixels on both sides. */
static void widen(const uint8_t *in, uint8_t *wide, int64_t radius, int64_t width, int64_t channels)
{
    memcpy(wide + radius * channels, in, (size_t)(width * channels));
    for (int64_t k = 1; k <= radius; k++)
        for (int64_t c = 0; c < channels; c++) {
            wide[(radius - k) * channels + c] = in[mirror(-k, width) * channels + c];
            wide[(radius + width - 1 + k) * channels + c] =
                in[mirror(width - 1 + k, width) * channels + c];
        }
}

void stk__blur_apply(const stk__blur_kernels *kernels, const stk__blur *x, const stk__blur *y,
                     const uint8_t *src, uint8_t *dst, int64_t height, int64_t width,
                     int64_t channels, void *scratch)
{
    int64_t radius = y->radius, rows = kept_rows(y, height), done = 0;
    size_t stride = (size_t)(width * channels), kept_stride = kept_bytes(width, channels);
    uint8_t *wide = (uint8_t *)stk__round_up((uintptr_t)scratch, STK_CACHE_LINE);
    uint8_t *kept = wide + wide_bytes(x, width, channels);
    const int16_t *under[STK__BLUR_MAX_TAPS];

    for (int64_t at = 0; at < height; at++) {
        for (; done < height && done <= at + radius; done++) {
            widen(src + (size_t)done * stride, wide, x->radius, width, channels);
            kernels->row(x, wide + x->radius * channels,
                         (int16_t *)(kept + (size_t)(done % rows) * kept_stride), stride,
                         (size_t)channels);
        }
        for (int64_t k = -radius; k <= radius; k++) {
            size_t place = (size_t)(mirror(at + k, height) % rows);

            under[radius + k] = (const int16_t *)(kept + place * kept_stride);
        }
        kernels->column(y, under, dst + (size_t)at * stride, stride);
    }
}
