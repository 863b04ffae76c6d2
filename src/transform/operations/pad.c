/* SPDX-License-Identifier: Apache-2.0 */
/* pad: a border of one value around a picture. */
#include "transform/operations/arguments.h"
#include "transform/picture.h"

typedef struct pad_options {
    uint32_t struct_size;
    const char *padding;
    double fill;
} pad_options;

static const stk_option option_rows[] = {
    {.name = "padding",
     .type = STK_OPTION_STRING,
     .offset = offsetof(pad_options, padding),
     .metavar = "PIXELS",
     .doc = "Pixels added at each side: one number, [left and right, top and bottom], or "
            "[left, top, right, bottom]."},
    {.name = "fill",
     .type = STK_OPTION_DOUBLE,
     .offset = offsetof(pad_options, fill),
     .initial = "0",
     .doc = "Value of the new pixels, in all channels."},
};

static const stk_option_table table = {.name = "pad",
                                       .doc = "A border around a picture",
                                       .struct_size = sizeof(pad_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct pad {
    stk_transform base;
    stk__padding padding;
    double fill;
} pad;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const pad_options *o = options;
    pad made = {.fill = o->fill};

    if (!o->padding)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "pad: padding is missing: say how many pixels, as in pad(4)");
    STK_TRY(stk__padding_read("pad", o->padding, &made.padding, err));
    return stk__transform_keep(ctx, "pad", &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const pad *self = (const pad *)transform;
    const stk__padding *p = &self->padding;
    stk__extent extent;
    uint64_t fill;

    STK_TRY(stk__picture_extent(in, "pad", &extent, err));
    STK_TRY(stk__fill_bits(self->fill, in->dtype, "pad", &fill, err));
    if (extent.height != -1)
        extent.height += p->top + p->bottom;
    if (extent.width != -1)
        extent.width += p->left + p->right;
    const stk__frame frame = {.top = -p->top,
                              .left = -p->left,
                              .height = extent.height,
                              .width = extent.width,
                              .fills = stk__padding_any(p),
                              .fill = fill};
    return stk__frame_plan("pad", in, &extent, &frame, out, err);
}

const stk_transform_ops stk__transform_pad = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_FRAME,
    .name = "pad",
    .doc = "a border of one value around a picture",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = stk__frame_apply,
};
