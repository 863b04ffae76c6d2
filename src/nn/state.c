/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and gradients of a model, one by one. */
#include "nn/model.h"

const stk__param *stk__param_of(const struct stk_model *m, const stk__node *node, stk__role role)
{
    for (uint32_t i = 0; i < node->num_params; i++) {
        const stk__param *p = &m->graph.params[node->first_param + i];
        if (p->role == role)
            return p;
    }
    return NULL;
}

void *stk__weight(const struct stk_model *m, const stk__node *node, stk__role role)
{
    const stk__param *p = stk__param_of(m, node, role);

    return p ? (char *)m->weights + p->offset : NULL;
}

bool stk__learns(const struct stk_model *m, const stk__node *node, stk__role role)
{
    const stk__param *p = stk__param_of(m, node, role);

    return p && p->trainable;
}

bool stk__is_fixed(const struct stk_model *m, const stk__node *node)
{
    const stk__param *p = stk__param_of(m, node, STK__RUNNING_MEAN);

    return p && p->fixed;
}

void *stk__gradient(const struct stk_model *m, const stk__node *node, stk__role role)
{
    const stk__param *p = stk__param_of(m, node, role);

    return p && p->trainable ? (char *)m->gradients + p->gradient : NULL;
}

stk_dtype stk__param_dtype(const struct stk_model *m, const stk__param *p)
{
    if (p->role == STK__NUM_BATCHES)
        return STK_INT64;
    return m->backend->itemsize == sizeof(double) ? STK_FLOAT64 : STK_FLOAT32;
}

void stk__param_tensor(const struct stk_model *m, const stk__param *p, void *data,
                       stk_state_tensor *out)
{
    *out = (stk_state_tensor){
        .name = p->name, .dtype = stk__param_dtype(m, p), .rank = p->rank, .data = data};
    out->bytes = p->count * stk_dtype_size(out->dtype);
    memcpy(out->shape, p->shape, p->rank * sizeof *p->shape);
}

stk_status stk_model_get_state(stk_model *m, size_t i, stk_state_tensor *out, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    if (i >= m->graph.num_params)
        return STK_EOS;
    STK_TRY(stk__model_need(m, false, err));
    const stk__param *p = &m->graph.params[i];
    stk__param_tensor(m, p, (char *)m->weights + p->offset, out);
    return STK_OK;
}

stk_status stk__model_get_gradient(stk_model *m, size_t i, stk_state_tensor *out, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    if (i >= m->graph.num_params || !m->graph.params[i].trainable)
        return STK_EOS;
    STK_TRY(stk__model_need(m, true, err));
    const stk__param *p = &m->graph.params[i];
    stk__param_tensor(m, p, (char *)m->gradients + p->gradient, out);
    return STK_OK;
}
