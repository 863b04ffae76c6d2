/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize: the whole picture, to HEIGHTxWIDTH or so that its shorter side has one length, as
 * torchvision's Resize: the longer side is int(size * long / short), and `max_size` bounds it.
 */
#include "transform/operations/arguments.h"
#include "transform/operations/resample.h"

typedef struct resize_options {
    uint32_t struct_size;
    const char *size;
    int64_t max_size;
    int32_t interpolation;
} resize_options;

static const stk_option option_rows[] = {
    {.name = "size",
     .type = STK_OPTION_STRING,
     .offset = offsetof(resize_options, size),
     .metavar = "SIZE",
     .doc = "256: length of the shorter side, the shape stays; HEIGHTxWIDTH: both sides."},
    {.name = "max_size",
     .type = STK_OPTION_INT,
     .offset = offsetof(resize_options, max_size),
     .initial = "0",
     .max = STK__MAX_RESIZED,
     .doc = "With one length: most that the longer side may have; 0: no bound."},
    {.name = "interpolation",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(resize_options, interpolation),
     .initial = "bilinear",
     .choices = STK__FILTER_CHOICES,
     .doc = "Filter, antialiased as Pillow's; area is its BOX."},
};

static const stk_option_table table = {.name = "resize",
                                       .doc = "The whole picture in another size",
                                       .struct_size = sizeof(resize_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct resizing {
    stk_transform base;
    bool shorter; /* `height` is the length of the shorter side */
    int64_t height, width, max_size;
    stk__filter filter;
} resizing;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const resize_options *o = options;
    resizing made = {.max_size = o->max_size, .filter = stk__filter_of_choice(o->interpolation)};

    STK_TRY(stk__size_read("resize", o->size, "256", &made.height, &made.width, err));
    made.shorter = !strpbrk(o->size, "x,");
    if (made.height > STK__MAX_RESIZED || made.width > STK__MAX_RESIZED)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         "resize: size \"%s\" is too large: %d is the most", o->size,
                         STK__MAX_RESIZED);
    if (o->max_size && (!made.shorter || o->max_size <= made.height))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "resize: max_size %lld bounds the longer side of a size that is one "
                         "length, and is larger than it; size is \"%s\"",
                         (long long)o->max_size, o->size);
    return stk__transform_keep(ctx, "resize", &made, sizeof made, out, err);
}

void stk__resized_sides(int64_t side, int64_t most, int64_t width, int64_t height,
                        int64_t *out_width, int64_t *out_height)
{
    const int64_t small = STK_MIN(width, height), large = STK_MAX(width, height);
    int64_t short_side = side, long_side = side * large / small;

    if (most && long_side > most) {
        short_side = STK_MAX(most * short_side / long_side, 1);
        long_side = most;
    }
    *out_width = width <= height ? short_side : long_side;
    *out_height = width <= height ? long_side : short_side;
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const resizing *self = (const resizing *)transform;
    stk__extent extent;

    (void)draws;
    STK_TRY(stk__picture_extent(in, "resize", &extent, err));
    if (extent.height == -1 || extent.width == -1) {
        const stk__extent varies = {-1, -1, extent.channels};
        const stk__extent fixed = {self->height, self->width, extent.channels};
        return stk__resample_plan("resize", in, NULL, self->shorter ? &varies : &fixed, out, err);
    }
    stk__resample what = {.width = extent.width,
                          .height = extent.height,
                          .out_width = self->width,
                          .out_height = self->height,
                          .filter = self->filter};
    if (self->shorter)
        stk__resized_sides(self->height, self->max_size, extent.width, extent.height,
                           &what.out_width, &what.out_height);
    return stk__resample_plan("resize", in, &what, NULL, out, err);
}

const stk_transform_ops stk__transform_resize = {
    .struct_size = sizeof(stk_transform_ops),
    .name = "resize",
    .doc = "the whole picture in another size",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = stk__resample_apply,
};
