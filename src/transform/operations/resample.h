/* picture, box -> picture of another size: what resize and random_resized_crop have in common */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_OPERATIONS_RESAMPLE_H
#define STK_SRC_TRANSFORM_OPERATIONS_RESAMPLE_H

#include "transform/picture.h"
#include "transform/resize/resize.h"

/* Larger results are refused: the resizer counts pixels of a side in 16 bits. */
#define STK__MAX_RESIZED 65535

/* A box of the picture, and what it becomes. Kept in the params of the plan. */
typedef struct stk__resample {
    int64_t left, top, width, height; /* inside the picture */
    int64_t out_width, out_height;
    stk__filter filter;
} stk__resample;

/* The option that chooses the filter: rows of option tables say STK__FILTER_CHOICES. */
#define STK__FILTER_CHOICES "bilinear|bicubic|area|nearest"
stk__filter stk__filter_of_choice(int32_t choice);

void stk__resample_of_plan(const stk_transform_plan *plan, stk__resample *out);
/*
 * The plan of a transform that resamples `what`; NULL: the sizes vary, and the result has
 * `out_extent`. Masks take the nearest pixel, whatever the filter.
 */
stk_status stk__resample_plan(const char *who, const stk_transform_header *in,
                              const stk__resample *what, const stk__extent *out_extent,
                              stk_transform_plan *out, stk_error *err);
/* apply() of both, for pictures in memory. */
void stk__resample_apply(const stk_transform *transform, const stk_transform_header *in,
                         const stk_transform_plan *plan, size_t n, const void *const *src,
                         void *const *dst, void *scratch);
/* What the resizer is to do, of rows of `pixel_bytes` a pixel; the wanted part is all. */
void stk__resample_resize(const stk__resample *what, uint32_t pixel_bytes, int64_t in_width,
                          int64_t in_height, stk__resize *out);

#endif
