/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models written as ONNX, run by onnxruntime (scripts/check_onnx.py), against the forward pass
 * here: every layer alone, known models, and what the examples train.
 */
#include <stdio.h>

#include "checkpoint/weights/weights.h"
#include "unit/nn/models.h"

#define SCRIPT TESTS_DIR "/../scripts/check_onnx.py"

enum { ROWS = 3 };

static const struct {
    const char *layers, *input_shape;
} models[] = {
    {"linear(7)", "5"},
    {"linear(7, bias=false)", "5"},
    {"linear(7)", "4x5"},
    {"linear(7, bias=false)", "4x5"},
    {"conv2d(6, 3)", "4x9x8"},
    {"conv2d(6, 3x2, stride=2x1, padding=1x0, dilation=1x2, groups=2)", "4x9x8"},
    {"conv2d(4, 5, padding=2, groups=4, bias=false)", "4x9x8"},
    {"batch_norm2d", "4x3x2"},
    {"batch_norm2d(affine=false, eps=0.1)", "4x3x2"},
    {"layer_norm", "7"},
    {"layer_norm(eps=0.01, elementwise_affine=false)", "3x7"},
    {"layer_norm(3x7)", "3x7"},
    {"relu", "3x5x5"},
    {"gelu", "40"},
    {"gelu(tanh)", "40"},
    {"silu", "40"},
    {"dropout", "3x2x2"},
    {"max_pool2d(3, 2, 1)", "2x9x8"},
    {"max_pool2d(2x3)", "2x9x8"},
    {"avg_pool2d(3, 2, 1)", "2x9x8"},
    {"avg_pool2d(3, 2, 1, count_include_pad=false)", "2x9x8"},
    {"global_avg_pool2d", "3x4x5"},
    {"flatten", "3x4x5"},
    {"flatten", "4x5"},
    {"a=linear(5), b=linear(5), add(a), c=relu, d=dropout, add(a, from=d)", "5"},
    /* What is not on the way to the output is no harm; and an output that is an earlier value. */
    {"a=linear(4), b=linear(3), dropout(from=a)", "5"},
    {"mlp(32, 16, 10)", "1x28x28"},
    {"lenet", "1x28x28"},
    {"resnet18(num_classes=10)", "3x64x64"},
    {"resnet18(num_classes=10, stem=cifar)", "3x32x32"},
    {"resnet50(num_classes=7)", "3x32x32"},
    /* examples/mnist.yaml, regression.yaml, tenfold.yaml, cifar10.yaml. */
    {"flatten, linear(128), relu, linear(64), relu, linear(10)", "1x28x28"},
    {"flatten, linear(64), relu, linear(64), relu, linear(1)", "8"},
    {"conv2d(16, 3, padding=1), relu, max_pool2d(2), conv2d(32, 3, padding=1), relu, "
     "max_pool2d(2), flatten, linear(10)",
     "1x28x28"},
    {"conv2d(16, 3, padding=1, bias=false), batch_norm2d, in1=relu, "
     "conv2d(16, 3, padding=1, bias=false), batch_norm2d, relu, "
     "conv2d(16, 3, padding=1, bias=false), batch_norm2d, add(in1), in2=relu, "
     "conv2d(32, 3, stride=2, padding=1, bias=false), batch_norm2d, relu, "
     "conv2d(32, 3, padding=1, bias=false), out2=batch_norm2d, "
     "conv2d(32, 1, stride=2, bias=false, from=in2), batch_norm2d, add(out2), in3=relu, "
     "conv2d(64, 3, stride=2, padding=1, bias=false), batch_norm2d, relu, "
     "conv2d(64, 3, padding=1, bias=false), out3=batch_norm2d, "
     "conv2d(64, 1, stride=2, bias=false, from=in3), batch_norm2d, add(out3), relu, "
     "global_avg_pool2d, flatten, linear(10)",
     "3x32x32"},
    /* Rows of features, with a residual. */
    {"x=linear(8), n=layer_norm, linear(16), gelu, dropout(0.1), linear(8), add(x), layer_norm, "
     "flatten, linear(3)",
     "6x5"},
};

static stk_context *ctx;
static stk_error err;
static char folder[256];

static int setup(void **state)
{
    ctx = test_context();
    test_folder(folder);
    return 0;
}

static int teardown(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

static uint32_t read_shape(const char *text, int64_t shape[STK_MAX_RANK])
{
    uint32_t rank = 0;

    for (char *at = (char *)text; *at; at += *at == 'x')
        shape[rank++] = strtoll(at, &at, 10);
    return rank;
}

/* Also running statistics, which training would have moved. */
static void set_statistics(stk_model *model)
{
    stk_state_tensor t;

    for (size_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++) {
        const bool var = ends_with(t.name, ".running_var");
        for (uint64_t k = 0; k < tensor_count(&t) && (var || ends_with(t.name, ".running_mean"));
             k++)
            tensor_set(&t, k, place_hash((uint32_t)i, k) + (var ? 0.5 : -0.5));
    }
}

static stk_status put_piece(void *user, const void *data, size_t length, stk_error *error)
{
    stk_put *put = user;

    return put->ops->write(put, data, length, error);
}

/* All weights as safetensors, in the type that the model computes in. */
static void save(stk_model *model, const char *path)
{
    static stk_state_tensor tensors[1024];
    size_t n = 0;
    stk_put *put;

    while (stk_model_get_state(model, n, &tensors[n], &err) == STK_OK)
        n++;
    assert_ok(stk_put_open(ctx, path, NULL, &put, &err), &err);
    assert_ok(stk__weights_write(ctx, tensors, n, put_piece, put, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
}

static void write_numbers(const char *name, size_t i, const float *values, uint64_t n)
{
    char path[64];

    snprintf(path, sizeof path, "%zu.%s", i, name);
    test_write(folder, path, values, n * sizeof *values);
}

/* The plain loops in double are too slow for the deep ones. */
static bool is_left_out(size_t i, stk_precision precision)
{
    return have_float() && precision == STK_PRECISION_64_TRUE &&
           strncmp(models[i].layers, "resnet", 6) == 0;
}

static void write_case(size_t i, stk_precision precision)
{
    char weights[300], onnx[300];
    int64_t shape[STK_MAX_RANK];
    const uint32_t rank = read_shape(models[i].input_shape, shape);
    stk_weights_options how;
    stk_model_options options;
    stk_state_tensor output;
    uint64_t row = 1;

    for (uint32_t k = 0; k < rank; k++)
        row *= (uint64_t)shape[k];
    stk_model_options_init(&options);
    options.precision = precision;
    options.threads = 1;
    options.batch_size = ROWS;
    stk_model *model = model_make(ctx, models[i].layers, shape, rank, &options);
    model_set_weights(model);
    set_statistics(model);
    float *x = make_data(ROWS * row, (uint32_t)i);
    double *wide = malloc((ROWS * row + 1) * sizeof *wide);
    for (uint64_t k = 0; k < ROWS * row; k++)
        wide[k] = (double)x[k];
    const bool is_double = precision == STK_PRECISION_64_TRUE;
    const stk_model_batch batch = {.struct_size = sizeof batch,
                                   .count = ROWS,
                                   .dtype = is_double ? STK_FLOAT64 : STK_FLOAT32,
                                   .input = is_double ? (void *)wide : (void *)x};
    stk_model_result result = {.struct_size = sizeof result};
    assert_ok(stk_model_forward(model, &batch, false, &result, &err), &err);
    assert_ok(stk_model_output(model, &output, &err), &err);
    const uint64_t n = tensor_count(&output);
    float *y = malloc((n + 1) * sizeof *y);
    for (uint64_t k = 0; k < n; k++)
        y[k] = (float)tensor_get(&output, k);
    write_numbers("x", i, x, ROWS * row);
    write_numbers("y", i, y, n);
    snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
    snprintf(onnx, sizeof onnx, "%s/%zu.onnx", folder, i);
    save(model, weights);
    stk_weights_options_init(&how);
    how.overwrite = true;
    how.layers = models[i].layers;
    how.input_shape = models[i].input_shape;
    assert_ok(stk_weights_convert(ctx, weights, onnx, &how, NULL, &err), &err);
    free(x);
    free(wide);
    free(y);
    stk_model_destroy(&model);
}

/* Whether the models of these numbers (" 0 1") give what was written. */
static bool agree(const char *python, const char *numbers)
{
    char command[1024];

    snprintf(command, sizeof command, "'%s' '%s' '%s' %d%s", python, SCRIPT, folder, ROWS, numbers);
    return system(command) == 0;
}

static void check(stk_precision precision)
{
    char numbers[256] = "";

    const char *python = test_python("numpy, onnx, onnxruntime");
    if (!python)
        skip();
    for (size_t i = 0; i < STK_COUNT(models); i++) {
        if (is_left_out(i, precision))
            continue;
        write_case(i, precision);
        snprintf(numbers + strlen(numbers), sizeof numbers - strlen(numbers), " %zu", i);
    }
    assert_true(agree(python, numbers));
}

/* What is no number, what differs and what is missing do not agree. */
static void test_disagree(void **state)
{
    float y[ROWS * 7] = {NAN};
    char path[300];

    const char *python = test_python("numpy, onnx, onnxruntime");
    if (!python)
        skip();
    write_case(0, STK_PRECISION_64_TRUE);
    assert_true(agree(python, " 0"));
    write_numbers("y", 0, y, ROWS * 7);
    assert_false(agree(python, " 0"));
    y[0] = 1e-3f;
    write_numbers("y", 0, y, ROWS * 7);
    assert_false(agree(python, " 0"));
    write_case(0, STK_PRECISION_64_TRUE);
    snprintf(path, sizeof path, "%s/0.onnx", folder);
    assert_int_equal(remove(path), 0);
    assert_false(agree(python, " 0"));
    assert_false(agree(python, ""));
}

static void test_double(void **state)
{
    check(STK_PRECISION_64_TRUE);
}

static void test_float(void **state)
{
    if (!have_float())
        skip();
    check(STK_PRECISION_32_TRUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_double), cmocka_unit_test(test_float),
                                       cmocka_unit_test(test_disagree)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
