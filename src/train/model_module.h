/* the state of a model of layers as a module */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_MODEL_MODULE_H
#define STK_SRC_TRAIN_MODEL_MODULE_H

#include "nn/nn.h"
#include "train/model_metrics.h"
#include "train/train.h"

enum { STK__MODULE_GROUPS = 64, STK__MODULE_PARTS = 16 };

/* Parameters that begin to learn later. */
typedef struct stk__module_part {
    char *patterns;
    bool norms;
    double lr; /* of its group; negative: they do not learn yet */
} stk__module_part;

typedef struct stk__model_module {
    stk_module base;
    stk_context *ctx;
    const stk_model_builder *builder;
    stk_model_options model_options;
    stk_optimizer_options optimizer_options;
    const stk_parameter_group *groups;
    size_t num_groups;
    stk_schedule asked, schedule; /* as given, and with the length that it has in the training */
    stk_model_module_options options;
    stk_model *model;
    stk_optimizer *optimizer;
    stk_lr_scheduler scheduler;
    double base_lr[STK__MODULE_GROUPS], base_momentum;
    stk__module_part parts[STK__MODULE_PARTS];
    size_t num_parts;
    size_t scheduled;        /* groups that the schedule moves; those of the parts follow */
    bool ready;              /* the optimizer is that of this training */
    const stk_shard *shards; /* of each that learns or will, what the optimizer has; NULL: all */
    size_t num_shards;
    bool parted;            /* parameters lie in parts, too */
    int64_t schedule_steps; /* calls of the schedule */
    stk__plateau plateau;
    stk__model_fields fields;
    stk__model_metrics metrics;
    bool training;
} stk__model_module;

/* Parts that learn later (model_module_parts.c): have none of them learn. */
stk_status stk__module_freeze_parts(const stk__model_module *self, stk_model *model,
                                    stk_error *err);
/* Refuse a training in which nothing learns. */
stk_status stk__module_check_learns(const stk__model_module *self, stk_error *err);
/* Have part `i` learn in the group of its own. */
stk_status stk__module_wake(stk__model_module *self, size_t i, stk_error *err);
/* set_learning() of the module. */
stk_status stk__module_set_learning(stk_module *module, const char *patterns, bool norms, double lr,
                                    stk_error *err);
/* Whether a group has parameters that learn. */
bool stk__module_has_group(const stk__model_module *self, uint32_t group);
/* Have the optimizer of this training keep parts (model_module_shards.c). */
stk_status stk__module_shard(stk_module *module, uint32_t kinds, const stk_shard *shards, size_t n,
                             stk_error *err);
bool stk__module_whole(const stk_module *module, stk_state_kind kind, const stk_state_tensor *part,
                       stk_state_tensor *whole, size_t *parameter);
/* Have parameters of a layer brought; of stk__model_ask_parameters(). */
stk_status stk__module_wants(void *trainer, const stk_state_tensor *parameters, size_t n,
                             stk_error *err);
/* A parameter, the `number`th that learns or will, becomes what this rank has of it. */
void stk__module_cut(const stk__model_module *self, size_t number, stk_state_tensor *tensor);
/* What it adds to a checkpoint, and what it says to one that it goes on from (model_settings.c). */
stk_status stk__module_on_save(stk_module *module, stk_trainer *t, const stk_moment *at,
                               stk_error *err);
stk_status stk__module_on_load(stk_module *module, stk_trainer *t, const stk_moment *at,
                               stk_error *err);

#endif
