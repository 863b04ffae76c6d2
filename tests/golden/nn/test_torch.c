/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, losses, optimizers, schedules and short runs against PyTorch (make_nn_golden.py). */
#include <jansson.h>
#include <stdio.h>

#include "nn/nn.h"
#include "unit/nn/models.h"

#define ROWS 5

static stk_context *ctx;
static json_t *golden;

static int setup(void **state)
{
    json_error_t error;

    ctx = test_context();
    golden = json_load_file(TESTS_DIR "/golden/nn/golden.json", 0, &error);
    return golden ? 0 : -1;
}

static int teardown(void **state)
{
    json_decref(golden);
    stk_context_destroy(&ctx);
    return 0;
}

static double number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);

    return value ? json_number_value(value) : otherwise;
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    assert_non_null(value);
    return value;
}

/* Within `tolerance` of the value, relative to it or to `size`. */
static void near(const char *what, double is, double should, double size, double tolerance)
{
    double scale = fmax(fabs(should), size);

    if (!(fabs(is - should) <= tolerance * scale))
        fail_msg("%s is %.12g, not %.12g (off by %.3g of %.3g)", what, is, should,
                 fabs(is - should) / scale, tolerance);
}

/* The script's summary: sum, sum weighted by place, norm. */
static void check_summary(const char *what, const stk_state_tensor *t, const json_t *expected,
                          double tolerance)
{
    double sum = 0, weighted = 0, squares = 0;

    assert_non_null(expected);
    for (uint64_t i = 0; i < tensor_count(t); i++) {
        double v = tensor_get(t, i);
        sum += v;
        weighted += v * cos((double)i);
        squares += v * v;
    }
    /* Gradients that cancel are 0 but for rounding: the bound is never below this. */
    double size = fmax(json_number_value(json_array_get(expected, 2)), 0.02);
    near(what, sum, json_number_value(json_array_get(expected, 0)), size * 4, tolerance);
    near(what, weighted, json_number_value(json_array_get(expected, 1)), size * 4, tolerance);
    near(what, sqrt(squares), json_number_value(json_array_get(expected, 2)), size, tolerance);
}

static uint32_t shape_of(const json_t *item, int64_t shape[STK_MAX_RANK], uint64_t *count)
{
    const json_t *array = json_object_get(item, "shape");

    *count = 1;
    for (size_t i = 0; i < json_array_size(array); i++) {
        shape[i] = json_integer_value(json_array_get(array, i));
        *count *= (uint64_t)shape[i];
    }
    return (uint32_t)json_array_size(array);
}

static void check_state(stk_model *model, const json_t *expected, bool gradients, double tolerance)
{
    stk_state_tensor t;
    size_t seen = 0;

    for (size_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++) {
        const json_t *value = json_object_get(expected, t.name);
        if (!value)
            continue;
        seen++;
        if (gradients)
            assert_true(stk__model_get_gradient(model, i, &t, NULL) == STK_OK);
        check_summary(t.name, &t, value, tolerance);
    }
    assert_int_equal(seen, json_object_size(expected));
}

static void check_op(const json_t *item, int32_t precision, double tolerance)
{
    stk_model_options options;
    int64_t shape[STK_MAX_RANK];
    uint64_t count, out = 1;
    uint32_t rank = shape_of(item, shape, &count);
    const char *layers = text(item, "layers");

    stk_model_options_init(&options);
    options.precision = precision;
    options.loss = STK_LOSS_MSE;
    options.threads = 1;
    options.batch_size = ROWS;
    stk_model *model = model_make(ctx, layers, shape, rank, &options);
    model_set_weights(model);
    stk_model_layer layer = {.struct_size = sizeof layer};
    for (size_t i = 0; stk_model_get_layer(model, i, &layer);)
        i++;
    for (uint32_t i = 0; i < layer.rank; i++)
        out *= (uint64_t)layer.shape[i];
    float *x = make_data(count * ROWS, 0), *target = make_data(out * ROWS, 7);
    model_numbers result = model_forward(model, ROWS, x, target, true);
    near(layers, result.loss, number(item, "loss", NAN), 0, tolerance);
    stk_state_tensor output = {.dtype = precision ? STK_FLOAT64 : STK_FLOAT32,
                               .data = model_output(model),
                               .bytes = out * ROWS * (precision ? 8 : 4)};
    check_summary(layers, &output, json_object_get(item, "output"), tolerance);
    model_backward(model, 1);
    check_state(model, json_object_get(item, "gradients"), true, tolerance);
    check_state(model, json_object_get(item, "buffers"), false, tolerance);
    result = model_forward(model, ROWS, x, target, false);
    near(layers, result.loss, number(item, "eval_loss", NAN), 0, tolerance);
    free(x);
    free(target);
    stk_model_destroy(&model);
}

static void test_ops_double(void **state)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(golden, "ops"), i, item)
        check_op(item, STK_PRECISION_64_TRUE, 1e-11);
}

static void test_ops_float(void **state)
{
    size_t i;
    json_t *item;

    if (!have_float())
        skip();
    json_array_foreach(json_object_get(golden, "ops"), i, item)
        check_op(item, STK_PRECISION_32_TRUE, 2e-5);
}

/* A forward pass over the script's data and targets. Where there is a mask, what it leaves out is
 * NaN. */
static double loss_of(stk_model *model, const json_t *item, const stk_model_options *o)
{
    const bool masked = json_object_get(item, "masked"), picture = json_object_get(item, "picture");
    const bool classes = o->loss == STK_LOSS_CROSS_ENTROPY;
    const uint64_t places = picture ? 9 * 9 * 13 : 9, count = places * 4;
    float *x = make_data(places * 6, 0), *target = make_data(count, 7);
    int64_t *labels = make_labels(places, 4, 0), *kept = make_labels(count, 3, 5);
    uint8_t *mask = calloc(count, 1);
    stk_model_result result = {.struct_size = sizeof result};
    stk_error err;

    assert_non_null(mask);
    stk_error_init(&err);
    for (uint64_t i = 0; i < places * 6; i++)
        x[i] *= 4;
    for (uint64_t i = 0; i < count && o->loss == STK_LOSS_BCE_WITH_LOGITS; i++)
        target[i] = (target[i] + 1) / 2;
    for (uint64_t i = 0; i < count && masked; i++) {
        mask[i] = kept[i] > 0 ? 7 : 0;
        target[i] = mask[i] ? target[i] : NAN;
    }
    const stk_model_batch batch = {.struct_size = sizeof batch,
                                   .count = 9,
                                   .dtype = STK_FLOAT32,
                                   .input = x,
                                   .target = classes ? (const void *)labels : target,
                                   .target_mask = masked ? mask : NULL};
    assert_ok(stk_model_forward(model, &batch, true, &result, &err), &err);
    model_backward(model, 1);
    free(x);
    free(target);
    free(labels);
    free(kept);
    free(mask);
    return model_value(model, &result.loss);
}

static void check_loss(const json_t *item, int32_t precision, double tolerance)
{
    stk_model_options options;
    const int64_t shape[3] = {6, 9, 13};
    const bool picture = json_object_get(item, "picture");
    const char *name = text(item, "loss");
    stk_error err;

    stk_error_init(&err);
    stk_model_options_init(&options);
    assert_ok(stk_options_set(stk_option_table_find("model"), &options, "loss", name, &err), &err);
    options.precision = precision;
    options.threads = 1;
    options.batch_size = 9;
    options.label_smoothing = number(item, "label_smoothing", 0);
    options.ignore_index = (int64_t)number(item, "ignore_index", -100);
    options.delta = number(item, "delta", 1);
    stk_model *model = model_make(ctx, picture ? "conv2d(4, 3, padding=1)" : "linear(4)", shape,
                                  picture ? 3 : 1, &options);
    model_set_weights(model);
    near(name, loss_of(model, item, &options), number(item, "value", NAN), 0, tolerance);
    check_state(model, json_object_get(item, "gradients"), true, tolerance);
    stk_model_destroy(&model);
}

static void test_losses(void **state)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(golden, "losses"), i, item)
        check_loss(item, STK_PRECISION_64_TRUE, 1e-7); /* targets are floats */
}

static void test_losses_float(void **state)
{
    size_t i;
    json_t *item;

    if (!have_float())
        skip();
    json_array_foreach(json_object_get(golden, "losses"), i, item)
        check_loss(item, STK_PRECISION_32_TRUE, 1e-5);
}

static void check_optimizer(const json_t *item, int32_t precision, double tolerance)
{
    static const char *const names[] = {"lr",           "momentum", "dampening", "nesterov",
                                        "weight_decay", "beta1",    "beta2",     "eps"};
    stk_model_options options;
    stk_optimizer_options o;
    stk_optimizer *optimizer;
    const int64_t shape[1] = {6};
    stk_error err;

    stk_error_init(&err);
    stk_model_options_init(&options);
    options.precision = precision;
    options.threads = 1;
    options.batch_size = ROWS;
    stk_model *model = model_make(ctx, "linear(5), relu, linear(4)", shape, 1, &options);
    model_set_weights(model);
    stk_optimizer_options_init(&o);
    const stk_option_table *table = stk_option_table_find("optimizer");
    assert_ok(stk_options_set(table, &o, "name", text(item, "name"), &err), &err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(item, names[i]);
        char shown[32];
        if (!value)
            continue;
        snprintf(shown, sizeof shown, "%.17g", json_number_value(value));
        assert_ok(stk_options_set(table, &o, names[i], json_is_true(value) ? "true" : shown, &err),
                  &err);
    }
    const stk_parameter_group group = {"2.weight", o.lr * 2, 0.02};
    assert_ok(stk_optimizer_create(model, &o, &group, 1, &optimizer, &err), &err);
    for (uint32_t step = 0; step < 6; step++) {
        assert_int_equal(stk_model_zero_grad(model, NULL), STK_OK);
        for (uint32_t micro = 0; micro < 2; micro++) {
            float *x = make_data(ROWS * 6, 10 * step + micro);
            int64_t *labels = make_labels(ROWS, 4, 10 * step + micro);
            model_forward(model, ROWS, x, labels, true);
            model_backward(model, 0.5);
            free(x);
            free(labels);
        }
        near("norm", model_norm(model),
             json_number_value(json_array_get(json_object_get(item, "norms"), step)), 0, tolerance);
        assert_ok(stk__model_clip_norm(model, 0.3, &err), &err);
        assert_int_equal(stk_optimizer_step(optimizer, NULL), STK_OK);
    }
    check_state(model, json_object_get(item, "weights"), false, tolerance);
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
}

static void test_optimizers(void **state)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(golden, "optimizers"), i, item)
        check_optimizer(item, STK_PRECISION_64_TRUE, 1e-10);
}

static void test_optimizers_float(void **state)
{
    size_t i;
    json_t *item;

    if (!have_float())
        skip();
    json_array_foreach(json_object_get(golden, "optimizers"), i, item)
        check_optimizer(item, STK_PRECISION_32_TRUE, 1e-4);
}

static void make_schedule(const json_t *item, stk_schedule *s)
{
    const stk_option_table *table = stk_option_table_find("lr_scheduler");
    stk_error err;

    stk_error_init(&err);
    stk_schedule_init(s);
    for (size_t i = 0; i < table->count; i++) {
        const json_t *value = json_object_get(item, table->options[i].name);
        char shown[32];
        if (!value)
            continue;
        snprintf(shown, sizeof shown, "%.17g", json_number_value(value));
        assert_ok(stk_options_set(table, s, table->options[i].name,
                                  json_is_string(value) ? json_string_value(value) : shown, &err),
                  &err);
    }
    assert_ok(stk__schedule_check(s, &err), &err);
}

static void test_schedules(void **state)
{
    size_t i, step;
    json_t *item, *lr;

    json_array_foreach(json_object_get(golden, "schedules"), i, item)
    {
        const json_t *metrics = json_object_get(item, "metrics");
        stk_schedule s;
        stk__plateau plateau;
        make_schedule(item, &s);
        stk__plateau_init(&plateau);
        json_array_foreach(json_object_get(item, "lr"), step, lr)
        {
            double is = stk__schedule_lr(&s, 0.3, step);
            if (metrics) {
                stk__plateau_step(&plateau, &s, json_number_value(json_array_get(metrics, step)));
                is = stk__plateau_lr(&plateau, &s, 0.3);
            } else {
                near("momentum", stk__schedule_momentum(&s, 0.9, step),
                     json_number_value(json_array_get(json_object_get(item, "momentum"), step)), 0,
                     1e-12);
            }
            near(text(item, "name"), is, json_number_value(lr), 0.3, 1e-12);
        }
    }
}

/* Losses of steps of SGD from the same weights and batches. */
static void check_run(const json_t *item, double tolerance)
{
    const json_t *losses = json_object_get(item, "losses");
    stk_model_options options;
    stk_optimizer_options o;
    stk_optimizer *optimizer;
    int64_t shape[STK_MAX_RANK];
    uint64_t count;
    uint32_t rank = shape_of(item, shape, &count), rows = (uint32_t)number(item, "batch", 0);
    stk_error err;

    stk_error_init(&err);
    stk_model_options_init(&options);
    options.threads = 1;
    options.batch_size = rows;
    stk_model *model = model_make(ctx, text(item, "layers"), shape, rank, &options);
    model_set_weights(model);
    stk_optimizer_options_init(&o);
    o.name = STK_SGD;
    o.lr = number(item, "lr", 0);
    assert_ok(stk_optimizer_create(model, &o, NULL, 0, &optimizer, &err), &err);
    for (uint32_t step = 0; step < json_array_size(losses); step++) {
        uint32_t which = json_is_true(json_object_get(item, "fixed")) ? 0 : step;
        float *x = make_data(count * rows, which);
        int64_t *labels = make_labels(rows, (int64_t)number(item, "classes", 0), which);
        assert_int_equal(stk_model_zero_grad(model, NULL), STK_OK);
        near(text(item, "layers"), model_forward(model, rows, x, labels, true).loss,
             json_number_value(json_array_get(losses, step)), 0, tolerance);
        model_backward(model, 1);
        assert_int_equal(stk_optimizer_step(optimizer, NULL), STK_OK);
        free(x);
        free(labels);
    }
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
}

static void test_runs(void **state)
{
    size_t i;
    json_t *item;

    if (!have_float())
        skip();
    json_array_foreach(json_object_get(golden, "runs"), i, item)
        check_run(item, i < 2 ? 1e-4 : 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_double), cmocka_unit_test(test_ops_float),
        cmocka_unit_test(test_losses),     cmocka_unit_test(test_losses_float),
        cmocka_unit_test(test_optimizers), cmocka_unit_test(test_optimizers_float),
        cmocka_unit_test(test_schedules),  cmocka_unit_test(test_runs),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
