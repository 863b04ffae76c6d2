/* a node of a plan -> what its kinds of layers do */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_OPS_H
#define STK_SRC_NN_OPS_H

#include "nn/kernels.h"
#include "nn/model.h"

/* Layers whose work is all in the kernels: the same for every back end. */
extern const stk__ops stk__ops_input, stk__ops_output, stk__ops_relu, stk__ops_gelu, stk__ops_silu,
    stk__ops_dropout, stk__ops_add, stk__ops_batch_norm, stk__ops_layer_norm, stk__ops_max_pool,
    stk__ops_avg_pool, stk__ops_outside;
/* Products. */
extern const stk__ops stk__ops_linear_reference, stk__ops_conv_reference;
#ifdef STK_WITH_ONEDNN
extern const stk__ops stk__ops_linear_cpu, stk__ops_linear_bf16, stk__ops_conv_cpu;
#ifdef STK_WITH_AVX2
extern const stk__ops stk__ops_conv_winograd;
#endif
#endif

#define STK__GRAIN 16384 /* elements that are worth a thread */

/* Elements of the output of a step, all rows. */
static inline uint64_t stk__step_count(const stk__plan *plan, const stk__plan_step *step)
{
    return stk__node_count(step->node) * plan->rows;
}

static inline uint32_t stk__plan_itemsize(const stk__plan *plan)
{
    return plan->model->backend->itemsize;
}

/* Set, or add to, a parameter's gradient of `n` sums. */
void stk__gradient_put(const struct stk_model *model, void *gradient, const double *sums,
                       uint64_t n);
/* y += x, in parallel. */
void stk__add(const struct stk_model *model, void *y, const void *x, uint64_t n);
/* Zero the gradient by y where the relu after a step gave 0, in place. */
void stk__relu_mask(stk__plan *plan, stk__plan_step *step);
/* The bias of a step's rows, then its relu: what there is of them, in place. */
void stk__add_bias(const stk__plan *plan, const stk__plan_step *step, uint64_t rows, uint64_t cols);
/* Gradient of a bias: sums of the columns of dy. `room`: see stk__bias_room(). */
void stk__bias_gradient(stk__plan *plan, stk__plan_step *step, uint64_t rows, uint64_t cols,
                        void *room);
/* Bytes of scratch memory for it. */
uint64_t stk__bias_room(const stk__plan *plan, uint64_t rows, uint64_t cols);

#endif
