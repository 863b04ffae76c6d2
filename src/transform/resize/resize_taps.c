/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as Pillow's precompute_coeffs() makes them, in doubles, and then in integers of 16 bits.
 * Only additions, multiplications and divisions, so that they are the same on every machine.
 */
#include "transform/resize/resize_taps.h"

#define MAX_SIDE 65535

/* Adding and taking away 1.5 * 2^52 leaves the nearest integer of a double below 2^51, ties to
 * even. */
#define NEAREST_INTEGER 0x1.8p52

#define INLINE static inline __attribute__((always_inline))

/*
 * Bits of the weights. No weight is above 2 / scale or so (the filter is at most 1, and half of it,
 * where the box cuts the rest off, sums to scale / 2), and none above 1.25. Fourteen bits for 1
 * leave a margin of 2 in an int16_t; each doubling of the scale from 4 on gives one bit more. Above
 * 22 a sum of 255 times the weights, with what negative ones add, would not fit 32 bits.
 */
static uint32_t weight_bits(double scale)
{
    uint32_t bits = 14;

    for (double s = 4; bits < 22 && scale >= s; s *= 2)
        bits++;
    return bits;
}

static double radius_of(stk__filter filter)
{
    return filter == STK__FILTER_BICUBIC ? 2 : filter == STK__FILTER_AREA ? 0.5 : 1;
}

bool stk__axis_init(stk__axis *axis, stk__filter filter, double from, double to, uint32_t in,
                    uint32_t out)
{
    if (in < 1 || in > MAX_SIDE || out < 1 || out > MAX_SIDE)
        return false;
    /* Written so that NaN fails. */
    if (!(from >= 0 && from < to && to <= in))
        return false;
    const double scale = (to - from) / out, stretch = STK_MAX(scale, 1.0);
    const uint32_t low = (uint32_t)from, high = (uint32_t)to;

    *axis = (stk__axis){.filter = filter,
                        .low = low,
                        .length = high - low + (high < to),
                        .origin = from - low,
                        .scale = scale,
                        .support = radius_of(filter) * stretch,
                        .squeeze = 1 / stretch,
                        .bits = weight_bits(stretch)};
    /* Both ends of a range are rounded: one more than the width of the filter. */
    axis->reach = (uint32_t)(2 * axis->support) + 2;
    axis->reach = STK_MIN(axis->reach, axis->length);
    return true;
}

INLINE double centre_of(const stk__axis *axis, uint32_t i)
{
    return axis->origin + (i + 0.5) * axis->scale;
}

void stk__axis_range(const stk__axis *axis, uint32_t i, uint32_t *first, uint32_t *end)
{
    const double centre = centre_of(axis, i);
    const double from = centre - axis->support + 0.5, to = centre + axis->support + 0.5;
    uint32_t a = from > 0 ? (uint32_t)from : 0;
    const uint32_t b = to < axis->length ? (uint32_t)to : axis->length;

    /* A centre in the last pixel may be rounded to its end. */
    a = STK_MIN(a, axis->length - 1);
    *first = axis->low + a;
    *end = axis->low + STK_MAX(b, a + 1);
}

/* The filter at `x` of its own units, as Pillow has them. */
INLINE double filter_at(stk__filter filter, double x)
{
    double distance = x < 0 ? -x : x;

    switch (filter) {
    case STK__FILTER_BILINEAR:
        return distance < 1 ? 1 - distance : 0;
    case STK__FILTER_BICUBIC:
        if (distance < 1)
            return (1.5 * distance - 2.5) * distance * distance + 1;
        return distance < 2 ? ((-0.5 * distance + 2.5) * distance - 4) * distance + 2 : 0;
    default:
        return x > -0.5 && x <= 0.5 ? 1 : 0;
    }
}

/*
 * Each weight is the difference of two rounded partial sums. So the sum is exact without a second
 * look, and the errors of neighbours cancel: no part of the filter is too heavy, however many
 * pixels are under it.
 */
INLINE void weights_of(stk__filter filter, const stk__axis *axis, double start, uint32_t count,
                       int16_t *restrict weights)
{
    const double squeeze = axis->squeeze;
    const int32_t one = (int32_t)1 << axis->bits;
    int32_t before = 0;
    double sum = 0, part = 0;

    for (uint32_t k = 0; k < count; k++)
        sum += filter_at(filter, (start + k) * squeeze);
    /* Nothing under the filter: only where the box is thinner than its rounding. */
    double unit = sum > 0 ? one / sum : 0;

    for (uint32_t k = 0; k + 1 < count; k++) {
        part += filter_at(filter, (start + k) * squeeze) * unit;
        int32_t now = (int32_t)((part + NEAREST_INTEGER) - NEAREST_INTEGER);

        weights[k] = (int16_t)(now - before);
        before = now;
    }
    weights[count - 1] = (int16_t)(one - before);
}

void stk__axis_weights(const stk__axis *axis, uint32_t i, uint32_t first, uint32_t end,
                       int16_t *weights)
{
    const double start = (first - axis->low) - centre_of(axis, i) + 0.5;

    switch (axis->filter) {
    case STK__FILTER_BILINEAR:
        weights_of(STK__FILTER_BILINEAR, axis, start, end - first, weights);
        break;
    case STK__FILTER_BICUBIC:
        weights_of(STK__FILTER_BICUBIC, axis, start, end - first, weights);
        break;
    default:
        weights_of(STK__FILTER_AREA, axis, start, end - first, weights);
    }
}

/* Pillow adds the scale from pixel to pixel; a product would round otherwise where a place falls
 * on the edge of two pixels. */
double stk__axis_walk(const stk__axis *axis, uint32_t i)
{
    double at = axis->origin + axis->scale * 0.5;

    while (i--)
        at += axis->scale;
    return at;
}

uint32_t stk__axis_nearest(const stk__axis *axis, double at)
{
    const uint32_t pixel = (uint32_t)at;

    return axis->low + STK_MIN(pixel, axis->length - 1);
}
