/* SPDX-License-Identifier: Apache-2.0 */
#include "base/numbers.h"

#include <math.h>
#include <stdio.h>

#include "base/options.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

stk_status stk__numbers_refuse(const stk__numbers *n, const char *why, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];

    stk__option_show(shown, n->text);
    return stk__fail(err, STK_EINVAL, n->stage, "%s: %s \"%s\" %s", n->who, n->argument, shown,
                     why);
}

static stk_status check_number(const stk__numbers *n, double value, stk_error *err)
{
    char why[96];

    if (n->whole && floor(value) != value)
        return stk__numbers_refuse(n, "is to be of integers", err);
    if (value >= n->min && value <= n->max)
        return STK_OK;
    snprintf(why, sizeof why, "is out of range: %g..%g", n->min, n->max);
    return stk__numbers_refuse(n, why, err);
}

stk_status stk__numbers_read(const stk__numbers *n, double *out, uint32_t capacity, uint32_t *count,
                             stk_error *err)
{
    const char *p = n->text;
    char close = '\0';

    *count = 0;
    while (is_space(*p))
        p++;
    if (*p == '[' || *p == '(')
        close = *p++ == '[' ? ']' : ')';
    for (;;) {
        double value;

        while (is_space(*p))
            p++;
        if (!stk__option_number(p, &value, &p))
            return stk__numbers_refuse(
                n,
                n->by_x ? "is no size: give a whole number, or several with an x between them"
                        : "is no number or list of numbers",
                err);
        STK_TRY(check_number(n, value, err));
        if (*count == capacity)
            return stk__numbers_refuse(n, "has too many numbers", err);
        if (out)
            out[*count] = value;
        ++*count;
        while (is_space(*p))
            p++;
        if (*p != ',' && !(n->by_x && *p == 'x'))
            break;
        p++;
    }
    if (close && *p++ != close)
        return stk__numbers_refuse(n, "lacks the bracket that ends it", err);
    while (is_space(*p))
        p++;
    return *p ? stk__numbers_refuse(n, "has something after its numbers", err) : STK_OK;
}
