/* SPDX-License-Identifier: Apache-2.0 */
/* What computes in float against the reference in double; vector loops against C; threads. */
#include <stdio.h>

#include "nn/kernels.h"
#include "nn/nn.h"
#include "unit/nn/models.h"

#define ROWS 9

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
} subject;

static const subject subjects[] = {
    {"linear(33), relu, linear(129), gelu, linear(70), silu, layer_norm, linear(17)", {45}, 1},
    {"linear(64), dropout(0.3), linear(31), relu, dropout(0.1), linear(5)", {100}, 1},
    {"linear(40), layer_norm(6x40), gelu(tanh), linear(3)", {6, 20}, 2},
    {"conv2d(16, 3, padding=1), batch_norm2d, relu, max_pool2d(2), conv2d(24, 3, stride=2), relu, "
     "avg_pool2d(2), flatten, linear(10)",
     {3, 17, 19},
     3},
    {"conv2d(7, 5, padding=2), relu, conv2d(9, 3, dilation=2), batch_norm2d, conv2d(5, 1)",
     {1, 14, 13},
     3},
    {"conv2d(16, 1), relu, conv2d(3, 1), flatten, linear(4)", {3, 6, 5}, 3},
    {"conv2d(32, 3, groups=4, padding=1, bias=false), relu, conv2d(32, 3, groups=32), relu, "
     "conv2d(8, 3x1, padding=1x0), global_avg_pool2d, flatten, linear(4)",
     {8, 9, 9},
     3},
    {"a=conv2d(16, 3, padding=1), batch_norm2d, r=relu, conv2d(16, 3, padding=1), batch_norm2d, "
     "add(r), relu, b=conv2d(16, 1), add(a), relu, flatten, linear(10)",
     {4, 8, 8},
     3},
    {"conv2d(16, 3, padding=1), relu, a=conv2d(48, 3, padding=1, bias=false), conv2d(48, 3, "
     "padding=1), add(a), relu, conv2d(32, 3, padding=1), flatten, linear(4)",
     {32, 9, 7},
     3},
    {"conv2d(16, 3, padding=1), batch_norm2d, relu, conv2d(16, 3, padding=1)", {16, 18, 12}, 3},
    {"conv2d(16, 3, padding=1), relu, conv2d(32, 3, padding=1)", {16, 1, 2}, 3},
    {"conv2d(16, 3, padding=1), relu, conv2d(32, 3, padding=1)", {16, 2, 3}, 3},
    {"conv2d(16, 3), relu, conv2d(32, 3, dilation=2, padding=2), conv2d(16, 3, stride=2, "
     "padding=1), "
     "conv2d(32, 3, groups=2, padding=1), conv2d(16, 3, padding=1x0), conv2d(24, 3, padding=1), "
     "conv2d(16, 3, padding=1)",
     {16, 13, 11},
     3},
};

/* Gradients and loss of one step. */
typedef struct outcome {
    stk_model *model;
    double loss;
} outcome;

static outcome run(const subject *s, int32_t precision, uint32_t threads, uint32_t rows)
{
    stk_model_options options;
    uint64_t in = 1, out = 1;
    outcome o;

    stk_model_options_init(&options);
    options.precision = precision;
    options.loss = STK_LOSS_MSE;
    options.batch_size = ROWS;
    options.threads = threads;
    options.seed = 5;
    o.model = model_make(ctx, s->layers, s->shape, s->rank, &options);
    model_set_weights(o.model);
    stk_model_layer layer = {.struct_size = sizeof layer};
    for (size_t i = 0; stk_model_get_layer(o.model, i, &layer);)
        i++;
    for (uint32_t i = 0; i < s->rank; i++)
        in *= (uint64_t)s->shape[i];
    for (uint32_t i = 0; i < layer.rank; i++)
        out *= (uint64_t)layer.shape[i];
    float *x = make_data(in * ROWS, 0), *target = make_data(out * ROWS, 7);
    /* A longer batch before a short one must not show. */
    if (rows < ROWS) {
        model_forward(o.model, ROWS, x, target, false);
        model_forward(o.model, ROWS, x, target, false);
    }
    o.loss = model_forward(o.model, rows, x, target, true).loss;
    model_backward(o.model, 1);
    free(x);
    free(target);
    return o;
}

/* Each gradient within `tolerance` of the other's, relative to the norm. */
static void compare(const subject *s, outcome *a, outcome *b, double tolerance)
{
    stk_state_tensor x, y;

    if (!(fabs(a->loss - b->loss) <= tolerance * fabs(b->loss)))
        fail_msg("%s: the loss is %.9g, not %.9g", s->layers, a->loss, b->loss);
    for (size_t i = 0; stk_model_get_state(a->model, i, &x, NULL) == STK_OK; i++) {
        if (!model_gradient(a->model, i, &x))
            continue;
        assert_true(model_gradient(b->model, i, &y));
        double distance = 0, norm = 0;
        for (uint64_t k = 0; k < tensor_count(&x); k++) {
            double d = tensor_get(&x, k) - tensor_get(&y, k);
            distance += d * d;
            norm += tensor_get(&y, k) * tensor_get(&y, k);
        }
        if (!(sqrt(distance) <= tolerance * (sqrt(norm) + 0.05)))
            fail_msg("%s: the gradient of %s is off by %.3g of %.3g", s->layers, x.name,
                     sqrt(distance), sqrt(norm));
    }
    stk_model_destroy(&a->model);
    stk_model_destroy(&b->model);
}

/* Rounding of products of some hundred terms: 1e-5 of the norm. */
static void test_float(void **state)
{
    if (!have_float())
        skip();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        outcome a = run(&subjects[i], STK_PRECISION_32_TRUE, 1, ROWS);
        outcome b = run(&subjects[i], STK_PRECISION_64_TRUE, 1, ROWS);
        compare(&subjects[i], &a, &b, 1e-5);
    }
}

static void test_short_batch(void **state)
{
    if (!have_float())
        skip();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        outcome a = run(&subjects[i], STK_PRECISION_32_TRUE, 1, 4);
        outcome b = run(&subjects[i], STK_PRECISION_64_TRUE, 1, 4);
        compare(&subjects[i], &a, &b, 1e-5);
    }
}

/* bfloat16 has 8 bits: operands are off by up to 2^-9 of themselves. */
static void test_bf16(void **state)
{
    if (!have_float())
        skip();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        outcome a = run(&subjects[i], STK_PRECISION_BF16_MIXED, 1, ROWS);
        outcome b = run(&subjects[i], STK_PRECISION_64_TRUE, 1, ROWS);
        compare(&subjects[i], &a, &b, 0.15);
    }
}

static void test_threads(void **state)
{
    if (!have_float())
        skip();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        outcome a = run(&subjects[i], STK_PRECISION_32_TRUE, 2, ROWS);
        outcome b = run(&subjects[i], STK_PRECISION_32_TRUE, 1, ROWS);
        compare(&subjects[i], &a, &b, 1e-5);
        /* The same bits with the same number. */
        a = run(&subjects[i], STK_PRECISION_32_TRUE, 2, ROWS);
        b = run(&subjects[i], STK_PRECISION_32_TRUE, 2, ROWS);
        compare(&subjects[i], &a, &b, 0);
    }
}

/* Rows of a loss in parts: the sums of all, and of those alone that count. */
static void test_threads_of_rows(void **state)
{
    enum { N = 9, CLASSES = 9000 };
    const int64_t shape[] = {CLASSES};
    float *x = make_data((uint64_t)N * CLASSES, 3);
    int64_t labels[N];

    if (!have_float())
        skip();
    for (int i = 0; i < N; i++)
        labels[i] = i % 4 == 1 ? -100 : i * 991 + 17;
    for (uint32_t threads = 1; threads < 5; threads += 3) {
        stk_model_options options;
        stk_model_options_init(&options);
        options.batch_size = N;
        options.threads = threads;
        options.label_smoothing = 0.1;
        options.top_k = 4000;
        stk_model *model = model_make(ctx, "flatten", shape, 1, &options);
        const stk_model_batch batch = {.struct_size = sizeof batch,
                                       .count = N,
                                       .input = x,
                                       .dtype = STK_FLOAT32,
                                       .target = labels};
        double values[4];
        stk_model_result r = {.struct_size = sizeof r};
        assert_int_equal(stk_model_forward(model, &batch, false, &r, NULL), STK_OK);
        const stk_scalar *const numbers[] = {&r.loss, &r.count, &r.accuracy, &r.accuracy_top_k};
        for (int i = 0; i < 4; i++)
            assert_int_equal(stk_model_value(model, numbers[i], &values[i], NULL), STK_OK);
        static double first[4];
        if (threads == 1)
            memcpy(first, values, sizeof first);
        assert_true(values[1] == 7 && values[3] > 0 && values[3] < 1);
        for (int i = 0; i < 4; i++)
            assert_true(fabs(values[i] - first[i]) <= 1e-12 * fabs(first[i]));
        stk_model_destroy(&model);
    }
    free(x);
}

#ifdef STK_WITH_AVX2
enum { COLS = 37, LINES = 71, N = COLS * LINES };

/* Inputs of all kinds in the same places, with special values. */
static void fill(float *x, uint64_t seed)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f};

    for (int i = 0; i < N; i++) {
        uint64_t bits = test_random(&seed);
        x[i] = (float)(int64_t)(bits >> 20) * 0x1p-43f;
        if (bits % 97 == 0)
            x[i] = special[bits / 97 % 7];
    }
}

static void assert_bits(const float *a, const float *b, const char *what)
{
    for (int i = 0; i < N; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s differs at %d: %a and %a", what, i, (double)a[i], (double)b[i]);
}

static float in[6][N], out[2][4][N];
static double sums[2][2][COLS];

static void apply(const stk__nn_kernels *k, float y[4][N], double s[2][COLS], int which)
{
    const stk__sgd sgd = {0.1, 0.9, 0.2, 0.01, which & 1, false};
    const stk__adam adam = {0.9, 0.999, 1e-8, 0.01, 0.99, 0.02, 1.5};
    static float room[2 * COLS];
    uint8_t mask[N];

    for (int i = 0; i < N; i++)
        mask[i] = (uint8_t)(i * 7 % 3 != 0);
    for (int i = 0; i < 4; i++)
        memcpy(y[i], in[i], sizeof in[i]);
    memset(s, 0, sizeof(double[2][COLS]));
    switch (which) {
    case 0:
        k->sum(y[0], in[0], in[1], N, true);
        k->relu(y[1], in[1], N);
        k->relu_backward(y[2], in[2], in[3], N, true);
        k->relu_backward(y[3], y[3], in[4], N, false);
        return;
    case 1:
        k->bias(y[0], in[4], LINES, COLS, true);
        k->column_sums(s[0], in[1], LINES, COLS);
        k->mask(y[1], in[5], mask, N, 1.25, true);
        k->clamp(y[2], N, 0.5);
        k->scale(y[3], N, 0.3);
        return;
    case 2:
        k->moments(s[0], s[1], in[0], LINES, COLS, room);
        k->affine(y[1], y[1], in[2], in[3], LINES, COLS, true);
        k->norm_sums(s[0], s[1], y[2], in[0], in[1], in[4], in[5], LINES, COLS, true, room);
        k->norm_backward(y[3], y[3], in[0], in[1], in[2], in[4], in[5], LINES, COLS, true);
        return;
    case 3:
    case 4:
        k->sgd(y[0], in[1], y[2], N, &sgd);
        k->adam(y[1], in[0], y[3], y[2], N, &adam);
        s[0][0] = k->square_sum(in[0] + which, N - which);
        return;
    default:
        k->layer_norm(y[0], y[1], in[2], in[3], in[4], LINES, COLS, 1e-5);
        k->layer_norm_backward(y[2], s[0], s[1], in[0], in[2], y[1], in[3], LINES, COLS, true);
        return;
    }
}

static void vector_loops(const stk__nn_kernels *table)
{
    for (int which = 0; which < 6; which++) {
        for (int i = 0; i < 6; i++)
            fill(in[i], (uint64_t)(which * 6 + i + 1));
        apply(&stk__nn_kernels_c, out[0], sums[0], which);
        apply(table, out[1], sums[1], which);
        for (int i = 0; i < 4; i++)
            assert_bits(out[0][i], out[1][i], "a loop");
        for (int c = 0; c < 2 * COLS; c++) {
            double a = sums[0][c / COLS][c % COLS], b = sums[1][c / COLS][c % COLS];
            assert_true(a == b || (isnan(a) && isnan(b)));
        }
    }
}

static void test_vector_loops(void **state)
{
    if (stk__nn_kernels_at(0) == &stk__nn_kernels_c)
        skip();
    for (uint32_t i = 0; stk__nn_kernels_at(i) != &stk__nn_kernels_c; i++)
        vector_loops(stk__nn_kernels_at(i));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float),
        cmocka_unit_test(test_short_batch),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_threads_of_rows),
#ifdef STK_WITH_AVX2
        cmocka_unit_test(test_vector_loops),
#endif
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
