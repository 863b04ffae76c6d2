/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_crop: a part of a picture, padded first, from a place drawn uniformly, as torchvision's
 * RandomCrop. The first word draws the row, the second the column; each of the k places has a
 * chance of 1/k to within 2^-32.
 */
#include "transform/operations/arguments.h"
#include "transform/picture.h"

typedef struct crop_options {
    uint32_t struct_size;
    const char *size, *padding;
    double fill;
} crop_options;

static const stk_option option_rows[] = {
    {.name = "size",
     .type = STK_OPTION_STRING,
     .offset = offsetof(crop_options, size),
     .metavar = "SIZE",
     .doc = "Pixels that stay: 32 for a square, or HEIGHTxWIDTH."},
    {.name = "padding",
     .type = STK_OPTION_STRING,
     .offset = offsetof(crop_options, padding),
     .metavar = "PIXELS",
     .doc = "Pixels added at each side first: one number, [left and right, top and bottom], or "
            "[left, top, right, bottom]."},
    {.name = "fill",
     .type = STK_OPTION_DOUBLE,
     .offset = offsetof(crop_options, fill),
     .initial = "0",
     .doc = "Value of the pixels added, in all channels."},
};

static const stk_option_table table = {.name = "random_crop",
                                       .doc = "A part of a picture at a random place",
                                       .struct_size = sizeof(crop_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

enum { DRAW_ROW, DRAW_COLUMN, NUM_DRAWS };

typedef struct crop {
    stk_transform base;
    int64_t height, width;
    stk__padding padding;
    double fill;
} crop;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const crop_options *o = options;
    crop made = {.fill = o->fill};

    STK_TRY(stk__size_read("random_crop", o->size, "32", &made.height, &made.width, err));
    STK_TRY(stk__padding_read("random_crop", o->padding, &made.padding, err));
    return stk__transform_keep(ctx, "random_crop", &made, sizeof made, out, err);
}

/* A number in [0, choices), from one word. */
static int64_t below(uint32_t word, int64_t choices)
{
    return (int64_t)(((uint64_t)word * (uint64_t)choices) >> 32);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const crop *self = (const crop *)transform;
    const stk__padding *p = &self->padding;
    stk__extent extent;
    stk__frame frame = {.top = -p->top,
                        .left = -p->left,
                        .height = self->height,
                        .width = self->width,
                        .fills = stk__padding_any(p)};

    STK_TRY(stk__picture_extent(in, "random_crop", &extent, err));
    STK_TRY(stk__fill_bits(self->fill, in->dtype, "random_crop", &frame.fill, err));
    int64_t height = extent.height == -1 ? self->height : extent.height + p->top + p->bottom;
    int64_t width = extent.width == -1 ? self->width : extent.width + p->left + p->right;
    if (self->height > height || self->width > width)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRANSFORM,
            "random_crop: size %lldx%lld is larger than the picture, %lldx%lld with its padding: "
            "give a smaller size or more padding",
            (long long)self->height, (long long)self->width, (long long)height, (long long)width);
    if (draws) {
        frame.top += below(draws[DRAW_ROW], height - self->height + 1);
        frame.left += below(draws[DRAW_COLUMN], width - self->width + 1);
    }
    extent.height = self->height;
    extent.width = self->width;
    return stk__frame_plan("random_crop", in, &extent, &frame, out, err);
}

const stk_transform_ops stk__transform_random_crop = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_FRAME,
    .name = "random_crop",
    .doc = "a part of a picture, padded first, at a random place",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = stk__frame_apply,
    .num_draws = NUM_DRAWS,
};
