/* SPDX-License-Identifier: Apache-2.0 */
/*
 * normalize: (x / 255 - mean) / std of uint8, (x - mean) / std of float32, for each channel.
 *
 * Computed as x * scale + shift in float32, rounded after each operation, with scale = 1 / (255
 * std) or 1 / std and shift = -mean / std rounded from double. For x / 255 in [0, 1] the result is
 * within 2^-22 (1 + |mean|) / std of the true value, and within 2^-21 (1 + |mean|) / std of
 * torchvision's, which rounds four times [torchvision.transforms.functional: to_tensor, normalize].
 */
#include "transform/kernels/kernels.h"
#include "transform/transform.h"

#include <math.h>

#include "transform/operations/arguments.h"
#include "transform/pipeline/pass.h"

typedef struct normalize_options {
    uint32_t struct_size;
    const char *mean, *std;
    int32_t preset;
} normalize_options;

static const stk_option option_rows[] = {
    {.name = "mean",
     .type = STK_OPTION_STRING,
     .offset = offsetof(normalize_options, mean),
     .metavar = "NUMBERS",
     .doc = "Mean of the values over 255 (of float fields: of the values): one number, a list with "
            "one for "
            "each channel, or the name of a preset."},
    {.name = "std",
     .type = STK_OPTION_STRING,
     .offset = offsetof(normalize_options, std),
     .metavar = "NUMBERS",
     .doc = "Standard deviation, in the same way."},
    {.name = "preset",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(normalize_options, preset),
     .initial = "none",
     .choices = "none|mnist|cifar10|imagenet",
     .doc = "Mean and deviation of a well-known dataset, in place of the two."},
};

static const stk_option_table table = {.name = "normalize",
                                       .doc = "Mean and deviation",
                                       .struct_size = sizeof(normalize_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

/* Of the training pictures, over 255. MNIST and ImageNet as everybody writes them; CIFAR-10 from
 * its 50,000. */
typedef struct preset {
    const char *name;
    uint32_t count;
    double mean[3], std[3];
} preset;

static const preset presets[] = {
    {.name = "none"},
    {"mnist", 1, {0.1307}, {0.3081}},
    {"cifar10", 3, {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
    {"imagenet", 3, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
};

typedef struct normalize {
    stk_transform base;
    stk_transform_affine of_u8, of_f32;
    float *values; /* scale of uint8, scale of float32, shift: STK__LANES * count each */
} normalize;

static void destroy(stk_transform *transform)
{
    normalize *self = (normalize *)transform;

    stk__free(transform->context, self->values);
    stk__free(transform->context, self);
}

/* The preset that the options name, or NULL. */
static stk_status find_preset(const normalize_options *o, const preset **out, stk_error *err)
{
    *out = o->preset ? &presets[o->preset] : NULL;
    for (size_t i = 1; i < STK_COUNT(presets) && !*out && !o->std; i++)
        if (o->mean && strcmp(o->mean, presets[i].name) == 0) {
            *out = &presets[i];
            return STK_OK;
        }
    if (*out && (o->mean || o->std))
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRANSFORM,
            "normalize: preset %s and mean or std exclude each other: give one of them",
            (*out)->name);
    if (!*out && (!o->mean || !o->std))
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRANSFORM,
            "normalize: %s is missing: give mean and std, or a preset: mnist, cifar10 or imagenet",
            o->mean ? "std" : "mean");
    return STK_OK;
}

static stk_status set_channel(normalize *self, uint32_t channel, double mean, double std,
                              stk_error *err)
{
    uint32_t count = self->of_u8.count, length = count * STK__LANES;
    float of_u8 = (float)(1.0 / (255.0 * std)), of_f32 = (float)(1.0 / std),
          shift = (float)(-mean / std);

    if (!isfinite(of_f32) || !isfinite(shift))
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRANSFORM,
            "normalize: mean %g with std %g of channel %u is beyond float32: give std larger", mean,
            std, channel);
    for (uint32_t i = channel; i < length; i += count) {
        self->values[i] = of_u8;
        self->values[length + i] = of_f32;
        self->values[2 * length + i] = shift;
    }
    return STK_OK;
}

static stk_status allocate(normalize *self, uint32_t count, stk_error *err)
{
    size_t length = (size_t)count * STK__LANES;

    self->values = stk__calloc(self->base.context, 3 * length, sizeof *self->values);
    if (!self->values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM,
                         "normalize: no memory for %u channels", count);
    self->of_u8 = (stk_transform_affine){
        .count = count, .scale = self->values, .shift = self->values + 2 * length};
    self->of_f32 = (stk_transform_affine){
        .count = count, .scale = self->values + length, .shift = self->values + 2 * length};
    return STK_OK;
}

static stk_status fill(normalize *self, const normalize_options *o, stk_error *err)
{
    const preset *known;
    stk__numbers means = {.stage = STK_STAGE_TRANSFORM,
                          .who = "normalize",
                          .argument = "mean",
                          .text = o->mean,
                          .min = -1e30,
                          .max = 1e30};
    stk__numbers stds = {.stage = STK_STAGE_TRANSFORM,
                         .who = "normalize",
                         .argument = "std",
                         .text = o->std,
                         .min = 1e-30,
                         .max = 1e30};
    uint32_t num_means, num_stds;
    double mean[STK__MAX_CHANNELS], std[STK__MAX_CHANNELS];

    STK_TRY(find_preset(o, &known, err));
    if (known) {
        STK_TRY(allocate(self, known->count, err));
        for (uint32_t c = 0; c < known->count; c++)
            STK_TRY(set_channel(self, c, known->mean[c], known->std[c], err));
        return STK_OK;
    }
    STK_TRY(stk__numbers_read(&means, mean, STK__MAX_CHANNELS, &num_means, err));
    STK_TRY(stk__numbers_read(&stds, std, STK__MAX_CHANNELS, &num_stds, err));
    if (num_means != num_stds && num_means != 1 && num_stds != 1)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRANSFORM,
            "normalize: mean has %u numbers and std %u: give one for each channel, or one for all",
            num_means, num_stds);
    uint32_t count = STK_MAX(num_means, num_stds);
    STK_TRY(allocate(self, count, err));
    for (uint32_t c = 0; c < count; c++)
        STK_TRY(
            set_channel(self, c, mean[num_means == 1 ? 0 : c], std[num_stds == 1 ? 0 : c], err));
    return STK_OK;
}

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    normalize *self = stk__calloc(ctx, 1, sizeof *self);
    stk_status status;

    *out = NULL;
    if (!self)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM, "normalize: no memory");
    self->base.context = ctx;
    status = fill(self, options, err);
    if (status != STK_OK)
        destroy(&self->base);
    else
        *out = &self->base;
    return status;
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const normalize *self = (const normalize *)transform;
    uint32_t count = self->of_u8.count;
    stk__extent extent = {1, 1, 1};
    uint64_t elements = 0;

    if (in->dtype != STK_UINT8 && in->dtype != STK_FLOAT32)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "normalize: takes uint8 or float32, not %s: put to_float before it",
                         stk_dtype_name(in->dtype));
    if (in->picture)
        STK_TRY(stk__picture_extent(in, "normalize", &extent, err));
    if (count != 1 && extent.channels != -1 && extent.channels != count)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "normalize: has %u channels, the field has %lld: give one number, or one "
                         "for each channel",
                         count, (long long)extent.channels);
    *out = (stk_transform_plan){.out = *in};
    out->out.dtype = STK_FLOAT32;
    if (stk__header_elements(in, &elements))
        out->cost_ns = 20.0 + 0.25 * (double)elements;
    return STK_OK;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    const normalize *self = (const normalize *)transform;
    stk__pass pass;

    stk__pass_init(&pass, stk__kernels_of(transform->context), in);
    if (!stk__pass_add_affine(&pass, &self->of_u8, &self->of_f32))
        return; /* plan() has refused it */
    stk__pass_apply(&pass, in, NULL, n, src, dst, scratch);
}

static const stk_transform_affine *affine(const stk_transform *transform, stk_dtype from)
{
    const normalize *self = (const normalize *)transform;

    return from == STK_UINT8 ? &self->of_u8 : &self->of_f32;
}

const stk_transform_ops stk__transform_normalize = {
    .struct_size = sizeof(stk_transform_ops),
    .role = STK_ROLE_AFFINE,
    .affine = affine,
    .name = "normalize",
    .doc = "float32 with mean 0 and deviation 1, from uint8 or float32",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .plan = plan,
    .apply = apply,
    .colours = true,
};
