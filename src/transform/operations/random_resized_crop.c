/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_resized_crop: a box of random area and shape, resized; torchvision's RandomResizedCrop
 * [torchvision.transforms.RandomResizedCrop.get_params]. Ten tries, then the largest box in the
 * middle whose shape is allowed.
 *
 * Area and logarithm of the shape are drawn in float32 as torch draws them (word -> 24 bits,
 * u * (to - from) + from); the rest is in double, as in Python. The exponential is that of double
 * rounded to float, so that it does not depend on which expf() there is.
 *
 * Draws: words 2t and 2t + 1 are area and shape of try t; the last two are row and column.
 */
#include <math.h>

#include "base/random.h"
#include "transform/operations/arguments.h"
#include "transform/operations/resample.h"

#define TRIES 10
enum { DRAW_ROW = 2 * TRIES, DRAW_COLUMN, NUM_DRAWS };

typedef struct rrc_options {
    uint32_t struct_size;
    const char *size, *scale, *ratio;
    int32_t interpolation;
} rrc_options;

static const stk_option option_rows[] = {
    {.name = "size",
     .type = STK_OPTION_STRING,
     .offset = offsetof(rrc_options, size),
     .metavar = "SIZE",
     .doc = "Pixels of the result: 224 for a square, or HEIGHTxWIDTH."},
    {.name = "scale",
     .type = STK_OPTION_STRING,
     .offset = offsetof(rrc_options, scale),
     .initial = "[0.08, 1.0]",
     .metavar = "RANGE",
     .doc = "Smallest and largest share of the picture's area that the box takes."},
    {.name = "ratio",
     .type = STK_OPTION_STRING,
     .offset = offsetof(rrc_options, ratio),
     .initial = "[0.75, 1.3333333333333333]",
     .metavar = "RANGE",
     .doc = "Smallest and largest width / height of the box."},
    {.name = "interpolation",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(rrc_options, interpolation),
     .initial = "bilinear",
     .choices = STK__FILTER_CHOICES,
     .doc = "Filter of the resize, antialiased as Pillow's; area is its BOX."},
};

static const stk_option_table table = {.name = "random_resized_crop",
                                       .doc = "A box of random size, resized",
                                       .struct_size = sizeof(rrc_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct rrc {
    stk_transform base;
    int64_t height, width;
    float scale[2];
    double ratio[2];
    float log_ratio[2];
    stk__filter filter;
} rrc;

/* A range [a, b] of positive numbers. */
static stk_status read_range(const char *argument, const char *text, double max, double out[2],
                             stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = "random_resized_crop",
                                  .argument = argument,
                                  .text = text,
                                  .min = 1e-6,
                                  .max = max};
    uint32_t count;

    STK_TRY(stk__numbers_read(&numbers, out, 2, &count, err));
    if (count == 2 && out[0] <= out[1])
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                     "random_resized_crop: %s \"%s\" is no range: give [smallest, largest]",
                     argument, text);
}

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const rrc_options *o = options;
    rrc made = {.filter = stk__filter_of_choice(o->interpolation)};
    double scale[2];

    STK_TRY(stk__size_read("random_resized_crop", o->size, "224", &made.height, &made.width, err));
    STK_TRY(read_range("scale", o->scale, 1.0, scale, err));
    STK_TRY(read_range("ratio", o->ratio, 1e6, made.ratio, err));
    for (int i = 0; i < 2; i++) {
        made.scale[i] = (float)scale[i];
        made.log_ratio[i] = (float)log((double)(float)made.ratio[i]);
    }
    return stk__transform_keep(ctx, "random_resized_crop", &made, sizeof made, out, err);
}

static float between(uint32_t word, const float range[2])
{
    return stk__uniform(word) * (range[1] - range[0]) + range[0];
}

/* A number in [0, choices), from one word. */
static int64_t below(uint32_t word, int64_t choices)
{
    return (int64_t)(((uint64_t)word * (uint64_t)choices) >> 32);
}

/* Python's round(): halves go to the even integer. */
static int64_t rounded(double x)
{
    return (int64_t)nearbyint(x);
}

static void middle_box(const rrc *self, int64_t width, int64_t height, stk__resample *box)
{
    const double shape = (double)width / (double)height;

    box->width = width;
    box->height = height;
    if (shape < self->ratio[0])
        box->height = rounded((double)width / self->ratio[0]);
    else if (shape > self->ratio[1])
        box->width = rounded((double)height * self->ratio[1]);
    /* A ratio beyond the sides can round to nothing, or past them. */
    box->height = STK_MIN(STK_MAX(box->height, 1), height);
    box->width = STK_MIN(STK_MAX(box->width, 1), width);
    box->top = (height - box->height) / 2;
    box->left = (width - box->width) / 2;
}

static void draw_box(const rrc *self, int64_t width, int64_t height, const uint32_t *draws,
                     stk__resample *box)
{
    const double area = (double)width * (double)height;

    for (int t = 0; t < TRIES; t++) {
        double target = area * (double)between(draws[2 * t], self->scale);
        double shape = (double)(float)exp((double)between(draws[2 * t + 1], self->log_ratio));
        int64_t w = rounded(sqrt(target * shape)), h = rounded(sqrt(target / shape));

        if (w < 1 || w > width || h < 1 || h > height)
            continue;
        box->width = w;
        box->height = h;
        box->top = below(draws[DRAW_ROW], height - h + 1);
        box->left = below(draws[DRAW_COLUMN], width - w + 1);
        return;
    }
    middle_box(self, width, height, box);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const rrc *self = (const rrc *)transform;
    stk__extent extent;

    STK_TRY(stk__picture_extent(in, "random_resized_crop", &extent, err));
    const stk__extent out_extent = {self->height, self->width, extent.channels};
    if (extent.height == -1 || extent.width == -1)
        return stk__resample_plan("random_resized_crop", in, NULL, &out_extent, out, err);
    stk__resample what = {.width = extent.width,
                          .height = extent.height,
                          .out_width = self->width,
                          .out_height = self->height,
                          .filter = self->filter};
    if (draws)
        draw_box(self, extent.width, extent.height, draws, &what);
    return stk__resample_plan("random_resized_crop", in, &what, NULL, out, err);
}

const stk_transform_ops stk__transform_random_resized_crop = {
    .struct_size = sizeof(stk_transform_ops),
    .name = "random_resized_crop",
    .doc = "a box of random area, shape and place, resized to one size",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = stk__resample_apply,
    .num_draws = NUM_DRAWS,
};
