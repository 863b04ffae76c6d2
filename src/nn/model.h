/* a plan, weights -> passes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_MODEL_H
#define STK_SRC_NN_MODEL_H

#include "device/device.h"
#include "nn/nn.h"
#include "nn/parallel.h"
#include "nn/plan.h"

#define STK__MAX_PLANS 6

typedef struct stk__dnnl stk__dnnl; /* engine and stream (dnnl.c) */

/* What a forward pass comes to. */
typedef struct stk__step_numbers {
    double loss, count, accuracy, accuracy_top_k;
} stk__step_numbers;

struct stk_model {
    stk__graph graph;
    stk_model_options options;
    const stk_backend *backend;
    const struct stk__nn_kernels *kernels;
    bool bf16; /* inputs and outputs of products are rounded to bfloat16 */
    bool bf16_native;
    uint32_t threads;       /* of the pass at hand */
    uint32_t threads_of[2]; /* of evaluation, of training */
    stk__dnnl *dnnl;
    void *weights, *gradients, *arena;
    uint64_t weight_bytes, gradient_bytes, arena_bytes;
    bool has_gradients; /* the next backward pass adds */
    stk__plan *plans[STK__MAX_PLANS];
    uint64_t clock; /* of the plans' use */
    stk_model_plan summary;
    /* The last forward pass. */
    stk__plan *current;
    stk_model_batch batch;
    bool awaits_backward;
    stk__step_numbers numbers; /* of the last forward pass with a loss */
    stk_model_probe_fn *probe;
    void *probe_user;
    stk__sum_fn *sum; /* over those that train together; NULL: statistics are of the own batch */
    void *sum_user;
    stk__gradient_fn *done; /* of gradients; NULL: nobody waits for them one by one */
    void *done_user;
    stk__parameters_fn *ask; /* for parameters; NULL: they are there */
    void *ask_user;
};

/* Memory of a buffer of the plan that runs. Nobody writes to the caller's input. */
static inline void *stk__at(const stk__plan *plan, uint32_t buffer)
{
    if (buffer == STK__EXTERNAL)
        return (void *)(uintptr_t)plan->model->batch.input;
    return buffer == STK__NO_BUFFER ? NULL
                                    : (char *)plan->model->arena + plan->buffers[buffer].offset;
}

/* A node's parameter of a role; NULL when it has none. */
const stk__param *stk__param_of(const struct stk_model *model, const stk__node *node,
                                stk__role role);
/* Its memory. */
void *stk__weight(const struct stk_model *model, const stk__node *node, stk__role role);
/* The same of its gradient; NULL also when it does not learn. */
void *stk__gradient(const struct stk_model *model, const stk__node *node, stk__role role);
/* Whether a node's parameter learns. */
bool stk__learns(const struct stk_model *model, const stk__node *node, stk__role role);
/* Type of its elements. */
stk_dtype stk__param_dtype(const struct stk_model *model, const stk__param *param);
/* The tensor of a parameter's shape at `data`. */
void stk__param_tensor(const struct stk_model *model, const stk__param *param, void *data,
                       stk_state_tensor *out);
/* Multiply `n` elements of the model's type (elements.c). */
void stk__scale(const struct stk_model *model, void *x, uint64_t n, double scale);
/* Copy or add the gradient of a step to that of input `k`, as its flow says. */
void stk__pass_on(stk__plan *plan, stk__plan_step *step, uint32_t k);
/* Pick or make the plan of a number of rows. */
stk_status stk__model_plan(struct stk_model *model, uint32_t rows, bool training, stk__plan **out,
                           stk_error *err);
/* Plans of whole batches of both modes, and what the summary says of them. */
stk_status stk__model_plans(struct stk_model *model, stk_error *err);
/* Freeze the parameters of a pattern list for good; running statistics that match stay as they are
 * (freeze.c). */
stk_status stk__model_freeze(struct stk_model *model, const char *patterns, stk_error *err);
/* Give each that learns its place in the gradients. */
void stk__gradients_place(struct stk_model *model);
/* The part of a batch norm in a pass of a process without rows (norm.c); other layers have none. */
stk_status stk__norm_idle(stk__plan *plan, stk__plan_step *step, bool back, stk_error *err);
/* Whether a batch norm computes with its running statistics in training, too. */
bool stk__is_fixed(const struct stk_model *model, const stk__node *node);
/* Whether a pattern list ("a.*, b") matches a name. */
bool stk__pattern_match(const char *patterns, const char *name);

/* Initial weights (init.c). */
void stk__model_init_weights(struct stk_model *model);

/* Loss and metrics of the output against the batch's target; with `gradient` also its derivative,
 * of the mean loss (loss.c).
 */
stk_status stk__loss(struct stk_model *model, const void *output, void *gradient,
                     stk__step_numbers *numbers, stk_error *err);
/* The same of the losses that compare elements (loss_elements.c). */
void stk__loss_of_elements(struct stk_model *model, const void *output, void *gradient,
                           stk__step_numbers *numbers);
#define STK__LOSS_PARTS 64 /* threads of a loss at most: each has its sums on the stack */

/* Keys of Philox for the draws of models: not those of the data. */
#define STK__NN_DROPOUT UINT32_C(0x44524f50)
#define STK__NN_INIT    UINT32_C(0x494e4954)

#endif
