/* SPDX-License-Identifier: Apache-2.0 */
/* bf16-mixed to the bit: linear layers on whole numbers, whose sums are exact in any order, with
 * operands that are whole only when they were rounded. */
#include <stdio.h>

#include "nn/kernels.h"
#include "nn/nn.h"
#include "unit/nn/models.h"

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

typedef struct size {
    uint32_t rows, in, out;
} size;

/* Odd ones, too: processors take bfloat16 in pairs. */
static const size sizes[] = {{1, 1, 1}, {3, 5, 7}, {33, 77, 51}, {64, 128, 10}, {17, 300, 3}};

/* A whole number of -2 to 2, off by less than half of bfloat16's last bit. */
static float near_whole(uint32_t stream, uint64_t i)
{
    return (float)((int)(place_hash(stream, i) * 5) - 2) * (1 + 0x1p-12f);
}

static double rounded(double x)
{
    float f = (float)x;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double whole(uint32_t stream, uint64_t i)
{
    return rounded((double)near_whole(stream, i));
}

/* The gradient of an output under l1, as the products take it. */
static double slope(const size *s, uint64_t element)
{
    double c = rounded((double)(1.0f / (float)(s->rows * s->out)));

    return place_hash(9, element) < 0.5 ? -c : c;
}

static stk_model *make(const char *layers, const size *s, uint32_t threads)
{
    const int64_t shape[] = {s->in};
    stk_model_options options;
    stk_state_tensor t;

    stk_model_options_init(&options);
    options.precision = STK_PRECISION_BF16_MIXED;
    options.loss = STK_LOSS_L1;
    options.batch_size = s->rows;
    options.threads = threads;
    stk_model *model = model_make(ctx, layers, shape, 1, &options);
    for (uint32_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++)
        for (uint64_t k = 0; k < tensor_count(&t); k++)
            tensor_set(&t, k, (double)near_whole(20 + i, k));
    return model;
}

/* A pass in both directions: targets lie on the side of the output that slope() says. */
static void step(stk_model *model, const size *s)
{
    uint64_t in = (uint64_t)s->rows * s->in, out = (uint64_t)s->rows * s->out;
    float *x = malloc(in * sizeof *x), *target = malloc(out * sizeof *target);

    assert_true(x && target);
    for (uint64_t i = 0; i < in; i++)
        x[i] = near_whole(1, i);
    for (uint64_t i = 0; i < out; i++)
        target[i] = slope(s, i) < 0 ? 1e6f : -1e6f;
    model_forward(model, s->rows, x, target, true);
    model_backward(model, 1);
    free(x);
    free(target);
}

static void assert_gradient(stk_model *model, size_t which, uint64_t element, double wanted,
                            double tolerance)
{
    stk_state_tensor t;

    assert_true(model_gradient(model, which, &t));
    double got = tensor_get(&t, element);
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s[%u]: %.9g instead of %.9g", t.name, (unsigned)element, got, wanted);
}

/* Outputs, and the gradient of the weights: set, then added to. */
static void one_layer(const size *s, uint32_t threads)
{
    char layers[32];

    snprintf(layers, sizeof layers, "linear(%u)", s->out);
    stk_model *model = make(layers, s, threads);
    step(model, s);
    const float *y = model_output(model);
    for (uint32_t r = 0; r < s->rows; r++)
        for (uint32_t o = 0; o < s->out; o++) {
            double sum = (double)near_whole(21, o); /* a bias is not rounded */
            for (uint32_t i = 0; i < s->in; i++)
                sum += whole(1, (uint64_t)r * s->in + i) * whole(20, (uint64_t)o * s->in + i);
            assert_true((double)y[r * s->out + o] == (double)(float)sum);
        }
    for (int pass = 1; pass <= 2; pass++) {
        for (uint32_t o = 0; o < s->out; o++)
            for (uint32_t i = 0; i < s->in; i++) {
                double sum = 0;
                for (uint32_t r = 0; r < s->rows; r++)
                    sum += slope(s, (uint64_t)r * s->out + o) * whole(1, (uint64_t)r * s->in + i);
                assert_gradient(model, 0, (uint64_t)o * s->in + i, pass * sum, 0);
            }
        step(model, s);
    }
    stk_model_destroy(&model);
}

static void test_one_layer(void **state)
{
    if (!have_float())
        skip();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t threads = 1; threads <= 2; threads++)
            one_layer(&sizes[i], threads);
}

/* The gradient of an input, set (between two layers) and added to (past a layer): it comes to the
 * weights of the layer before, which takes it rounded. */
static void two_layers(const size *s, bool past)
{
    char layers[64];
    uint32_t m = s->out; /* of both layers */

    snprintf(layers, sizeof layers,
             past ? "a=linear(%u), linear(%u), add(a)" : "linear(%u), linear(%u)", m, m);
    stk_model *model = make(layers, s, 1);
    step(model, s);
    for (uint32_t k = 0; k < m; k++)
        for (uint32_t i = 0; i < s->in; i++) {
            double sum = 0, all = 0;
            for (uint32_t r = 0; r < s->rows; r++) {
                double dx = past ? (double)(slope(s, (uint64_t)r * m + k) < 0 ? -1 : 1) /
                                       (double)((float)s->rows * (float)m)
                                 : 0;
                for (uint32_t o = 0; o < m; o++)
                    dx += slope(s, (uint64_t)r * m + o) * whole(22, (uint64_t)o * m + k);
                double part = rounded(dx) * whole(1, (uint64_t)r * s->in + i);
                sum += part;
                all += fabs(part);
            }
            assert_gradient(model, 0, (uint64_t)k * s->in + i, sum, 1e-6 * all);
        }
    stk_model_destroy(&model);
}

static void test_two_layers(void **state)
{
    if (!have_float())
        skip();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        two_layers(&sizes[i], false);
        two_layers(&sizes[i], true);
    }
}

/* Every exponent, at, above and below the middle of two numbers, and what is no number. */
static void test_rounding(void **state)
{
    enum { EXPONENTS = 256, LOW = 6 };
    static const uint32_t low[LOW] = {0x0000, 0x7fff, 0x8000, 0x8001, 0x18000, 0x1ffff};
    static float x[2 * EXPONENTS * LOW], y[2 * EXPONENTS * LOW];
    static uint16_t narrow[2 * EXPONENTS * LOW];
    uint32_t n = 0;

    for (uint32_t sign = 0; sign < 2; sign++)
        for (uint32_t e = 0; e < EXPONENTS; e++)
            for (int i = 0; i < LOW; i++) {
                uint32_t bits = sign << 31 | e << 23 | low[i];
                memcpy(&x[n++], &bits, sizeof bits);
            }
    for (uint32_t t = 0; stk__nn_kernels_at(t); t++) {
        stk__nn_kernels_at(t)->round_bf16(y, x, n);
        stk__nn_kernels_at(t)->to_bf16(narrow, x, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &y[i], sizeof bits);
            assert_int_equal(bits & 0xffff, 0);
            assert_int_equal(bits >> 16, narrow[i]);
            if (isnan(x[i])) {
                assert_true(isnan(y[i]));
                continue;
            }
            /* The nearer neighbour; of two as near the even one. Beyond the largest: infinity. */
            memcpy(&bits, &x[i], sizeof bits);
            uint32_t rest = bits & 0xffff, down = bits >> 16, up = down + (rest != 0);
            uint32_t wanted = rest > 0x8000 || (rest == 0x8000 && down & 1) ? up : down;
            assert_int_equal(narrow[i], wanted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_one_layer),
        cmocka_unit_test(test_two_layers),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
