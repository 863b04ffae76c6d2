/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_erasing: a box of the picture becomes one value or noise, for a share `p` of the samples,
 * by the rule of torchvision's RandomErasing. It takes uint8 pictures, and float32 ones in either
 * layout, since many put it behind normalize, where 0 is the mean.
 *
 * Words: 0 whether; 1 to 20 area and shape of each of the ten tries; 21 the row and 22 the column
 * of the box; 23 and 24 the key of its noise.
 */
#include "transform/kernels/colour.h"
#include "transform/operations/arguments.h"
#include "transform/operations/erase.h"
#include "transform/pipeline/batch.h"

#define WHO "random_erasing"

typedef struct erasing_options {
    uint32_t struct_size;
    double p;
    const char *scale, *ratio, *value;
} erasing_options;

static const stk_option option_rows[] = {
    {.name = "p",
     .type = STK_OPTION_DOUBLE,
     .offset = offsetof(erasing_options, p),
     .initial = "0.5",
     .min = 0,
     .max = 1,
     .doc = "Share of the samples that lose a box."},
    {.name = "scale",
     .type = STK_OPTION_STRING,
     .offset = offsetof(erasing_options, scale),
     .initial = "[0.02, 0.33]",
     .metavar = "NUMBERS",
     .doc = "Area of the box as a share of the picture, drawn between the two."},
    {.name = "ratio",
     .type = STK_OPTION_STRING,
     .offset = offsetof(erasing_options, ratio),
     .initial = "[0.3, 3.3]",
     .metavar = "NUMBERS",
     .doc = "Height of the box over its width, drawn between the two, uniform in the logarithm."},
    {.name = "value",
     .type = STK_OPTION_STRING,
     .offset = offsetof(erasing_options, value),
     .initial = "0",
     .metavar = "NUMBERS",
     .doc = "What the box becomes: one number, a list with one for each channel, or random: noise, "
            "uniform for uint8, normal with deviation 1 for float32."},
};

static const stk_option_table table = {.name = WHO,
                                       .doc = "Erase a random box of some of the pictures",
                                       .struct_size = sizeof(erasing_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

enum { DRAW_WHETHER, DRAW_BOX, DRAW_KEY = DRAW_BOX + STK__ERASE_WORDS, NUM_DRAWS = DRAW_KEY + 2 };
enum { PARAM_ERASES, PARAM_TOP, PARAM_LEFT, PARAM_HEIGHT, PARAM_WIDTH, PARAM_KEY };

/* A list of values; more channels than this take one number. */
#define MAX_VALUES 16

typedef struct erasing {
    stk_transform base;
    double p, scale[2], log_ratio[2];
    uint32_t num_values; /* 0: noise */
    double values[MAX_VALUES];
} erasing;

static stk_status read_range(const char *name, const char *text, double min, double max,
                             double range[2], stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = WHO,
                                  .argument = name,
                                  .text = text,
                                  .min = min,
                                  .max = max};
    uint32_t count;

    return stk__range_read(&numbers, range, &count, err);
}

static stk_status fill(erasing *self, const erasing_options *o, stk_error *err)
{
    const stk__numbers values = {.stage = STK_STAGE_TRANSFORM,
                                 .who = WHO,
                                 .argument = "value",
                                 .text = o->value ? o->value : "0",
                                 .min = -1e30,
                                 .max = 1e30};
    double ratio[2];

    STK_TRY(read_range("scale", o->scale ? o->scale : "[0.02, 0.33]", 0, 1, self->scale, err));
    STK_TRY(read_range("ratio", o->ratio ? o->ratio : "[0.3, 3.3]", 1e-3, 1e3, ratio, err));
    for (int i = 0; i < 2; i++)
        self->log_ratio[i] = stk__ln(ratio[i]);
    self->p = o->p;
    if (o->value && strcmp(o->value, "random") == 0)
        return STK_OK;
    return stk__numbers_read(&values, self->values, MAX_VALUES, &self->num_values, err);
}

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    erasing made = {0};

    STK_TRY(fill(&made, options, err));
    return stk__transform_keep(ctx, WHO, &made, sizeof made, out, err);
}

/* The values as elements of the picture; fails where one is none. */
static stk_status elements_of(const erasing *self, stk_dtype dtype, uint32_t elements[MAX_VALUES],
                              stk_error *err)
{
    for (uint32_t i = 0; i < self->num_values; i++) {
        uint64_t bits;

        STK_TRY(stk__fill_bits(self->values[i], dtype, WHO, &bits, err));
        elements[i] = (uint32_t)bits;
    }
    return STK_OK;
}

static stk_status check(const erasing *self, const stk_transform_header *in, stk__extent *extent,
                        uint32_t elements[MAX_VALUES], stk_error *err)
{
    char text[160];

    STK_TRY(stk__picture_extent(in, WHO, extent, err));
    stk__header_text(in, text, sizeof text);
    if (in->dtype != STK_UINT8 && in->dtype != STK_FLOAT32)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         WHO ": takes uint8 or float32 pictures, not %s: put to_float before it",
                         text);
    if (self->num_values > 1 && extent->channels != -1 && extent->channels != self->num_values)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         WHO ": value has %u numbers, the picture is %s: give one number, or one "
                             "for each channel",
                         self->num_values, text);
    return elements_of(self, in->dtype, elements, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const erasing *self = (const erasing *)transform;
    uint32_t elements[MAX_VALUES];
    stk__extent extent;
    stk__erased_box box;

    STK_TRY(check(self, in, &extent, elements, err));
    stk__same_plan(in, in->dtype == STK_UINT8 ? 0.1 : 0.3, out);
    if (!draws || stk__header_varies(in) || !(stk__unit(draws[DRAW_WHETHER]) < self->p) ||
        !stk__erase_box(extent.height, extent.width, self->scale, self->log_ratio, draws + DRAW_BOX,
                        &box))
        return STK_OK;
    const int64_t params[] = {1,         box.top,         box.left,           box.height,
                              box.width, draws[DRAW_KEY], draws[DRAW_KEY + 1]};
    memcpy(out->params, params, sizeof params);
    return STK_OK;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    const erasing *self = (const erasing *)transform;
    const int64_t *params = made->params;
    const stk__erased_box box = {.top = params[PARAM_TOP],
                                 .left = params[PARAM_LEFT],
                                 .height = params[PARAM_HEIGHT],
                                 .width = params[PARAM_WIDTH]};
    const uint32_t key[] = {(uint32_t)params[PARAM_KEY], (uint32_t)params[PARAM_KEY + 1]};
    uint32_t elements[MAX_VALUES];
    stk__extent extent;

    if (check(self, in, &extent, elements, NULL) != STK_OK)
        return; /* plan() has refused it */
    for (size_t i = 0; i < n; i++) {
        stk__copy_picture(in, src[i], dst[i]);
        if (!params[PARAM_ERASES])
            continue;
        if (self->num_values)
            stk__erase_fill(in, &box, elements, self->num_values, dst[i]);
        else
            stk__erase_noise(in, &box, key, dst[i]);
    }
}

const stk_transform_ops stk__transform_random_erasing = {
    .struct_size = sizeof(stk_transform_ops),
    .name = WHO,
    .doc = "a random box of the picture becomes one value or noise, for a share of the samples",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
    .num_draws = NUM_DRAWS,
    .colours = true,
};
