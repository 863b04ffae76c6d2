/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beta(alpha, alpha) by rejection: Johnk's method [Metrika 8, 1964] up to alpha 1, and Cheng's BB
 * [CACM 21(4), 1978] above. The C library's log and exp give other last bits on other processors,
 * which would move the pixels of a mixed batch; the two here do not.
 */
#include "transform/pipeline/batch.h"

#include <math.h>
#include <string.h>

/* ln 2 in two parts; the first has 32 bits, so that its product with any exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW  0x1.a39ef35793c76p-33

double stk__ln(double x)
{
    uint64_t bits;
    double sum = 0;

    /* x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
     * 0.172. */
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m >= 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1.0) / (m + 1.0), square = s * s;
    for (int k = 23; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * square;
    return e * LN2_HIGH + (e * LN2_LOW + 2.0 * (s + s * sum));
}

double stk__e_to(double x)
{
    double power, sum = 1.0;

    if (x < -708.0) /* below the normal numbers: nothing for our purpose */
        return 0.0;
    if (x > 709.0)
        return INFINITY;
    /* x = k ln 2 + r with |r| <= ln(2) / 2; the series of exp r to r^14. */
    double scaled = x * 0x1.71547652b82fep+0;
    int k = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    for (int i = 14; i >= 1; i--)
        sum = 1.0 + sum * r / i;
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* A number in (0, 1), never one of the ends. */
static double open_uniform(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

/* U^(1/a) / (U^(1/a) + V^(1/a)), where the sum is at most 1. The powers are kept as logarithms:
 * they may be tiny. */
static double johnk(double alpha, const uint32_t *words)
{
    for (size_t i = 0; i + 2 <= STK__BETA_WORDS; i += 2) {
        double x = stk__ln(open_uniform(words[i])) / alpha,
               y = stk__ln(open_uniform(words[i + 1])) / alpha;

        if (stk__e_to(x) + stk__e_to(y) <= 1.0)
            return 1.0 / (1.0 + stk__e_to(y - x));
    }
    return 0.5;
}

static double cheng(double a, const uint32_t *words)
{
    const double ln4 = 1.3862943611198906, one_and_ln5 = 2.6094379124341003;
    double sum = 2.0 * a, beta = sqrt((sum - 2.0) / (2.0 * a * a - sum)), gamma = a + 1.0 / beta;

    for (size_t i = 0; i + 2 <= STK__BETA_WORDS; i += 2) {
        double u = open_uniform(words[i]), v = open_uniform(words[i + 1]);
        double t = beta * stk__ln(u / (1.0 - u)), w = a * stk__e_to(t);
        double z = u * u * v, r = gamma * t - ln4, s = a + r - w;

        if (s + one_and_ln5 >= 5.0 * z || r + sum * stk__ln(sum / (a + w)) >= stk__ln(z))
            return w / (a + w);
    }
    return 0.5;
}

double stk__beta(double alpha, const uint32_t words[STK__BETA_WORDS])
{
    /* At 1 it is the uniform distribution, and Johnk's method would reject every second try.
     * Rejecting all 64 tries has a chance below 2^-64 for any alpha. */
    if (alpha == 1.0)
        return open_uniform(words[0]);
    return alpha < 1.0 ? johnk(alpha, words) : cheng(alpha, words);
}
