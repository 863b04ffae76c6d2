/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which neighbours one pass can do: first what moves pixels, then what changes values or layout. A
 * scene is such a pass over a picture that is decoded, and perhaps resampled, row by row. A
 * pass gives the bits that its steps would give one after the other, because moving and changing an
 * element do not meet: filled pixels are made before values change, and each kernel rounds as the
 * separate steps do.
 */
#include "transform/pipeline/pipeline.h"

/* What the table of an earlier version lacks is zero. */
static stk_transform_role role_of(const stk_transform_ops *ops)
{
    return ops->struct_size >= sizeof *ops ? ops->role : STK_ROLE_ALONE;
}

/* Affines of as many channels as there are, or of one for all. */
static const stk_transform_affine *affine_of(const stk__transform_step *step, stk_dtype from)
{
    const stk_transform_affine *affine = step->ops->affine(step->transform, from);
    const stk_transform_header *in = &step->in;

    if (!affine || affine->count == 1)
        return affine;
    return in->picture && in->shape[in->chw ? 0 : 2] == (int64_t)affine->count ? affine : NULL;
}

/* Put a step that changes values or layout into the pass; false where it does not go in. */
static bool add_values(stk__pass *pass, const stk__transform_step *step)
{
    const stk_transform_role role = role_of(step->ops);

    if (role == STK_ROLE_UNIT)
        return stk__pass_add_unit(pass);
    if (role == STK_ROLE_AFFINE && step->ops->affine) {
        const stk_transform_affine *of_u8 = affine_of(step, STK_UINT8),
                                   *of_f32 = affine_of(step, STK_FLOAT32);
        return of_u8 && of_f32 && stk__pass_add_affine(pass, of_u8, of_f32);
    }
    if (role != STK_ROLE_LAYOUT)
        return false;
    pass->out_chw = step->plan.out.chw;
    return true;
}

/* Frames of one pass share one value for what lies outside. */
static bool add_frame(stk__group *group, const stk__transform_step *step, bool *fills)
{
    stk__frame frame;

    stk__frame_of_plan(&step->plan, &frame);
    if (frame.fills && *fills && frame.fill != group->path.fill)
        return false;
    if (frame.fills) {
        *fills = true;
        group->path.fill = frame.fill;
    }
    group->frames++;
    return true;
}

/* The longest pass from `first` on; at least one step. */
static stk__group fuse_from(const stk__pipeline *pipeline, uint32_t first)
{
    const stk__transform_step *steps = pipeline->steps;
    stk__group group = {.first = first};
    bool fills = false, takes_frames = true;

    if (steps[first].ops == &stk__transform_decode) {
        group.head = group.count = 1;
        if (first + 1 < pipeline->num_steps && stk__step_resamples(&steps[first + 1])) {
            group.head = ++group.count;
            group.draws = steps[first + 1].ops->num_draws > 0;
        }
    }
    const stk_transform_header *in =
        group.head ? &steps[first + group.head - 1].plan.out : &steps[first].in;
    stk__pass_init(&group.pass, stk__kernels_of(pipeline->context), in);
    while (first + group.count < pipeline->num_steps) {
        const stk__transform_step *step = &steps[first + group.count];

        if (role_of(step->ops) == STK_ROLE_FRAME) {
            if (!takes_frames || !add_frame(&group, step, &fills))
                break;
        } else if (add_values(&group.pass, step)) {
            takes_frames = false;
        } else {
            break;
        }
        group.draws |= step->ops->num_draws > 0;
        group.count++;
    }
    group.fused = group.count > 0;
    if (!group.fused) {
        group.count = 1;
        group.draws = steps[first].ops->num_draws > 0;
    }
    return group;
}

/* The path of a pass that draws nothing, for the declared header. */
static void settle_path(const stk__pipeline *pipeline, stk__group *group)
{
    stk__extent extent;

    if (!group->frames || group->head || group->draws || pipeline->varies ||
        stk__picture_extent(&pipeline->steps[group->first].in, "", &extent, NULL) != STK_OK)
        return;
    stk__path_init(&group->path, extent.height, extent.width);
    for (uint32_t i = 0; i < group->frames; i++) {
        stk__frame frame;

        stk__frame_of_plan(&pipeline->steps[group->first + i].plan, &frame);
        stk__path_add(&group->path, &frame);
    }
}

void stk__pipeline_fuse(stk__pipeline *pipeline)
{
    for (uint32_t first = 0; first < pipeline->num_steps;) {
        stk__group *group = &pipeline->groups[pipeline->num_groups++];

        *group = fuse_from(pipeline, first);
        settle_path(pipeline, group);
        first += group->count;
    }
}
