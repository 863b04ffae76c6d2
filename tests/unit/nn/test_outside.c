/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of others: checked as they are added, and right in every place of a model. */
#include <stdio.h>

#include "unit/nn/models.h"
#include <stoker/plugin.h>

typedef struct scale_options {
    uint32_t struct_size;
    double start;
    const char *label;
} scale_options;

static const stk_option list[] = {{"start", STK_OPTION_DOUBLE, offsetof(scale_options, start), "1",
                                   -9, 9, NULL, NULL, "First factor."},
                                  {"label", STK_OPTION_STRING, offsetof(scale_options, label), NULL,
                                   0, 0, NULL, "TEXT", "A text."}};
static const stk_option_table table = {.name = "scale",
                                       .doc = "One factor for each feature.",
                                       .struct_size = sizeof(scale_options),
                                       .options = list,
                                       .count = 2};
static char seen[64];
static stk_status answers;

static stk_status scale_shape(const void *options, stk_layer_shape *out, stk_error *err)
{
    const scale_options *o = options;

    snprintf(seen, sizeof seen, "%s", o->label ? o->label : "");
    out->weight.rank = 1;
    out->weight.shape[0] = out->shape[out->rank - 1];
    out->weight.start = o->start;
    return STK_OK;
}

static uint64_t features(const stk_layer_pass *p)
{
    return p->in;
}

static stk_status scale_forward(const stk_layer_pass *p, stk_error *err)
{
    const double *x = p->x, *w = p->weight;

    for (uint64_t i = 0; i < p->rows * p->in; i++)
        ((double *)p->y)[i] = x[i] * w[i % features(p)];
    return answers;
}

static stk_status scale_backward(const stk_layer_pass *p, stk_error *err)
{
    const double *x = p->x, *w = p->weight, *dy = p->dy;

    for (uint64_t i = 0; i < p->rows * p->in; i++) {
        if (p->weight_gradient)
            ((double *)p->weight_gradient)[i % features(p)] += x[i] * dy[i];
        if (p->dx)
            ((double *)p->dx)[i] += w[i % features(p)] * dy[i];
    }
    return STK_OK;
}

static const stk_layer_ops scale = {.struct_size = sizeof scale,
                                    .name = "scale",
                                    .doc = "of a test",
                                    .options = &table,
                                    .shape = scale_shape,
                                    .forward = scale_forward,
                                    .backward = scale_backward};

static stk_status no_shape(const void *options, stk_layer_shape *out, stk_error *err)
{
    out->rank = 9;
    return STK_OK;
}

static const stk_layer_ops odd = {.struct_size = sizeof odd,
                                  .name = "odd",
                                  .doc = "of a test",
                                  .shape = no_shape,
                                  .forward = scale_forward,
                                  .backward = scale_backward};

static stk_model *make(stk_context *ctx, const char *layers)
{
    stk_model_options options;
    const int64_t shape[] = {3};

    stk_model_options_init(&options);
    options.precision = STK_PRECISION_64_TRUE;
    options.loss = STK_LOSS_MSE;
    options.batch_size = 2;
    options.seed = 7;
    return model_make(ctx, layers, shape, 1, &options);
}

static const double input[6] = {1, 2, 3, -1, 0.5, 2};
static const double target[6] = {0.5, 0, 1, 1, 0, -1};
static const stk_model_batch batch = {.struct_size = sizeof batch,
                                      .count = 2,
                                      .dtype = STK_FLOAT64,
                                      .input = input,
                                      .target = target};

static double loss_of(stk_model *model, bool training)
{
    stk_model_result result = {.struct_size = sizeof result};
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_model_forward(model, &batch, training, &result, &err), &err);
    return model_value(model, &result.loss);
}

/* Against differences, with a second reader of its input, a sum behind it, and two passes added. */
static void gradients(void **state)
{
    static const char *const models[] = {
        "scale(0.5), linear(3)", "linear(3), scale(2), relu, scale",
        "a=linear(3), b=scale(0.5, from=a), c=linear(3, from=a), add(b)",
        "a=scale(1.5), b=linear(3, from=a), c=scale(2, from=a), add(b), scale(0.25)"};
    stk_context *ctx = test_context();
    stk_error err;

    assert_ok(stk_driver_add(ctx, STK_DRIVER_LAYER, &scale, &err), &err);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        stk_model *model = make(ctx, models[i]);
        /* What was before zero_grad is forgotten. */
        loss_of(model, true);
        assert_ok(stk_model_backward(model, 9, &err), &err);
        assert_ok(stk_model_zero_grad(model, &err), &err);
        loss_of(model, true);
        assert_ok(stk_model_backward(model, 0.25, &err), &err);
        loss_of(model, true);
        assert_ok(stk_model_backward(model, 0.75, &err), &err);
        stk_state_tensor tensor, gradient;
        for (size_t k = 0; stk_model_get_state(model, k, &tensor, NULL) == STK_OK; k++) {
            assert_true(model_gradient(model, k, &gradient));
            double *values = tensor.data;
            for (uint64_t e = 0; e < tensor.bytes / sizeof *values; e++) {
                const double kept = values[e], h = 1e-6;
                values[e] = kept + h;
                const double above = loss_of(model, false);
                values[e] = kept - h;
                const double below = loss_of(model, false);
                values[e] = kept;
                assert_true(fabs((above - below) / (2 * h) - ((double *)gradient.data)[e]) < 1e-6);
            }
        }
        stk_model_destroy(&model);
    }
    stk_context_destroy(&ctx);
}

static stk_status never(void *user, const void *data, size_t length, stk_error *err)
{
    fail_msg("something was written");
    return STK_OK;
}

/* ONNX has no operator for it, which is said before anything is written. */
static void exported(void **state)
{
    stk_context *ctx = test_context();
    const int64_t shape[] = {3};
    float values[3] = {1, 2, 3};
    const stk_state_tensor weight = {"b.weight", STK_FLOAT32, 1, {3}, values, sizeof values};
    stk_model_builder *builder;
    stk_error err;
    size_t count;

    assert_ok(stk_driver_add(ctx, STK_DRIVER_LAYER, &scale, &err), &err);
    assert_ok(stk_model_builder_create(ctx, shape, 1, &builder, &err), &err);
    assert_ok(stk_model_builder_add(builder, "relu, b=scale(0.5)", &err), &err);
    assert_fails(stk__onnx_write(builder, &weight, 1, never, NULL, &count, &err), STK_ENOTSUP, &err,
                 "layer 'b' (scale) is a plug-in's");
    stk_model_builder_destroy(&builder);
    stk_context_destroy(&ctx);
}

static void starts(void **state)
{
    stk_context *ctx = test_context();
    stk_state_tensor tensor;
    stk_error err;

    assert_ok(stk_driver_add(ctx, STK_DRIVER_LAYER, &scale, &err), &err);
    stk_model *model = make(ctx, "first=scale(0.5, label=\"a text\")");
    assert_string_equal(seen, "a text");
    assert_true(stk_model_get_state(model, 0, &tensor, NULL) == STK_OK);
    assert_string_equal(tensor.name, "first.weight");
    assert_true(((double *)tensor.data)[2] == 0.5);
    stk_model_layer layer = {.struct_size = sizeof layer};
    assert_true(stk_model_get_layer(model, 0, &layer));
    assert_string_equal(layer.kind, "scale");
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
}

static void refused(void **state)
{
    stk_context *ctx = test_context();
    stk_model_builder *builder;
    const int64_t shape[] = {3};
    stk_layer_ops half = scale;
    stk_error err;

    half.backward = NULL;
    assert_fails(stk_driver_add(ctx, STK_DRIVER_LAYER, &half, &err), STK_EINVAL, &err, "backward");
    assert_ok(stk_driver_add(ctx, STK_DRIVER_LAYER, &scale, &err), &err);
    assert_ok(stk_driver_add(ctx, STK_DRIVER_LAYER, &odd, &err), &err);
    assert_ok(stk_model_builder_create(ctx, shape, 1, &builder, &err), &err);
    assert_fails(stk_model_builder_add(builder, "odd", &err), STK_EINVAL, &err,
                 "sizes that no layer can have");
    assert_fails(stk_model_builder_add(builder, "scale(end=2)", &err), STK_EINVAL, &err, "end");
    assert_fails(stk_model_builder_add(builder, "skale", &err), STK_EINVAL, &err, "scale");
    assert_fails(stk_model_builder_add(builder, "scale, scale(from=nowhere)", &err), STK_EINVAL,
                 &err, "nowhere");
    stk_model_builder_destroy(&builder);
    stk_model *model = make(ctx, "scale");
    stk_model_result result = {.struct_size = sizeof result};
    answers = STK_EOS;
    assert_fails(stk_model_forward(model, &batch, true, &result, &err), STK_EINVAL, &err,
                 "neither success nor failure");
    answers = STK_EIO;
    assert_int_equal(stk_model_forward(model, &batch, true, &result, &err), STK_EIO);
    answers = STK_OK;
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(starts),
        cmocka_unit_test(exported),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests_name("nn/outside", tests, NULL, NULL);
}
