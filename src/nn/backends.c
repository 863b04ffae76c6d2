/* SPDX-License-Identifier: Apache-2.0 */
/* What computes each layer, for each back end: they differ in the products alone. */
#include "nn/ops.h"
#include "nn/winograd.h"

#define SHARED                                                                                     \
    [STK__INPUT] = &stk__ops_input, [STK__BATCH_NORM2D] = &stk__ops_batch_norm,                    \
    [STK__LAYER_NORM] = &stk__ops_layer_norm, [STK__RELU] = &stk__ops_relu,                        \
    [STK__GELU] = &stk__ops_gelu, [STK__SILU] = &stk__ops_silu,                                    \
    [STK__DROPOUT] = &stk__ops_dropout, [STK__MAX_POOL2D] = &stk__ops_max_pool,                    \
    [STK__AVG_POOL2D] = &stk__ops_avg_pool, [STK__GLOBAL_AVG_POOL2D] = &stk__ops_avg_pool,         \
    [STK__FLATTEN] = &stk__ops_output, [STK__ADD] = &stk__ops_add,                                 \
    [STK__OUTSIDE] = &stk__ops_outside, [STK__OUTPUT] = &stk__ops_output

const stk_backend stk__backend_reference = {
    .name = "reference",
    .itemsize = sizeof(double),
    .ops = {SHARED, [STK__LINEAR] = &stk__ops_linear_reference,
            [STK__CONV2D] = &stk__ops_conv_reference},
};

#ifdef STK_WITH_ONEDNN
const stk_backend stk__backend_cpu = {
    .name = "cpu",
    .itemsize = sizeof(float),
    .ops = {SHARED, [STK__LINEAR] = &stk__ops_linear_cpu, [STK__CONV2D] = &stk__ops_conv_cpu},
};
#endif

const stk__ops *stk__ops_of(const stk__plan *plan, const stk__plan_step *step)
{
#if defined(STK_WITH_ONEDNN) && defined(STK_WITH_AVX2)
    if (stk__winograd_takes(plan, step))
        return &stk__ops_conv_winograd;
#endif
#ifdef STK_WITH_ONEDNN
    if (step->node->kind == STK__LINEAR && plan->model->bf16_native)
        return &stk__ops_linear_bf16;
#endif
    return plan->model->backend->ops[step->node->kind];
}
