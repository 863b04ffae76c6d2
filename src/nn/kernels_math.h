/* a float -> its exponential, sigmoid or normal distribution, in loops that become vectors */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_KERNELS_MATH_H
#define STK_SRC_NN_KERNELS_MATH_H

#include <stdint.h>
#include <string.h>

/*
 * Without a branch or a table, so that the compiler makes vectors of the loops they are in; of
 * additions, multiplications, divisions and multiply-adds that are fused where they say so, so that
 * every instruction set gives the same bits; plain C calls fmaf(). Bounds of errors are in
 * tests/parity/nn/test_functions.c, against libm in double.
 */

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a b + c, rounded once. */
static inline float fused(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

static inline float magnitude(float x)
{
    return of_bits(bits_of(x) & 0x7fffffff);
}

/*
 * exp of x <= 88.7; 0 below the smallest normal number. e^x = 2^n e^r with |r| <= ln 2 / 2; n by
 * adding a number that leaves no room for a fraction. e^r = 1 + r + r^2 P(r), P with the smallest
 * largest relative error (3e-9); ln 2 is in two parts, n times the first is exact. A NaN does not
 * stay one.
 */
static inline float exponential_below(float x)
{
    const float whole = 0x1.8p23f;
    float shifted = fused(x, 1.44269504f, whole), n = shifted - whole;
    float r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, x));
    float p = 0.001381443762f;

    p = fused(p, r, 0.00836879696f);
    p = fused(p, r, 0.04166839573f);
    p = fused(p, r, 0.1666651997f);
    p = fused(p, r, 0.499999934f);
    p = fused(p, r * r, r) + 1;
    p = of_bits(bits_of(p) + (bits_of(shifted) << 23));
    return x < -87.3365f ? 0 : p;
}

static inline float exponential(float x)
{
    float e = exponential_below(x);

    return x <= 88.7228317f ? e : x + __builtin_inff();
}

/* 1 / (1 + exp(-x)), and what it lacks to 1, of a number. */
static inline float sigmoid(float x, float *rest)
{
    float e = exponential_below(of_bits(bits_of(x) | 0x80000000));
    float inverse = 1 / (1 + e), small = e * inverse;

    *rest = x < 0 ? inverse : small;
    return x < 0 ? small : inverse;
}

/*
 * Above t of the normal distribution are exp(-t^2 / 2) (1 - w) P(w) of it, w = t / (t + 1 / 0.33):
 * P has the smallest largest relative error for t in [0, 13.3], 4.8e-8. Of its density at t,
 * `density`.
 */
static inline float normal_above(float t, float *density)
{
    float e = exponential_below(-0.5f * t * t);
    float u = 1 / fused(0.33f, t, 1), w = 1 - u, p = -0.02133613508f;

    p = fused(p, w, 0.04509017495f);
    p = fused(p, w, 0.009507032389f);
    p = fused(p, w, -0.03941217431f);
    p = fused(p, w, -0.09049850842f);
    p = fused(p, w, 0.05925916618f);
    p = fused(p, w, 0.3779290042f);
    p = fused(p, w, -0.7089193042f);
    p = fused(p, w, 0.5f);
    *density = e * 0.398942280f;
    return p * u * e;
}

#endif
