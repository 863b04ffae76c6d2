/* SPDX-License-Identifier: Apache-2.0 */
/*
 * center_crop: the middle of a picture, as torchvision's CenterCrop: what is too small is padded
 * first, the extra pixel of an odd difference on the right and at the bottom; the place of the crop
 * is rounded, halves to the even number.
 */
#include <math.h>

#include "transform/operations/arguments.h"
#include "transform/picture.h"

typedef struct center_options {
    uint32_t struct_size;
    const char *size;
    double fill;
} center_options;

static const stk_option option_rows[] = {
    {.name = "size",
     .type = STK_OPTION_STRING,
     .offset = offsetof(center_options, size),
     .metavar = "SIZE",
     .doc = "Pixels that stay: 224 for a square, or HEIGHTxWIDTH."},
    {.name = "fill",
     .type = STK_OPTION_DOUBLE,
     .offset = offsetof(center_options, fill),
     .initial = "0",
     .doc = "Value of the pixels added around a picture that is smaller, in all channels."},
};

static const stk_option_table table = {.name = "center_crop",
                                       .doc = "The middle of a picture",
                                       .struct_size = sizeof(center_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct center {
    stk_transform base;
    int64_t height, width;
    double fill;
} center;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const center_options *o = options;
    center made = {.fill = o->fill};

    STK_TRY(stk__size_read("center_crop", o->size, "224", &made.height, &made.width, err));
    return stk__transform_keep(ctx, "center_crop", &made, sizeof made, out, err);
}

/* Where a crop of `want` pixels begins in `have`. */
static int64_t start_of(int64_t have, int64_t want)
{
    if (have == -1)
        return 0;
    return want > have ? -((want - have) / 2) : (int64_t)nearbyint((double)(have - want) / 2.0);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const center *self = (const center *)transform;
    stk__extent extent;

    (void)draws;
    STK_TRY(stk__picture_extent(in, "center_crop", &extent, err));
    stk__frame frame = {.top = start_of(extent.height, self->height),
                        .left = start_of(extent.width, self->width),
                        .height = self->height,
                        .width = self->width,
                        .fills = extent.height == -1 || extent.width == -1 ||
                                 self->height > extent.height || self->width > extent.width};
    STK_TRY(stk__fill_bits(self->fill, in->dtype, "center_crop", &frame.fill, err));
    extent.height = self->height;
    extent.width = self->width;
    return stk__frame_plan("center_crop", in, &extent, &frame, out, err);
}

const stk_transform_ops stk__transform_center_crop = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_FRAME,
    .name = "center_crop",
    .doc = "the middle of a picture; what is smaller is padded",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = stk__frame_apply,
};
