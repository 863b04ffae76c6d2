/* two numbers -> what divides both */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_GCD_H
#define STK_SRC_BASE_GCD_H

#include <stdint.h>

/* Greatest common divisor; of 0 and a number that number. */
static inline uint64_t stk__gcd(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
