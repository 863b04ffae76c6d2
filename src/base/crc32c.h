/* bytes -> CRC-32C */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_CRC32C_H
#define STK_SRC_BASE_CRC32C_H

#include "base/base.h"

/* CRC-32C [RFC 3720] of more bytes; begins and ends with 0 as crc32() of zlib does. */
uint32_t stk__crc32c(uint32_t crc, const uint8_t *data, size_t length);

/* As records store it: masked, so that checksums of checksums differ [TensorFlow,
 * tensorflow/core/lib/hash/crc32c.h]. */
static inline uint32_t stk__crc32c_masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- Tables, made at the first use: for this and for code of one instruction set ---- */

#define STK__CRC32C_SHIFT 1024 /* bytes of one look-up in shift[] */

typedef struct stk__crc32c_tables {
    uint32_t slice[8][256];
    uint32_t shift[4][256]; /* the register after STK__CRC32C_SHIFT bytes of zero, by its bytes */
} stk__crc32c_tables;

const stk__crc32c_tables *stk__crc32c_get(void);

static inline uint32_t stk__crc32c_shift(const stk__crc32c_tables *t, uint32_t crc)
{
    return t->shift[0][crc & 255] ^ t->shift[1][crc >> 8 & 255] ^ t->shift[2][crc >> 16 & 255] ^
           t->shift[3][crc >> 24];
}

#endif
