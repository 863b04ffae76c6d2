/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_rotation: a picture turned about its centre by a random angle, counter-clockwise, in the
 * same size, as torchvision's RandomRotation of Pillow's pictures (Image.rotate): bit for bit by
 * nearest pixels, within 1 level by bilinear ones, at the edges too. The bits of the latter differ
 * where the last digit of a sine decides, as at 45 degrees; ours is the same on every machine.
 *
 * The one word draws where between its ends the angle lies. A mask turns by the same angle, its
 * classes taken from the nearest pixel.
 */
#include "transform/kernels/affine.h"
#include "transform/kernels/colour.h"

#define WHO "random_rotation"

typedef struct rotation_options {
    uint32_t struct_size;
    const char *degrees, *fill;
    int32_t interpolation;
    int64_t mask_fill;
} rotation_options;

static const stk_option option_rows[] = {
    {.name = "degrees",
     .type = STK_OPTION_STRING,
     .offset = offsetof(rotation_options, degrees),
     .metavar = "NUMBERS",
     .doc = "How far to turn: 15 draws an angle of -15 to 15 degrees, [0, 90] one of 0 to 90; "
            "positive is counter-clockwise."},
    {.name = "fill",
     .type = STK_OPTION_STRING,
     .offset = offsetof(rotation_options, fill),
     .initial = "0",
     .metavar = "NUMBERS",
     .doc = "Value of the corners that come from outside: one number 0 to 255, or one for each "
            "channel."},
    {.name = "interpolation",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(rotation_options, interpolation),
     .initial = "nearest",
     .choices = "nearest|bilinear",
     .doc = "Where a value lies between pixels: the nearest of them, fast and jagged, or a mean of "
            "four. Masks always take the nearest."},
    {.name = "mask_fill",
     .type = STK_OPTION_INT,
     .offset = offsetof(rotation_options, mask_fill),
     .initial = "0",
     .min = 0,
     .max = 255,
     .doc = "Class of the corners in masks; 255 where the loss ignores that class."},
};

static const stk_option_table table = {.name = WHO,
                                       .doc = "A picture turned by a random angle",
                                       .struct_size = sizeof(rotation_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct rotation {
    stk_transform base;
    double degrees[2];
    stk__between_pixels how;
    uint8_t fill[3], mask_fill;
    uint32_t num_fill;
} rotation;

static stk_status read_degrees(const char *text, double degrees[2], stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = WHO,
                                  .argument = "degrees",
                                  .text = text,
                                  .min = -36000,
                                  .max = 36000};
    uint32_t count;

    if (!text)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         WHO ": degrees is missing: say how far to turn, as in " WHO "(15)");
    STK_TRY(stk__range_read(&numbers, degrees, &count, err));
    if (count == 2)
        return STK_OK;
    if (degrees[0] < 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         WHO ": degrees %g is negative: give how far to turn both ways, or both "
                             "ends [low, high]",
                         degrees[0]);
    degrees[0] = -degrees[1];
    return STK_OK;
}

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const rotation_options *o = options;
    rotation made = {.how = o->interpolation ? STK__BILINEAR : STK__NEAREST,
                     .mask_fill = (uint8_t)o->mask_fill};

    STK_TRY(read_degrees(o->degrees, made.degrees, err));
    STK_TRY(stk__fill_read(WHO, "fill", o->fill, made.fill, &made.num_fill, err));
    return stk__transform_keep(ctx, WHO, &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const rotation *self = (const rotation *)transform;
    stk__extent extent;

    STK_TRY(stk__colour_extent(in, WHO, &extent, err));
    if (!in->mask)
        STK_TRY(stk__fill_check(WHO, self->num_fill, extent.channels, err));
    double per_pixel = self->how == STK__BILINEAR && !in->mask ? 8.0 : 1.3;
    stk__same_plan(in, per_pixel / (double)STK_MAX(extent.channels, 1), out);
    if (draws)
        out->params[0] = stk__to_param(stk__between(draws[0], self->degrees[0], self->degrees[1]));
    return STK_OK;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    const rotation *self = (const rotation *)transform;
    stk__extent extent;

    if (stk__colour_extent(in, WHO, &extent, NULL) != STK_OK)
        return; /* plan() has refused it */
    stk__canvas canvas = stk__canvas_of(in, &extent, self->fill, self->mask_fill);
    canvas.avx2 = stk__cpu_has_avx2(transform->context);
    for (size_t i = 0; i < n; i++)
        stk__rotate(stk__of_param(made->params[0]), in->mask ? STK__NEAREST : self->how, &canvas,
                    src[i], dst[i]);
}

const stk_transform_ops stk__transform_random_rotation = {
    .struct_size = sizeof(stk_transform_ops),
    .name = WHO,
    .doc = "a picture turned about its centre by a random angle",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
    .num_draws = 1,
};
