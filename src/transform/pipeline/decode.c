/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode: an encoded picture becomes pixels. Always first, and put there by the pipeline where the
 * text does not begin with it. It never runs by itself: the scene it begins decodes what the
 * following transforms want of the picture, and no more.
 */
#include "transform/pipeline/decode.h"

typedef struct decode_options {
    uint32_t struct_size;
    int32_t dct_scaling;
    bool exif_orientation;
    uint64_t max_pixels, max_blocks;
} decode_options;

enum { DCT_AUTO, DCT_OFF };

static const stk_option option_rows[] = {
    {.name = "dct_scaling",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(decode_options, dct_scaling),
     .initial = "auto",
     .choices = "auto|off",
     .doc = "auto: a JPEG whose box is at least twice as large as wanted, both ways, is decoded at "
            "1/2, 1/4 or 1/8, which is faster; over photographs the result is 1 to 2 of 255 levels "
            "from that of a full decode in the mean (8 in the one with most detail, 56 in a single "
            "value), as with Pillow's draft(). off: never."},
    {.name = "exif_orientation",
     .type = STK_OPTION_BOOL,
     .offset = offsetof(decode_options, exif_orientation),
     .initial = "false",
     .doc = "Turn pictures upright as their EXIF orientation says; torchvision does not."},
    STK__IMAGE_LIMIT_OPTIONS(decode_options),
};

static const stk_option_table table = {.name = "decode",
                                       .doc = "From JPEG or PNG to pixels",
                                       .struct_size = sizeof(decode_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const decode_options *o = options;
    stk__decode made = {.dct_scaling = o->dct_scaling == DCT_AUTO, .upright = o->exif_orientation};

    stk__image_limits_init(&made.limits);
    made.limits.max_pixels = o->max_pixels;
    made.limits.max_blocks = o->max_blocks;
    made.limits.max_memory = UINT64_MAX; /* the decoding it runs with has a bound of its own */
    return stk__transform_keep(ctx, "decode", &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    (void)transform;
    (void)draws;
    if (!in->encoded)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "decode: takes encoded pictures, as those of images:, and comes first");
    *out = (stk_transform_plan){.out = *in};
    out->out.encoded = false;
    return STK_OK;
}

/* Only scenes decode. */
static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *plan, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    (void)transform;
    (void)in;
    (void)plan;
    (void)n;
    (void)src;
    (void)dst;
    (void)scratch;
}

const stk_transform_ops stk__transform_decode = {
    .struct_size = sizeof(stk_transform_ops),
    .name = "decode",
    .doc = "from JPEG or PNG to RGB; done first without being named",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
};
