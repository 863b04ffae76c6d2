/* text -> steps -> passes: how a chain of transforms is kept */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_PIPELINE_PIPELINE_H
#define STK_SRC_TRANSFORM_PIPELINE_PIPELINE_H

#include "base/table.h"
#include "transform/operations/arguments.h"
#include "transform/pipeline/pass.h"
#include "transform/transform.h"

#define STK__MAX_DRAWS 64 /* words of one transform for one sample */

/* One transform as written. */
typedef struct stk__transform_step {
    const stk_transform_ops *ops;
    stk_transform *transform;
    uint32_t purpose;        /* of its draws: STK_DRAW_TRANSFORM + its number in the text */
    stk_transform_plan plan; /* for the declared header; what counts where nothing is drawn */
    stk_transform_header in; /* declared */
} stk__transform_step;

/* Steps that run together: one of a kind of its own, a fused pass, or a scene. */
typedef struct stk__group {
    uint32_t first, count;
    bool fused;
    uint32_t head;   /* a scene: decode, and the step behind it if it resamples; 0: no scene */
    uint32_t frames; /* fused: this many steps behind the head move pixels, the others do not */
    bool draws;
    stk__pass pass;
    stk__picture_path
        path; /* fused, nothing drawn: where pixels come from in samples of the declared header */
} stk__group;

struct stk__pipeline {
    stk_context *context;
    stk_transform_header in, out;
    bool varies; /* `in` is that of samples of many sizes */
    stk__transform_step *steps;
    stk__group *groups;
    uint32_t num_steps, num_groups;
    uint64_t group_scratch; /* of the group that wants most; first in the scratch memory */
    uint64_t room[2];       /* bytes of the two buffers between groups, behind it */
};

static inline bool stk__step_resamples(const stk__transform_step *step)
{
    return step->ops == &stk__transform_random_resized_crop || step->ops == &stk__transform_resize;
}

/* Fuse neighbours: fills pipeline->groups from its steps. */
void stk__pipeline_fuse(stk__pipeline *pipeline);

/* What a transform must have (registry.c). */
extern const stk__given_table stk__transform_table;

#endif
