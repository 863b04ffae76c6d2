/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gaussian_blur: a Gaussian of random width over a picture, as torchvision's GaussianBlur of uint8
 * tensors, within 1 level (blur.h says why). torchvision blurs every picture; for a share of them
 * it wants a RandomApply around, where here is the argument `p`.
 *
 * Words: 0 whether, 1 where between its ends sigma lies.
 */
#include "transform/kernels/blur.h"
#include "transform/kernels/colour.h"

#define WHO "gaussian_blur"

typedef struct blur_options {
    uint32_t struct_size;
    const char *kernel_size, *sigma;
    double p;
} blur_options;

static const stk_option option_rows[] = {
    {.name = "kernel_size",
     .type = STK_OPTION_STRING,
     .offset = offsetof(blur_options, kernel_size),
     .metavar = "PIXELS",
     .doc = "Pixels that are mixed into one: an odd number up to 63, or [width, height]. About 6 "
            "sigma + 1 is the whole Gaussian, a tenth of the picture is usual."},
    {.name = "sigma",
     .type = STK_OPTION_STRING,
     .offset = offsetof(blur_options, sigma),
     .initial = "[0.1, 2.0]",
     .metavar = "NUMBERS",
     .doc = "Standard deviation of the Gaussian in pixels: one number, or [low, high] to draw it "
            "between them. Below 0.2 nothing is blurred."},
    {.name = "p",
     .type = STK_OPTION_DOUBLE,
     .offset = offsetof(blur_options, p),
     .initial = "1",
     .min = 0,
     .max = 1,
     .doc = "Share of the samples that are blurred."},
};

static const stk_option_table table = {.name = WHO,
                                       .doc = "A Gaussian blur of random width",
                                       .struct_size = sizeof(blur_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

enum { DRAW_WHETHER, DRAW_SIGMA, NUM_DRAWS };
enum { PARAM_WHETHER, PARAM_SIGMA };

typedef struct blur {
    stk_transform base;
    uint32_t taps[2]; /* along rows, down columns */
    double sigma[2], p;
} blur;

static stk_status read_taps(const char *text, uint32_t taps[2], stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = WHO,
                                  .argument = "kernel_size",
                                  .text = text,
                                  .min = 1,
                                  .max = STK__BLUR_MAX_TAPS,
                                  .whole = true};
    double sizes[2];
    uint32_t count;

    if (!text)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         WHO ": kernel_size is missing: say how many pixels are mixed into one, "
                             "as in gaussian_blur(23)");
    STK_TRY(stk__numbers_read(&numbers, sizes, 2, &count, err));
    for (uint32_t i = 0; i < 2; i++) {
        taps[i] = (uint32_t)sizes[i < count ? i : 0];
        if (taps[i] % 2 == 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             WHO ": kernel_size %u is even: the pixel in the middle needs as many "
                                 "on each side; give %u",
                             taps[i], taps[i] + 1);
    }
    return STK_OK;
}

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const blur_options *o = options;
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = WHO,
                                  .argument = "sigma",
                                  .text = o->sigma ? o->sigma : "[0.1, 2.0]",
                                  .min = 1e-3,
                                  .max = 1e3};
    blur made = {.p = o->p};
    uint32_t count;

    STK_TRY(read_taps(o->kernel_size, made.taps, err));
    STK_TRY(stk__range_read(&numbers, made.sigma, &count, err));
    return stk__transform_keep(ctx, WHO, &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const blur *self = (const blur *)transform;
    const stk__blur x = {.radius = self->taps[0] / 2}, y = {.radius = self->taps[1] / 2};
    stk__extent extent;

    STK_TRY(stk__colour_extent(in, WHO, &extent, err));
    stk__same_plan(in, self->p * (0.3 + 0.04 * (self->taps[0] + self->taps[1])), out);
    if (!stk__header_varies(in) &&
        !stk__blur_scratch(&x, &y, extent.height, extent.width, extent.channels, &out->scratch))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         WHO ": a picture of %lld x %lld is too large", (long long)extent.height,
                         (long long)extent.width);
    if (!draws)
        return STK_OK;
    out->params[PARAM_WHETHER] = stk__unit(draws[DRAW_WHETHER]) < self->p;
    out->params[PARAM_SIGMA] =
        stk__to_param(stk__between(draws[DRAW_SIGMA], self->sigma[0], self->sigma[1]));
    return STK_OK;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    const blur *self = (const blur *)transform;
    const stk__blur_kernels *kernels = stk__blur_kernels_of(transform->context);
    double sigma = stk__of_param(made->params[PARAM_SIGMA]);
    stk__blur x, y;
    stk__extent extent;

    if (stk__colour_extent(in, WHO, &extent, NULL) != STK_OK)
        return; /* plan() has refused it */
    if (made->params[PARAM_WHETHER]) {
        stk__blur_init(&x, self->taps[0], sigma);
        stk__blur_init(&y, self->taps[1], sigma);
    }
    for (size_t i = 0; i < n; i++)
        if (made->params[PARAM_WHETHER])
            stk__blur_apply(kernels, &x, &y, src[i], dst[i], extent.height, extent.width,
                            extent.channels, scratch);
        else
            stk__copy_picture(in, src[i], dst[i]);
}

const stk_transform_ops stk__transform_gaussian_blur = {
    .struct_size = sizeof(stk_transform_ops),
    .name = WHO,
    .doc = "a Gaussian blur of random width",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
    .num_draws = NUM_DRAWS,
    .colours = true,
};
