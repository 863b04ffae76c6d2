/* SPDX-License-Identifier: Apache-2.0 */
/*
 * to_float: any real element -> float32. uint8 is divided by 255, correctly rounded, as
 * torchvision's ToTensor does; other integers and floats keep their value, rounded to the nearest
 * float32; float32 passes through.
 */
#include "transform/pipeline/pass.h"

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const stk_transform made = {0};

    return stk__transform_keep(ctx, "to_float", &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    uint64_t elements = 0;

    if (in->dtype <= STK_DTYPE_NONE || in->dtype > STK_FLOAT64)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRANSFORM,
                         "to_float: cannot convert %s: it is not real", stk_dtype_name(in->dtype));
    *out = (stk_transform_plan){.out = *in};
    out->out.dtype = STK_FLOAT32;
    if (stk__header_elements(in, &elements))
        out->cost_ns = 20.0 + 0.5 * (double)elements;
    return STK_OK;
}

/* The bits of a float16 as float32: exact. */
static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff, bits;
    float value;

    if (rest >= 0x7c00) { /* infinite, or no number */
        bits = 0x7f800000 | (rest & 0x3ff) << 13;
    } else if (rest >= 0x400) {
        bits = (rest << 13) + ((127 - 15) << 23);
    } else { /* subnormal: a multiple of 2^-24 */
        value = (float)rest * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float brain_to_float(uint16_t brain)
{
    uint32_t bits = (uint32_t)brain << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The source may lie at any address. */
#define CONVERT(type, expression)                                                                  \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        type x;                                                                                    \
        memcpy(&x, (const char *)src + i * sizeof x, sizeof x);                                    \
        float y = (float)(expression);                                                             \
        memcpy((char *)dst + i * sizeof y, &y, sizeof y);                                          \
    }                                                                                              \
    break

static void convert(stk_dtype dtype, const void *restrict src, void *restrict dst, uint64_t n)
{
    switch (dtype) {
    case STK_BOOL:
        CONVERT(uint8_t, x != 0);
    case STK_INT8:
        CONVERT(int8_t, x);
    case STK_UINT16:
        CONVERT(uint16_t, x);
    case STK_INT16:
        CONVERT(int16_t, x);
    case STK_UINT32:
        CONVERT(uint32_t, x);
    case STK_INT32:
        CONVERT(int32_t, x);
    case STK_UINT64:
        CONVERT(uint64_t, x);
    case STK_INT64:
        CONVERT(int64_t, x);
    case STK_FLOAT16:
        CONVERT(uint16_t, half_to_float(x));
    case STK_BFLOAT16:
        CONVERT(uint16_t, brain_to_float(x));
    case STK_FLOAT64:
        CONVERT(double, x);
    default:
        break; /* plan() lets no other come here */
    }
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    stk__pass pass;
    uint64_t elements;

    if (!stk__header_elements(in, &elements))
        return;
    stk__pass_init(&pass, stk__kernels_of(transform->context), in);
    pass.picture = false; /* each element by itself */
    if (stk__pass_add_unit(&pass))
        stk__pass_apply(&pass, in, NULL, n, src, dst, scratch);
    else
        for (size_t i = 0; i < n; i++)
            convert(in->dtype, src[i], dst[i], elements);
}

const stk_transform_ops stk__transform_to_float = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_UNIT,
    .name = "to_float",
    .doc = "float32: uint8 divided by 255, other numbers as they are",
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
    .colours = true,
};
