/* SPDX-License-Identifier: Apache-2.0 */
/* layout: the channels of a picture last (hwc, as stored) or first (chw, as PyTorch wants it). */
#include "transform/pipeline/pass.h"

typedef struct layout_options {
    uint32_t struct_size;
    int32_t order;
} layout_options;

static const stk_option option_rows[] = {
    {.name = "order",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(layout_options, order),
     .initial = "chw",
     .choices = "hwc|chw",
     .doc = "hwc: channels last; chw: channels first."},
};

static const stk_option_table table = {.name = "layout",
                                       .doc = "Order of the dimensions",
                                       .struct_size = sizeof(layout_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

typedef struct layout {
    stk_transform base;
    bool chw;
} layout;

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const layout made = {.chw = ((const layout_options *)options)->order == 1};

    return stk__transform_keep(ctx, "layout", &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    stk__extent extent;
    uint64_t bytes = 0;

    STK_TRY(stk__picture_extent(in, "layout", &extent, err));
    *out = (stk_transform_plan){.out = *in};
    out->out.chw = ((const layout *)transform)->chw;
    stk__picture_set_extent(&out->out, &extent);
    if (stk__header_bytes(in, &bytes))
        out->cost_ns = 20.0 + 0.25 * (double)bytes;
    return STK_OK;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    stk__pass pass;

    stk__pass_init(&pass, stk__kernels_of(transform->context), in);
    pass.out_chw = ((const layout *)transform)->chw;
    stk__pass_apply(&pass, in, NULL, n, src, dst, scratch);
}

const stk_transform_ops stk__transform_layout = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_LAYOUT,
    .name = "layout",
    .doc = "channels first (chw) or last (hwc)",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
};
