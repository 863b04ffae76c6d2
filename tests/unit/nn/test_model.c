/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions, plans, steps, dropout, probes, and what is refused. */
#include <stdio.h>

#include "nn/nn.h"
#include "unit/nn/models.h"

static stk_context *ctx;
static stk_error err;
static const int64_t row[1] = {6}, picture[3] = {1, 28, 28}, colour[3] = {3, 32, 32};

static int setup(void **state)
{
    ctx = test_context();
    stk_error_init(&err);
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

static stk_model_options defaults(void)
{
    stk_model_options options;

    stk_model_options_init(&options);
    options.threads = 1;
    options.batch_size = 8;
    options.precision = have_float() ? STK_PRECISION_32_TRUE : STK_PRECISION_64_TRUE;
    return options;
}

/* Adding these layers to a sample of `shape` is refused with a message that contains `part`. */
static void refuse(const int64_t *shape, uint32_t rank, const char *layers, const char *part)
{
    stk_model_builder *builder;
    int64_t after[STK_MAX_RANK];

    assert_ok(stk_model_builder_create(ctx, shape, rank, &builder, &err), &err);
    assert_fails(stk_model_builder_add(builder, layers, &err), STK_EINVAL, &err, part);
    /* Nothing of it stays. */
    assert_int_equal(stk_model_builder_shape(builder, after), rank);
    assert_memory_equal(after, shape, rank * sizeof *shape);
    stk_model_builder_destroy(&builder);
}

/* A step of little work is for one thread, one of much for all cores, unless the program says. */
static void test_threads(void **state)
{
    static const struct {
        const char *layers;
        uint64_t given, rows, eval_rows;
        uint32_t most;
    } cases[] = {{"linear(5)", 0, 8, 8, 1},
                 {"linear(100000), linear(100)", 0, 8, 8, 2},
                 {"linear(100000), linear(100)", 0, 1, 24, 2},
                 {"linear(100000), linear(100)", 0, 1, 8, 1},
                 {"linear(100000), linear(100)", 1, 8, 8, 1}};
    const stk_model_options defaults_of = defaults();

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_context_options own;
        stk_model_options options = defaults_of;
        stk_cores cores = {.struct_size = sizeof cores};
        stk_context *context;
        stk_context_options_init(&own);
        own.compute_threads = cases[i].given;
        options.threads = 0;
        options.batch_size = cases[i].rows;
        options.eval_batch_size = cases[i].eval_rows;
        assert_ok(stk_context_create(&own, &context, &err), &err);
        stk_context_cores(context, &cores);
        assert_int_equal(cores.compute, 1);
        const uint32_t workers = cores.preparation;
        stk_model *model = model_make(context, cases[i].layers, row, 1, &options);
        stk_context_cores(context, &cores);
        assert_int_equal(cores.compute, STK_MIN(cores.usable, cases[i].most));
        assert_int_equal(cores.preparation, workers);
        stk_model_destroy(&model);
        stk_context_destroy(&context);
    }
}

static void test_bad_layers(void **state)
{
    refuse(row, 1, "linear(5), linaer(4)", "did you mean 'linear'?");
    refuse(row, 1, "linear(5, bais=false)", "bias");
    refuse(row, 1, "linear(7, 5)", "takes [N, 7], but 'input' gives [N, 6]");
    refuse(row, 1, "a=linear(5), b=linear(4, 3)",
           "'b' (linear) takes [N, 4], but 'a' gives [N, 5]");
    refuse(row, 1, "linear", "number of outputs");
    refuse(row, 1, "linear(0)", "number of outputs");
    refuse(row, 1, "linear(-3)", "out_features");
    refuse(row, 1, "conv2d(3, 3)", "pictures");
    refuse(row, 1, "linear(5), relu(",
           "layers: expected \")\" at the end of the text; a layer is written "
           "'name=layer(argument, option=value)'");
    refuse(row, 1, "linear(5)), relu",
           "expected \",\" between layers at character 10, before \"), relu\"");
    refuse(row, 1, "linear(5),, relu", "expected the name of a layer at character 11");
    refuse(row, 1, "linear(5) relu", "expected \",\" between layers");
    refuse(row, 1, "relu(3)", "by place");
    refuse(row, 1, "a=linear(5), a=relu", "two layers are named 'a'");
    refuse(row, 1, "first=linear(5), relu, add(frist)", "'first' is");
    refuse(row, 1, "a=linear(5), linear(4), add(a)", "'a' gives [N, 5]");
    refuse(row, 1, "linear(5, from=nowhere)", "nowhere");
    refuse(row, 1, "dropout(1)", "p");
    refuse(row, 1, "dropout(nan)", "p");
    refuse(row, 1, "resnet18(10)", "pictures");
    refuse(row, 1, "mlp", "mlp(128, 64, 10)");
    refuse(row, 1, "mlp(0)", "mlp: sizes \"0\" is out of range: 1..1.67772e+07");
    refuse(row, 1, "mlp(3), relu, mlp(4)", "is used alone");
    refuse(picture, 3, "linear(10)", "put flatten between");
    refuse(picture, 3, "conv2d(4, 31)", "not smaller than its window");
    refuse(picture, 3, "conv2d(4, 3, groups=2)", "groups do not divide");
    refuse(picture, 3, "conv2d(4)", "kernel_size");
    refuse(picture, 3, "conv2d(4, 3x3x3)", "layer 0: kernel_size \"3x3x3\" has too many numbers");
    refuse(picture, 3, "conv2d(4, 3, padding=99999)",
           "layer 0: padding \"99999\" is out of range: 0..4096");
    refuse(picture, 3, "max_pool2d(2, padding=2)", "half of kernel_size");
    refuse(picture, 3, "batch_norm2d(3)", "takes [N, 3, height, width]");
    refuse(picture, 3, "flatten, layer_norm(10)", "gives [N, 784]");
    refuse(picture, 3, "lenet(num_clases=3)", "num_classes");
    refuse(picture, 3, "resnet18(10, stem=mnist)", "stem");
}

static void test_hostile_sizes(void **state)
{
    const int64_t big[3] = {1 << 20, 1 << 20, 1 << 20}, wide[3] = {1 << 12, 1 << 10, 1 << 10};
    const int64_t none[1] = {0};
    stk_model_builder *builder;

    assert_fails(stk_model_builder_create(ctx, none, 1, &builder, &err), STK_EINVAL, &err,
                 "1 to 3");
    assert_fails(stk_model_builder_create(ctx, row, 4, &builder, &err), STK_EINVAL, &err, "1 to 3");
    assert_fails(stk_model_builder_create(ctx, big, 3, &builder, &err), STK_ELIMIT, &err,
                 "too big");
    assert_null(builder);
    assert_ok(stk_model_builder_create(ctx, wide, 3, &builder, &err), &err);
    assert_fails(stk_model_builder_add(builder, "conv2d(16777216, 1)", &err), STK_ELIMIT, &err,
                 "too big");
    assert_fails(stk_model_builder_add(builder, "flatten, linear(16777216)", &err), STK_ELIMIT,
                 &err, "too big");
    stk_model_builder_destroy(&builder);
    assert_null(builder);
}

/* The create fails with this option and part of a message. */
static void refuse_model(const char *layers, const stk_model_options *options, stk_status status,
                         const char *part)
{
    stk_model_builder *builder;
    stk_model *model = NULL;

    assert_ok(stk_model_builder_create(ctx, row, 1, &builder, &err), &err);
    assert_ok(stk_model_builder_add(builder, layers, &err), &err);
    assert_fails(stk_model_create(builder, options, &model, &err), status, &err, part);
    assert_null(model);
    stk_model_builder_destroy(&builder);
}

static void test_bad_options(void **state)
{
    stk_model_options options = defaults();

    options.precision = STK_PRECISION_16_MIXED;
    refuse_model("linear(3)", &options, STK_ENOTSUP, "use bf16-mixed");
    options = defaults();
    options.freeze = "fc.*";
    refuse_model("linear(3)", &options, STK_EINVAL, "names are as '0.weight'");
    options = defaults();
    options.top_k = 4;
    refuse_model("linear(3)", &options, STK_EINVAL, "gives 3 classes");
    options = defaults();
    options.loss = STK_LOSS_MSE;
    options.label_smoothing = 0.1;
    refuse_model("linear(3)", &options, STK_EINVAL, "label_smoothing has an effect");
    options = defaults();
    refuse_model("", &options, STK_EINVAL, "no layers");
    options.struct_size = 0;
    refuse_model("linear(3)", &options, STK_EINVAL, "struct_size");
}

static void test_bad_batches(void **state)
{
    stk_model_options options = defaults();
    stk_model *model = model_make(ctx, "linear(3)", row, 1, &options);
    float x[54] = {0};
    int64_t labels[9] = {0, 1, 2, 0, 1, 3, 0, 0};
    stk_model_batch batch = {.struct_size = sizeof batch,
                             .count = 8,
                             .dtype = STK_FLOAT32,
                             .input = x,
                             .target = labels};
    stk_model_result result = {.struct_size = sizeof result};

    assert_fails(stk_model_forward(model, &batch, true, &result, &err), STK_EFORMAT, &err,
                 "row 5 of the batch has label 3, but the model has classes 0 to 2");
    assert_fails(stk_model_backward(model, 1, &err), STK_EINVAL, &err, "forward pass before it");
    labels[5] = -1;
    assert_fails(stk_model_forward(model, &batch, false, &result, &err), STK_EFORMAT, &err,
                 "label -1");
    labels[5] = 0;
    batch.count = 9;
    assert_fails(stk_model_forward(model, &batch, true, &result, &err), STK_EINVAL, &err,
                 "a batch of 9 rows");
    batch.count = 8;
    batch.dtype = STK_UINT8;
    assert_fails(stk_model_forward(model, &batch, true, &result, &err), STK_EINVAL, &err,
                 "takes float32, not uint8");
    batch.dtype = STK_FLOAT32;
    assert_ok(stk_model_forward(model, &batch, true, &result, &err), &err);
    assert_ok(stk_model_backward(model, 1, &err), &err);
    assert_fails(stk_model_backward(model, 1, &err), STK_EINVAL, &err, "forward pass before it");
    stk_model_destroy(&model);
}

/* torchvision's names, numbers of parameters, and the plan's bytes against what is allocated. */
static void test_named(void **state)
{
    if (!have_float())
        skip();
    static const struct {
        const char *layers, *first, *last;
        const int64_t *shape;
        uint64_t parameters, tensors;
    } cases[] = {
        {"mlp(128, 64, 10)", "1.weight", "5.bias", picture, 109386, 6},
        {"lenet", "conv1.weight", "fc3.bias", picture, 61706, 10},
        {"resnet18(10, cifar)", "conv1.weight", "fc.bias", colour, 11173962, 122},
        {"resnet50", "conv1.weight", "fc.bias", colour, 25557032, 320},
    };
    stk_model_options options = defaults();

    for (size_t i = 0; i < 4; i++) {
        stk_model_plan plan = {.struct_size = sizeof plan};
        stk_state_tensor t;
        size_t n = 0;
        stk_memory_stats before = {.struct_size = sizeof before},
                         after = {.struct_size = sizeof after};
        stk_model *model = model_make(ctx, cases[i].layers, cases[i].shape, 3, &options);
        stk_model_get_plan(model, &plan);
        assert_int_equal(plan.parameters, cases[i].parameters);
        assert_int_equal(plan.trainable, cases[i].parameters);
        stk_context_memory(ctx, &before);
        assert_ok(stk__model_get_gradient(model, 0, &t, &err), &err);
        stk_context_memory(ctx, &after);
        uint64_t allocated = after.bytes - before.bytes;
        assert_true(allocated >= plan.peak_bytes && allocated < plan.peak_bytes + 1024);
        for (; stk_model_get_state(model, n, &t, NULL) == STK_OK; n++)
            if (n == 0)
                assert_string_equal(t.name, cases[i].first);
        assert_int_equal(n, cases[i].tensors);
        assert_true(stk_model_get_state(model, n - 1, &t, NULL) == STK_OK);
        assert_string_equal(t.name, cases[i].last);
        stk_model_destroy(&model);
    }
}

/* After the first steps nothing is allocated, also where short batches come again. */
static void test_no_allocation(void **state)
{
    stk_model_options options = defaults();
    stk_optimizer *optimizer;
    stk_model *model = model_make(ctx, "lenet", picture, 3, &options);
    float *x = make_data(8 * 784, 0);
    int64_t *labels = make_labels(8, 10, 0);
    stk_memory_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};

    assert_ok(stk_optimizer_create(model, NULL, NULL, 0, &optimizer, &err), &err);
    for (int i = 0; i < 12; i++) {
        if (i == 4)
            stk_context_memory(ctx, &before);
        uint32_t rows = i % 4 == 3 ? 3 : 8;
        model_forward(model, rows, x, labels, true);
        assert_int_equal(stk_model_zero_grad(model, NULL), STK_OK);
        model_backward(model, 1);
        assert_int_equal(stk__model_clip_norm(model, 1, NULL), STK_OK);
        assert_int_equal(stk_optimizer_step(optimizer, NULL), STK_OK);
        model_forward(model, rows, x, labels, false);
    }
    stk_context_memory(ctx, &after);
    assert_int_equal(after.allocations, before.allocations);
    free(x);
    free(labels);
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
}

static void test_metrics(void **state)
{
    stk_model_options options = defaults();
    stk_model *model;
    stk_state_tensor w;
    float x[24] = {0};
    const int64_t labels[4] = {0, 1, 2, 1};

    options.top_k = 2;
    options.ignore_index = 2;
    model = model_make(ctx, "linear(3, bias=false)", row, 1, &options);
    assert_true(stk_model_get_state(model, 0, &w, NULL) == STK_OK);
    memset(w.data, 0, w.bytes);
    for (uint64_t k = 0; k < 3; k++)
        tensor_set(&w, k * 6 + k, 1);
    /* Logits: [3, 2, 1] label 0; [3, 2, 1] label 1; ignored; [0, 1, 2] label 1. */
    const float logits[4][3] = {{3, 2, 1}, {3, 2, 1}, {0, 0, 9}, {0, 1, 2}};
    for (int i = 0; i < 4; i++)
        memcpy(x + i * 6, logits[i], sizeof logits[i]);
    model_numbers r = model_forward(model, 4, x, labels, false);
    assert_int_equal(r.count, 3);
    assert_true(r.accuracy == 1.0 / 3);
    assert_true(r.accuracy_top_k == 1);
    double level = log(exp(3) + exp(2) + exp(1)), low = log(1 + exp(1) + exp(2));
    assert_true(fabs(r.loss - ((level - 3) + (level - 2) + (low - 1)) / 3) < 1e-6);
    /* All rows ignored: no loss, and no gradient, also not that of rows before. */
    const int64_t some[2] = {0, 1}, none[2] = {2, 2};
    model_forward(model, 2, x, some, true);
    model_backward(model, 1);
    assert_true(model_norm(model) > 0);
    assert_int_equal(stk_model_zero_grad(model, NULL), STK_OK);
    r = model_forward(model, 2, x, none, true);
    assert_true(isnan(r.loss) && r.count == 0);
    model_backward(model, 1);
    assert_true(model_norm(model) == 0);
    stk_model_destroy(&model);
}

/* The distributions of PyTorch's initial weights, by their bounds and deviations. */
static void test_initial_weights(void **state)
{
    stk_model_options options = defaults();
    stk_model *model = model_make(ctx, "resnet18(10, cifar)", colour, 3, &options);
    stk_state_tensor t;

    options.seed = 1;
    stk_model *other = model_make(ctx, "resnet18(10, cifar)", colour, 3, &options);
    for (size_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++) {
        double sum = 0, squares = 0, most = 0, n = (double)tensor_count(&t);
        for (uint64_t k = 0; k < tensor_count(&t); k++) {
            double v = tensor_get(&t, k);
            sum += v;
            squares += v * v;
            most = fmax(most, fabs(v));
        }
        double deviation = sqrt(squares / n - sum * sum / n / n);
        if (t.rank == 4) {
            double should = sqrt(2.0 / (double)(t.shape[0] * t.shape[2] * t.shape[3]));
            assert_true(fabs(deviation / should - 1) < 5 / sqrt(n));
            assert_true(fabs(sum / n) < 5 * should / sqrt(n));
            assert_true(tensor_get(&t, 0) != tensor_get(&t, 1));
        } else if (strcmp(t.name, "fc.weight") == 0) {
            double bound = 1 / sqrt(512.0);
            assert_true(most <= bound && most > 0.99 * bound);
            assert_true(fabs(deviation / (bound / sqrt(3)) - 1) < 0.05);
        } else if (strcmp(t.name, "fc.bias") != 0) {
            bool one = ends_with(t.name, "bn1.weight") || ends_with(t.name, "running_var");
            assert_true(!one || sum == n);
            assert_true(!ends_with(t.name, "running_mean") || most == 0);
        }
    }
    stk_state_tensor a, b;
    assert_true(stk_model_get_state(model, 0, &a, NULL) == STK_OK &&
                stk_model_get_state(other, 0, &b, NULL) == STK_OK);
    assert_memory_not_equal(a.data, b.data, a.bytes);
    stk_model_destroy(&other);
    /* Threads draw the same numbers. */
    options = defaults();
    options.threads = 3;
    other = model_make(ctx, "resnet18(10, cifar)", colour, 3, &options);
    for (size_t i = 0; stk_model_get_state(model, i, &a, NULL) == STK_OK; i++) {
        assert_true(stk_model_get_state(other, i, &b, NULL) == STK_OK);
        assert_memory_equal(a.data, b.data, a.bytes);
    }
    stk_model_destroy(&model);
    stk_model_destroy(&other);
}

/* Dropout zeroes its share, keeps the mean, and is a function of seed, step and place. */
static void test_dropout(void **state)
{
    if (!have_float())
        skip();
    const int64_t wide[1] = {4096};
    stk_model_options options = defaults();
    static float x[8 * 4096], first[8 * 4096];
    stk_model_result result = {.struct_size = sizeof result};

    options.loss = STK_LOSS_MSE;
    stk_model *model = model_make(ctx, "dropout(0.25)", wide, 1, &options);
    for (int i = 0; i < 8 * 4096; i++)
        x[i] = 3;
    stk_model_batch batch = {
        .struct_size = sizeof batch, .count = 8, .dtype = STK_FLOAT32, .input = x, .target = x};
    for (uint64_t step = 0; step < 3; step++) {
        int zeros = 0, same = 0;
        batch.step = step == 2 ? 0 : step;
        assert_ok(stk_model_forward(model, &batch, true, &result, &err), &err);
        const float *y = model_output(model);
        for (int i = 0; i < 8 * 4096; i++) {
            assert_true(y[i] == 0 || y[i] == 4);
            zeros += y[i] == 0;
            same += step > 0 && y[i] == first[i];
        }
        assert_true(abs(zeros - 8192) < 400); /* five deviations */
        assert_true(step != 1 || abs(same - 20480) < 450);
        assert_true(step != 2 || same == 8 * 4096);
        if (step == 0)
            memcpy(first, y, sizeof first);
    }
    assert_ok(stk_model_forward(model, &batch, false, &result, &err), &err);
    assert_true(model_value(model, &result.loss) == 0);
    stk_model_destroy(&model);
}

/* Pictures given as [H, W, C] are those given as [C, H, W]. */
static void test_input_layout(void **state)
{
    const int64_t shape[3] = {3, 6, 5};
    stk_model_options options = defaults();
    float *x = make_data(8 * 90, 0), turned[8 * 90];
    int64_t *labels = make_labels(8, 4, 0);

    for (int n = 0; n < 8; n++)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 30; i++)
                turned[n * 90 + i * 3 + c] = x[n * 90 + c * 30 + i];
    for (int32_t precision = have_float() ? 0 : 1; precision < 2; precision++) {
        options.precision = precision;
        options.input_layout = 0;
        stk_model *a =
            model_make(ctx, "conv2d(4, 3), relu, flatten, linear(4)", shape, 3, &options);
        options.input_layout = 1;
        stk_model *b =
            model_make(ctx, "conv2d(4, 3), relu, flatten, linear(4)", shape, 3, &options);
        double one = model_forward(a, 8, x, labels, true).loss;
        assert_true(one == model_forward(b, 8, turned, labels, true).loss);
        stk_model_destroy(&a);
        stk_model_destroy(&b);
    }
    free(x);
    free(labels);
}

/* One value of a channel has no variance: an error where it is trained, not where it is made. */
static void test_lonely_batch_norm(void **state)
{
    const int64_t dot[3] = {3, 1, 1}, labels[2] = {0, 1};
    const float x[6] = {1, 2, 3, 4, 5, 7};
    stk_model_options options = defaults();
    stk_model *model = model_make(ctx, "batch_norm2d, flatten", dot, 3, &options);
    stk_model_batch batch = {.struct_size = sizeof batch,
                             .count = 1,
                             .dtype = STK_FLOAT32,
                             .input = x,
                             .target = labels};
    stk_model_result result = {.struct_size = sizeof result};

    assert_fails(stk_model_forward(model, &batch, true, &result, &err), STK_EINVAL, &err,
                 "more than one value");
    assert_ok(stk_model_forward(model, &batch, false, &result, &err), &err);
    batch.count = 2;
    assert_ok(stk_model_forward(model, &batch, true, &result, &err), &err);
    stk_model_destroy(&model);
}

/* A weight that is no number shows in the loss, also behind a relu: nothing hides it. */
static void test_nan_shows(void **state)
{
    static const char *const layers[] = {"linear(4), relu, linear(3)",
                                         "a=linear(4), linear(4), add(a), relu, linear(3)",
                                         "linear(4), relu, relu, dropout(0.1), linear(3)"};
    const int64_t labels[2] = {0, 1};
    const float x[12] = {1, 2, 3, 4, 5, 7};

    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        stk_model_options options = defaults();
        stk_model *model = model_make(ctx, layers[i], row, 1, &options);
        stk_state_tensor w;
        assert_true(stk_model_get_state(model, 0, &w, NULL) == STK_OK);
        tensor_set(&w, 3, NAN);
        assert_true(isnan(model_forward(model, 2, x, labels, true).loss));
        stk_model_destroy(&model);
    }
}

typedef struct seen {
    uint32_t calls[2], losses[2];
    uint64_t flops;
} seen;

static void probe(void *user, size_t layer, bool backward, uint64_t start, uint64_t end,
                  uint64_t flops, uint64_t bytes)
{
    seen *s = user;

    assert_true(end >= start && bytes > 0 && layer <= 6);
    if (layer == 6)
        s->losses[backward]++;
    else
        s->calls[backward]++;
    s->flops += flops;
}

static void test_probe(void **state)
{
    stk_model_options options = defaults();
    stk_model *model = model_make(ctx, "mlp(128, 64, 10)", picture, 3, &options);
    stk_model_plan plan = {.struct_size = sizeof plan};
    float *x = make_data(8 * 784, 0);
    int64_t *labels = make_labels(8, 10, 0);
    seen s = {0};

    stk_model_get_plan(model, &plan);
    stk_model_set_probe(model, probe, &s);
    model_forward(model, 8, x, labels, true);
    model_backward(model, 0.5);
    /* The relus are done by the layers before them, flatten is nothing. */
    assert_int_equal(s.calls[0], 3);
    assert_int_equal(s.calls[1], 3);
    /* The loss comes behind the last of six. */
    assert_true(s.losses[0] == 1 && s.losses[1] == 1);
    assert_int_equal(plan.forward_flops, 2 * (784 * 128 + 128 * 64 + 64 * 10));
    assert_int_equal(s.flops, 8 * plan.step_flops);
    stk_model_set_probe(model, NULL, NULL);
    model_forward(model, 8, x, labels, true);
    assert_int_equal(s.calls[0], 3);
    free(x);
    free(labels);
    stk_model_destroy(&model);
}

static void test_bad_optimizers(void **state)
{
    stk_model_options options = defaults();
    stk_model *model = model_make(ctx, "linear(3)", row, 1, &options);
    stk_optimizer_options o;
    stk_optimizer *optimizer;
    stk_schedule s;
    const stk_parameter_group group = {"fc.*", 1, 1};

    stk_optimizer_options_init(&o);
    o.momentum = 0.9;
    assert_fails(stk_optimizer_create(model, &o, NULL, 0, &optimizer, &err), STK_EINVAL, &err,
                 "with sgd only");
    o.name = STK_SGD;
    o.momentum = 0;
    o.nesterov = true;
    assert_fails(stk_optimizer_create(model, &o, NULL, 0, &optimizer, &err), STK_EINVAL, &err,
                 "nesterov needs");
    o.nesterov = false;
    const double rates[] = {-1, NAN, INFINITY};
    stk_parameter_group fast = {"0.*", -1, NAN};
    assert_fails(stk_optimizer_create(model, &o, &fast, 1, &optimizer, &err), STK_EINVAL, &err,
                 "the group \"0.*\" is -1");
    for (int i = 0; i < 3; i++) {
        stk_optimizer_options bad = o;
        bad.lr = rates[i];
        assert_fails(stk_optimizer_create(model, &bad, NULL, 0, &optimizer, &err), STK_EINVAL, &err,
                     "at least 0");
        stk_schedule_init(&s);
        s.max_lr = rates[i];
        assert_fails(stk__schedule_check(&s, &err), STK_EINVAL, &err, "at least 0");
    }
    assert_fails(stk_optimizer_create(model, &o, &group, 1, &optimizer, &err), STK_EINVAL, &err,
                 "\"fc.*\"");
    stk_schedule_init(&s);
    s.name = STK_SCHEDULE_COSINE;
    assert_fails(stk__schedule_check(&s, &err), STK_EINVAL, &err, "t_max");
    s.name = STK_SCHEDULE_MULTI_STEP;
    s.milestones = "3, x";
    assert_fails(stk__schedule_check(&s, &err), STK_EINVAL, &err, "milestones");
    stk_model_destroy(&model);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_threads),           TEST(test_bad_layers),   TEST(test_hostile_sizes),
        TEST(test_bad_options),       TEST(test_bad_batches),  TEST(test_named),
        TEST(test_no_allocation),     TEST(test_metrics),      TEST(test_initial_weights),
        TEST(test_dropout),           TEST(test_input_layout), TEST(test_probe),
        TEST(test_lonely_batch_norm), TEST(test_nan_shows),    TEST(test_bad_optimizers),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
