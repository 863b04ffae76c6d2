/* Models for tests: made from a text, with weights and data that are a hash of their place. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_NN_MODELS_H
#define STK_TESTS_NN_MODELS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/nn.h"
#include "support/support.h"
#include <stoker/model.h>

/* Number `i` of a stream, in [0, 1); as in scripts/make_nn_golden.py. */
static inline double place_hash(uint32_t stream, uint64_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u + stream * 40503u + 12345u;

    for (int k = 0; k < 2; k++)
        h = (h ^ (h >> 16)) * 0x45d9f3bu;
    h ^= h >> 16;
    return (double)(h >> 8) * 0x1p-24;
}

/* Whether this build computes in float at all. */
static inline bool have_float(void)
{
#ifdef STK_WITH_ONEDNN
    return true;
#else
    return false;
#endif
}

static inline stk_model *model_make(stk_context *ctx, const char *layers, const int64_t *shape,
                                    uint32_t rank, const stk_model_options *options)
{
    stk_model_builder *builder;
    stk_model *model;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_model_builder_create(ctx, shape, rank, &builder, &err), &err);
    assert_ok(stk_model_builder_add(builder, layers, &err), &err);
    assert_ok(stk_model_create(builder, options, &model, &err), &err);
    stk_model_builder_destroy(&builder);
    return model;
}

static inline void tensor_set(const stk_state_tensor *t, uint64_t i, double value)
{
    if (t->dtype == STK_FLOAT64)
        ((double *)t->data)[i] = value;
    else
        ((float *)t->data)[i] = (float)value;
}

static inline double tensor_get(const stk_state_tensor *t, uint64_t i)
{
    if (t->dtype == STK_INT64)
        return (double)((int64_t *)t->data)[i];
    return t->dtype == STK_FLOAT64 ? ((double *)t->data)[i] : (double)((float *)t->data)[i];
}

static inline uint64_t tensor_count(const stk_state_tensor *t)
{
    return t->bytes / stk_dtype_size(t->dtype);
}

static inline bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);

    return a >= b && strcmp(text + a - b, end) == 0;
}

/* The weights of the script: parameters in their order, running statistics as they are. */
static inline void model_set_weights(stk_model *model)
{
    stk_state_tensor t;
    uint32_t stream = 0;

    for (size_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++) {
        bool weight = ends_with(t.name, ".weight");
        if (!weight && !ends_with(t.name, ".bias"))
            continue;
        uint64_t n = tensor_count(&t);
        /* A norm's weight of rank 2 (layer_norm of two dimensions) counts as a matrix. */
        for (uint64_t k = 0; k < n; k++) {
            double u = place_hash(stream, k) - 0.5;
            if (t.rank > 1)
                u *= 2 / sqrt((double)n / (double)t.shape[0]);
            else
                u = weight ? u * 0.5 + 1 : u * 0.2;
            tensor_set(&t, k, u);
        }
        stream++;
    }
}

static inline float *make_data(uint64_t n, uint32_t step)
{
    float *x = malloc((n + 1) * sizeof *x);

    assert_non_null(x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)(place_hash(1000 + step, i) * 2 - 1);
    return x;
}

static inline int64_t *make_labels(uint64_t n, int64_t classes, uint32_t step)
{
    int64_t *y = malloc((n + 1) * sizeof *y);

    assert_non_null(y);
    for (uint64_t i = 0; i < n; i++)
        y[i] = (int64_t)(place_hash(2000 + step, i) * (double)classes);
    return y;
}

/* The value of a number of the model's. */
static inline double model_value(const stk_model *model, const stk_scalar *number)
{
    double value = NAN;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_model_value(model, number, &value, &err), &err);
    return value;
}

/* What a forward pass came to, fetched. */
typedef struct model_numbers {
    double loss, count, accuracy, accuracy_top_k;
} model_numbers;

static inline void *model_output(const stk_model *model)
{
    stk_state_tensor output;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_model_output(model, &output, &err), &err);
    return output.data;
}

/* The gradient of tensor `i` of the state; false where it does not learn. */
static inline bool model_gradient(stk_model *model, size_t i, stk_state_tensor *out)
{
    stk_error err;

    stk_error_init(&err);
    const stk_status status = stk__model_get_gradient(model, i, out, &err);
    if (status != STK_EOS)
        assert_ok(status, &err);
    return status == STK_OK;
}

/* The joint L2 norm of the gradients. */
static inline double model_norm(stk_model *model)
{
    stk_state_tensor tensor, gradient;
    double sum = 0;

    for (size_t i = 0; stk_model_get_state(model, i, &tensor, NULL) == STK_OK; i++)
        for (uint64_t k = 0; model_gradient(model, i, &gradient) && k < tensor_count(&gradient);
             k++)
            sum += tensor_get(&gradient, k) * tensor_get(&gradient, k);
    return sqrt(sum);
}

static inline model_numbers model_forward(stk_model *model, uint32_t rows, const float *x,
                                          const void *target, bool training)
{
    const stk_model_batch batch = {.struct_size = sizeof batch,
                                   .count = rows,
                                   .dtype = STK_FLOAT32,
                                   .input = x,
                                   .target = target};
    stk_model_result result = {.struct_size = sizeof result};
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_model_forward(model, &batch, training, &result, &err), &err);
    return (model_numbers){model_value(model, &result.loss), model_value(model, &result.count),
                           model_value(model, &result.accuracy),
                           model_value(model, &result.accuracy_top_k)};
}

static inline void model_backward(stk_model *model, double scale)
{
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_model_backward(model, scale, &err), &err);
}

#endif
