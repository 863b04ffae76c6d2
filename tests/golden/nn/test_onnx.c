/* SPDX-License-Identifier: Apache-2.0 */
/* Models written as ONNX, byte for byte against those of scripts/make_onnx_golden.py, and what is
 * refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/weights/weights.h"
#include "nn/nn.h"
#include "support/faults.h"
#include "support/support.h"

#define GOLDEN TESTS_DIR "/golden/nn/onnx/"

static stk_context *ctx;
static stk_error err;
static char folder[256];

/* The layers of the script. Dropout is none of them. */
static const struct {
    const char *name, *layers, *input_shape;
} models[] = {
    {"pictures",
     "conv=conv2d(4, 3x2, stride=(2,1), padding=(1,0), dilation=(1,2), groups=2), "
     "bn=batch_norm2d(eps=1e-3), act=relu, plain=batch_norm2d(affine=false), "
     "side=conv2d(4, 1, bias=false), drop=dropout(0.3), sum=add(act), max=max_pool2d(3, 2, 1), "
     "mean=avg_pool2d(2, 1, 1, count_include_pad=false), silu=silu, gelu=gelu, "
     "mean2=avg_pool2d(2), "
     "flat=flatten, fc=linear(3), dropout",
     "2x8x10"},
    {"rows",
     "a=linear(4), n=layer_norm, g=gelu(tanh), b=linear(3, bias=false), "
     "both=layer_norm(6x3, eps=1e-4, elementwise_affine=false)",
     "[6, 5]"},
};

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

static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static size_t read_file(const char *path, uint8_t bytes[8192])
{
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    const size_t size = fread(bytes, 1, 8192, f);
    fclose(f);
    assert_true(size < 8192);
    return size;
}

static void assert_same(const char *path, const char *wanted)
{
    uint8_t a[8192], b[8192];
    const size_t size = read_file(path, a);

    assert_int_equal(size, read_file(wanted, b));
    assert_memory_equal(a, b, size);
}

static stk_weights_options options_of(size_t i)
{
    stk_weights_options options;

    stk_weights_options_init(&options);
    options.overwrite = true;
    options.layers = models[i].layers;
    options.input_shape = models[i].input_shape;
    return options;
}

static void test_bytes(void **state)
{
    const char *to = in_folder("model.onnx");
    char from[512], wanted[512];

    for (size_t i = 0; i < STK_COUNT(models); i++) {
        const stk_weights_options options = options_of(i);
        snprintf(from, sizeof from, GOLDEN "%s.safetensors", models[i].name);
        snprintf(wanted, sizeof wanted, GOLDEN "%s.onnx", models[i].name);
        assert_ok(stk_weights_convert(ctx, from, to, &options, NULL, &err), &err);
        assert_same(to, wanted);
    }
}

static stk_status put_piece(void *user, const void *data, size_t length, stk_error *error)
{
    stk_put *put = user;

    return put->ops->write(put, data, length, error);
}

/* Weights in double come to the same. */
static void test_double(void **state)
{
    const char *from = in_folder("double.safetensors"), *to = in_folder("double.onnx");
    const stk_weights_options options = options_of(1);
    double values[8][64];
    stk__weights w;
    stk_put *put;

    assert_ok(stk__weights_load(ctx, GOLDEN "rows.safetensors", NULL, &w, &err), &err);
    assert_true(w.num_tensors <= 8);
    for (size_t i = 0; i < w.num_tensors; i++) {
        stk_state_tensor *t = &w.tensors[i];
        const size_t n = t->bytes / sizeof(float);
        assert_true(n <= 64 && t->dtype == STK_FLOAT32);
        for (size_t k = 0; k < n; k++)
            values[i][k] = (double)((const float *)t->data)[k];
        t->dtype = STK_FLOAT64;
        t->bytes *= 2;
        t->data = values[i];
    }
    assert_ok(stk_put_open(ctx, from, NULL, &put, &err), &err);
    assert_ok(stk__weights_write(ctx, w.tensors, w.num_tensors, put_piece, put, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    stk__weights_release(&w);
    assert_ok(stk_weights_convert(ctx, from, to, &options, NULL, &err), &err);
    assert_same(to, GOLDEN "rows.onnx");
}

static void refuse(const char *layers, const char *input_shape, stk_status status, const char *part)
{
    stk_weights_options options = options_of(1);

    options.layers = layers;
    options.input_shape = input_shape;
    assert_fails(stk_weights_convert(ctx, GOLDEN "rows.safetensors", in_folder("none.onnx"),
                                     &options, NULL, &err),
                 status, &err, part);
    assert_null(fopen(in_folder("none.onnx"), "rb"));
}

static void test_refused(void **state)
{
    const stk_weights_options options = options_of(0);

    refuse(NULL, "6x5", STK_EINVAL, "does not say what model its weights are of");
    refuse("linear(4)", NULL, STK_EINVAL, "does not say what model its weights are of");
    refuse("linear(4)", "6y5", STK_EINVAL, "input_shape");
    refuse("linear(4)", "0", STK_EINVAL, "input_shape");
    refuse("linear(4)", "1x2x3x4", STK_EINVAL, "1 to 3 dimensions");
    refuse("linaer(4)", "6x5", STK_EINVAL, "there is no layer \"linaer\"");
    refuse("a=linear(4), n=layer_norm", "6x5", STK_EMISMATCH,
           "is not in the model; give the layers");
    refuse(models[1].layers, "6x7", STK_EMISMATCH,
           "'a.weight' is [4, 5], but the model's is [4, 7]");
    assert_fails(stk_weights_convert(ctx, GOLDEN "rows.safetensors", in_folder("a.safetensors"),
                                     &options, NULL, &err),
                 STK_EINVAL, &err, "the option layers does nothing");
}

static stk_status never(void *user, const void *data, size_t length, stk_error *error)
{
    fail_msg("something was written");
    return STK_OK;
}

/* Nothing is read of weights that no file can hold. */
static void test_too_large(void **state)
{
    const int64_t shape[] = {30000};
    const stk_state_tensor weight = {"0.weight",     STK_FLOAT32, 2,
                                     {30000, 30000}, NULL,        UINT64_C(3600000000)};
    stk_model_builder *builder;
    size_t count;

    assert_ok(stk_model_builder_create(ctx, shape, 1, &builder, &err), &err);
    assert_ok(stk_model_builder_add(builder, "linear(30000, bias=false)", &err), &err);
    assert_fails(stk__onnx_write(builder, &weight, 1, never, NULL, &count, &err), STK_ELIMIT, &err,
                 "2 GiB at most: write the weights as .safetensors");
    stk_model_builder_destroy(&builder);
}

/* A model without operations gives what it takes. */
static stk_status count_bytes(void *user, const void *data, size_t length, stk_error *error)
{
    stk__text *text = user;

    stk__text_put(text, data, length);
    return STK_OK;
}

static void test_identity(void **state)
{
    const int64_t shape[] = {3};
    stk__text text = {.ctx = ctx};
    stk_model_builder *builder;
    size_t count;

    assert_ok(stk_model_builder_create(ctx, shape, 1, &builder, &err), &err);
    assert_ok(stk_model_builder_add(builder, "dropout, dropout", &err), &err);
    assert_ok(stk__onnx_write(builder, NULL, 0, count_bytes, &text, &count, &err), &err);
    assert_int_equal(count, 0);
    assert_non_null(memmem(text.bytes, text.length, "Identity", 8));
    stk__text_release(&text);
    stk_model_builder_destroy(&builder);
}

/* The n-th allocation fails: said so, nothing is held, and there is no file. */
static void test_no_memory(void **state)
{
    const char *to = in_folder("poor.onnx");
    stk_weights_options options = options_of(0);
    faults f = {.left = FAULTS_NONE};
    stk_context_options o;
    stk_context *poor;

    options.overwrite = false;
    stk_context_options_init(&o);
    o.allocator = (stk_allocator){.alloc = faulty_alloc, .free = faulty_free, .user = &f};
    assert_int_equal(stk_context_create(&o, &poor, &err), STK_OK);
    for (int64_t n = 0;; n++) {
        const int64_t held = f.held;
        f.left = n;
        const stk_status status =
            stk_weights_convert(poor, GOLDEN "pictures.safetensors", to, &options, NULL, &err);
        f.left = FAULTS_NONE;
        if (status == STK_OK) {
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, STK_ENOMEM);
        assert_int_equal(f.held, held);
        assert_null(fopen(to, "rb"));
    }
    assert_same(to, GOLDEN "pictures.onnx");
    stk_context_destroy(&poor);
    assert_int_equal(f.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),    cmocka_unit_test(test_double),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_identity), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
