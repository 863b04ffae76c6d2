/* a run of bits, the first one uppermost -> numbers of some bits each. Inside src/codec only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_BIT_READER_H
#define STK_SRC_CODEC_BIT_READER_H

#include "codec/bytes_order.h"

typedef struct stk__bit_reader {
    const uint8_t *at, *end;
    unsigned skip; /* bits of *at that were taken */
} stk__bit_reader;

/* Bytes that `count` numbers take; false: more than can be. */
static inline bool stk__bits_bytes(uint64_t count, unsigned bits, uint64_t *bytes)
{
    if (!stk__mul_size(count, bits, bytes) || !stk__add_size(*bytes, 7, bytes))
        return false;
    *bytes /= 8;
    return true;
}

/* The next number, of 1 to 64 bits; what is behind the end is zeros. */
static inline uint64_t stk__bits_take(stk__bit_reader *r, unsigned bits)
{
    uint8_t tail[9] = {0};
    const uint8_t *p = r->at;

    if (r->end - p < (ptrdiff_t)sizeof tail) {
        memcpy(tail, p, (size_t)(r->end - p));
        p = tail;
    }
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x = __builtin_bswap64(x) << r->skip;
    if (r->skip)
        x |= p[8] >> (8 - r->skip);
    unsigned taken = r->skip + bits;
    r->at += STK_MIN((ptrdiff_t)(taken / 8), r->end - r->at);
    r->skip = taken % 8;
    return x >> (64 - bits);
}

#endif
