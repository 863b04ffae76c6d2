/* numbers -> bytes in either order. Inside src/codec only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_BYTES_ORDER_H
#define STK_SRC_CODEC_BYTES_ORDER_H

#include "base/base.h"

/* The lower `count` bytes of a number, 1 to 8. */
static inline void stk__bytes_store(uint8_t *p, uint64_t x, unsigned count, bool big)
{
    if (big)
        x = __builtin_bswap64(x) >> (64 - 8 * count);
    switch (count) { /* of a known size: one store */
    case 1:
        *p = (uint8_t)x;
        break;
    case 2:
        memcpy(p, &x, 2);
        break;
    case 4:
        memcpy(p, &x, 4);
        break;
    default:
        memcpy(p, &x, count);
    }
}

#endif
