/* SPDX-License-Identifier: Apache-2.0 */
/* horizontal_flip, vertical_flip: the sides of a picture change places, for a share `p` of the
 * samples. */
#include "base/random.h"
#include "transform/picture.h"

typedef struct flip_options {
    uint32_t struct_size;
    double p;
} flip_options;

static const stk_option option_rows[] = {
    {.name = "p",
     .type = STK_OPTION_DOUBLE,
     .offset = offsetof(flip_options, p),
     .initial = "0.5",
     .min = 0,
     .max = 1,
     .doc = "Share of the samples that are mirrored."},
};

static const stk_option_table horizontal_table = {.name = "horizontal_flip",
                                                  .doc = "Mirror some of the pictures",
                                                  .struct_size = sizeof(flip_options),
                                                  .options = option_rows,
                                                  .count = STK_COUNT(option_rows)};

static const stk_option_table vertical_table = {.name = "vertical_flip",
                                                .doc = "Turn some of the pictures upside down",
                                                .struct_size = sizeof(flip_options),
                                                .options = option_rows,
                                                .count = STK_COUNT(option_rows)};

typedef struct flip {
    stk_transform base;
    double p;
} flip;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const flip made = {.p = ((const flip_options *)options)->p};

    return stk__transform_keep(ctx, "flip", &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const char *who = transform->ops->name;
    const bool flips = draws && stk__uniform(draws[0]) < ((const flip *)transform)->p;
    const bool rows = transform->ops == &stk__transform_vertical_flip;
    stk__extent extent;

    STK_TRY(stk__picture_extent(in, who, &extent, err));
    const stk__frame frame = {.height = extent.height,
                              .width = extent.width,
                              .flip = flips && !rows,
                              .flip_rows = flips && rows};
    return stk__frame_plan(who, in, &extent, &frame, out, err);
}

const stk_transform_ops stk__transform_horizontal_flip = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_FRAME,
    .name = "horizontal_flip",
    .doc = "left and right change places, for a share of the samples",
    .options = &horizontal_table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = stk__frame_apply,
    .num_draws = 1,
};

const stk_transform_ops stk__transform_vertical_flip = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_FRAME,
    .name = "vertical_flip",
    .doc = "top and bottom change places, for a share of the samples",
    .options = &vertical_table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = stk__frame_apply,
    .num_draws = 1,
};
