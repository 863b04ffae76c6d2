/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of every layer and loss against finite differences, in double. */
#include <stdio.h>

#include "nn/nn.h"
#include "unit/nn/models.h"

#define ROWS 3
#define STEP 1e-5

static stk_context *ctx;

static int setup(void **state)
{
    ctx = test_context();
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

typedef struct subject {
    const char *layers;
    int64_t shape[3];
    uint32_t rank;
    int32_t loss;
    double smoothing;
} subject;

static const subject subjects[] = {
    {"linear(5)", {7}, 1, STK_LOSS_MSE, 0},
    {"linear(5), relu, linear(4, bias=false)", {7}, 1, STK_LOSS_BCE_WITH_LOGITS, 0},
    {"linear(5), gelu, linear(4), gelu(tanh), linear(3), silu", {6}, 1, STK_LOSS_MSE, 0},
    {"linear(5), layer_norm, linear(3)", {2, 4}, 2, STK_LOSS_MSE, 0},
    {"linear(4), layer_norm(3x4), relu, flatten, linear(3)", {3, 4}, 2, STK_LOSS_CROSS_ENTROPY, 0},
    {"linear(8), dropout(0.4), linear(6), relu, dropout(0.3), linear(3)",
     {5},
     1,
     STK_LOSS_CROSS_ENTROPY,
     0.1},
    {"conv2d(3, 3, stride=2, padding=1), relu, conv2d(2, 2)", {2, 6, 5}, 3, STK_LOSS_MSE, 0},
    {"conv2d(4, 3, dilation=2, padding=2, groups=2), conv2d(4, 3x1, groups=4, bias=false)",
     {2, 6, 5},
     3,
     STK_LOSS_MSE,
     0},
    {"conv2d(3, 2), batch_norm2d, relu, conv2d(2, 1), batch_norm2d(affine=false)",
     {2, 4, 4},
     3,
     STK_LOSS_MSE,
     0},
    {"conv2d(3, 2), max_pool2d(3, 2, 1), conv2d(2, 1), avg_pool2d(2), global_avg_pool2d, flatten",
     {2, 8, 7},
     3,
     STK_LOSS_MSE,
     0},
    {"conv2d(3, 2), avg_pool2d(3, 2, 1, count_include_pad=false), flatten, linear(3)",
     {2, 6, 7},
     3,
     STK_LOSS_CROSS_ENTROPY,
     0},
    /* Sums: of a layer with itself, of both orders, of views, of what a relu follows. */
    {"a=linear(4), add(a), relu, b=linear(4), relu, add(a), add(b), linear(3)",
     {4},
     1,
     STK_LOSS_MSE,
     0},
    {"a=conv2d(3, 1), relu, b=conv2d(3, 1), batch_norm2d, relu, c=conv2d(3, 1, from=a), add(b), "
     "relu, add(c), flatten, linear(3)",
     {2, 3, 3},
     3,
     STK_LOSS_CROSS_ENTROPY,
     0},
    {"a=conv2d(3, 1), f=flatten, b=relu(from=a), conv2d(3, 1), flatten, add(f), linear(2)",
     {2, 3, 2},
     3,
     STK_LOSS_MSE,
     0},
    {"x=linear(4), a=linear(4), b=linear(4, from=x), add(a), silu, c=add(x), linear(4), add(c), "
     "linear(3)",
     {4},
     1,
     STK_LOSS_MSE,
     0},
    {"x=conv2d(2, 1), p=batch_norm2d, q=batch_norm2d(from=x), relu, add(p), r=relu, conv2d(2, 1), "
     "batch_norm2d, add(r), relu",
     {2, 3, 3},
     3,
     STK_LOSS_MSE,
     0},
};

static stk_model *open_subject(const subject *s, float **x, void **target, const char *freeze)
{
    stk_model_options options;
    uint64_t in = 1, out = 1;

    stk_model_options_init(&options);
    options.precision = STK_PRECISION_64_TRUE;
    options.loss = s->loss;
    options.label_smoothing = s->smoothing;
    options.batch_size = ROWS;
    options.threads = 1;
    options.freeze = freeze;
    stk_model *model = model_make(ctx, s->layers, s->shape, s->rank, &options);
    model_set_weights(model);
    stk_model_layer layer = {.struct_size = sizeof layer};
    for (size_t i = 0; stk_model_get_layer(model, i, &layer);)
        i++;
    for (uint32_t i = 0; i < s->rank; i++)
        in *= (uint64_t)s->shape[i];
    for (uint32_t i = 0; i < layer.rank; i++)
        out *= (uint64_t)layer.shape[i];
    *x = make_data(in * ROWS, 0);
    *target = s->loss == STK_LOSS_CROSS_ENTROPY ? (void *)make_labels(ROWS, (int64_t)out, 0)
                                                : (void *)make_data(out * ROWS, 7);
    return model;
}

/* The slope of the loss along one weight. */
static double slope(stk_model *model, const stk_state_tensor *t, uint64_t i, const float *x,
                    const void *target)
{
    double *w = (double *)t->data + i, before = *w;

    *w = before + STEP;
    double high = model_forward(model, ROWS, x, target, true).loss;
    *w = before - STEP;
    double low = model_forward(model, ROWS, x, target, true).loss;
    *w = before;
    return (high - low) / (2 * STEP);
}

static void check_subject(const subject *s, const char *freeze)
{
    float *x;
    void *target;
    stk_model *model = open_subject(s, &x, &target, freeze);
    stk_state_tensor t, g;

    model_forward(model, ROWS, x, target, true);
    assert_int_equal(stk_model_zero_grad(model, NULL), STK_OK);
    model_backward(model, 1);
    for (size_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++) {
        if (!model_gradient(model, i, &g))
            continue;
        for (uint64_t k = 0; k < tensor_count(&t); k += 1 + tensor_count(&t) / 17) {
            double is = tensor_get(&g, k), should = slope(model, &t, k, x, target);
            if (!(fabs(is - should) <= 1e-7 + 1e-6 * fabs(should)))
                fail_msg("%s: %s[%d] is %.12g, not %.12g", s->layers, t.name, (int)k, is, should);
        }
    }
    free(x);
    free(target);
    stk_model_destroy(&model);
}

static void test_finite_differences(void **state)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        check_subject(&subjects[i], NULL);
}

/* A batch norm with fixed statistics: below it gradients flow, its own factors may learn. */
static void test_fixed_norms(void **state)
{
    static const subject s = {
        "conv2d(3, 2), n=batch_norm2d, relu, conv2d(2, 1), m=batch_norm2d(affine=false)",
        {2, 4, 4},
        3,
        STK_LOSS_MSE,
        0};

    check_subject(&s, "n.*, m.*");
    check_subject(&s, "n.running_*, m.running_*");
    check_subject(&s, "n.running_*, n.weight");
}

/* Two passes without zero_grad add up, whatever the layer. */
static void test_accumulation(void **state)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        float *x;
        void *target;
        stk_model *model = open_subject(&subjects[i], &x, &target, NULL);
        stk_state_tensor g;
        double once[64] = {0};
        for (int pass = 0; pass < 2; pass++) {
            model_forward(model, ROWS, x, target, true);
            model_backward(model, pass ? 0.5 : 1);
            for (size_t k = 0; k < 64; k++) {
                if (!model_gradient(model, k, &g))
                    continue;
                double value = tensor_get(&g, tensor_count(&g) / 2);
                if (pass == 0)
                    once[k] = value;
                else
                    assert_true(fabs(value - 1.5 * once[k]) <= 1e-12 + 1e-9 * fabs(once[k]));
            }
        }
        free(x);
        free(target);
        stk_model_destroy(&model);
    }
}

/* What is frozen has no gradient, and all others have the same as before. */
static void test_freeze(void **state)
{
    static const subject s = {
        "a=linear(5), relu, b=linear(4), relu, c=linear(3)", {6}, 1, STK_LOSS_CROSS_ENTROPY, 0};
    static const char *const patterns[] = {"a.*", "a.*, b.weight", "*.bias", "c.*", "b.*"};
    stk_state_tensor g[6];
    float *x;
    void *target;
    stk_model *whole = open_subject(&s, &x, &target, NULL);

    model_forward(whole, ROWS, x, target, true);
    model_backward(whole, 1);
    for (size_t i = 0; i < 6; i++)
        assert_true(model_gradient(whole, i, &g[i]));
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        float *same;
        void *labels;
        stk_model *model = open_subject(&s, &same, &labels, patterns[p]);
        stk_state_tensor part;
        size_t learning = 0;
        model_forward(model, ROWS, x, target, true);
        model_backward(model, 1);
        for (size_t i = 0; i < 6; i++) {
            if (!model_gradient(model, i, &part))
                continue;
            learning++;
            assert_memory_equal(part.data, g[i].data, part.bytes);
        }
        assert_int_equal(learning, p == 0 ? 4 : p == 1 ? 3 : p == 2 ? 3 : 4);
        free(same);
        free(labels);
        stk_model_destroy(&model);
    }
    free(x);
    free(target);
    stk_model_destroy(&whole);
}

static uint64_t held(void)
{
    stk_memory_stats memory = {.struct_size = sizeof memory};

    stk_context_memory(ctx, &memory);
    return memory.bytes;
}

/* An evaluation takes no memory for gradients; the first training pass does. */
static void test_evaluation_has_none(void **state)
{
    static const subject s = {
        "a=linear(512), relu, c=linear(3)", {256}, 1, STK_LOSS_CROSS_ENTROPY, 0};
    stk_model_plan plan = {.struct_size = sizeof plan};
    float *x;
    void *target;
    stk_model *model = open_subject(&s, &x, &target, NULL);

    stk_model_get_plan(model, &plan);
    assert_true(plan.gradient_bytes > 500000);
    const uint64_t before = held();
    model_forward(model, ROWS, x, target, false);
    assert_true(held() - before < plan.gradient_bytes / 2);
    model_forward(model, ROWS, x, target, true);
    assert_true(held() - before >= plan.gradient_bytes);
    free(x);
    free(target);
    stk_model_destroy(&model);
}

/* Each element for itself, as torch.nn.utils.clip_grad_value_; what is frozen has no gradient. */
static void test_clip_value(void **state)
{
    static const int64_t row[1] = {6};
    stk_model_options options;
    float x[8 * 6];
    int64_t labels[8];
    const double limit = 0.02;

    stk_model_options_init(&options);
    options.threads = 1;
    options.batch_size = 8;
    options.freeze = "0.bias";
    for (int pass = 0; pass < 2; pass++) {
        int low = 0, high = 0, within = 0;
        options.precision = pass || !have_float() ? STK_PRECISION_64_TRUE : STK_PRECISION_32_TRUE;
        stk_model *model = model_make(ctx, "linear(5), relu, linear(3)", row, 1, &options);
        stk_state_tensor g;
        double kept[4][30];
        model_set_weights(model);
        for (uint64_t i = 0; i < 8; i++)
            labels[i] = (int64_t)(i % 3);
        for (uint64_t i = 0; i < 8 * 6; i++)
            x[i] = (float)(place_hash(1000, i) * 2 - 1);
        /* Without gradients there is nothing to bound. */
        assert_int_equal(stk__model_clip_value(model, limit, NULL), STK_OK);
        model_forward(model, 8, x, labels, true);
        model_backward(model, 1);
        for (size_t i = 0; i < 4; i++) {
            if (!model_gradient(model, i, &g))
                continue;
            for (uint64_t k = 0; k < tensor_count(&g); k++)
                kept[i][k] = tensor_get(&g, k);
        }
        assert_false(model_gradient(model, 1, &g));
        assert_int_equal(stk__model_clip_value(model, limit, NULL), STK_OK);
        for (size_t i = 0; i < 4; i++) {
            if (!model_gradient(model, i, &g))
                continue;
            for (uint64_t k = 0; k < tensor_count(&g); k++) {
                double wanted = fmax(fmin(kept[i][k], limit), -limit);
                assert_true(fabs(tensor_get(&g, k) - wanted) <= 1e-9);
                low += kept[i][k] < -limit;
                high += kept[i][k] > limit;
                within += fabs(kept[i][k]) < limit;
            }
        }
        assert_true(low > 2 && high > 2 && within > 2);
        stk_model_destroy(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_freeze),
        cmocka_unit_test(test_fixed_norms),
        cmocka_unit_test(test_evaluation_has_none),
        cmocka_unit_test(test_clip_value),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
