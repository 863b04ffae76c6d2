/* SPDX-License-Identifier: Apache-2.0 */
/*
 * color_jitter: brightness, contrast, saturation and hue of a picture, each by a factor of its own
 * and in an order of its own, as torchvision's ColorJitter.
 *
 * Brightness, contrast and saturation are those of torchvision for Pillow's pictures
 * (ImageEnhance), bit for bit. The hue is that of torchvision for uint8 tensors, within 1 level:
 * Pillow keeps hues in 8 bits, which costs colours. Pictures of one channel have neither
 * saturation nor hue; those two leave them as they are.
 *
 * Words: 0 the order, one of 24; then for 1 brightness, 2 contrast, 3 saturation, 4 hue where
 * between its ends the factor lies. A word draws the same whether or not others are in use.
 */
#include "transform/kernels/colour.h"

#include <math.h>

#define WHO "color_jitter"
/* Above it every value but 0 is cut to 255. */
#define MAX_FACTOR 1000.0

typedef struct jitter_options {
    uint32_t struct_size;
    const char *brightness, *contrast, *saturation, *hue;
} jitter_options;

static const stk_option option_rows[] = {
    {.name = "brightness",
     .type = STK_OPTION_STRING,
     .offset = offsetof(jitter_options, brightness),
     .initial = "0",
     .metavar = "NUMBERS",
     .doc = "How far values are multiplied: 0.4 draws a factor of 0.6 to 1.4, [0.5, 1.2] one of "
            "0.5 to 1.2; 1 is the picture itself, 0 black."},
    {.name = "contrast",
     .type = STK_OPTION_STRING,
     .offset = offsetof(jitter_options, contrast),
     .initial = "0",
     .metavar = "NUMBERS",
     .doc = "In the same way, how far values are moved away from the mean grey of the picture; 0 "
            "is that grey alone."},
    {.name = "saturation",
     .type = STK_OPTION_STRING,
     .offset = offsetof(jitter_options, saturation),
     .initial = "0",
     .metavar = "NUMBERS",
     .doc = "In the same way, how far each pixel is moved away from its own grey; 0 is a grey "
            "picture."},
    {.name = "hue",
     .type = STK_OPTION_STRING,
     .offset = offsetof(jitter_options, hue),
     .initial = "0",
     .metavar = "NUMBERS",
     .doc = "How far colours turn round the circle: 0.1 draws -0.1 to 0.1 of a full turn; at most "
            "0.5. By far the dearest of the four."},
};

static const stk_option_table table = {.name = WHO,
                                       .doc = "Brightness, contrast, saturation and hue",
                                       .struct_size = sizeof(jitter_options),
                                       .options = option_rows,
                                       .count = STK_COUNT(option_rows)};

/* Nanoseconds for each element. */
static const double step_cost[STK__JITTER_STEPS] = {0.13, 0.19, 0.24, 0.52};

enum { DRAW_ORDER, DRAW_FACTOR, NUM_DRAWS = DRAW_FACTOR + STK__JITTER_STEPS };
enum { PARAM_ORDER, PARAM_ACTIVE, PARAM_FACTOR };

typedef struct jitter {
    stk_transform base;
    bool active[STK__JITTER_STEPS];
    double range[STK__JITTER_STEPS][2];
    double cost; /* nanoseconds for each element */
} jitter;

/* The range of one factor from its argument. */
static stk_status read_factor(const char *name, const char *text, bool is_hue, double range[2],
                              stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = WHO,
                                  .argument = name,
                                  .text = text ? text : "0",
                                  .min = is_hue ? -0.5 : 0.0,
                                  .max = is_hue ? 0.5 : MAX_FACTOR};
    double centre = is_hue ? 0.0 : 1.0, reach;
    uint32_t count;

    STK_TRY(stk__range_read(&numbers, range, &count, err));
    if (count == 2)
        return STK_OK;
    reach = range[0];
    if (reach < 0.0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         WHO ": %s %g is negative: give how far to go, or both ends [low, high]",
                         name, reach);
    range[0] = is_hue ? -reach : STK_MAX(centre - reach, 0.0);
    range[1] = centre + reach;
    return STK_OK;
}

static stk_status create(stk_context *ctx, const void *options, stk_transform **out, stk_error *err)
{
    const jitter_options *o = options;
    const char *const texts[] = {o->brightness, o->contrast, o->saturation, o->hue};
    jitter made = {0};

    for (int i = 0; i < STK__JITTER_STEPS; i++) {
        double centre = i == STK__HUE ? 0.0 : 1.0, *range = made.range[i];

        STK_TRY(read_factor(option_rows[i].name, texts[i], i == STK__HUE, range, err));
        made.active[i] = range[0] != centre || range[1] != centre;
        made.cost += made.active[i] ? step_cost[i] : 0.0;
    }
    return stk__transform_keep(ctx, WHO, &made, sizeof made, out, err);
}

static stk_status plan(const stk_transform *transform, const stk_transform_header *in,
                       const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    const jitter *self = (const jitter *)transform;
    stk__extent extent;

    STK_TRY(stk__colour_extent(in, WHO, &extent, err));
    stk__same_plan(in, self->cost, out);
    if (!draws)
        return STK_OK;
    out->params[PARAM_ORDER] = (int64_t)(((uint64_t)draws[DRAW_ORDER] * 24) >> 32);
    for (int i = 0; i < STK__JITTER_STEPS; i++) {
        double factor = stk__between(draws[DRAW_FACTOR + i], self->range[i][0], self->range[i][1]);

        out->params[PARAM_ACTIVE] |= (int64_t)self->active[i] << i;
        out->params[PARAM_FACTOR + i] = stk__to_param(factor);
    }
    return STK_OK;
}

static void apply(const stk_transform *transform, const stk_transform_header *in,
                  const stk_transform_plan *made, size_t n, const void *const *src,
                  void *const *dst, void *scratch)
{
    stk__jitter chosen;
    stk__extent extent;

    if (stk__colour_extent(in, WHO, &extent, NULL) != STK_OK)
        return; /* plan() has refused it */
    stk__jitter_order((uint32_t)made->params[PARAM_ORDER], chosen.order);
    for (int i = 0; i < STK__JITTER_STEPS; i++) {
        chosen.active[i] = (made->params[PARAM_ACTIVE] >> i) & 1;
        chosen.factor[i] = stk__of_param(made->params[PARAM_FACTOR + i]);
    }
    for (size_t i = 0; i < n; i++)
        stk__jitter_apply(stk__colour_kernels_of(transform->context), &chosen, src[i], dst[i],
                          (size_t)(extent.height * extent.width), (uint32_t)extent.channels);
}

const stk_transform_ops stk__transform_color_jitter = {
    .struct_size = sizeof(stk_transform_ops),
    .name = WHO,
    .doc = "brightness, contrast, saturation and hue, each changed by a random factor",
    .options = &table,
    .create = create,
    .destroy = stk__transform_free,
    .plan = plan,
    .apply = apply,
    .num_draws = NUM_DRAWS,
    .colours = true,
};
