/* the loops of the codecs, in C and for one instruction set: the same bytes. Inside src/codec. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_KERNELS_H
#define STK_SRC_CODEC_KERNELS_H

#include "base/base.h"

/* Nothing here needs alignment. `count` is in elements of `size` bytes. */
typedef struct stk__codec_kernels {
    /* Planes (first bytes of all elements, second bytes, ...) -> elements, and back. `reverse`: the
     * planes are in the other order, which swaps the bytes of each element. */
    void (*unshuffle)(const uint8_t *src, uint8_t *dst, size_t count, size_t size, bool reverse);
    void (*shuffle)(const uint8_t *src, uint8_t *dst, size_t count, size_t size, bool reverse);
    /* Bit planes -> elements. `count` is a multiple of 8. `room` has count * size bytes. */
    void (*unbitshuffle)(const uint8_t *src, uint8_t *dst, uint8_t *room, size_t count,
                         size_t size);
    /* Reverse the bytes of elements of 2, 4 or 8 bytes. dst may be src. */
    void (*swap)(const uint8_t *src, uint8_t *dst, size_t count, size_t size);
    /* Sums of all elements so far, of 1, 2, 4 or 8 bytes, modulo their range. dst may be src. */
    void (*sum)(const uint8_t *src, uint8_t *dst, size_t count, size_t size);
    /* CRC-32C [RFC 3720] of more bytes; begins and ends with 0 as crc32() of zlib does. */
    uint32_t (*crc32c)(uint32_t crc, const uint8_t *data, size_t length);
} stk__codec_kernels;

extern const stk__codec_kernels stk__codec_kernels_c;
#ifdef STK_WITH_AVX2
extern const stk__codec_kernels
    stk__codec_kernels_avx2; /* wants SSE4.2 as well: every one has it */
#endif

const stk__codec_kernels *stk__codec_kernels_of(const stk_context *ctx);

/* Eight bytes as rows of bits -> as columns [Hacker's Delight 7-3], least bit first. */
static inline uint64_t stk__turn_bits(uint64_t x)
{
    uint64_t t = (x ^ (x >> 7)) & UINT64_C(0x00aa00aa00aa00aa);
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & UINT64_C(0x0000cccc0000cccc);
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & UINT64_C(0x00000000f0f0f0f0);
    return x ^ t ^ (t << 28);
}

#endif
