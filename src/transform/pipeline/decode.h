/* encoded picture -> sample, in one pass over strips of rows */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_PIPELINE_DECODE_H
#define STK_SRC_TRANSFORM_PIPELINE_DECODE_H

#include "codec/image/image.h"
#include "transform/operations/resample.h"
#include "transform/pipeline/pipeline.h"

/* What the transform `decode` was told. */
typedef struct stk__decode {
    stk_transform base;
    stk__image_limits limits;
    bool dct_scaling; /* a box of at least twice the wanted size is decoded at 1/2, 1/4 or 1/8 */
    bool upright;     /* turned as its EXIF orientation says */
} stk__decode;

/* One encoded picture on its way through a scene: decode, resample, frames, values, layout. */
typedef struct stk__scene {
    const stk__pipeline *pipeline;
    const stk__group *group;
    stk__decoding *decoding;
    stk_slice encoded;
    stk__image_info info;
    bool resamples;
    stk__resample what;     /* the box, upright, where it resamples */
    stk__picture_path path; /* of the result, from the resampled or decoded picture */
    unsigned char *scratch;
    const char *reason; /* of a failure */
} stk__scene;

/* Read the header of the picture: fills info, and `header` with that of the decoded picture. */
stk_status stk__scene_peek(stk__scene *scene, stk_transform_header *header);
/* Do it, after `what` and `path` are set. */
stk_status stk__scene_run(stk__scene *scene, void *dst);
/* Scratch bytes of a group that is a scene. */
uint64_t stk__scene_scratch(const stk__pipeline *pipeline, const stk__group *group);

#endif
