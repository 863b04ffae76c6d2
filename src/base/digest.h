/* bytes in any pieces -> blocks of 64, as MD5, SHA-1 and SHA-256 take them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_DIGEST_H
#define STK_SRC_BASE_DIGEST_H

#include "base/base.h"

#define STK__DIGEST_BLOCK 64 /* bytes */

typedef struct stk__digest_blocks {
    uint64_t bytes; /* so far */
    uint8_t rest[STK__DIGEST_BLOCK];
} stk__digest_blocks;

typedef void stk__digest_fn(uint32_t *state, const uint8_t *block);

static inline void stk__digest_add(stk__digest_blocks *b, const void *data, size_t length,
                                   stk__digest_fn *each, uint32_t *state)
{
    const uint8_t *p = data;
    const size_t used = (size_t)(b->bytes % STK__DIGEST_BLOCK);

    if (length == 0)
        return;
    b->bytes += length;
    if (used) {
        const size_t n = STK_MIN(STK__DIGEST_BLOCK - used, length);
        memcpy(b->rest + used, p, n);
        p += n;
        length -= n;
        if (used + n < STK__DIGEST_BLOCK)
            return;
        each(state, b->rest);
    }
    for (; length >= STK__DIGEST_BLOCK; p += STK__DIGEST_BLOCK, length -= STK__DIGEST_BLOCK)
        each(state, p);
    memcpy(b->rest, p, length);
}

/* A bit, zeros, and the number of bits that came, to whole blocks. */
static inline void stk__digest_end(stk__digest_blocks *b, bool big_endian, stk__digest_fn *each,
                                   uint32_t *state)
{
    static const uint8_t end[STK__DIGEST_BLOCK] = {0x80};
    const uint64_t bits = b->bytes * 8;
    uint8_t length[8];

    for (unsigned i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> 8 * (big_endian ? 7 - i : i));
    stk__digest_add(b, end, 1 + (size_t)((119 - b->bytes % STK__DIGEST_BLOCK) % STK__DIGEST_BLOCK),
                    each, state);
    stk__digest_add(b, length, sizeof length, each, state);
}

#endif
