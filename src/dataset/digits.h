/* Glyphs of `digits:`: how a pen goes to write each figure. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_DIGITS_H
#define STK_SRC_DATASET_DIGITS_H

#include <stdint.h>

#define STK_GLYPH_POINTS 24

/* How the pen comes to a point. */
enum {
    STK_PEN_LIFT = 0,  /* a stroke begins here */
    STK_PEN_CURVE = 1, /* on the way, smoothly */
    STK_PEN_CORNER = 2 /* on the way, where the direction may break */
};

/* A point in a box of 100 x 100, x to the right, y down. */
typedef struct stk__glyph_point {
    int8_t x, y, pen;
} stk__glyph_point;

/* One way of writing a digit. Curves run through the points (Catmull-Rom). */
typedef struct stk__glyph {
    uint8_t digit, num_points;
    stk__glyph_point points[STK_GLYPH_POINTS];
} stk__glyph;

/* All ways, in the order of the digits. `first[d]` .. `first[d + 1]` are those of digit d. */
extern const stk__glyph stk__glyphs[];
extern const uint8_t stk__glyph_first[11];

/* Bytes of a picture: 28 x 28 of one channel, as MNIST's. */
#define STK_DIGIT_SIDE  28
#define STK_DIGIT_BYTES (STK_DIGIT_SIDE * STK_DIGIT_SIDE)

/* Draw digit `index` of stream `split` under `seed` into `pixels`; returns its label. Any thread.
 */
uint32_t stk__digit_draw(uint64_t seed, uint32_t split, uint64_t index, uint8_t *pixels);

#endif
