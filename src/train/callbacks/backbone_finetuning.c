/* SPDX-License-Identifier: Apache-2.0 */
/* BackboneFinetuning: a part of the model begins to learn later, at rates of its own. */
#include <inttypes.h>
#include <math.h>

#include "train/callbacks/callback.h"

typedef struct finetuning_options {
    uint32_t struct_size;
    const char *pattern;
    uint64_t unfreeze_backbone_at_epoch;
    double multiplier, backbone_initial_ratio_lr;
    const char *backbone_initial_lr; /* a text, as none is no number */
    bool should_align, train_bn, verbose;
} finetuning_options;

#define FROZEN (-1.0)

typedef struct finetuning {
    stk_callback base;
    finetuning_options options;
    char *pattern;
    double initial; /* NaN: a share of the model's */
    double lr;      /* of the backbone; FROZEN: it does not learn */
    uint64_t epoch; /* that the rate is of */
    char key[200];
} finetuning;

#define AT(member) offsetof(finetuning_options, member)

static const stk_option options[] = {
    {"pattern", STK_OPTION_STRING, AT(pattern), NULL, 0, 0, NULL, "PATTERNS",
     "Names of the backbone's parameters: \"conv1.*, bn1.*, layer*\"; it has to be given."},
    {"unfreeze_backbone_at_epoch", STK_OPTION_UINT, AT(unfreeze_backbone_at_epoch), "10", 0, 1e15,
     NULL, "N", "Epoch, from 0, at which it begins to learn."},
    {"multiplier", STK_OPTION_DOUBLE, AT(multiplier), "2", 0, 1e6, NULL, "X",
     "Its rate is multiplied by this at each later epoch."},
    {"backbone_initial_ratio_lr", STK_OPTION_DOUBLE, AT(backbone_initial_ratio_lr), "0.1", 0, 1e6,
     NULL, "X", "Its first rate, as a share of the model's."},
    {"backbone_initial_lr", STK_OPTION_STRING, AT(backbone_initial_lr), NULL, 0, 0, NULL, "X",
     "Its first rate, in place of the share."},
    {"should_align", STK_OPTION_BOOL, AT(should_align), "true", 0, 0, NULL, NULL,
     "Its rate is the model's from where it would be above that."},
    {"train_bn", STK_OPTION_BOOL, AT(train_bn), "true", 0, 0, NULL, NULL,
     "Its batch norms learn then, too; before, they compute with their running statistics."},
    {"verbose", STK_OPTION_BOOL, AT(verbose), "false", 0, 0, NULL, NULL, "Say the rates."},
};

static const stk_option_table table = {
    .name = "backbone_finetuning",
    .doc = "Freezes a part of the model, which begins to learn later.",
    .struct_size = sizeof(finetuning_options),
    .options = options,
    .count = STK_COUNT(options)};

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, ((finetuning *)callback)->pattern);
    stk__free(callback->context, callback);
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const finetuning_options *o = given;
    double initial;

    if (!o->pattern || !*o->pattern)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "pattern", STK_NO_OFFSET,
                            "backbone_finetuning.pattern: it has to be given, as \"layer*, "
                            "conv1.*, bn1.*\"");
    if (!stk__callback_number(o->backbone_initial_lr, &initial) || initial < 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "backbone_initial_lr",
                            STK_NO_OFFSET,
                            "backbone_finetuning.backbone_initial_lr: it takes a rate, at least 0");
    finetuning *self = stk__callback_new(ctx, &stk__callback_backbone_finetuning, sizeof *self);
    if (!self || !stk__callback_text(ctx, o->pattern, &self->pattern)) {
        stk__free(ctx, self);
        return stk__callback_no_memory("backbone_finetuning", err);
    }
    self->options = *o;
    self->initial = initial;
    self->lr = FROZEN;
    stk__text key = {.bytes = self->key, .room = sizeof self->key};
    stk__text_add(&key, "backbone_finetuning(%s)", o->pattern);
    *out = &self->base;
    return STK_OK;
}

static const char *state_key(const stk_callback *callback)
{
    return ((const finetuning *)callback)->key;
}

static stk_status set(finetuning *self, stk_trainer *t, double lr, stk_error *err)
{
    self->lr = lr;
    return stk_trainer_module_ops(t)->set_learning(stk_trainer_moment(t)->module, self->pattern,
                                                   self->options.train_bn, lr, err);
}

static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    finetuning *self = (finetuning *)callback;

    if (at->task != STK_TASK_FIT)
        return STK_OK;
    if (!stk_trainer_module_ops(t)->set_learning)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "backbone_finetuning: the module cannot freeze its parameters");
    if (stk_trainer_get_options(t)->nan_policy == STK_NAN_REWIND)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "nan_policy", STK_NO_OFFSET,
                            "trainer.nan_policy rewind and the callback backbone_finetuning "
                            "contradict each other: the state that it goes back to may be one of "
                            "fewer parameters that learn; use skip");
    return set(self, t, FROZEN, err);
}

/* The model's rate; a module that says none is asked for a rate of the backbone's own. */
static stk_status model_rate(stk_trainer *t, double *lr, stk_error *err)
{
    const stk_module_ops *ops = stk_trainer_module_ops(t);

    if (ops->get_option && ops->get_option(stk_trainer_moment(t)->module, 0, "lr", lr))
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "backbone_finetuning: the module does not say its learning rate");
}

static stk_status on_train_epoch_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    finetuning *self = (finetuning *)callback;
    const finetuning_options *o = &self->options;
    double model, lr;

    if (at->epoch < o->unfreeze_backbone_at_epoch ||
        (self->lr != FROZEN && at->epoch <= self->epoch))
        return STK_OK;
    STK_TRY(model_rate(t, &model, err));
    if (self->lr == FROZEN) {
        lr = isnan(self->initial) ? model * o->backbone_initial_ratio_lr : self->initial;
    } else {
        lr = o->multiplier * self->lr;
        if (o->should_align && lr > model)
            lr = model;
    }
    self->epoch = at->epoch;
    if (o->verbose)
        stk__callback_say(t, "Current lr: %.12g, Backbone lr: %.12g", model, lr);
    return set(self, t, lr, err);
}

static stk_status state_dict(stk_callback *callback, stk_saver *to, stk_error *err)
{
    const finetuning *self = (const finetuning *)callback;
    stk__text text = {.ctx = callback->context};

    stk__text_add(&text, "epoch %" PRIu64 "\n", self->epoch);
    stk__text_add_double(&text, "lr", self->lr);
    return stk__callback_save_text(to, &text, err);
}

/* Before the optimizer is made, which then has the state of what learns. */
static stk_status on_load_checkpoint(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    finetuning *self = (finetuning *)callback;
    const char *text = stk_restorer_text(at->restorer, "state");
    double lr = FROZEN;
    const stk__line lines[] = {
        {"epoch", STK__LINE_UINT, .to = &self->epoch},
        {"lr", STK__LINE_DOUBLE, .to = &lr},
    };

    if (!text || at->task != STK_TASK_FIT)
        return STK_OK;
    STK_TRY(stk__lines_read(callback->context, "the state of backbone_finetuning", text, lines,
                            STK_COUNT(lines), err));
    if (lr == FROZEN) /* as setup has it */
        return STK_OK;
    if (!isfinite(lr) || lr < 0)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "the state of backbone_finetuning has a rate that is none");
    return set(self, t, lr, err);
}

const stk_callback_ops stk__callback_backbone_finetuning = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "backbone_finetuning",
    .doc = "freezes a part of the model, which begins to learn later",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .state_key = state_key,
    .state_dict = state_dict,
    .setup = setup,
    .on_train_epoch_start = on_train_epoch_start,
    .on_load_checkpoint = on_load_checkpoint,
    .roles = STK_ROLE_NO_METRICS,
};
