/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rand_augment: `num_ops` operations drawn from torchvision's RandAugment, one after the other, all
 * at one magnitude; for the same choices the bits that torchvision makes of Pillow pictures with
 * nearest pixels. A mask takes part in the operations that move pixels, and in those alone.
 *
 * Words: for operation i, 2 i which of the 14 and 2 i + 1 its sign.
 */
#include "transform/operations/augment.h"

#define WHO "rand_augment"
/* One param of the plan for each. */
#define MAX_OPS 12

typedef struct augment_options {
    uint32_t struct_size;
    int64_t num_ops, magnitude, num_magnitude_bins;
    const char *fill;
    int64_t mask_fill;
} augment_options;

static const stk_option option_rows[] = {
    {.name = "num_ops",
     .type = STK_OPTION_INT,
     .offset = offsetof(augment_options, num_ops),
     .initial = "2",
     .min = 0,
     .max = MAX_OPS,
     .doc = "Operations for each picture, drawn from: identity, shear and translation both ways, "
            "rotation, brightness, color, contrast, sharpness, posterize, solarize, autocontrast, "
            "equalize."},
    {.name = "magnitude",
     .type = STK_OPTION_INT,
     .offset = offsetof(augment_options, magnitude),
     .initial = "9",
     .min = 0,
     .max = 1e6,
     .doc = "How strong they are, from 0 to num_magnitude_bins - 1: at 9 of 31 a rotation turns by "
            "9 degrees, at 30 by 30."},
    {.name = "num_magnitude_bins",
     .type = STK_OPTION_INT,
     .offset = offsetof(augment_options, num_magnitude_bins),
     .initial = "31",
     .min = 2,
     .max = 1e6,
     .doc = "Number of magnitudes."},
    {.name = "fill",
     .type = STK_OPTION_STRING,
     .offset = offsetof(augment_options, fill),
     .initial = "0",
     .metavar = "NUMBERS",
     .doc = "Value of pixels that come from outside: one number 0 to 255, or one for each "
            "channel."},
    {.name = "mask_fill",
     .type = STK_OPTION_INT,
     .offset = offsetof(augment_options, mask_fill),
     .initial = "0",
     .min = 0,
     .max = 255,
     .doc = "Class of such pixels in masks; 255 where the loss ignores that class."},
};

static const stk_option_table table = {.name = WHO,
                                       .doc = "A few random operations at one magnitude",
                                       .struct_size = sizeof(augment_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct augment {
    stk_transform base;
    int64_t num_ops, magnitude, bins;
    uint8_t fill[3], mask_fill;
    uint32_t num_fill;
} augment;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const augment_options *o = options;
    augment made = {.num_ops = o->num_ops,
                    .magnitude = o->magnitude,
                    .bins = o->num_magnitude_bins,
                    .mask_fill = (uint8_t)o->mask_fill};

    if (made.magnitude >= made.bins)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         WHO ": magnitude %lld is beyond the last of %lld: give 0 to %lld, or a "
                             "larger num_magnitude_bins",
                         (long long)made.magnitude, (long long)made.bins, (long long)made.bins - 1);
    STK_TRY(stk__fill_read(WHO, "fill", o->fill, made.fill, &made.num_fill, err));
    return stk__transform_keep(ctx, WHO, &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const augment *self = (const augment *)transform;
    stk__extent extent;

    STK_TRY(stk__colour_extent(in, WHO, &extent, err));
    if (!in->mask)
        STK_TRY(stk__fill_check(WHO, self->num_fill, extent.channels, err));
    stk__same_plan(in, 0.1 + 0.4 * (double)self->num_ops, out);
    /* The other of the two pictures between which the operations go. */
    if (!stk__header_varies(in) && self->num_ops > 1 && !stk__header_bytes(in, &out->scratch))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         WHO ": a picture of %lld x %lld is too large", (long long)extent.height,
                         (long long)extent.width);
    for (int64_t i = 0; draws && i < self->num_ops; i++) {
        int64_t operation = (int64_t)(((uint64_t)draws[2 * i] * STK__AUGMENT_COUNT) >> 32);

        out->params[i] = operation << 1 | (stk__unit(draws[2 * i + 1]) < 0.5);
    }
    return STK_OK;
}

/* The operations of a plan that this picture takes part in. */
static int64_t chosen(const augment *self, const stk_transform_header *in,
                      const stk_transform_plan *made, int64_t operations[MAX_OPS])
{
    int64_t count = 0;

    for (int64_t i = 0; i < self->num_ops; i++) {
        stk__augment operation = (stk__augment)(made->params[i] >> 1);

        if (in->mask ? stk__augment_warps(operation) : operation != STK__AUGMENT_IDENTITY)
            operations[count++] = made->params[i];
    }
    return count;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    const augment *self = (const augment *)transform;
    int64_t operations[MAX_OPS], count = chosen(self, in, made, operations);
    stk__extent extent;

    if (stk__colour_extent(in, WHO, &extent, NULL) != STK_OK)
        return; /* plan() has refused it */
    stk__canvas canvas = stk__canvas_of(in, &extent, self->fill, self->mask_fill);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = src[i];

        /* To and fro, so that the last writes to its place. */
        for (int64_t k = 0; k < count; k++) {
            uint8_t *to = (count - k) % 2 ? dst[i] : scratch;
            stk__augment operation = (stk__augment)(operations[k] >> 1);

            stk__augment_apply(stk__colour_kernels_of(transform->context), operation,
                               stk__augment_strength(operation, self->magnitude, self->bins,
                                                     extent.height, extent.width,
                                                     operations[k] & 1),
                               &canvas, from, to);
            from = to;
        }
        if (count == 0)
            stk__copy_picture(in, from, dst[i]);
    }
}

const stk_transform_ops stk__transform_rand_augment = {
    .struct_size = sizeof(stk_transform_ops),
    .name = WHO,
    .doc = "a few operations drawn from a list, all at one magnitude",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
    .num_draws = 2 * MAX_OPS,
};
