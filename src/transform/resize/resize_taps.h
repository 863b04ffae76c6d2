/* box and filter -> which pixels count for a pixel of the result, and how much */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_RESIZE_RESIZE_TAPS_H
#define STK_SRC_TRANSFORM_RESIZE_RESIZE_TAPS_H

#include "transform/resize/resize.h"

/* One direction of a resampling. Places are counted from pixel `low`, as after a crop, so that they
 * are rounded alike wherever the box is. */
typedef struct stk__axis {
    stk__filter filter;
    uint32_t low, length; /* the pixels that count: [low, low + length) */
    double origin, scale; /* pixel i of the result has its centre at origin + (i + 0.5) * scale */
    double support, squeeze; /* half width of the filter in input pixels; filter units of one */
    uint32_t reach;          /* most pixels under the filter */
    uint32_t bits;           /* the weights of a pixel sum to 1 << bits */
} stk__axis;

/* The box [from, to) of `in` pixels becomes `out` pixels. False where that is not possible. */
bool stk__axis_init(stk__axis *axis, stk__filter filter, double from, double to, uint32_t in,
                    uint32_t out);
/* Pixels [*first, *end) count for pixel `i` of the result: at least one. Neither falls with i. */
void stk__axis_range(const stk__axis *axis, uint32_t i, uint32_t *first, uint32_t *end);
/* Their weights; the sum is exactly 1 << bits. */
void stk__axis_weights(const stk__axis *axis, uint32_t i, uint32_t first, uint32_t end,
                       int16_t *weights);

/* NEAREST: where the walk over the input is for pixel 0 of the result, and then each step. */
double stk__axis_walk(const stk__axis *axis, uint32_t i);
/* The input pixel of a place of the walk. */
uint32_t stk__axis_nearest(const stk__axis *axis, double at);

#endif
