/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms: sample -> sample, drawn from the seed, the epoch and the position alone. */
#ifndef STOKER_TRANSFORM_H
#define STOKER_TRANSFORM_H

#include <stoker/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_transform stk_transform;

/** What the elements of a picture are and their order; of other values, `rank` and `shape` alone.
 */
typedef struct stk_transform_header {
    stk_dtype dtype;
    uint32_t rank;
    int64_t shape[STK_MAX_RANK]; /**< HWC: height, width, channels; CHW: channels, height, width;
                                    -1: varies */
    bool picture;                /**< rank 3, and `chw` says which way */
    bool chw;
    bool encoded; /**< still a JPEG or PNG: shape is what decoding gives */
    bool
        mask; /**< its values are numbers of classes: resized by nearest, never mixed or coloured */
} stk_transform_header;

/** What one application of a transform will do, decided from the header and the draws alone. */
typedef struct stk_transform_plan {
    stk_transform_header out; /**< of the result */
    uint64_t scratch; /**< bytes of scratch memory apply() wants, in addition to input and output */
    double cost_ns;   /**< roughly */
    int64_t params[12]; /**< the transform's own: box, angle, ... */
} stk_transform_plan;

/**
 * What a transform is to its neighbours. Those in a row that say so are done in one pass over the
 * sample, with the bits that they would give one after the other; apply() is not called then.
 */
typedef enum stk_transform_role {
    STK_ROLE_ALONE = 0, /**< nothing that a pass can do */
    /** Moves pixels of a picture: the result is a box of it. stk_transform_plan.params are top,
     * left, height and width of the box, whether its columns and its rows are reversed (1, 0),
     * whether it reaches outside, and the bits of the element that is there. */
    STK_ROLE_FRAME,
    STK_ROLE_UNIT,   /**< float32: uint8 divided by 255, float32 as it is */
    STK_ROLE_AFFINE, /**< float32: scale x element + shift, of its channel; with affine() */
    STK_ROLE_LAYOUT  /**< stk_transform_plan.out.chw says in which order the result is */
} stk_transform_role;

/** Scale and shift of each channel, or with a `count` of 1 of all. With more channels both arrays
 * have STK_AFFINE_LANES x count floats: the values of the channels over and over. */
typedef struct stk_transform_affine {
    uint32_t count;
    const float *scale, *shift;
} stk_transform_affine;
#define STK_AFFINE_LANES 8

/** The seam between a sample as stored and as trained on. Outsiders may write one. */
typedef struct stk_transform_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* "random_crop" */
    const char *doc;
    const stk_option_table
        *options; /* arguments, in the order in which they may be given without names */
    /* Make one. `options` is the struct of the table; strings in it are to be copied. */
    stk_status (*create)(stk_context *ctx, const void *options, stk_transform **out,
                         stk_error *err);
    void (*destroy)(stk_transform *transform);
    /* Decide for one sample. `draws` are `num_draws` random words of the sample's own. The same for
     * every picture of the sample, so that image and mask move together. Also called with a header
     * whose sizes vary (-1) and NULL draws, to learn the fixed part of `out`. Fails where the
     * header does not suit. Any thread. */
    stk_status (*plan)(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err);
    /* Do it for `n` samples that share header and plan. `in` and `out` never overlap. Any thread.
     */
    void (*apply)(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *plan, size_t n, const void *const *src,
                  void *const *dst, void *scratch);
    uint32_t num_draws; /* words of randomness for each sample; 0: not random */
    bool colours;       /* changes what values mean, moves nothing: left out for masks */
    /* (optional) Zero: ALONE. */
    stk_transform_role role;
    /* (with STK_ROLE_AFFINE) For elements that are `from`, UINT8 or FLOAT32; it lives as long as
     * the transform. NULL: not for those, so apply() is called. */
    const stk_transform_affine *(*affine)(const stk_transform *transform, stk_dtype from);
} stk_transform_ops;

/** Every transform begins with this. */
struct stk_transform {
    const stk_transform_ops *ops;
    stk_context *context;
};

#ifdef __cplusplus
}
#endif
#endif
