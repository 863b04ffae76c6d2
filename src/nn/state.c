/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in and out, by name. */
#include <stdio.h>

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

void *stk__gradient(const struct stk_model *m, const stk__node *node, stk__role role)
{
    const stk__param *p = stk__param_of(m, node, role);

    return p && p->trainable ? (char *)m->gradients + p->gradient : NULL;
}

static stk_dtype dtype_of(const struct stk_model *m, const stk__param *p)
{
    if (p->role == STK__NUM_BATCHES)
        return STK_INT64;
    return m->backend->itemsize == sizeof(double) ? STK_FLOAT64 : STK_FLOAT32;
}

void stk__param_tensor(const struct stk_model *m, const stk__param *p, void *data,
                       stk_state_tensor *out)
{
    *out =
        (stk_state_tensor){.name = p->name, .dtype = dtype_of(m, p), .rank = p->rank, .data = data};
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

bool stk__model_learns(const stk_model *m, size_t i)
{
    return i < m->graph.num_params && m->graph.params[i].trainable;
}

stk_status stk__model_get_gradient(stk_model *m, size_t i, stk_state_tensor *out, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    if (!stk__model_learns(m, i))
        return STK_EOS;
    STK_TRY(stk__model_need(m, true, err));
    const stk__param *p = &m->graph.params[i];
    stk__param_tensor(m, p, (char *)m->gradients + p->gradient, out);
    return STK_OK;
}

static void shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "[");

    for (uint32_t i = 0; i < rank && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%lld", i ? ", " : "",
                                   (long long)shape[i]);
    if (length < size)
        snprintf(text + length, size - length, "]");
}

static bool is_float(stk_dtype dtype)
{
    return dtype == STK_FLOAT32 || dtype == STK_FLOAT64 || dtype == STK_BFLOAT16 ||
           dtype == STK_FLOAT16;
}

/* Whether a tensor can become a parameter. */
static stk_status check_tensor(const struct stk_model *m, const stk__param *p,
                               const stk_state_tensor *t, stk_error *err)
{
    char mine[128], theirs[128];
    bool same = t->rank == p->rank && memcmp(t->shape, p->shape, p->rank * sizeof *p->shape) == 0;

    /* A count may come as [1]. */
    if (p->role == STK__NUM_BATCHES)
        same = t->bytes == sizeof(int64_t);
    if (!same) {
        shape_text(p->rank, p->shape, mine, sizeof mine);
        shape_text(t->rank, t->shape, theirs, sizeof theirs);
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                         "tensor '%s' is %s, but the model's is %s: these are the weights of "
                         "another model",
                         p->name, theirs, mine);
    }
    bool integer = dtype_of(m, p) == STK_INT64;
    if (integer ? t->dtype != STK_INT64 : !is_float(t->dtype))
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN, "tensor '%s' is of type %s, not %s",
                         p->name, stk_dtype_name(t->dtype), stk_dtype_name(dtype_of(m, p)));
    if (t->bytes != p->count * stk_dtype_size(t->dtype))
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                         "tensor '%s' has %llu bytes, which is not its shape's", p->name,
                         (unsigned long long)t->bytes);
    return STK_OK;
}

static void take(struct stk_model *m, const stk__param *p, const stk_state_tensor *t)
{
    void *to = (char *)m->weights + p->offset;

    if (t->dtype == dtype_of(m, p)) {
        memmove(to, t->data, t->bytes);
        return;
    }
    const size_t size = stk_dtype_size(t->dtype);
    for (uint64_t i = 0; i < p->count; i++) {
        double x = stk__element_as_double((const char *)t->data + i * size, t->dtype);
        if (dtype_of(m, p) == STK_FLOAT64)
            ((double *)to)[i] = x;
        else
            ((float *)to)[i] = (float)x;
    }
}

static const stk_state_tensor *find_tensor(const stk_state_tensor *tensors, size_t n,
                                           const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return &tensors[i];
    return NULL;
}

stk_status stk__model_load(stk_model *m, const stk_state_tensor *tensors, size_t n, bool strict,
                           size_t *taken, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    const stk__graph *g = &m->graph;
    size_t count = 0;

    STK_TRY(stk__model_need(m, false, err));
    /* First look at all, then take: a failure leaves the model as it was. */
    for (uint32_t i = 0; i < g->num_params; i++) {
        const stk_state_tensor *t = find_tensor(tensors, n, g->params[i].name);
        if (t)
            STK_TRY(check_tensor(m, &g->params[i], t, err));
        else if (strict)
            return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                             "the weights have no tensor '%s', which the model needs; load with "
                             "strict off to take those that match",
                             g->params[i].name);
    }
    for (size_t i = 0; strict && i < n; i++) {
        bool known = false;
        for (uint32_t k = 0; k < g->num_params && !known; k++)
            known = strcmp(tensors[i].name, g->params[k].name) == 0;
        if (!known)
            return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                             "the model has no tensor '%s'; load with strict off to take those "
                             "that match",
                             tensors[i].name);
    }
    for (uint32_t i = 0; i < g->num_params; i++) {
        const stk_state_tensor *t = find_tensor(tensors, n, g->params[i].name);
        if (t)
            take(m, &g->params[i], t);
        count += t != NULL;
    }
    if (taken)
        *taken = count;
    return STK_OK;
}
