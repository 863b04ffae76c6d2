/* A tiny module with float maths, momentum and Philox noise, that records what is asked of it; and
 * what a test of the trainer needs around it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_TINY_H
#define STK_TESTS_UNIT_TRAIN_TINY_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/support.h"
#include "train/trainer.h"

enum { TINY_SIZE = 6, TINY_SAMPLES = 40, TINY_FEATURES = 6 };

typedef struct tiny {
    stk_module base;
    stk_module_ops ops;
    float weight[TINY_SIZE], gradient[TINY_SIZE], velocity[TINY_SIZE];
    float lr, momentum, difference;
    float sample[TINY_SIZE];
    uint64_t seed, drawn; /* `drawn`: the counter of the noise */
    double loss, noise;
    bool training;
    /* What happened. */
    uint64_t train_steps, backwards, optimizer_steps, zero_grads, val_steps, test_steps,
        predict_steps, scheduler_steps;
    double last_scale, last_metric, scales;
    uint64_t nan_at; /* training step (from 1) whose loss is no number; 0: none */
    uint64_t fail_at;
    uint64_t stop_at; /* training step after which the trainer is asked to stop; 0: never */
    uint64_t skip_at;
    uint64_t seen;               /* a hash of the indices trained on, in order */
    double val_value, val_slope; /* logged as val_loss: value + slope x epoch */
    stk_module_setup setup;
    stk_lr_scheduler schedulers[2];
    uint32_t num_schedulers;
} tiny;

static inline stk_status tiny_training_step(stk_module *module, stk_trainer *trainer,
                                            const stk_moment *at, stk_loss *loss, stk_error *err)
{
    tiny *self = (tiny *)module;
    stk_tensor index = {.struct_size = sizeof index};
    uint32_t words[8];
    const uint64_t n = stk_batch_count(at->batch);

    self->train_steps++;
    if (self->fail_at == self->train_steps)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "the step failed on purpose");
    assert_int_equal(stk_batch_find(at->batch, "index", &index), STK_OK);
    memset(self->sample, 0, sizeof self->sample);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t k = ((const uint64_t *)index.data)[i];
        self->seen = self->seen * 1099511628211u + k + 1;
        self->sample[k % TINY_SIZE] += 0.25f + (float)(k % 64) / 64.0f;
    }
    stk__draw(self->seed, 7, self->drawn++, STK_DRAW_DATA, words, 8);
    float sum = 0;
    for (int i = 0; i < TINY_SIZE; i++) {
        self->sample[i] += (float)self->noise * (stk__uniform(words[i]) - 0.5f);
        sum += self->weight[i] * self->sample[i];
    }
    self->difference = sum - (float)n * 0.5f;
    self->loss = 0.5 * (double)self->difference * (double)self->difference;
    if (self->nan_at == self->train_steps)
        self->loss = NAN;
    *loss = (stk_loss){.value = {.value = self->loss}, .skip = self->skip_at == self->train_steps};
    if (self->stop_at == self->train_steps)
        stk_trainer_stop(trainer);
    return stk_trainer_log(trainer, "train_loss", self->loss,
                           STK_ON_STEP | STK_ON_EPOCH | STK_PROG_BAR, 0, err);
}

static inline stk_status tiny_backward(stk_module *module, const stk_loss *loss, double scale,
                                       stk_error *err)
{
    tiny *self = (tiny *)module;

    self->backwards++;
    self->last_scale = scale;
    self->scales += scale;
    for (int i = 0; i < TINY_SIZE; i++)
        self->gradient[i] += (float)scale * self->difference * self->sample[i];
    return STK_OK;
}

static inline stk_status tiny_optimizer_step(stk_module *module, const stk_moment *at,
                                             stk_error *err)
{
    tiny *self = (tiny *)module;

    self->optimizer_steps++;
    for (int i = 0; i < TINY_SIZE; i++) {
        self->velocity[i] = self->momentum * self->velocity[i] + self->gradient[i];
        self->weight[i] -= self->lr * self->velocity[i];
    }
    return STK_OK;
}

static inline stk_status tiny_zero_grad(stk_module *module, const stk_moment *at, stk_error *err)
{
    tiny *self = (tiny *)module;

    self->zero_grads++;
    memset(self->gradient, 0, sizeof self->gradient);
    return STK_OK;
}

static inline stk_status tiny_validation_step(stk_module *module, stk_trainer *trainer,
                                              const stk_moment *at, stk_error *err)
{
    tiny *self = (tiny *)module;

    self->val_steps++;
    return stk_trainer_log(trainer, "val_loss",
                           self->val_value + self->val_slope * (double)at->epoch, STK_PROG_BAR, 0,
                           err);
}

static inline stk_status tiny_test_step(stk_module *module, stk_trainer *trainer,
                                        const stk_moment *at, stk_error *err)
{
    tiny *self = (tiny *)module;

    self->test_steps++;
    return stk_trainer_log(trainer, "test_loss", (double)at->batch_idx, 0, 0, err);
}

static inline stk_status tiny_predict_step(stk_module *module, stk_trainer *trainer,
                                           const stk_moment *at, stk_tensor *prediction,
                                           stk_error *err)
{
    tiny *self = (tiny *)module;

    self->predict_steps++;
    *prediction = (stk_tensor){.name = "weight",
                               .dtype = STK_FLOAT32,
                               .layout = STK_FIXED,
                               .rank = 2,
                               .shape = {2, TINY_SIZE / 2},
                               .data = self->weight};
    return STK_OK;
}

static inline stk_status tiny_state(stk_module *module, uint32_t kinds, stk_state_visit *visit,
                                    void *user, stk_error *err)
{
    tiny *self = (tiny *)module;
    const stk_state_tensor tensors[] = {
        {"layer.weight", STK_FLOAT32, 1, {TINY_SIZE}, self->weight, sizeof self->weight},
        {"layer.weight.momentum",
         STK_FLOAT32,
         1,
         {TINY_SIZE},
         self->velocity,
         sizeof self->velocity},
        {"lr", STK_FLOAT32, 0, {0}, &self->lr, sizeof self->lr},
        {"noise.drawn", STK_UINT64, 0, {0}, &self->drawn, sizeof self->drawn},
        {"layer.weight", STK_FLOAT32, 1, {TINY_SIZE}, self->gradient, sizeof self->gradient}};
    static const stk_state_kind kind[] = {STK_STATE_PARAMETER, STK_STATE_OPTIMIZER,
                                          STK_STATE_OPTIMIZER, STK_STATE_OPTIMIZER,
                                          STK_STATE_GRADIENT};

    for (size_t i = 0; i < STK_COUNT(tensors); i++)
        if (kinds & kind[i])
            STK_TRY(visit(user, kind[i], &tensors[i], err));
    return STK_OK;
}

static inline stk_status tiny_configure_optimizers(stk_module *module, stk_trainer *trainer,
                                                   stk_optimizers *out, stk_error *err)
{
    tiny *self = (tiny *)module;

    out->name = "SGD";
    out->num_groups = 1;
    out->schedulers = self->schedulers;
    out->num_schedulers = self->num_schedulers;
    return STK_OK;
}

static inline stk_status tiny_lr_scheduler_step(stk_module *module, uint32_t scheduler,
                                                const double *metric, stk_error *err)
{
    tiny *self = (tiny *)module;

    self->scheduler_steps++;
    if (metric)
        self->last_metric = *metric;
    self->lr *= 0.875f;
    return STK_OK;
}

static inline bool tiny_get_option(const stk_module *module, uint32_t group, const char *name,
                                   double *value)
{
    const tiny *self = (const tiny *)module;

    *value = strcmp(name, "lr") == 0 ? self->lr : self->momentum;
    return strcmp(name, "weight_decay") != 0;
}

static inline void tiny_train(stk_module *module, bool mode)
{
    ((tiny *)module)->training = mode;
}

static inline stk_status tiny_configure(stk_module *module, const stk_module_setup *setup,
                                        stk_error *err)
{
    ((tiny *)module)->setup = *setup;
    return STK_OK;
}

static inline void tiny_init(tiny *self)
{
    memset(self, 0, sizeof *self);
    self->ops = (stk_module_ops){.struct_size = sizeof self->ops,
                                 .name = "Tiny",
                                 .training_step = tiny_training_step,
                                 .backward = tiny_backward,
                                 .optimizer_step = tiny_optimizer_step,
                                 .optimizer_zero_grad = tiny_zero_grad,
                                 .validation_step = tiny_validation_step,
                                 .test_step = tiny_test_step,
                                 .predict_step = tiny_predict_step,
                                 .state = tiny_state,
                                 .configure_optimizers = tiny_configure_optimizers,
                                 .lr_scheduler_step = tiny_lr_scheduler_step,
                                 .get_option = tiny_get_option,
                                 .configure = tiny_configure,
                                 .train = tiny_train};
    self->base.ops = &self->ops;
    for (int i = 0; i < TINY_SIZE; i++)
        self->weight[i] = 0.1f * (float)(i + 1);
    self->lr = 0.01f;
    self->momentum = 0.5f;
    self->noise = 0.5;
    self->seed = 3;
    self->training = true;
    self->val_value = 1;
}

/* A context, data and options for runs of it. */
typedef struct bench {
    stk_context *ctx;
    stk_dataset *dataset;
    stk_loader_options loader, val_loader;
    stk_loader_source train, val;
    stk_trainer_data data;
    stk_trainer_options options;
    char folder[256];
    stk_error err;
    void (*prepare)(struct bench *bench, stk_trainer *trainer, void *user);
    void *user;
} bench;

/* 10 training batches of 4 samples and 3 of validation, in the caller's thread. */
static inline void bench_open(bench *b)
{
    memset(b, 0, sizeof *b);
    b->ctx = test_context();
    test_folder(b->folder);
    assert_ok(stk_dataset_open(b->ctx, "synthetic:?size=40&shape=2x2x1", &b->dataset, &b->err),
              &b->err);
    stk_loader_options_init(&b->loader);
    b->loader.batch_size = 4;
    b->loader.shuffle = STK_SHUFFLE_FULL;
    b->loader.seed = 5;
    b->loader.num_workers = 0;
    b->loader.memory_budget = 16 << 20;
    b->val_loader = b->loader;
    b->val_loader.shuffle = STK_SHUFFLE_NONE;
    b->val_loader.batch_size = 16;
    b->train = (stk_loader_source){
        .struct_size = sizeof b->train, .dataset = b->dataset, .options = &b->loader};
    b->val = (stk_loader_source){
        .struct_size = sizeof b->val, .dataset = b->dataset, .options = &b->val_loader};
    b->data = (stk_trainer_data){.struct_size = sizeof b->data,
                                 .train = &b->train,
                                 .val = &b->val,
                                 .num_val = 1,
                                 .test = &b->val,
                                 .num_test = 1,
                                 .predict = &b->val,
                                 .num_predict = 1};
    stk_trainer_options_init(&b->options);
    b->options.max_epochs = 1;
    b->options.enable_checkpointing = STK_SWITCH_FALSE;
    b->options.enable_progress_bar = STK_SWITCH_FALSE;
    b->options.enable_model_summary = STK_SWITCH_FALSE;
    b->options.num_sanity_val_steps = 0;
    b->options.logger = "false";
    b->options.default_root_dir = b->folder;
}

static inline void bench_close(bench *b)
{
    stk_dataset_close(&b->dataset);
    stk_context_destroy(&b->ctx);
    test_folder_remove(b->folder);
}

/* Fit a module; the trainer is the caller's. */
static inline stk_status bench_fit(bench *b, tiny *module, const char *ckpt_path,
                                   stk_trainer **trainer)
{
    assert_ok(stk_trainer_create(b->ctx, &b->options, trainer, &b->err), &b->err);
    if (b->prepare)
        b->prepare(b, *trainer, b->user);
    return stk_trainer_fit(*trainer, &module->base, &b->data, ckpt_path, &b->err);
}

/* The same, of which only the module is of interest; it has to go well. */
static inline void bench_train(bench *b, tiny *module)
{
    stk_trainer *trainer;

    tiny_init(module);
    assert_ok(bench_fit(b, module, NULL, &trainer), &b->err);
    stk_trainer_destroy(&trainer);
}

#endif
