/* batch, parameters -> loss, gradients */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_NN_H
#define STK_SRC_NN_NN_H

#include <math.h>

#include <stoker/model.h>

#include "base/base.h"

/* The drivers of layers, NULL-ended (layers.c), and whether a table of others is whole. */
extern const void *const stk__layers[];
extern const stk_option_table stk__model_option_table, stk__optimizer_option_table,
    stk__schedule_option_table;
stk_status stk__layer_kind_check(const void *ops, stk_error *err);

/* A learning rate. */
static inline bool stk__is_rate(double lr)
{
    return isfinite(lr) && lr >= 0;
}

/* What a module asks of a model besides. */
/* Have the memory of a pass; of gradients only where it is asked for: an evaluation has none. */
stk_status stk__model_need(struct stk_model *model, bool gradients, stk_error *err);
/* Whether tensor `i` of its state learns now, or stk__model_set_learning() has it wait. */
bool stk__model_may_learn(const struct stk_model *model, size_t i);
/*
 * Have the parameters of a pattern list learn, or not, between steps: those that do not have no
 * gradients, and batch norms whose running statistics match compute with them and leave them. With
 * `norms` false batch norms stay so for good. What model.freeze has frozen stays so. Those that
 * begin to learn are in no group of an optimizer yet: stk__optimizer_admit().
 *
 * Errors: STK_EINVAL, a pattern that matches nothing; STK_ENOMEM.
 */
stk_status stk__model_set_learning(struct stk_model *model, const char *patterns, bool learns,
                                   bool norms, stk_error *err);
/* Add `n` numbers, in place, over all that train one model together. */
typedef stk_status stk__sum_fn(void *user, double *values, size_t n, stk_error *err);
/* Have batch norms of training passes take their statistics of the batches of all that `sum` adds
 * over, as torch.nn.SyncBatchNorm; NULL: of their own. (norm.c) */
void stk__model_sync(struct stk_model *model, stk__sum_fn *sum, void *user);
/* Asked for parameters that learn or will, those of one layer together, before a training pass
 * reads them: they may lie elsewhere until then. */
typedef stk_status stk__parameters_fn(void *user, const stk_state_tensor *parameters, size_t n,
                                      stk_error *err);
/* NULL: they are there. (run.c) */
void stk__model_ask_parameters(struct stk_model *model, stk__parameters_fn *ask, void *user);
/* The part in a pass that others compute together, or in the backward one, of a process without
 * rows: it adds to their sums, asks for parameters and tells of gradients, which are zero, where
 * they do. */
stk_status stk__model_idle(struct stk_model *model, bool back, stk_error *err);
/* Told of each gradient when a backward pass has done with it, from the last one backwards. */
typedef stk_status stk__gradient_fn(void *user, const stk_state_tensor *gradient, stk_error *err);
/* NULL: nobody is told. (run.c) */
void stk__model_tell_gradients(struct stk_model *model, stk__gradient_fn *done, void *user);
/* Elements of one row of its input. */
uint64_t stk__model_row(const struct stk_model *model);
/* Whether targets of a type are what a loss (stk_loss_kind) compares with. */
bool stk__loss_takes(int32_t loss, stk_dtype dtype);
/* Gradients that the model has given up become zeros, so that they can be read, and what is written
 * into them counts. */
void stk__model_show_gradients(struct stk_model *model);

/* Scale the gradients so that their joint L2 norm is at most `max_norm`, as
 * torch.nn.utils.clip_grad_norm_. */
stk_status stk__model_clip_norm(stk_model *model, double max_norm, stk_error *err);
/* Bring each gradient into [-limit, limit]. */
stk_status stk__model_clip_value(stk_model *model, double limit, stk_error *err);

/* Gradient of that tensor, in the memory of the device; STK_EOS where it has none. */
stk_status stk__model_get_gradient(stk_model *model, size_t i, stk_state_tensor *out,
                                   stk_error *err);

/*
 * Take tensors of the host by name, converting between float types. With `strict` every tensor of
 * the model must be there and no other, but for counts of batches, which old files lack; without
 * it, what fits is taken, and what does not is told in the context's log. *taken (may be NULL)
 * counts.
 *
 * Errors: STK_EMISMATCH naming the first tensors that do not fit, with both shapes; then the model
 * is as before.
 */
stk_status stk__model_load(stk_model *model, const stk_state_tensor *tensors, size_t n, bool strict,
                           size_t *taken, stk_error *err);

/* What it was described by: the text of its layers, and the shape of a sample as "3x224x224". */
#define STK__INPUT_TEXT 64
const char *stk__model_text(const struct stk_model *model, char input[STK__INPUT_TEXT]);

/*
 * Write a description with these weights, all of them and no others, as an ONNX model in float32:
 * the computation of an evaluation, rows of any number [N, ...] (pictures [N, C, H, W]) from
 * "input" to "output", parameters under their names. `write` is called with its bytes in order,
 * once all but the numbers is made. *written counts tensors of the file.
 *
 * Errors: STK_EMISMATCH (other weights), STK_ENOTSUP (a layer of others), STK_ELIMIT (2 GiB),
 * STK_ENOMEM, what `write` gives.
 */
stk_status stk__onnx_write(const stk_model_builder *builder, const stk_state_tensor *tensors,
                           size_t n, stk__write_fn *write, void *user, size_t *written,
                           stk_error *err);

/* Bytes of its moments. */
uint64_t stk__optimizer_bytes(const stk_optimizer *optimizer);

/* stk_optimizer_create() that keeps moments of parts alone, and steps those: of the i'th parameter
 * that learns, or is to begin, shards[i]. With NULL it is of the whole. */
stk_status stk__optimizer_create(stk_model *model, const stk_optimizer_options *options,
                                 const stk_parameter_group *groups, size_t num_groups,
                                 const stk_shard *shards, size_t num_shards, stk_optimizer **out,
                                 stk_error *err);
/* What a tensor of stk_optimizer_get_state() is a part of, without data, and the number of its
 * parameter among those that learn or will; false: it is whole. */
bool stk__optimizer_whole(const stk_optimizer *optimizer, const stk_state_tensor *part,
                          stk_state_tensor *whole, size_t *number);
/* `n` more groups, which have no parameters yet. */
stk_status stk__optimizer_spare(stk_optimizer *optimizer, size_t n, stk_error *err);
/* Have the parameters that learn and are in no group be in group `group`, their moments zero and
 * their steps counted from now on, as add_param_group() of PyTorch. */
stk_status stk__optimizer_admit(stk_optimizer *optimizer, size_t group, stk_error *err);

/* Whether its counts of steps, which stk_optimizer_get_state() lets be written, are some. */
bool stk__optimizer_is_sound(const stk_optimizer *optimizer);

/* Momentum of SGD, beta1 of Adam: what one_cycle moves. */
double stk__optimizer_get_momentum(const stk_optimizer *optimizer);

void stk__optimizer_set_momentum(stk_optimizer *optimizer, double momentum);

/* Of a group of parameters that there is. */
double stk__optimizer_get_weight_decay(const stk_optimizer *optimizer, size_t group);

/* Whether the values make sense together. Errors: STK_EINVAL. */
stk_status stk__schedule_check(const stk_schedule *schedule, stk_error *err);
/* The first option that was set and that the schedule does not look at, and those that do, with '|'
 * between; NULL: none. */
const char *stk__schedule_idle(const stk_schedule *schedule, const char **used_by);

/* Give a schedule without a length of its own that of the training: it takes `length` values
 * (stk__schedule_length()), those of the warm-up included. 0: unknown. */
void stk__schedule_span(stk_schedule *schedule, uint64_t length);

/*
 * Learning rate at step `step` (from 0) of a group whose own is `lr`: PyTorch's value after `step`
 * calls of scheduler.step(). After a warm-up the schedule begins at its own step 0. For
 * STK_SCHEDULE_PLATEAU that is the warm-up alone.
 */
double stk__schedule_lr(const stk_schedule *schedule, double lr, uint64_t step);

/* Momentum of one_cycle between 0.85 and 0.95; `momentum` for all others. */
double stk__schedule_momentum(const stk_schedule *schedule, double momentum, uint64_t step);

/* What reduce-on-plateau remembers; plain memory, kept in checkpoints. */
typedef struct stk__plateau {
    double best;  /* NaN: nothing yet */
    double scale; /* multiply the learning rate by it; at least min_lr */
    uint64_t bad, cooldown;
} stk__plateau;

void stk__plateau_init(stk__plateau *plateau);
/* Tell it a value of the monitored metric. Gives true when `scale` has changed. */
bool stk__plateau_step(stk__plateau *plateau, const stk_schedule *schedule, double metric);
/* The learning rate now of a group whose own is `lr`. */
double stk__plateau_lr(const stk__plateau *plateau, const stk_schedule *schedule, double lr);

#endif
