/* The loops of the layers, compiled once for each type (REAL) and instruction set (KERNELS). The
 * order of all sums is written out, so that every version gives the same bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "nn/kernels.h"

/* Equal places may be the same memory; different ones never are. */
#ifdef __clang__
#define SAFE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SAFE _Pragma("GCC ivdep")
#endif

/* Rows whose sums are kept in REAL before they go into doubles. */
#define ROWS_AT_ONCE 32

static void channels_last(void *to, const void *from, uint64_t c, uint64_t s)
{
    REAL *y = to;
    const REAL *x = from;

    if (c == 1 || s == 1) {
        memcpy(y, x, c * s * sizeof *y);
        return;
    }
    for (uint64_t i = 0; i < s; i++)
        for (uint64_t k = 0; k < c; k++)
            y[i * c + k] = x[k * s + i];
}

static void channels_first(void *to, const void *from, uint64_t c, uint64_t s)
{
    channels_last(to, from, s, c);
}

static void add(void *to, const void *from, uint64_t n)
{
    REAL *y = to;
    const REAL *x = from;

    SAFE for (uint64_t i = 0; i < n; i++) y[i] += x[i];
}

static void scale(void *to, uint64_t n, double factor)
{
    REAL *x = to, f = (REAL)factor;

    for (uint64_t i = 0; i < n; i++)
        x[i] *= f;
}

static void clamp(void *to, uint64_t n, double limit)
{
    REAL *x = to, high = (REAL)limit;

    for (uint64_t i = 0; i < n; i++) {
        REAL v = x[i] > high ? high : x[i];
        x[i] = v < -high ? -high : v;
    }
}

static double square_sum(const void *from, uint64_t n)
{
    const REAL *x = from;
    double sums[8] = {0}, sum = 0;
    uint64_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (int k = 0; k < 8; k++)
        sum += sums[k];
    return sum;
}

static void sum(void *to, const void *from, const void *other, uint64_t n, bool relu)
{
    REAL *y = to;
    const REAL *a = from, *b = other;

    if (relu)
        SAFE for (uint64_t i = 0; i < n; i++)
        {
            REAL v = a[i] + b[i];
            y[i] = v < 0 ? 0 : v;
        }
    else
        SAFE for (uint64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

/* A NaN stays one, as in PyTorch. */
static void relu(void *to, const void *from, uint64_t n)
{
    REAL *y = to;
    const REAL *x = from;

    SAFE for (uint64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

static void relu_backward(void *to, const void *from, const void *value, uint64_t n, bool adds)
{
    REAL *dx = to;
    const REAL *dy = from, *y = value;

    if (adds)
        SAFE for (uint64_t i = 0; i < n; i++)
        {
            REAL d = dy[i];
            dx[i] += y[i] <= 0 ? 0 : d;
        }
    else
        SAFE for (uint64_t i = 0; i < n; i++)
        {
            REAL d = dy[i];
            dx[i] = y[i] <= 0 ? 0 : d;
        }
}

#define ROOT_2_PI 0.79788456080286535588 /* sqrt(2 / pi) */
#define TANH_CUBE 0.044715
#define FAR       40 /* from here on the functions are 0 and x: there is one bit of them */

/* Of both; a NaN stays one. */
static inline REAL least(REAL x, REAL limit)
{
    return x > limit ? limit : x;
}

static inline REAL within(REAL x, REAL limit)
{
    REAL v = least(x, limit);

    return v < -limit ? -limit : v;
}

/* x times the share of the normal distribution below x. */
static inline REAL gelu_of(REAL x)
{
    REAL density, t = magnitude(x), half = (REAL)0.5;

    return half * x + half * t - least(t, FAR) * normal_above(t, &density);
}

static inline REAL gelu_slope(REAL x)
{
    REAL density, t = magnitude(x), above = normal_above(t, &density);

    above -= least(t, FAR) * density;
    return x < 0 ? above : 1 - above;
}

/* 0.5 (1 + tanh u) is sigmoid(2 u). */
static inline REAL gelu_tanh_of(REAL x)
{
    REAL rest;

    return x * sigmoid(2 * (REAL)ROOT_2_PI * (x + (REAL)TANH_CUBE * x * x * x), &rest);
}

static inline REAL gelu_tanh_slope(REAL x)
{
    REAL v = within(x, FAR), rest;
    REAL share = sigmoid(2 * (REAL)ROOT_2_PI * (v + (REAL)TANH_CUBE * v * v * v), &rest);
    REAL inner = 2 * (REAL)ROOT_2_PI * (1 + 3 * (REAL)TANH_CUBE * v * v);

    return share + v * share * rest * inner;
}

static inline REAL silu_of(REAL x)
{
    REAL rest;

    return x * sigmoid(x, &rest);
}

static inline REAL silu_slope(REAL x)
{
    REAL rest, share = sigmoid(x, &rest);

    return share * (1 + within(x, 1000) * rest);
}

#define FORWARD(function) SAFE for (uint64_t i = 0; i < n; i++) y[i] = function(x[i]);
/* dx = dy slope(x), or added to it. */
#define BACKWARD(slope)                                                                            \
    if (adds)                                                                                      \
        SAFE for (uint64_t i = 0; i < n; i++) dx[i] += dy[i] * slope(x[i]);                        \
    else                                                                                           \
        SAFE for (uint64_t i = 0; i < n; i++) dx[i] = dy[i] * slope(x[i]);

static void gelu(void *to, const void *from, uint64_t n, bool approximate)
{
    REAL *y = to;
    const REAL *x = from;

    if (approximate) {
        FORWARD(gelu_tanh_of)
    } else {
        FORWARD(gelu_of)
    }
}

static void gelu_backward(void *to, const void *from, const void *value, uint64_t n,
                          bool approximate, bool adds)
{
    REAL *dx = to;
    const REAL *dy = from, *x = value;

    if (approximate) {
        BACKWARD(gelu_tanh_slope)
    } else {
        BACKWARD(gelu_slope)
    }
}

static void silu(void *to, const void *from, uint64_t n)
{
    REAL *y = to;
    const REAL *x = from;

    FORWARD(silu_of)
}

static void silu_backward(void *to, const void *from, const void *value, uint64_t n, bool adds)
{
    REAL *dx = to;
    const REAL *dy = from, *x = value;

    BACKWARD(silu_slope)
}

#undef FORWARD
#undef BACKWARD

static void mask(void *to, const void *from, const uint8_t *keep, uint64_t n, double factor,
                 bool adds)
{
    REAL *y = to, f = (REAL)factor;
    const REAL *x = from;

    if (adds)
        SAFE for (uint64_t i = 0; i < n; i++) y[i] += x[i] * ((REAL)keep[i] * f);
    else
        SAFE for (uint64_t i = 0; i < n; i++) y[i] = x[i] * ((REAL)keep[i] * f);
}

static void bias(void *to, const void *from, uint64_t rows, uint64_t cols, bool then_relu)
{
    const REAL *restrict b = from;

    for (uint64_t r = 0; r < rows; r++) {
        REAL *restrict y = (REAL *)to + r * cols;
        if (b && then_relu)
            for (uint64_t c = 0; c < cols; c++) {
                REAL v = y[c] + b[c];
                y[c] = v < 0 ? 0 : v;
            }
        else if (b)
            for (uint64_t c = 0; c < cols; c++)
                y[c] += b[c];
        else if (then_relu)
            for (uint64_t c = 0; c < cols; c++)
                y[c] = y[c] < 0 ? 0 : y[c];
    }
}

static void column_sums(double *restrict y, const void *from, uint64_t rows, uint64_t cols)
{
    const REAL *restrict x = from;

    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++)
            y[c] += (double)x[r * cols + c];
}

/* Blocks of rows are looked at twice while they are in the cache; Chan's formula joins them. */
static void moments(double *restrict mean, double *restrict m2, const void *from, uint64_t rows,
                    uint64_t cols, void *room)
{
    REAL *restrict s = room, *restrict q = (REAL *)room + cols;

    for (uint64_t done = 0; done < rows; done += ROWS_AT_ONCE) {
        const REAL *restrict x = (const REAL *)from + done * cols;
        uint64_t k = STK_MIN(rows - done, ROWS_AT_ONCE);
        REAL inverse = 1 / (REAL)k;
        for (uint64_t c = 0; c < cols; c++)
            s[c] = q[c] = 0;
        for (uint64_t r = 0; r < k; r++)
            for (uint64_t c = 0; c < cols; c++)
                s[c] += x[r * cols + c];
        for (uint64_t c = 0; c < cols; c++)
            s[c] *= inverse;
        for (uint64_t r = 0; r < k; r++)
            for (uint64_t c = 0; c < cols; c++) {
                REAL d = x[r * cols + c] - s[c];
                q[c] += d * d;
            }
        double share = (double)k / (double)(done + k);
        double weight = (double)done * share;
        for (uint64_t c = 0; c < cols; c++) {
            double delta = (double)s[c] - mean[c];
            mean[c] += delta * share;
            m2[c] += (double)q[c] + delta * delta * weight;
        }
    }
}

static void affine(void *to, const void *from, const void *factor, const void *shift, uint64_t rows,
                   uint64_t cols, bool then_relu)
{
    const REAL *f = factor, *s = shift;

    for (uint64_t r = 0; r < rows; r++) {
        REAL *y = (REAL *)to + r * cols;
        const REAL *x = (const REAL *)from + r * cols;
        if (then_relu)
            SAFE for (uint64_t c = 0; c < cols; c++)
            {
                REAL v = x[c] * f[c] + s[c];
                y[c] = v < 0 ? 0 : v;
            }
        else
            SAFE for (uint64_t c = 0; c < cols; c++) y[c] = x[c] * f[c] + s[c];
    }
}

static void norm_sums(double *restrict a, double *restrict b, void *gradient, const void *value,
                      const void *mean, const void *factor, const void *shift, uint64_t rows,
                      uint64_t cols, bool with_relu, void *room)
{
    const REAL *restrict m = mean, *restrict f = factor, *restrict h = shift;
    REAL *restrict s = room, *restrict q = (REAL *)room + cols;

    for (uint64_t done = 0; done < rows; done += ROWS_AT_ONCE) {
        uint64_t k = STK_MIN(rows - done, ROWS_AT_ONCE);
        for (uint64_t c = 0; c < cols; c++)
            s[c] = q[c] = 0;
        for (uint64_t r = 0; r < k; r++) {
            REAL *restrict dy = (REAL *)gradient + (done + r) * cols;
            const REAL *restrict x = (const REAL *)value + (done + r) * cols;
            for (uint64_t c = 0; with_relu && c < cols; c++) {
                REAL d = dy[c];
                dy[c] = x[c] * f[c] + h[c] <= 0 ? 0 : d;
            }
            for (uint64_t c = 0; c < cols; c++) {
                s[c] += dy[c];
                q[c] += dy[c] * (x[c] - m[c]);
            }
        }
        for (uint64_t c = 0; c < cols; c++) {
            a[c] += (double)s[c];
            b[c] += (double)q[c];
        }
    }
}

static void norm_backward(void *to, const void *from, const void *value, const void *mean,
                          const void *factor, const void *first, const void *second, uint64_t rows,
                          uint64_t cols, bool adds)
{
    const REAL *m = mean, *f = factor, *p = first, *q = second;

    for (uint64_t r = 0; r < rows; r++) {
        REAL *dx = (REAL *)to + r * cols;
        const REAL *dy = (const REAL *)from + r * cols;
        const REAL *x = (const REAL *)value + r * cols;
        if (adds)
            SAFE for (uint64_t c = 0; c < cols; c++) dx[c] +=
                f[c] * dy[c] - p[c] - (x[c] - m[c]) * q[c];
        else
            SAFE for (uint64_t c = 0; c < cols; c++) dx[c] =
                f[c] * dy[c] - p[c] - (x[c] - m[c]) * q[c];
    }
}

static void layer_norm(void *to, void *statistics, const void *from, const void *weight,
                       const void *shift, uint64_t rows, uint64_t cols, double eps)
{
    const REAL *w = weight, *b = shift;
    REAL *stats = statistics;

    for (uint64_t r = 0; r < rows; r++) {
        REAL *restrict y = (REAL *)to + r * cols;
        const REAL *restrict x = (const REAL *)from + r * cols;
        double s = 0, q = 0;
        for (uint64_t c = 0; c < cols; c++)
            s += (double)x[c];
        double mean = s / (double)cols;
        for (uint64_t c = 0; c < cols; c++)
            q += ((double)x[c] - mean) * ((double)x[c] - mean);
        REAL m = (REAL)mean, inverse = (REAL)(1 / sqrt(q / (double)cols + eps));
        for (uint64_t c = 0; c < cols; c++) {
            REAL v = (x[c] - m) * inverse;
            y[c] = w ? v * w[c] + b[c] : v;
        }
        if (stats) {
            stats[2 * r] = m;
            stats[2 * r + 1] = inverse;
        }
    }
}

static void layer_norm_backward(void *to, double *dw, double *db, const void *from,
                                const void *value, const void *statistics, const void *weight,
                                uint64_t rows, uint64_t cols, bool adds)
{
    const REAL *w = weight, *stats = statistics;

    for (uint64_t r = 0; r < rows; r++) {
        REAL *dx = to ? (REAL *)to + r * cols : NULL;
        const REAL *dy = (const REAL *)from + r * cols;
        const REAL *x = (const REAL *)value + r * cols;
        REAL m = stats[2 * r], inverse = stats[2 * r + 1];
        double s = 0, q = 0;
        for (uint64_t c = 0; c < cols; c++) {
            REAL normal = (x[c] - m) * inverse, g = w ? dy[c] * w[c] : dy[c];
            s += (double)g;
            q += (double)(g * normal);
            if (dw) {
                dw[c] += (double)(dy[c] * normal);
                db[c] += (double)dy[c];
            }
        }
        REAL a = (REAL)(s / (double)cols), b = (REAL)(q / (double)cols);
        for (uint64_t c = 0; dx && c < cols; c++) {
            REAL g = w ? dy[c] * w[c] : dy[c];
            REAL v = inverse * (g - a - (x[c] - m) * inverse * b);
            dx[c] = adds ? dx[c] + v : v;
        }
    }
}

#ifdef BF16
#include "nn/kernels_bf16.h"
#endif
#include "nn/kernels_loss.h"
#include "nn/kernels_pool.h"
#include "nn/kernels_train.h"

const stk__nn_kernels KERNELS = {
    .itemsize = sizeof(REAL),
    .channels_last = channels_last,
    .channels_first = channels_first,
#ifdef BF16
    .round_bf16 = round_bf16,
    .to_bf16 = to_bf16,
#endif
    .add = add,
    .scale = scale,
    .clamp = clamp,
    .square_sum = square_sum,
    .sum = sum,
    .relu = relu,
    .relu_backward = relu_backward,
    .gelu = gelu,
    .gelu_backward = gelu_backward,
    .silu = silu,
    .silu_backward = silu_backward,
    .mask = mask,
    .bias = bias,
    .column_sums = column_sums,
    .moments = moments,
    .affine = affine,
    .norm_sums = norm_sums,
    .norm_backward = norm_backward,
    .layer_norm = layer_norm,
    .layer_norm_backward = layer_norm_backward,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
    .avg_pool = avg_pool,
    .avg_pool_backward = avg_pool_backward,
    .cross_entropy = cross_entropy,
    .cross_entropy_places = cross_entropy_places,
    .mse = mse,
    .l1 = l1,
    .huber = huber,
    .bce = bce,
    .sgd = sgd,
    .adam = adam,
};
