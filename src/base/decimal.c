/* SPDX-License-Identifier: Apache-2.0 */
#include "base/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_DIGITS 17 /* always enough for a double */
#define LEAST_POWER (-4)
#define MOST_POWER  15 /* of ten, of the first digit: without an exponent */

/* The fewest significant digits of a finite value that read back as it, without a point; *power is
 * that of the first. Returns how many. */
static int shortest(double value, char digits[MOST_DIGITS], int *power)
{
    char text[STK__DECIMAL];
    int n = 0;

    /* A decimal of up to DBL_DIG digits survives the way to a double and back, so the shortest one
     * is what is left of DBL_DIG digits without their zeros. Not where bits are missing. */
    for (int count = fabs(value) < DBL_MIN ? 1 : DBL_DIG; count <= MOST_DIGITS; count++) {
        snprintf(text, sizeof text, "%.*e", count - 1, value);
        if (strtod(text, NULL) == value)
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

int stk__decimal(double value, char text[STK__DECIMAL])
{
    char digits[MOST_DIGITS], *at = text;
    int power;

    if (isnan(value))
        return snprintf(text, STK__DECIMAL, "nan");
    if (isinf(value))
        return snprintf(text, STK__DECIMAL, value < 0 ? "-inf" : "inf");
    const int n = shortest(value, digits, &power);
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
