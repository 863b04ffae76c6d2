/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as JSON and Python write them. The log formats many times a second, so times are written
 * from integers: a decimal of at most 15 significant digits is the shortest one that reads back as
 * its double (DBL_DIG), and a Unix time in whole microseconds (16 digits) is, too, as doubles near
 * 2 * 10^9 lie 2.4 * 10^-7 apart.
 */
#include "measure/measure.h"

#include <math.h>
#include <stdio.h>

#include "base/decimal.h"

char *stk__put_uint(char *at, uint64_t value)
{
    char digits[20];
    int n = 0;

    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *at++ = digits[--n];
    *at = 0;
    return at;
}

/* `value` / 10^places in positional form, with one digit at least behind the point. */
static char *put_fixed(char *at, uint64_t value, int places)
{
    uint64_t unit = 1;

    for (int i = 0; i < places; i++)
        unit *= 10;
    at = stk__put_uint(at, value / unit);
    *at++ = '.';
    uint64_t rest = value % unit;
    for (char *first = at; at == first || rest;) {
        unit /= 10;
        *at++ = (char)('0' + rest / unit);
        rest %= unit;
    }
    *at = 0;
    return at;
}

/* Python writes numbers below 10^-4 with an exponent. */
#define EXPONENT_BELOW_NS 100000

char *stk__put_seconds(char *at, uint64_t ns)
{
    if (ns == 0 || ns >= EXPONENT_BELOW_NS)
        return put_fixed(at, ns, 9);
    int power = -9;
    uint64_t unit = 1;
    while (ns / unit >= 10) {
        unit *= 10;
        power++;
    }
    *at++ = (char)('0' + ns / unit);
    uint64_t rest = ns % unit;
    if (rest)
        *at++ = '.';
    while (rest) {
        unit /= 10;
        *at++ = (char)('0' + rest / unit);
        rest %= unit;
    }
    *at++ = 'e';
    *at++ = '-';
    *at++ = '0';
    *at++ = (char)('0' - power);
    *at = 0;
    return at;
}

char *stk__put_wall(char *at, uint64_t us)
{
    return put_fixed(at, us, 6);
}

int stk_number_format(double value, char text[32])
{
    _Static_assert(STK__DECIMAL <= 32, "the text has room");

    if (!isfinite(value))
        return snprintf(text, 32, "null");
    int length = stk__decimal(value, text);
    if (text[strcspn(text, ".e")] == '\0')
        length += snprintf(text + length, 3, ".0");
    return length;
}
