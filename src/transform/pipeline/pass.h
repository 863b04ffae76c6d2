/* sample -> sample in one write: frames, then values, then layout */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_PIPELINE_PASS_H
#define STK_SRC_TRANSFORM_PIPELINE_PASS_H

#include "transform/kernels/kernels.h"
#include "transform/picture.h"

/*
 * Moved pixels are gathered in strips of this many bytes, that stay in the nearest cache until they
 * are converted. At least one pixel of STK__MAX_CHANNELS elements of 8 bytes.
 */
#define STK__STRIP_BYTES 8192
/* What a pass wants as scratch memory, with the readable tail. */
#define STK__PASS_SCRATCH (STK__STRIP_BYTES + STK_TAIL)

typedef struct stk__pass {
    const stk__kernels *kernels;
    stk__value value;
    stk_dtype dtype;                    /* of the result */
    uint32_t item, out_item;            /* bytes of an element */
    const stk_transform_affine *affine; /* of the transform; NULL where `value` wants none */
    bool picture, chw, out_chw;
} stk__pass;

/* A pass that changes nothing yet, for samples with such a header (sizes may vary). */
void stk__pass_init(stk__pass *pass, const stk__kernels *kernels, const stk_transform_header *in);
/* Append a change of values; false where the pass cannot take it. */
bool stk__pass_add_unit(stk__pass *pass);
bool stk__pass_add_affine(stk__pass *pass, const stk_transform_affine *of_u8,
                          const stk_transform_affine *of_f32);

/* Convert pixels whose planes are `from_plane` apart in the source and `to_plane` in the result. */
void stk__pass_convert(const stk__pass *pass, const void *src, void *dst, size_t pixels,
                       size_t channels, size_t from_plane, size_t to_plane);
/* Whether elements go through as they are. */
bool stk__pass_keeps_values(const stk__pass *pass);
/* `elements` elements of `item` bytes, with these bits each. */
void stk__fill_elements(void *dst, size_t elements, uint32_t item, uint64_t bits);

/* Samples of this many bytes at most are fetched into the processor's cache some samples ahead. */
#define STK__PREFETCH_BYTES 4096
#define STK__PREFETCH_AHEAD 2

/* While sample i of n is worked on: fetch the start of one that comes soon. */
static inline void stk__prefetch(const void *const *src, size_t n, size_t i, size_t bytes)
{
    i += STK__PREFETCH_AHEAD;
    if (i >= n || !src[i])
        return;
    for (size_t at = 0; at < STK_MIN(bytes, STK__PREFETCH_BYTES); at += STK_CACHE_LINE)
        __builtin_prefetch((const char *)src[i] + at, 0, 3);
}

/*
 * Do it for n samples of the sizes in `in`; those whose source is NULL are left out. `path` NULL:
 * no pixel moves. `scratch` is STK__PASS_SCRATCH bytes, and may be NULL where nothing but pixels
 * moves.
 */
void stk__pass_apply(const stk__pass *pass, const stk_transform_header *in,
                     const stk__picture_path *path, size_t n, const void *const *src,
                     void *const *dst, void *scratch);

#endif
