/* SPDX-License-Identifier: Apache-2.0 */
/* Input, target and mask of a model among the fields of a batch. */
#include "train/model_fields.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"
#include "nn/nn.h"

/* ---- Where they are -------------------------------------------------------------------------- */

static bool find_field(const stk_module_setup *setup, const char *name, uint32_t *out)
{
    for (uint32_t i = 0; i < setup->num_fields; i++)
        if (strcmp(stk_field_at(setup->fields, i)->name, name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

/* What the loss compares with, and the mask of its values where a dataset gives one. */
static void find_target(stk__model_fields *self, const char *given, const stk_module_setup *setup)
{
    static const char *const usual[] = {"label", "target", "mask"};
    uint32_t data;
    char mask[256];

    snprintf(self->wanted, sizeof self->wanted, "%s", given && *given ? given : usual[0]);
    self->has_target = given && *given && find_field(setup, given, &self->target);
    /* Next to "data" a "mask" says which of its values are there. */
    const size_t n = STK_COUNT(usual) - find_field(setup, "data", &data);
    for (size_t i = 0; i < n && !(given && *given) && !self->has_target; i++)
        self->has_target = find_field(setup, usual[i], &self->target);
    self->has_mask = false;
    if (!self->has_target)
        return;
    const char *name = stk_field_at(setup->fields, self->target)->name;
    snprintf(mask, sizeof mask, "%s_mask", name);
    self->has_mask = find_field(setup, strcmp(name, "data") == 0 ? "mask" : mask, &self->mask) &&
                     stk_field_at(setup->fields, self->mask)->dtype == STK_UINT8;
}

stk_status stk__model_fields_find(stk__model_fields *self, const stk_model_module_options *options,
                                  const stk_module_setup *setup, stk_error *err)
{
    const char *input = options->input && *options->input ? options->input : NULL;

    uint32_t mixed;

    /* A loss of one label would learn that of the picture which is under the other. */
    if (setup->training && find_field(setup, "label_mixed", &mixed))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "loader.batch_transforms: pictures that mixup or cutmix makes have two "
                         "labels, and the losses of a model of layers take one; leave it out");
    bool found = input && find_field(setup, input, &self->input);

    find_target(self, options->target, setup);
    /* The first with floats, and what the loss compares with only where there is no other. */
    for (uint32_t i = 0; i < setup->num_fields && !input; i++) {
        const stk_field *f = stk_field_at(setup->fields, i);
        const bool compared = self->has_target && self->input == self->target;
        if ((f->dtype != STK_FLOAT32 && f->dtype != STK_FLOAT64) || (found && !compared))
            continue;
        self->input = i;
        found = true;
    }
    if (found)
        return STK_OK;
    if (input)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "module.input: the batches have no field '%s'", input);
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
    size_t used = (size_t)snprintf(text, 96, "[");

    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] != 1 && used < 96 - 24)
            used += (size_t)snprintf(text + used, 96 - used, "%s%" PRId64, used > 1 ? ", " : "",
                                     shape[i]);
    snprintf(text + used, 96 - used, "]");
    return text;
}

/* A target, and a mask of one, has the sides of what it is compared with; 1s do not count. */
static stk_status check_target(const stk__model_fields *self, int32_t loss,
                               const stk_tensor *target, stk_error *err)
{
    static const char *const losses[] = {"cross_entropy", "mse",      "bce_with_logits", "l1",
                                         "huber",         "smooth_l1"};
    const bool classes = loss == STK_LOSS_CROSS_ENTROPY;
    char wanted[96], has[96];

    sides_text(self->shape + classes, self->rank - classes, wanted);
    sides_text(target->shape + 1, target->rank - 1, has);
    if (target->layout == STK_FIXED && stk__loss_takes(loss, target->dtype) &&
        strcmp(wanted, has) == 0)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the loss %s takes %s of shape %s a row, but the field '%s' (module.target) "
                     "has %s of shape %s%s",
                     losses[loss], classes ? "classes" : "numbers", wanted, target->name,
                     stk_dtype_name(target->dtype), has,
                     classes && self->rank > 1 && strcmp(has, "[]") == 0
                         ? ": end the model with flatten and linear, for one class a row"
                         : "");
}

static stk_status take_target(const stk__model_fields *self, int32_t loss, const stk_batch *batch,
                              stk_model_batch *out, stk_error *err)
{
    stk_tensor target = {.struct_size = sizeof target}, mask = {.struct_size = sizeof mask};

    if (!self->has_target)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the batches have no field '%s' to compare with (module.target)",
                         self->wanted);
    STK_TRY(stk_batch_field(batch, self->target, &target));
    STK_TRY(check_target(self, loss, &target, err));
    out->target = target.data;
    out->target_dtype = target.dtype;
    if (!self->has_mask)
        return STK_OK;
    STK_TRY(stk_batch_field(batch, self->mask, &mask));
    STK_TRY(check_target(self, loss, &mask, err));
    out->target_mask = mask.data;
    return STK_OK;
}

stk_status stk__model_fields_take(const stk__model_fields *self, const stk_model *model,
                                  int32_t loss, const stk_batch *batch, bool targets,
                                  stk_model_batch *out, stk_error *err)
{
    stk_tensor input = {.struct_size = sizeof input};

    STK_TRY(stk_batch_field(batch, self->input, &input));
    STK_TRY(check_input(&input, stk__model_row(model), err));
    out->count = (uint32_t)stk_batch_count(batch);
    out->dtype = input.dtype; /* is the model's to judge */
    out->input = input.data;
    return targets ? take_target(self, loss, batch, out, err) : STK_OK;
}
