/* SPDX-License-Identifier: Apache-2.0 */
/* GELU, SiLU and cross-entropy of floats against libm in double; vector loops against C. */
#include <math.h>

#include "nn/kernels.h"
#include "support/support.h"

enum { STEP = 9973, BLOCK = 1 << 16 }; /* a prime step reaches every exponent */

typedef struct function {
    const char *name;
    void (*of)(const stk__nn_kernels *k, float *y, const float *x, uint64_t n);
    void (*slope)(const stk__nn_kernels *k, float *y, const float *x, const float *dy, uint64_t n,
                  bool add);
    double (*want)(double x);
    double (*want_slope)(double x);
} function;

static void gelu(const stk__nn_kernels *k, float *y, const float *x, uint64_t n)
{
    k->gelu(y, x, n, false);
}

static void gelu_slope(const stk__nn_kernels *k, float *y, const float *x, const float *dy,
                       uint64_t n, bool add)
{
    k->gelu_backward(y, dy, x, n, false, add);
}

static void gelu_tanh(const stk__nn_kernels *k, float *y, const float *x, uint64_t n)
{
    k->gelu(y, x, n, true);
}

static void gelu_tanh_slope(const stk__nn_kernels *k, float *y, const float *x, const float *dy,
                            uint64_t n, bool add)
{
    k->gelu_backward(y, dy, x, n, true, add);
}

static void silu(const stk__nn_kernels *k, float *y, const float *x, uint64_t n)
{
    k->silu(y, x, n);
}

static void silu_slope(const stk__nn_kernels *k, float *y, const float *x, const float *dy,
                       uint64_t n, bool add)
{
    k->silu_backward(y, dy, x, n, add);
}

static double want_gelu(double x)
{
    return x * 0.5 * erfc(-x * sqrt(0.5));
}

static double want_gelu_slope(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5)) + x * exp(-0.5 * x * x) / sqrt(2 * acos(-1));
}

static double inner(double x)
{
    return sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
}

/* tanh as exponentials: 1 + tanh loses all digits where it is near 0. */
static double want_gelu_tanh(double x)
{
    return x / (1 + exp(-2 * inner(x)));
}

static double want_gelu_tanh_slope(double x)
{
    double u = inner(x), share = 1 / (1 + exp(-2 * u)), rest = 1 / (1 + exp(2 * u));

    return share + x * share * rest * 2 * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
}

static double want_silu(double x)
{
    return x / (1 + exp(-x));
}

static double want_silu_slope(double x)
{
    double share = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));

    return share * (1 + x * rest);
}

static const function functions[] = {
    {"gelu", gelu, gelu_slope, want_gelu, want_gelu_slope},
    {"gelu(tanh)", gelu_tanh, gelu_tanh_slope, want_gelu_tanh, want_gelu_tanh_slope},
    {"silu", silu, silu_slope, want_silu, want_silu_slope},
};

static float x[BLOCK], y[2][BLOCK], dy[BLOCK];

static uint32_t bits_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* All kinds of numbers but NaN and infinity, from `*bits` on. */
static size_t take(uint64_t *bits)
{
    size_t n = 0;

    for (; n < BLOCK && *bits <= UINT32_MAX; *bits += STEP) {
        uint32_t low = (uint32_t)*bits;
        float f;
        memcpy(&f, &low, sizeof f);
        if (isfinite(f))
            x[n++] = f;
    }
    return n;
}

/* Units in the last place of `want`; of the smallest normal number below it, where results become
 * 0. */
static double units(float got, double want)
{
    int exponent;

    frexp(fmax(fabs(want), 0x1p-126), &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

static double largest(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/*
 * Values: within 1e-7 of the larger of |x| and 1 (2e-7 with tanh and silu), and to the right of -1
 * within 6 units in the last place. To the left exp makes the error of its argument larger: 64 and
 * 200 units as far as -12 and -9. Slopes: within 2.5e-7.
 */
static void test_accuracy(void **state)
{
    static const double absolute[] = {1e-7, 1.5e-7, 1.5e-7}, near[] = {6, 6, 6},
                        far[] = {64, 200, 100}, tail[] = {-12, -9, -80};

    for (size_t i = 0; i < BLOCK; i++)
        dy[i] = 1;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        double off = 0, off_near = 0, off_far = 0, off_slope = 0;
        size_t n;
        for (uint64_t bits = 0; (n = take(&bits)) > 0;) {
            functions[f].of(&stk__nn_kernels_c, y[0], x, n);
            functions[f].slope(&stk__nn_kernels_c, y[1], x, dy, n, false);
            for (size_t i = 0; i < n; i++) {
                double v = (double)x[i], want = functions[f].want(v);
                off = largest(fabs((double)y[0][i] - want) / fmax(fabs(v), 1), off);
                if (v > -1)
                    off_near = largest(units(y[0][i], want), off_near);
                else if (v > tail[f])
                    off_far = largest(units(y[0][i], want), off_far);
                if (fabs(v) < 1e5) /* beyond, the formula itself is inf * 0 */
                    off_slope =
                        largest(fabs((double)y[1][i] - functions[f].want_slope(v)), off_slope);
                else if (y[1][i] != (v > 0))
                    fail_msg("%s: the slope at %g is %g", functions[f].name, v, (double)y[1][i]);
            }
        }
        if (!(off <= absolute[f] && off_near <= near[f] && off_far <= far[f] &&
              off_slope <= 2.5e-7))
            fail_msg("%s is off by %.3g, %.1f units, %.1f units to the left, its slope by %.3g",
                     functions[f].name, off, off_near, off_far, off_slope);
    }
}

static void test_special(void **state)
{
    const float nan_of_many_bits = NAN, inf = INFINITY;
    float in[4] = {nan_of_many_bits, inf, 0.0f, -0.0f}, out[4], one[4] = {1, 1, 1, 1};
    uint32_t odd = 0x7f800001, odd_too = 0xffc0ffff;

    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        functions[f].of(&stk__nn_kernels_c, out, in, 4);
        assert_true(isnan(out[0]) && out[1] == INFINITY && out[2] == 0 && out[3] == 0);
        functions[f].slope(&stk__nn_kernels_c, out, in, one, 4, false);
        assert_true(isnan(out[0]) && out[1] == 1 && out[2] == 0.5f && out[3] == 0.5f);
        memcpy(&in[2], &odd, sizeof odd);
        memcpy(&in[3], &odd_too, sizeof odd_too);
        functions[f].of(&stk__nn_kernels_c, out, in, 4);
        assert_true(isnan(out[2]) && isnan(out[3]));
        functions[f].slope(&stk__nn_kernels_c, out, in, one, 4, false);
        assert_true(isnan(out[2]) && isnan(out[3]));
        in[2] = 0.0f;
        in[3] = -0.0f;
    }
}

/* Classes likelier than the label, or as likely and before it. */
static uint32_t rank_of(const float *row, size_t classes, size_t label)
{
    uint32_t rank = 0;

    for (size_t k = 0; k < classes; k++)
        rank += row[k] > row[label] || (row[k] == row[label] && k < label);
    return rank;
}

static void one_row(size_t classes, size_t label, double smoothing)
{
    static double wide[BLOCK], slopes[BLOCK];

    for (size_t i = 0; i < classes; i++) {
        x[i] = (float)(i * 7919 % 1013) * 0.02f - 9; /* many are alike */
        wide[i] = (double)x[i];
    }
    stk__row_loss got = stk__nn_kernels_c.cross_entropy(y[0], x, classes, label, smoothing, 0.25);
    stk__row_loss want =
        stk__nn_kernels_double.cross_entropy(slopes, wide, classes, label, smoothing, 0.25);
    if (!(fabs(got.loss - want.loss) <= 1e-6) || got.above != rank_of(x, classes, label))
        fail_msg("%zu classes: loss %.9g, not %.9g; rank %u", classes, got.loss, want.loss,
                 got.above);
    for (size_t i = 0; i < classes; i++)
        if (!(fabs((double)y[0][i] - slopes[i]) <= 1e-7))
            fail_msg("%zu classes: the slope of %zu is off", classes, i);
    stk__row_loss same = stk__nn_kernels_c.cross_entropy(NULL, x, classes, label, smoothing, 1);
    assert_true(same.loss == got.loss && same.above == got.above);
    for (uint32_t i = 0; stk__nn_kernels_at(i); i++) {
        same = stk__nn_kernels_at(i)->cross_entropy(y[1], x, classes, label, smoothing, 0.25);
        assert_true(same.loss == got.loss && same.above == got.above);
        assert_memory_equal(y[0], y[1], classes * sizeof **y);
    }
}

static void test_cross_entropy(void **state)
{
    for (size_t classes = 1; classes < 90; classes++)
        for (size_t label = 0; label < classes; label += 1 + classes / 5)
            one_row(classes, label, label % 2 ? 0.1 : 0);
    one_row(20000, 19999, 0);
    one_row(20011, 3, 0.2);
}

/* A NaN anywhere is a loss of NaN; what is masked by -infinity has neither share nor slope. */
static void test_cross_entropy_special(void **state)
{
    for (size_t at = 0; at < 37; at++) {
        for (size_t i = 0; i < 37; i++)
            x[i] = (float)(i % 5);
        x[at] = NAN;
        assert_true(isnan(stk__nn_kernels_c.cross_entropy(NULL, x, 37, 5, 0, 1).loss));
        x[at] = -INFINITY;
        size_t label = at == 5 ? 6 : 5;
        assert_true(isfinite(stk__nn_kernels_c.cross_entropy(y[0], x, 37, label, 0, 1).loss));
        assert_true(y[0][at] == 0);
    }
}

#ifdef STK_WITH_AVX2
static float slopes[BLOCK];

static void same(const char *what, const float *in_c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of(in_c[i]) != bits_of(y[1][i]) && !(isnan(in_c[i]) && isnan(y[1][i])))
            fail_msg("%s of %a is %a in C and %a in vectors", what, (double)x[i], (double)in_c[i],
                     (double)y[1][i]);
}

static void test_vectors(void **state)
{
    if (stk__nn_kernels_at(0) == &stk__nn_kernels_c)
        skip();
    for (size_t i = 0; i < BLOCK; i++)
        dy[i] = (float)(i % 31) - 15.5f;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        size_t n;
        for (uint64_t bits = 0; (n = take(&bits)) > 0;) {
            const stk__nn_kernels *table;
            functions[f].of(&stk__nn_kernels_c, y[0], x, n);
            memcpy(slopes, y[0], n * sizeof *slopes);
            functions[f].slope(&stk__nn_kernels_c, slopes, x, dy, n, true);
            for (uint32_t i = 0; (table = stk__nn_kernels_at(i)) != &stk__nn_kernels_c; i++) {
                functions[f].of(table, y[1], x, n);
                same(functions[f].name, y[0], n);
                functions[f].slope(table, y[1], x, dy, n, true);
                same(functions[f].name, slopes, n);
            }
        }
    }
}

/* Any length at any place, over the input itself, and nothing behind the end. */
static void tails(const stk__nn_kernels *table, size_t f, size_t from, size_t n)
{
    memcpy(y[0], x, 128 * sizeof *x);
    memcpy(y[1], x, 128 * sizeof *x);
    for (size_t i = from; i < from + n; i++)
        functions[f].of(&stk__nn_kernels_c, &y[0][i], &x[i], 1);
    functions[f].of(table, &y[1][from], &y[1][from], n);
    same(functions[f].name, y[0], 128);
    for (size_t i = from; i < from + n; i++)
        functions[f].slope(&stk__nn_kernels_c, &y[0][i], &x[i], &dy[i], 1, false);
    memcpy(&y[1][from], &dy[from], n * sizeof *dy);
    functions[f].slope(table, &y[1][from], &x[from], &y[1][from], n, false);
    same(functions[f].name, y[0], 128);
}

static void test_tails(void **state)
{
    const stk__nn_kernels *table;

    if (stk__nn_kernels_at(0) == &stk__nn_kernels_c)
        skip();
    for (size_t i = 0; i < 128; i++)
        x[i] = (float)i * 0.11f - 6;
    for (uint32_t i = 0; (table = stk__nn_kernels_at(i)) != &stk__nn_kernels_c; i++)
        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
            for (size_t from = 0; from < 9; from++)
                for (size_t n = 0; n < 40; n++)
                    tails(table, f, from, n);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),      cmocka_unit_test(test_special),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_cross_entropy_special),
#ifdef STK_WITH_AVX2
        cmocka_unit_test(test_vectors),       cmocka_unit_test(test_tails),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
