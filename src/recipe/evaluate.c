/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders of validation, test and prediction: transforms without the random ones, and samples that
 * the model takes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/registry.h"
#include "recipe/recipe.h"

/* ---- Transforms ------------------------------------------------------------------------------ */

static bool is_random(const stk_context *context, const char *name, size_t length)
{
    const stk_transform_ops *ops = stk__driver_find(context, STK_DRIVER_TRANSFORM, name, length);

    return ops && ops->num_draws > 0;
}

/* The item of evaluation in the place of a random crop, of the same size; "" for any other. */
static void fixed_crop(const char *item, size_t length, char *out, size_t size)
{
    static const char resized[] = "random_resized_crop", crop[] = "random_crop";
    const bool resizes = strncmp(item, resized, sizeof resized - 1) == 0;
    const char *end = item + length, *side = memchr(item, '(', length);
    int sides = 0;

    *out = 0;
    if (!resizes && strncmp(item, crop, sizeof crop - 1) != 0)
        return;
    if (side)
        side += 1 + strspn(side + 1, " \t");
    if (side && strncmp(side, "size", 4) == 0)
        side += strcspn(side, "0123456789");
    while (side && side + sides < end && strchr("0123456789x", side[sides]))
        sides++;
    if (sides == 0 || sides > 20) {
        side = "224";
        sides = 3;
    }
    if (!resizes || memchr(side, 'x', (size_t)sides)) /* both sides are given */
        snprintf(out, size, "%s(%.*s)", resizes ? "resize" : "center_crop", sides, side);
    else
        snprintf(out, size, "resize(%lu), center_crop(%.*s)", strtoul(side, NULL, 10) * 8 / 7,
                 sides, side);
}

/* The transforms without those that draw; where `fixed`, with fixed crops in the place of random
 * ones. NULL where there is no memory. */
static char *without_random(stk_context *context, const char *transforms, bool fixed)
{
    enum { GROWTH = 80 /* of an item at most, where it is replaced */ };
    const size_t room = strlen(transforms) * GROWTH + 1;
    char *out = stk__calloc(context, 1, room), crop[GROWTH];
    stk__recipe_part part;
    size_t used = 0;

    while (out && stk__recipe_next_part(&transforms, &part)) {
        const char *item = part.text;
        int bytes = (int)part.length;
        if (part.length && is_random(context, item, part.name)) {
            fixed_crop(item, part.length, crop, sizeof crop);
            item = crop;
            bytes = fixed ? (int)strlen(crop) : 0;
        }
        if (bytes)
            used +=
                (size_t)snprintf(out + used, room - used, "%s%.*s", used ? ", " : "", bytes, item);
    }
    return out;
}

/* Where the transforms of evaluation were made by leaving out a random crop, that is what is
 * wrong: say it, and the list to give. Whether it was said. */
static bool advise_eval(const stk__recipe_sets *sets, const char *what, stk_error *err)
{
    const char *of = sets->loader.transforms;

    if (!sets->eval_transforms || !of)
        return false;
    char *list = without_random(sets->context, of, true);
    const bool differs = list && strcmp(list, sets->eval_transforms) != 0;
    if (differs)
        stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "data.eval_transforms", STK_NO_OFFSET,
                     "%s: random transforms are left out there, and with them the crop that gave "
                     "pictures their size: give data.eval_transforms: \"%s\"",
                     what, list);
    stk__free(sets->context, list);
    return differs;
}

stk_status stk__recipe_make_eval(stk__recipe_sets *sets, const stk__recipe_settings *settings,
                                 stk_error *err)
{
    const char *given = settings->data.eval_transforms;

    sets->eval = settings->loader;
    sets->eval.shuffle = STK_SHUFFLE_NONE;
    sets->eval.drop_last = false;
    sets->eval.batch_transforms = NULL;
    if (given) {
        sets->eval.transforms = given;
    } else if (settings->loader.transforms) {
        sets->eval_transforms = without_random(sets->context, settings->loader.transforms, false);
        if (!sets->eval_transforms)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the transforms");
        sets->eval.transforms = sets->eval_transforms;
    }
    return STK_OK;
}

/* ---- What a model takes ---------------------------------------------------------------------- */

/* The field that a model takes from the batches of a dataset; STK_ENOENT without words: none. Its
 * name lives as long as the dataset. */
static stk_status find_field(stk__recipe_sets *sets, stk_dataset *dataset,
                             const stk_loader_options *options,
                             const stk_model_module_options *module, stk_field *out, stk_error *err)
{
    stk_loader_description made = {.struct_size = sizeof made};

    STK_TRY(stk_loader_describe(dataset, options, &made, NULL, 0, err));
    stk_field *fields = stk__calloc(sets->context, made.num_fields, sizeof *fields);
    if (!fields)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the fields");
    fields[0].struct_size = sizeof *fields;
    stk_status status = stk_loader_describe(dataset, options, &made, fields, made.num_fields, err);
    if (status == STK_OK) {
        stk_model_fields at = {.struct_size = sizeof at};
        stk_model_fields_find(fields, made.num_fields, module, &at);
        /* The first dataset that is looked at is that of the training. */
        if (at.target >= 0 && !sets->target)
            sets->target = fields[at.target].name;
        if (at.mask >= 0 && !sets->mask)
            sets->mask = fields[at.mask].name;
        if (at.input >= 0)
            *out = fields[at.input];
        else
            status = STK_ENOENT;
    }
    stk__free(sets->context, fields);
    return status;
}

static bool same_shape(const stk_field *a, const stk_field *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;

    for (uint32_t i = 0; i < a->rank && same; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

/* Where only evaluations are asked for, the model is that of training all the same: it has the
 * shape that the loader's own transforms give. */
static void field_of_training(stk__recipe_sets *sets, stk_dataset *dataset,
                              const stk_model_module_options *module)
{
    stk_error ignored; /* other data may not take them: the evaluation's own are looked at next */
    stk_field field;

    stk_error_init(&ignored);
    if (sets->eval_transforms &&
        find_field(sets, dataset, &sets->loader, module, &field, &ignored) == STK_OK)
        sets->field = field;
}

stk_status stk__recipe_check_field(stk__recipe_sets *sets, stk_dataset *dataset, bool evaluated,
                                   const char *what, const stk_model_module_options *module,
                                   stk_error *err)
{
    const char *input = module->input && *module->input ? module->input : NULL;
    stk_field field;

    stk_status status =
        find_field(sets, dataset, evaluated ? &sets->eval : &sets->loader, module, &field, err);
    if (status == STK_ENOENT && input)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "module.input", STK_NO_OFFSET,
                            "module.input: the batches have no field '%.60s'; 'stoker info' lists "
                            "those of a dataset",
                            input);
    if (status == STK_ENOENT)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "loader.transforms", STK_NO_OFFSET,
                            "the samples of %s have no field of floats for the model: end "
                            "loader.transforms with to_float or normalize(...)",
                            what);
    if (status == STK_EINVAL && evaluated && advise_eval(sets, what, err))
        return STK_EINVAL;
    if (status != STK_OK)
        return status;
    if (!sets->field.name && evaluated)
        field_of_training(sets, dataset, module);
    if (!sets->field.name)
        sets->field = field;
    if (same_shape(&field, &sets->field))
        return STK_OK;
    if (evaluated && advise_eval(sets, what, err))
        return STK_EINVAL;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "data.eval_transforms", STK_NO_OFFSET,
                        "the samples of %s have another shape or type than those before: give "
                        "data.eval_transforms, or data of the same shape",
                        what);
}
