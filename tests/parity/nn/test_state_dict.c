/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of checkpoints, converted: PyTorch's models take them strictly and compute the same
 * (scripts/check_state_dict.py).
 */
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "unit/nn/models.h"

#define SCRIPT TESTS_DIR "/../scripts/check_state_dict.py"

enum { ROWS = 2, MOST = 256 };

static stk_error err;

/* A checkpoint of all weights, and a moment that no model has. */
static void save(stk_context *ctx, stk_model *model, const char *path)
{
    static stk_state_tensor tensors[MOST];
    stk__checkpoint_writer *writer;
    size_t n = 0;

    while (stk_model_get_state(model, n, &tensors[n], &err) == STK_OK)
        n++;
    assert_true(n + 1 < MOST);
    tensors[n] = tensors[0];
    tensors[n].name = "stoker.optimizer.exp_avg";
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    assert_ok(stk__checkpoint_save(writer, path, tensors, n + 1, NULL, 0, NULL, 0, NULL, &err),
              &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    stk__checkpoint_writer_destroy(&writer);
}

static void write_case(stk_context *ctx, const char *folder, const char *name, const char *layers,
                       int64_t side)
{
    const int64_t shape[] = {3, side, side};
    const uint64_t row = (uint64_t)(3 * side * side);
    stk_model_result result = {.struct_size = sizeof result};
    char path[300], to[300], file[64];
    stk_model_options options;
    stk_state_tensor output;

    stk_model_options_init(&options);
    options.threads = 1;
    options.batch_size = ROWS;
    stk_model *model = model_make(ctx, layers, shape, 3, &options);
    model_set_weights(model);
    float *x = make_data(ROWS * row, 0);
    const stk_model_batch batch = {
        .struct_size = sizeof batch, .count = ROWS, .dtype = STK_FLOAT32, .input = x};
    assert_ok(stk_model_forward(model, &batch, false, &result, &err), &err);
    assert_ok(stk_model_output(model, &output, &err), &err);
    snprintf(file, sizeof file, "%s.x", name);
    test_write(folder, file, x, ROWS * row * sizeof *x);
    snprintf(file, sizeof file, "%s.y", name);
    test_write(folder, file, output.data, output.bytes);
    snprintf(path, sizeof path, "%s/%s.ckpt", folder, name);
    snprintf(to, sizeof to, "%s/%s.safetensors", folder, name);
    save(ctx, model, path);
    assert_ok(stk_weights_convert(ctx, path, to, NULL, NULL, &err), &err);
    free(x);
    stk_model_destroy(&model);
}

static void test_strict(void **state)
{
    char folder[256], command[1024];

    const char *python = test_python("numpy, torch, torchvision, safetensors");
    if (!have_float() || !python)
        skip();
    stk_context *ctx = test_context();
    test_folder(folder);
    write_case(ctx, folder, "resnet18", "resnet18(num_classes=10)", 32);
    write_case(ctx, folder, "sequential", "conv2d(4, 3), batch_norm2d, relu, flatten, linear(2)",
               8);
    snprintf(command, sizeof command, "'%s' '%s' '%s' %d", python, SCRIPT, folder, ROWS);
    assert_int_equal(system(command), 0);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strict)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
