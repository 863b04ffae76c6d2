/* SPDX-License-Identifier: Apache-2.0 */
/* Input, target and mask of a model among the fields of a batch. */
#include "train/model_fields.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/options.h"
#include "base/sized.h"
#include "base/text.h"
#include "nn/nn.h"

/* ---- Where they are -------------------------------------------------------------------------- */

static int64_t find(const stk_field *fields, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(stk_field_at(fields, i)->name, name) == 0)
            return i;
    return -1;
}

static int64_t find_target(const stk_field *fields, uint32_t n, const char *given)
{
    static const char *const usual[] = {"label", "target", "mask"};
    const size_t count = STK_COUNT(usual) - (find(fields, n, "data") >= 0);
    int64_t found = given && *given ? find(fields, n, given) : -1;

    for (size_t i = 0; i < count && !(given && *given) && found < 0; i++)
        found = find(fields, n, usual[i]);
    return found;
}

static bool is_mask_of(const char *name, const char *of)
{
    const size_t length = strlen(of);

    if (strcmp(of, "data") == 0)
        return strcmp(name, "mask") == 0;
    return strncmp(name, of, length) == 0 && strcmp(name + length, "_mask") == 0;
}

static int64_t find_mask(const stk_field *fields, uint32_t n, int64_t target)
{
    for (uint32_t i = 0; i < n && target >= 0; i++) {
        const stk_field *f = stk_field_at(fields, i);
        if (f->dtype == STK_UINT8 &&
            is_mask_of(f->name, stk_field_at(fields, (uint32_t)target)->name))
            return i;
    }
    return -1;
}

static int64_t find_input(const stk_field *fields, uint32_t n, const char *given, int64_t target)
{
    int64_t found = -1;

    if (given && *given)
        return find(fields, n, given);
    for (uint32_t i = 0; i < n; i++) {
        const stk_dtype dtype = stk_field_at(fields, i)->dtype;
        if ((dtype == STK_FLOAT32 || dtype == STK_FLOAT64) && (found < 0 || found == target))
            found = i;
    }
    return found;
}

void stk_model_fields_find(const stk_field *fields, uint32_t n,
                           const stk_model_module_options *options, stk_model_fields *out)
{
    stk_model_module_options known;
    stk_model_fields found = {.struct_size = sizeof found};

    stk_model_module_options_init(&known);
    if (options && stk__sized_read(&known, sizeof known, options, "stk_model_module_options",
                                   STK_STAGE_TRAIN, NULL) != STK_OK)
        stk_model_module_options_init(&known);
    found.target = find_target(fields, n, known.target);
    found.mask = find_mask(fields, n, found.target);
    found.input = find_input(fields, n, known.input, found.target);
    stk__sized_write(out, &found);
}

stk_status stk__model_fields_find(stk__model_fields *self, const stk_model_module_options *options,
                                  const stk_module_setup *setup, stk_error *err)
{
    const char *target = options->target && *options->target ? options->target : "label";

    /* A loss of one label would learn that of the picture which is under the other. */
    if (setup->training && find(setup->fields, setup->num_fields, "label_mixed") >= 0)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "loader.batch_transforms: pictures that mixup or cutmix makes have two "
                         "labels, and the losses of a model of layers take one; leave it out");
    snprintf(self->wanted, sizeof self->wanted, "%s", target);
    self->at.struct_size = sizeof self->at;
    stk_model_fields_find(setup->fields, setup->num_fields, options, &self->at);
    if (self->at.input >= 0)
        return STK_OK;
    if (options->input && *options->input)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "module.input: the batches have no field '%s'", options->input);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "the batches have no field of floats for the model; end the transforms with "
                     "to_float or normalize");
}

/* ---- What they hold -------------------------------------------------------------------------- */

static stk_status check_input(const stk_tensor *t, uint64_t wanted, stk_error *err)
{
    uint64_t elements = 1;

    for (uint32_t i = 1; i < t->rank; i++)
        elements *= (uint64_t)t->shape[i];
    if (t->layout == STK_FIXED && elements == wanted)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the model takes %" PRIu64 " numbers a row, but the field '%s' "
                     "(module.input) has %" PRIu64,
                     wanted, t->name, elements);
}

/* Sides of a row, without those of 1: "[3, 4]". */
static const char *sides_text(const int64_t *shape, uint32_t rank, char text[96])
{
    stk__text out = {.bytes = text, .room = 96};
    int64_t sides[STK_MAX_RANK];
    uint32_t count = 0;

    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] != 1)
            sides[count++] = shape[i];
    stk__text_add_shape(&out, sides, count, false);
    return text;
}

/* A target, and a mask of one, has the sides of what it is compared with; 1s do not count. */
static stk_status check_target(const stk__model_fields *self, int32_t loss,
                               const stk_tensor *target, stk_error *err)
{
    const bool classes = loss == STK_LOSS_CROSS_ENTROPY;
    char wanted[96], has[96];
    const char *name;

    sides_text(self->shape + classes, self->rank - classes, wanted);
    sides_text(target->shape + 1, target->rank - 1, has);
    if (target->layout == STK_FIXED && stk__loss_takes(loss, target->dtype) &&
        strcmp(wanted, has) == 0)
        return STK_OK;
    const stk_option *option = stk_options_find(&stk__model_option_table, "loss");
    const size_t length = stk__option_choice(option->choices, (size_t)loss, &name);
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the loss %.*s takes %s of shape %s a row, but the field '%s' (module.target) "
                     "has %s of shape %s%s",
                     (int)length, name, classes ? "classes" : "numbers", wanted, target->name,
                     stk_dtype_name(target->dtype), has,
                     classes && self->rank > 1 && strcmp(has, "[]") == 0
                         ? ": end the model with flatten and linear, for one class a row"
                         : "");
}

static stk_status take_target(const stk__model_fields *self, int32_t loss, const stk_batch *batch,
                              stk_model_batch *out, stk_error *err)
{
    stk_tensor target = {.struct_size = sizeof target}, mask = {.struct_size = sizeof mask};

    if (self->at.target < 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the batches have no field '%s' to compare with (module.target)",
                         self->wanted);
    STK_TRY(stk_batch_field(batch, (uint32_t)self->at.target, &target));
    STK_TRY(check_target(self, loss, &target, err));
    out->target = target.data;
    out->target_dtype = target.dtype;
    if (self->at.mask < 0)
        return STK_OK;
    STK_TRY(stk_batch_field(batch, (uint32_t)self->at.mask, &mask));
    STK_TRY(check_target(self, loss, &mask, err));
    out->target_mask = mask.data;
    return STK_OK;
}

stk_status stk__model_fields_take(const stk__model_fields *self, const stk_model *model,
                                  int32_t loss, const stk_batch *batch, bool targets,
                                  stk_model_batch *out, stk_error *err)
{
    stk_tensor input = {.struct_size = sizeof input};

    STK_TRY(stk_batch_field(batch, (uint32_t)self->at.input, &input));
    STK_TRY(check_input(&input, stk__model_row(model), err));
    out->count = (uint32_t)stk_batch_count(batch);
    out->dtype = input.dtype; /* is the model's to judge */
    out->input = input.data;
    return targets ? take_target(self, loss, batch, out, err) : STK_OK;
}
