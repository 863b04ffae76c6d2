/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_grayscale: a share `p` of the pictures loses its colours; all three channels become the
 * luma of ITU-R 601-2 as Pillow's convert("L") rounds it. The one word draws whether.
 */
#include "transform/kernels/colour.h"

#define WHO "random_grayscale"

typedef struct grey_options {
    uint32_t struct_size;
    double p;
} grey_options;

static const stk_option option_rows[] = {
    {.name = "p",
     .type = STK_OPTION_DOUBLE,
     .offset = offsetof(grey_options, p),
     .initial = "0.1",
     .min = 0,
     .max = 1,
     .doc = "Share of the samples that become grey; they keep their number of channels."},
};

static const stk_option_table table = {.name = WHO,
                                       .doc = "Make some of the pictures grey",
                                       .struct_size = sizeof(grey_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct grey {
    stk_transform base;
    double p;
} grey;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const grey made = {.p = ((const grey_options *)options)->p};

    return stk__transform_keep(ctx, WHO, &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    stk__extent extent;

    STK_TRY(stk__colour_extent(in, WHO, &extent, err));
    stk__same_plan(in, 0.1, out);
    out->params[0] = draws && stk__unit(draws[0]) < ((const grey *)transform)->p;
    return STK_OK;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    stk__extent extent;

    if (stk__colour_extent(in, WHO, &extent, NULL) != STK_OK)
        return; /* plan() has refused it */
    for (size_t i = 0; i < n; i++)
        if (made->params[0] && extent.channels == 3)
            stk__colour_kernels_of(transform->context)
                ->grey(src[i], dst[i], (size_t)(extent.height * extent.width));
        else
            stk__copy_picture(in, src[i], dst[i]);
}

const stk_transform_ops stk__transform_random_grayscale = {
    .struct_size = sizeof(stk_transform_ops),
    .name = WHO,
    .doc = "a share of the pictures becomes grey, in as many channels",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
    .num_draws = 1,
    .colours = true,
};
