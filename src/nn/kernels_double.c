/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of double: the reference, on the functions of libm. */
#include <math.h>

#define REAL    double
#define SQRT    sqrt
#define KERNELS stk__nn_kernels_double

static inline double magnitude(double x)
{
    return fabs(x);
}

static inline double exponential(double x)
{
    return exp(x);
}

/* 1 / (1 + exp(-x)), and what it lacks to 1. */
static inline double sigmoid(double x, double *rest)
{
    double e = exp(-fabs(x)), inverse = 1 / (1 + e), small = e * inverse;

    *rest = x < 0 ? inverse : small;
    return x < 0 ? small : inverse;
}

/* What the normal distribution has above t, and its density there. */
static inline double normal_above(double t, double *density)
{
    *density = 0.39894228040143267794 * exp(-0.5 * t * t);
    return 0.5 * erfc(t * 0.70710678118654752440);
}

#include "nn/kernels_loops.h"
