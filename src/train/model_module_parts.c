/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a model that begin to learn later, each in a group of its own. */
#include "train/model_module.h"

stk_status stk__module_freeze_parts(const stk__model_module *self, stk_model *model, stk_error *err)
{
    for (size_t i = 0; i < self->num_parts; i++)
        STK_TRY(stk__model_set_learning(model, self->parts[i].patterns, false, self->parts[i].norms,
                                        err));
    return STK_OK;
}

stk_status stk__module_check_learns(const stk__model_module *self, stk_error *err)
{
    stk_model_plan plan = {.struct_size = sizeof plan};

    stk_model_get_plan(self->model, &plan);
    if (plan.trainable)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "no parameter of the model learns: %s",
                     !plan.parameters  ? "its layers have none"
                     : self->num_parts ? "all are frozen until a part of them begins to learn "
                                         "(backbone_finetuning); leave out some of its pattern"
                                       : "model.freeze has all; leave out some of its patterns");
}

/* Into the group of its own; `lr` may be that of a checkpoint. */
stk_status stk__module_wake(stk__model_module *self, size_t i, stk_error *err)
{
    const stk__module_part *p = &self->parts[i];

    STK_TRY(stk__model_set_learning(self->model, p->patterns, true, p->norms, err));
    STK_TRY(stk__optimizer_admit(self->optimizer, self->scheduled + i, err));
    stk_optimizer_set_lr(self->optimizer, self->scheduled + i, p->lr);
    return STK_OK;
}

static stk_status find_part(stk__model_module *self, const char *patterns, bool norms,
                            stk__module_part **out, stk_error *err)
{
    for (size_t i = 0; i < self->num_parts; i++)
        if (strcmp(self->parts[i].patterns, patterns) == 0) {
            *out = &self->parts[i];
            return STK_OK;
        }
    if (self->num_parts == STK__MODULE_PARTS || self->ready)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "%d parts of a model learn later at most, and each is known when its "
                         "training begins",
                         STK__MODULE_PARTS);
    *out = &self->parts[self->num_parts];
    **out =
        (stk__module_part){.patterns = stk__strdup(self->ctx, patterns), .norms = norms, .lr = -1};
    if (!(*out)->patterns)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a pattern");
    self->num_parts++;
    return STK_OK;
}

stk_status stk__module_set_learning(stk_module *module, const char *patterns, bool norms, double lr,
                                    stk_error *err)
{
    stk__model_module *self = (stk__model_module *)module;
    stk__module_part *p = NULL;

    /* What is frozen is frozen before a training begins: an optimizer there is is an older one. */
    if (lr < 0)
        self->ready = false;
    STK_TRY(find_part(self, patterns, norms, &p, err));
    const bool learned = p->lr >= 0;
    const size_t i = (size_t)(p - self->parts);
    p->lr = lr;
    p->norms = norms;
    if (!(lr >= 0))
        return self->model ? stk__model_set_learning(self->model, patterns, false, norms, err)
                           : STK_OK;
    if (!self->ready) /* it begins with the optimizer */
        return STK_OK;
    if (!learned)
        return stk__module_wake(self, i, err);
    stk_optimizer_set_lr(self->optimizer, self->scheduled + i, lr);
    return STK_OK;
}

/* Whether a group has parameters that learn. */
bool stk__module_has_group(const stk__model_module *self, uint32_t group)
{
    if (!self->optimizer || group >= stk_optimizer_num_groups(self->optimizer))
        return false;
    return group < self->scheduled || self->parts[group - self->scheduled].lr >= 0;
}
