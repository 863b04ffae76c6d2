/* rows of a box -> rows of another size: resampling in fixed point */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separable resampling as Pillow does it (ImagingResample): first along the rows, rounded to uint8,
 * then down the columns. A filter that shrinks is stretched by the scale, so every input pixel
 * under it counts (antialiased); one that enlarges is not. Weights are 16-bit integers that sum to
 * exactly 1 << bits, so a flat picture stays flat, and the sums fit 32 bits. Results differ from
 * those of Pillow's 22-bit weights by 1 level at most; of bicubic ones, whose weights exceed 1 in
 * sum, some 3 bytes of noise in a million differ by 2. Pillow from version 13 on takes the columns
 * first where the height falls by more than twice the pixels of the width: bicubic results that are
 * clipped in between are others then.
 *
 * It works on a stream: rows of the box come in from top to bottom, rows of the result go out from
 * top to bottom, and only the rows under the filter are kept. So a picture is never whole in
 * memory.
 */
#ifndef STK_SRC_TRANSFORM_RESIZE_RESIZE_H
#define STK_SRC_TRANSFORM_RESIZE_RESIZE_H

#include "base/base.h"

typedef enum stk__filter {
    STK__FILTER_NEAREST,  /* the pixel at floor((i + 0.5) * scale), as Pillow's NEAREST */
    STK__FILTER_BILINEAR, /* triangle, radius 1 */
    STK__FILTER_BICUBIC,  /* Keys, a = -0.5, radius 2 */
    STK__FILTER_AREA      /* box, radius 0.5: Pillow's BOX */
} stk__filter;

/* What is to be done with one picture. */
typedef struct stk__resize {
    stk__filter filter;
    uint32_t pixel_bytes; /* bytes of an input pixel: 1 to 4; each byte is resampled by itself */
    uint32_t in_width, in_height; /* of the picture that the rows are rows of */
    /* The box that becomes the result, in input pixels: inside the input, and it may be fractional.
     * Pixels that it does not touch do not count, as after Pillow's crop(). (The `box` of Pillow's
     * resize() lets the filter reach beyond.) */
    double left, top, right, bottom;
    uint32_t out_width, out_height; /* of the whole result */
    /* The part of the result that is wanted: only what it needs is computed. */
    uint32_t x, y, width, height;
} stk__resize;

/* One picture on its way. All memory is the caller's. */
typedef struct stk__resizer stk__resizer;

/*
 * Bytes of memory that stk__resizer_init() wants for `what`; UINT64_MAX where a size is 0 or above
 * 65535, the box is empty, not a number or not inside the input, or the wanted part not inside the
 * result.
 */
uint64_t stk__resizer_bytes(const stk__resize *what);
/* Begin. `memory` is 64 aligned, stk__resizer_bytes() long, and holds all until the last row. */
stk__resizer *stk__resizer_init(stk_context *ctx, const stk__resize *what, void *memory);
/* Rows [first, end) of the input are wanted, and of each of them columns [*first_column,
 * *end_column). */
void stk__resizer_wants(const stk__resizer *r, uint32_t *first, uint32_t *end,
                        uint32_t *first_column, uint32_t *end_column);
/*
 * Take the next `count` rows, beginning with the first wanted; `rows` points at column 0 of the
 * first of them and is never read outside the wanted columns, except for STK_TAIL readable bytes
 * behind. Returns how many were taken: fewer than `count` where a row of the result has to be
 * fetched first, 0 behind the last wanted.
 */
uint32_t stk__resizer_push(stk__resizer *r, const uint8_t *rows, size_t stride, uint32_t count);
/*
 * The next row of the wanted part where everything for it is there, else NULL: `width` pixels of
 * pixel_bytes, with STK_TAIL readable bytes behind; good until the next call for this resizer.
 */
const uint8_t *stk__resizer_pull(stk__resizer *r);

#endif
