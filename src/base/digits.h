/* characters <-> digits, in any locale */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_DIGITS_H
#define STK_SRC_BASE_DIGITS_H

#include "base/base.h"

static inline bool stk__is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Of a hexadecimal digit, small or capital, its value; -1: it is none. */
static inline int stk__hex_digit(char c)
{
    const char small = (char)(c | 0x20);

    return stk__is_digit(c) ? c - '0' : small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/* A number of `digits` small hexadecimal digits, 16 at most; false: there are not as many. What is
 * behind them is not looked at. */
bool stk__hex_number(const char *text, unsigned digits, uint64_t *out);
/* Bytes as two small hexadecimal digits each, in their order, and an end: 2 * `size` + 1 bytes. */
void stk__hex_text(const void *bytes, size_t size, char *text);

#endif
