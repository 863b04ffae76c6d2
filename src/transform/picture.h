/* header -> height, width, channels: what the transforms of pictures ask of a header */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_PICTURE_H
#define STK_SRC_TRANSFORM_PICTURE_H

#include "transform/transform.h"

/* Sizes of a picture beyond which its header is refused, so that no sum of sides and paddings
 * overflows. */
#define STK__MAX_SIDE     (INT64_C(1) << 30)
#define STK__MAX_CHANNELS 1024
#define STK__MAX_PADDING  65535

/* -1: varies. */
typedef struct stk__extent {
    int64_t height, width, channels;
} stk__extent;

/* Fails, in the name of the transform `who`, where the header is not that of a picture whose pixels
 * can be moved. */
stk_status stk__picture_extent(const stk_transform_header *header, const char *who,
                               stk__extent *out, stk_error *err);
void stk__picture_set_extent(stk_transform_header *header, const stk__extent *extent);

/* Number of elements, and of bytes; false where a size varies or is out of range. */
bool stk__header_elements(const stk_transform_header *header, uint64_t *out);
bool stk__header_bytes(const stk_transform_header *header, uint64_t *out);
bool stk__header_varies(const stk_transform_header *header);
bool stk__header_same(const stk_transform_header *a, const stk_transform_header *b);
/* Whether `header` is one of those that `declared` covers: the same, or where that varies (-1)
 * any size. */
bool stk__header_suits(const stk_transform_header *header, const stk_transform_header *declared);
/* "uint8[28, 28, 1] hwc" */
void stk__header_text(const stk_transform_header *header, char *text, size_t size);

/*
 * A frame laid over a picture: the pixels from (top, left) on, which may lie outside, where they
 * are `fill`; mirrored when it flips. Transforms that only move pixels put one into the params of
 * their plan.
 */
typedef struct stk__frame {
    int64_t top, left, height, width;
    bool flip;      /* left to right */
    bool flip_rows; /* top to bottom */
    bool fills;     /* it may reach outside */
    uint64_t fill;  /* the bits of one element */
} stk__frame;

void stk__frame_of_plan(const stk_transform_plan *plan, stk__frame *out);
/* The plan of a transform that is a frame; sizes of the result may vary. */
stk_status stk__frame_plan(const char *who, const stk_transform_header *in,
                           const stk__extent *out_extent, const stk__frame *frame,
                           stk_transform_plan *out, stk_error *err);
/* apply() of all of them. */
void stk__frame_apply(const stk_transform *transform, const stk_transform_header *in,
                      const stk_transform_plan *plan, size_t n, const void *const *src,
                      void *const *dst, void *scratch);
/* The bits of a number as an element of `dtype`; fails where it is none. */
stk_status stk__fill_bits(double value, stk_dtype dtype, const char *who, uint64_t *out,
                          stk_error *err);

/* Several frames, one after the other, as one: where the pixel (y, x) of the result comes from. */
typedef struct stk__picture_path {
    int64_t height, width;            /* of the result */
    int64_t first_row, end_row;       /* rows that come from the source, the others are fill */
    int64_t first_column, end_column; /* the same for columns */
    int64_t row, column; /* source row of y is row + y, or - y; column of x is column + x, or - x */
    bool flip;           /* column - x */
    bool flip_rows;      /* row - y */
    uint64_t fill;
} stk__picture_path;

void stk__path_init(stk__picture_path *path, int64_t height, int64_t width);
void stk__path_add(stk__picture_path *path, const stk__frame *frame);
/* Whether the result is the source itself. */
bool stk__path_is_identity(const stk__picture_path *path, int64_t height, int64_t width);

#endif
