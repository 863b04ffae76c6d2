/* SPDX-License-Identifier: Apache-2.0 */
#include "base/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_DIGITS 17 /* always enough for a double */
#define LEAST_POWER (-4)
#define MOST_POWER  15 /* of ten, of the first digit: without an exponent */

/* Digits of a decimal that survives the way to a type and back, digits that always tell a value of
 * it, and its least value of all bits. */
static const struct {
    int sure, most;
    double least;
} types[STK_DTYPE_COUNT] = {[STK_FLOAT16] = {3, 5, 0x1p-14},
                            [STK_BFLOAT16] = {2, 4, FLT_MIN},
                            [STK_FLOAT32] = {FLT_DIG, 9, FLT_MIN},
                            [STK_FLOAT64] = {DBL_DIG, MOST_DIGITS, DBL_MIN}};

static bool reads_back(const char *text, stk_dtype dtype, double value)
{
    const double x = strtod(text, NULL);
    uint8_t bytes[8];

    if (dtype == STK_FLOAT64)
        return x == value;
    stk__float_bytes(dtype, x, bytes);
    return stk__element_as_double(bytes, dtype) == value;
}

/* The fewest significant digits of a finite value that read back as it, without a point; *power is
 * that of the first. Returns how many. */
static int shortest(stk_dtype dtype, double value, char digits[MOST_DIGITS], int *power)
{
    char text[STK__DECIMAL];
    int n = 0;

    /* The shortest decimal is what is left of the digits that survive, without their zeros. Not
     * where bits are missing. */
    for (int count = fabs(value) < types[dtype].least ? 1 : types[dtype].sure;
         count <= types[dtype].most; count++) {
        snprintf(text, sizeof text, "%.*e", count - 1, value);
        if (reads_back(text, dtype, value))
            break;
    }
    /* The point of a locale may be of several bytes. */
    const char *e = strchr(text, 'e');
    for (const char *c = text; c < e; c++)
        if (*c >= '0' && *c <= '9')
            digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    *power = (int)strtol(e + 1, NULL, 10);
    return n;
}

static int write_decimal(stk_dtype dtype, double value, char text[STK__DECIMAL])
{
    char digits[MOST_DIGITS], *at = text;
    int power;

    if (isnan(value))
        return snprintf(text, STK__DECIMAL, "nan");
    if (isinf(value))
        return snprintf(text, STK__DECIMAL, value < 0 ? "-inf" : "inf");
    const int n = shortest(dtype, value, digits, &power);
    if (signbit(value))
        *at++ = '-';
    const bool scientific = power < LEAST_POWER || power > MOST_POWER;
    const int whole = scientific ? 1 : power + 1; /* digits before the point; below 1: none */
    if (whole < 1)
        *at++ = '0';
    for (int i = 0; i < STK_MAX(n, whole); i++) {
        if (i == STK_MAX(whole, 0)) {
            *at++ = '.';
            for (int zeros = whole; zeros < 0; zeros++)
                *at++ = '0';
        }
        *at++ = i < n ? digits[i] : '0';
    }
    *at = '\0';
    if (scientific)
        at += snprintf(at, 8, "e%c%02d", power < 0 ? '-' : '+', abs(power));
    return (int)(at - text);
}

int stk__decimal(double value, char text[STK__DECIMAL])
{
    return write_decimal(STK_FLOAT64, value, text);
}

int stk__decimal_of(stk_dtype dtype, const void *element, char text[STK__DECIMAL])
{
    return write_decimal(dtype, stk__element_as_double(element, dtype), text);
}
