/* SPDX-License-Identifier: Apache-2.0 */
/* A model of layers as a module: steps, state, schedules. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/lines.h"
#include "base/sized.h"
#include "nn/nn.h"
#include "train/model_metrics.h"
#include "train/model_module.h"
#include "train/trainer.h"

typedef stk__model_module model_module;

/* ---- Making ---------------------------------------------------------------------------------- */

static void destroy(stk_module *module)
{
    model_module *self = (model_module *)module;

    stk_optimizer_destroy(&self->optimizer);
    stk_model_destroy(&self->model);
    stk__model_metrics_release(&self->metrics);
    for (size_t i = 0; i < self->num_parts; i++)
        stk__free(self->ctx, self->parts[i].patterns);
    stk__free(self->ctx, self);
}

/* ---- Configuring ----------------------------------------------------------------------------- */

/* Take the weights of the model that there was. */
static stk_status copy_weights(stk_model *from, stk_model *to, stk_context *ctx, stk_error *err)
{
    stk_state_tensor tensor;
    size_t n = 0;

    for (stk_status status; (status = stk_model_get_state(from, n, &tensor, err)) != STK_EOS; n++)
        STK_TRY(status);
    stk_state_tensor *tensors = stk__calloc(ctx, n + 1, sizeof *tensors);
    if (!tensors)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the weights' list");
    stk_status status = STK_OK;
    for (size_t i = 0; i < n && status == STK_OK; i++)
        status = stk_model_get_state(from, i, &tensors[i], err);
    if (status == STK_OK)
        status = stk__model_load(to, tensors, n, true, NULL, err);
    stk__free(ctx, tensors);
    return status;
}

static stk_status load_weights(const model_module *self, stk_model *model, stk_error *err)
{
    size_t taken = 0;

    STK_TRY(stk_model_load_file(self->ctx, model, self->options.weights,
                                self->options.weights_strict, &taken, err));
    if (taken == 0)
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, self->options.weights,
                            STK_NO_OFFSET, "'%s' has no weights for this model",
                            self->options.weights);
    return STK_OK;
}

static bool fits(const model_module *self, const stk_model_options *o)
{
    /* A model lies in the host's memory; another device refuses it, as it is made. */
    return self->model && (!o->device || stk__device_is_host(o->device)) &&
           self->model_options.precision == o->precision &&
           self->model_options.batch_size >= o->batch_size &&
           self->model_options.eval_batch_size >= o->eval_batch_size;
}

static stk_status configure(stk_module *module, const stk_module_setup *setup, stk_error *err)
{
    model_module *self = (model_module *)module;
    stk_model_options o = self->model_options;
    stk_model *model = NULL;

    STK_TRY(stk__model_fields_find(&self->fields, &self->options, setup, err));
    o.precision = stk_precision_of(setup->precision);
    /* Where nothing is trained, one row is room enough for gradients. */
    o.batch_size = setup->training && setup->batch_size ? setup->batch_size : 1;
    o.eval_batch_size = STK_MAX(setup->eval_batch_size, (uint64_t)1);
    if (setup->has_seed)
        o.seed = setup->seed;
    o.device = setup->device;
    self->ready = false;
    self->shards = NULL;
    self->num_shards = 0;
    self->parted = false;
    if (fits(self, &o))
        return STK_OK;
    STK_TRY(stk_model_create(self->builder, &o, &model, err));
    stk_status status = STK_OK;
    if (self->model)
        status = copy_weights(self->model, model, self->ctx, err);
    else if (self->options.weights && *self->options.weights)
        status = load_weights(self, model, err);
    if (status == STK_OK)
        status = stk__module_freeze_parts(self, model, err);
    if (status != STK_OK) {
        stk_model_destroy(&model);
        return status;
    }
    stk_optimizer_destroy(&self->optimizer);
    stk_model_destroy(&self->model);
    self->model = model;
    self->model_options = o;
    return STK_OK;
}

static void apply_schedule(model_module *self)
{
    const uint64_t step = (uint64_t)self->schedule_steps;

    for (size_t g = 0; g < self->scheduled; g++) {
        double lr = stk__schedule_lr(&self->schedule, self->base_lr[g], step);
        if (self->schedule.name == STK_SCHEDULE_PLATEAU)
            lr = stk__plateau_lr(&self->plateau, &self->schedule, lr);
        stk_optimizer_set_lr(self->optimizer, g, lr);
    }
    if (self->schedule.name == STK_SCHEDULE_ONE_CYCLE)
        stk__optimizer_set_momentum(
            self->optimizer, stk__schedule_momentum(&self->schedule, self->base_momentum, step));
}

/* As of a file whose schedule a flag has replaced, or of a name that was forgotten. */
static void warn_of_idle(const model_module *self)
{
    const char *used_by, *option = stk__schedule_idle(&self->asked, &used_by);

    if (option)
        stk__message(self->ctx, STK_MESSAGE_WARNING,
                     "lr_scheduler.%s has no effect: lr_scheduler.name is not %s", option, used_by);
}

static stk_status configure_optimizers(stk_module *module, stk_trainer *t, stk_optimizers *out,
                                       stk_error *err)
{
    static const char *const names[] = {"SGD", "Adam", "AdamW"};
    model_module *self = (model_module *)module;

    if (self->num_groups + STK__MODULE_PARTS >= STK__MODULE_GROUPS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "%d groups of parameters are the most",
                         STK__MODULE_GROUPS - STK__MODULE_PARTS - 1);
    const bool every_step = self->options.interval == 0;
    warn_of_idle(self);
    self->schedule = self->asked;
    stk__schedule_span(&self->schedule,
                       stk__schedule_length(t, every_step, self->options.frequency));
    STK_TRY(stk__schedule_check(&self->schedule, err));
    stk_optimizer_destroy(&self->optimizer);
    STK_TRY(stk__optimizer_create(self->model, &self->optimizer_options, self->groups,
                                  self->num_groups, self->shards, self->num_shards,
                                  &self->optimizer, err));
    self->scheduled = stk_optimizer_num_groups(self->optimizer);
    for (size_t g = 0; g < self->scheduled; g++)
        self->base_lr[g] = stk_optimizer_get_lr(self->optimizer, g);
    self->base_momentum = stk__optimizer_get_momentum(self->optimizer);
    self->schedule_steps = 0;
    stk__plateau_init(&self->plateau);
    apply_schedule(self);
    if (self->num_parts)
        STK_TRY(stk__optimizer_spare(self->optimizer, self->num_parts, err));
    self->ready = true;
    /* Those of a checkpoint learn already. */
    for (size_t i = 0; i < self->num_parts; i++)
        if (self->parts[i].lr >= 0)
            STK_TRY(stk__module_wake(self, i, err));
    STK_TRY(stk__module_check_learns(self, err));
    const bool plateau = self->schedule.name == STK_SCHEDULE_PLATEAU;
    self->scheduler = (stk_lr_scheduler){.every_step = every_step,
                                         .frequency = self->options.frequency,
                                         .reduce_on_plateau = plateau,
                                         .monitor = self->options.monitor,
                                         .strict = true};
    *out = (stk_optimizers){
        .struct_size = sizeof *out,
        .name = names[STK_MIN((size_t)self->optimizer_options.name, STK_COUNT(names) - 1)],
        .num_groups = (uint32_t)stk_optimizer_num_groups(self->optimizer),
        .schedulers = &self->scheduler,
        .num_schedulers =
            self->schedule.name != STK_SCHEDULE_CONSTANT || self->schedule.warmup_steps > 0};
    return STK_OK;
}

static stk_status lr_scheduler_step(stk_module *module, uint32_t which, const double *metric,
                                    stk_error *err)
{
    model_module *self = (model_module *)module;

    self->schedule_steps++;
    if (metric)
        stk__plateau_step(&self->plateau, &self->schedule, *metric);
    apply_schedule(self);
    return STK_OK;
}

static bool get_option(const stk_module *module, uint32_t group, const char *name, double *value)
{
    const model_module *self = (const model_module *)module;

    if (!stk__module_has_group(self, group))
        return false;
    if (strcmp(name, "lr") == 0)
        *value = stk_optimizer_get_lr(self->optimizer, group);
    else if (strcmp(name, "initial_lr") == 0 && group < self->scheduled)
        *value = self->base_lr[group];
    else if (strcmp(name, "momentum") == 0)
        *value = stk__optimizer_get_momentum(self->optimizer);
    else if (strcmp(name, "weight_decay") == 0)
        *value = stk__optimizer_get_weight_decay(self->optimizer, group);
    else
        return false;
    return true;
}

static bool set_option(stk_module *module, uint32_t group, const char *name, double value)
{
    model_module *self = (model_module *)module;

    if (!stk__module_has_group(self, group) || strcmp(name, "lr") != 0)
        return false;
    if (group >= self->scheduled) {
        stk_optimizer_set_lr(self->optimizer, group, value);
        return true;
    }
    self->base_lr[group] = value;
    apply_schedule(self);
    return true;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* `batch` becomes what the model took. */
static stk_status forward(model_module *self, const stk_moment *at, bool training, bool targets,
                          stk_model_batch *batch, stk_model_result *result, stk_error *err)
{
    *batch = (stk_model_batch){.struct_size = sizeof *batch, .step = at->total_batch};
    STK_TRY(stk__model_fields_take(&self->fields, self->model, self->model_options.loss, at->batch,
                                   targets, batch, err));
    return stk_model_forward(self->model, batch, training, result, err);
}

/* What counts of a step is said by the weights of its loss and accuracy. */
static stk_status log_training(model_module *self, stk_trainer *t, const stk_model_result *result,
                               stk_error *err)
{
    STK_TRY(
        stk_trainer_log_scalar(t, "train_loss", &result->loss, STK_ON_STEP | STK_PROG_BAR, 0, err));
    if (!stk__model_metrics_has(&self->metrics, STK__METRIC_ACCURACY))
        return STK_OK;
    return stk_trainer_log_scalar(t, "train_acc", &result->accuracy, STK_ON_EPOCH, 0, err);
}

static stk_status sum(void *trainer, double *values, size_t n, stk_error *err)
{
    return stk_trainer_reduce(trainer, values, n, STK_COMBINE_SUM, err);
}

static stk_status gradient_done(void *trainer, const stk_state_tensor *gradient, stk_error *err)
{
    return stk_trainer_gradient_done(trainer, gradient, err);
}

static stk_status training_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                                stk_loss *loss, stk_error *err)
{
    model_module *self = (model_module *)module;
    stk_model_result result = {
        .struct_size = sizeof result, .loss = {.value = NAN}, .accuracy = {.value = NAN}};
    stk_model_batch batch;

    const bool sync = stk_trainer_get_options(t)->sync_batchnorm;
    loss->together = sync || self->parted;
    stk__model_sync(self->model, sync ? sum : NULL, t);
    stk__model_tell_gradients(self->model, stk__is_alone(t) ? NULL : gradient_done, t);
    stk__model_ask_parameters(self->model, self->parted ? stk__module_wants : NULL, t);
    loss->skip = stk_batch_count(at->batch) == 0;
    if (loss->skip && loss->together)
        STK_TRY(stk__model_idle(self->model, false, err));
    if (loss->skip)
        return log_training(self, t, &result, err);
    STK_TRY(forward(self, at, true, true, &batch, &result, err));
    /* Where no row counts there is nothing to learn: the weight of the loss says so. */
    loss->value = result.loss;
    return log_training(self, t, &result, err);
}

static stk_status evaluate(stk_module *module, stk_trainer *t, const stk_moment *at,
                           const char *loss, const char *accuracy, const char *top_k,
                           stk_error *err)
{
    model_module *self = (model_module *)module;
    stk_model_result result = {.struct_size = sizeof result};
    stk_state_tensor output = {0};
    stk_model_batch batch;
    const bool rows = stk_batch_count(at->batch) > 0;

    /* Without rows it is logged that there are none: another rank may have some. */
    if (rows) {
        STK_TRY(forward(self, at, false, true, &batch, &result, err));
        STK_TRY(stk_model_output(self->model, &output, err));
    }
    STK_TRY(stk_trainer_log_scalar(t, loss, &result.loss, STK_ON_EPOCH | STK_PROG_BAR, 0, err));
    if (stk__model_metrics_has(&self->metrics, STK__METRIC_ACCURACY))
        STK_TRY(stk_trainer_log_scalar(t, accuracy, &result.accuracy, STK_ON_EPOCH | STK_PROG_BAR,
                                       0, err));
    if (self->model_options.top_k > 1)
        STK_TRY(stk_trainer_log_scalar(t, top_k, &result.accuracy_top_k, STK_ON_EPOCH, 0, err));
    return stk__model_metrics_take(&self->metrics, t, at, &batch, rows ? &output : NULL, err);
}

static stk_status validation_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                                  stk_error *err)
{
    return evaluate(module, t, at, "val_loss", "val_acc", "val_acc_topk", err);
}

static stk_status test_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_error *err)
{
    return evaluate(module, t, at, "test_loss", "test_acc", "test_acc_topk", err);
}

/* What log_training() and evaluate() log. */
static const char *logs(const stk_module *module, stk_phase phase, size_t i, uint32_t *flags)
{
    const model_module *self = (const model_module *)module;
    const bool training = phase == STK_PHASE_TRAIN, test = phase == STK_PHASE_TEST;
    const char *names[3];
    size_t n = 0;

    names[n++] = training ? "train_loss" : test ? "test_loss" : "val_loss";
    if (stk__model_metrics_has(&self->metrics, STK__METRIC_ACCURACY))
        names[n++] = training ? "train_acc" : test ? "test_acc" : "val_acc";
    if (!training && self->model_options.top_k > 1)
        names[n++] = test ? "test_acc_topk" : "val_acc_topk";
    *flags = training && i == 0 ? STK_ON_STEP : STK_ON_EPOCH;
    if (i < n)
        return names[i];
    return training ? NULL : stk__model_metrics_name(&self->metrics, test, i - n);
}

static stk_status predict_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                               stk_tensor *prediction, stk_error *err)
{
    model_module *self = (model_module *)module;
    stk_model_result result = {.struct_size = sizeof result};
    const uint64_t count = stk_batch_count(at->batch);
    stk_state_tensor output = {0};
    stk_model_batch batch;

    if (count) {
        STK_TRY(forward(self, at, false, false, &batch, &result, err));
        STK_TRY(stk_model_output(self->model, &output, err));
    }
    prediction->name = "prediction";
    prediction->dtype =
        self->model_options.precision == STK_PRECISION_64_TRUE ? STK_FLOAT64 : STK_FLOAT32;
    prediction->layout = STK_FIXED;
    prediction->rank = self->fields.rank + 1;
    prediction->data = output.data;
    prediction->shape[0] = (int64_t)count;
    memcpy(&prediction->shape[1], self->fields.shape,
           self->fields.rank * sizeof self->fields.shape[0]);
    return STK_OK;
}

static stk_status backward(stk_module *module, const stk_loss *loss, double scale, stk_error *err)
{
    stk_model *model = ((model_module *)module)->model;

    return scale == 0 ? stk__model_idle(model, true, err) : stk_model_backward(model, scale, err);
}

static stk_status optimizer_step(stk_module *module, const stk_moment *at, stk_error *err)
{
    return stk_optimizer_step(((model_module *)module)->optimizer, err);
}

static stk_status optimizer_zero_grad(stk_module *module, const stk_moment *at, stk_error *err)
{
    return stk_model_zero_grad(((model_module *)module)->model, err);
}

static stk_status clip_gradients(stk_module *module, double value, stk_clip algorithm,
                                 stk_error *err)
{
    model_module *self = (model_module *)module;

    return algorithm == STK_CLIP_VALUE ? stk__model_clip_value(self->model, value, err)
                                       : stk__model_clip_norm(self->model, value, err);
}

static void train(stk_module *module, bool mode)
{
    ((model_module *)module)->training = mode;
}

/* ---- State ----------------------------------------------------------------------------------- */

static bool is_statistic(const char *name)
{
    return strstr(name, "running_mean") || strstr(name, "running_var") ||
           strstr(name, "num_batches_tracked");
}

static stk_status visit_weights(model_module *self, uint32_t kinds, stk_state_visit *visit,
                                void *user, stk_error *err)
{
    stk_state_tensor tensor;
    size_t number = 0;

    for (size_t i = 0;; i++) {
        const stk_status status = stk_model_get_state(self->model, i, &tensor, err);
        if (status != STK_OK)
            return status == STK_EOS ? STK_OK : status;
        const stk_state_kind kind = is_statistic(tensor.name)              ? STK_STATE_BUFFER
                                    : stk__model_may_learn(self->model, i) ? STK_STATE_PARAMETER
                                                                           : STK_STATE_FROZEN;
        if (kind == STK_STATE_PARAMETER && self->parted)
            stk__module_cut(self, number, &tensor);
        number += kind == STK_STATE_PARAMETER;
        if (kinds & kind)
            STK_TRY(visit(user, kind, &tensor, err));
    }
}

static stk_status visit_gradients(model_module *self, stk_state_visit *visit, void *user,
                                  stk_error *err)
{
    stk_state_tensor tensor, gradient;

    stk__model_show_gradients(self->model);
    for (size_t i = 0;; i++) {
        stk_status status = stk_model_get_state(self->model, i, &tensor, err);
        if (status != STK_OK)
            return status == STK_EOS ? STK_OK : status;
        status = stk__model_get_gradient(self->model, i, &gradient, err);
        if (status == STK_EOS)
            continue;
        STK_TRY(status);
        gradient.name = tensor.name;
        STK_TRY(visit(user, STK_STATE_GRADIENT, &gradient, err));
    }
}

/* Counts and the scale may have been written. */
static stk_status check_counts(const model_module *self, stk_error *err)
{
    const stk__plateau *p = &self->plateau;

    if (stk__optimizer_is_sound(self->optimizer) && self->schedule_steps >= 0 &&
        self->schedule_steps <= (int64_t)STK__MOST_COUNTED && p->bad <= STK__MOST_COUNTED &&
        p->cooldown <= STK__MOST_COUNTED && isfinite(p->scale) && p->scale >= 0)
        return STK_OK;
    return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                     "the state of the optimizer has a count of steps or a scale of its rate that "
                     "no run comes to");
}

static stk_status visit_optimizer(model_module *self, stk_state_visit *visit, void *user,
                                  stk_error *err)
{
    const stk_state_tensor own[] = {
        {"schedule.steps", STK_INT64, 0, {0}, &self->schedule_steps, sizeof self->schedule_steps},
        {"schedule.best", STK_FLOAT64, 0, {0}, &self->plateau.best, sizeof(double)},
        {"schedule.scale", STK_FLOAT64, 0, {0}, &self->plateau.scale, sizeof(double)},
        {"schedule.bad", STK_UINT64, 0, {0}, &self->plateau.bad, sizeof(uint64_t)},
        {"schedule.cooldown", STK_UINT64, 0, {0}, &self->plateau.cooldown, sizeof(uint64_t)}};
    stk_state_tensor tensor;

    for (size_t i = 0; stk_optimizer_get_state(self->optimizer, i, &tensor); i++)
        STK_TRY(visit(user, STK_STATE_OPTIMIZER, &tensor, err));
    for (size_t i = 0; i < STK_COUNT(own); i++)
        STK_TRY(visit(user, STK_STATE_OPTIMIZER, &own[i], err));
    STK_TRY(check_counts(self, err));
    /* The rates follow. */
    apply_schedule(self);
    return STK_OK;
}

static stk_status state(stk_module *module, uint32_t kinds, stk_state_visit *visit, void *user,
                        stk_error *err)
{
    model_module *self = (model_module *)module;

    if (!self->model)
        return STK_OK;
    STK_TRY(stk__model_need(self->model, kinds & STK_STATE_GRADIENT, err));
    STK_TRY(visit_weights(self, kinds, visit, user, err));
    if ((kinds & STK_STATE_OPTIMIZER) && self->optimizer)
        STK_TRY(visit_optimizer(self, visit, user, err));
    return kinds & STK_STATE_GRADIENT ? visit_gradients(self, visit, user, err) : STK_OK;
}

/* ---- The summary ----------------------------------------------------------------------------- */

static bool layer(const stk_module *module, size_t i, stk_layer *out)
{
    const model_module *self = (const model_module *)module;
    stk_model_layer l = {.struct_size = sizeof l};

    if (!self->model || !stk_model_get_layer(self->model, i, &l))
        return false;
    *out = (stk_layer){.name = l.name,
                       .type = l.kind,
                       .parameters = l.parameters,
                       .trainable = l.trainable,
                       .flops = (double)l.forward_flops,
                       .training = self->training,
                       .depth = 1,
                       .rank = l.rank};
    memcpy(out->shape, l.shape, sizeof out->shape);
    return true;
}

static uint64_t memory(const stk_module *module)
{
    const model_module *self = (const model_module *)module;
    stk_model_plan plan = {.struct_size = sizeof plan};

    if (!self->model)
        return 0;
    stk_model_get_plan(self->model, &plan);
    return plan.peak_bytes + (self->optimizer ? stk__optimizer_bytes(self->optimizer) : 0);
}

static const stk_module_ops ops = {
    .struct_size = sizeof ops,
    .name = "Model",
    .training_step = training_step,
    .backward = backward,
    .optimizer_step = optimizer_step,
    .validation_step = validation_step,
    .test_step = test_step,
    .predict_step = predict_step,
    .state = state,
    .optimizer_zero_grad = optimizer_zero_grad,
    .clip_gradients = clip_gradients,
    .configure_optimizers = configure_optimizers,
    .get_option = get_option,
    .set_option = set_option,
    .lr_scheduler_step = lr_scheduler_step,
    .configure = configure,
    .train = train,
    .layer = layer,
    .memory = memory,
    .destroy = destroy,
    .set_learning = stk__module_set_learning,
    .on_save_checkpoint = stk__module_on_save,
    .on_load_checkpoint = stk__module_on_load,
    .logs = logs,
    .shard = stk__module_shard,
    .whole = stk__module_whole,
};

stk_status stk_model_module_create(stk_context *ctx, const stk_model_parts *given, stk_module **out,
                                   stk_error *err)
{
    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    stk_model_parts known = {0}, *parts = &known;
    STK_TRY(stk__sized_read(&known, sizeof known, given, "stk_model_parts", STK_STAGE_TRAIN, err));
    if (!parts->builder)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "a module needs the layers of a model");
    model_module *self = stk__calloc(ctx, 1, sizeof *self);
    if (!self)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a module");
    self->base.ops = &ops;
    self->ctx = self->metrics.ctx = ctx;
    self->training = true;
    self->builder = parts->builder;
    self->groups = parts->groups;
    self->num_groups = parts->num_groups;
    stk_status status = stk__model_parts_options(
        parts, &self->model_options, &self->optimizer_options, &self->asked, &self->options, err);
    self->fields.rank = stk_model_builder_shape(parts->builder, self->fields.shape);
    if (status == STK_OK)
        status = stk__model_metrics_init(&self->metrics, ctx, self->options.metrics,
                                         &self->model_options, &self->fields, err);
    if (status == STK_OK)
        *out = &self->base;
    else
        destroy(&self->base);
    return status;
}

stk_model *stk_model_module_model(const stk_module *module)
{
    return module->ops == &ops ? ((const model_module *)module)->model : NULL;
}
