/* SPDX-License-Identifier: Apache-2.0 */
/* The loops in C: what every other version must give, byte for byte. */
#include "codec/kernels.h"

#include "codec/codec.h"

#include "base/crc32c.h"

#define TILE 64 /* elements whose lines stay in the first-level cache */

/* ---- Shuffle ---- */

static void unshuffle(const uint8_t *src, uint8_t *dst, size_t count, size_t size, bool reverse)
{
    for (size_t first = 0; first < count; first += TILE) {
        size_t end = STK_MIN(first + TILE, count);
        for (size_t byte = 0; byte < size; byte++) {
            const uint8_t *plane = src + (reverse ? size - 1 - byte : byte) * count;
            for (size_t i = first; i < end; i++)
                dst[i * size + byte] = plane[i];
        }
    }
}

static void shuffle(const uint8_t *src, uint8_t *dst, size_t count, size_t size, bool reverse)
{
    for (size_t first = 0; first < count; first += TILE) {
        size_t end = STK_MIN(first + TILE, count);
        for (size_t byte = 0; byte < size; byte++) {
            uint8_t *plane = dst + (reverse ? size - 1 - byte : byte) * count;
            for (size_t i = first; i < end; i++)
                plane[i] = src[i * size + byte];
        }
    }
}

/* Row 8 * byte + bit has one bit for each element, least first. */
static void unbitshuffle(const uint8_t *src, uint8_t *dst, uint8_t *room, size_t count, size_t size)
{
    size_t row = count / 8;

    for (size_t column = 0; column < row; column++)
        for (size_t byte = 0; byte < size; byte++) {
            const uint8_t *from = src + byte * 8 * row + column;
            uint64_t bits = 0;
            for (size_t i = 0; i < 8; i++)
                bits |= (uint64_t)from[i * row] << (8 * i);
            bits = stk__turn_bits(bits);
            for (size_t i = 0; i < 8; i++)
                dst[(column * 8 + i) * size + byte] = (uint8_t)(bits >> (8 * i));
        }
}

/* ---- Byte order, sums ---- */

#define DEFINE_ELEMENTS(bits)                                                                      \
    static void swap##bits(const uint8_t *src, uint8_t *dst, size_t count)                         \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            uint##bits##_t x;                                                                      \
            memcpy(&x, src + i * sizeof x, sizeof x);                                              \
            x = __builtin_bswap##bits(x);                                                          \
            memcpy(dst + i * sizeof x, &x, sizeof x);                                              \
        }                                                                                          \
    }
#define DEFINE_SUM(bits)                                                                           \
    static void sum##bits(const uint8_t *src, uint8_t *dst, size_t count)                          \
    {                                                                                              \
        uint##bits##_t sum = 0, x;                                                                 \
        for (size_t i = 0; i < count; i++) {                                                       \
            memcpy(&x, src + i * sizeof x, sizeof x);                                              \
            sum = (uint##bits##_t)(sum + x);                                                       \
            memcpy(dst + i * sizeof x, &sum, sizeof x);                                            \
        }                                                                                          \
    }

DEFINE_ELEMENTS(16)
DEFINE_ELEMENTS(32)
DEFINE_ELEMENTS(64)
DEFINE_SUM(8)
DEFINE_SUM(16)
DEFINE_SUM(32)
DEFINE_SUM(64)

static void swap(const uint8_t *src, uint8_t *dst, size_t count, size_t size)
{
    if (size == 2)
        swap16(src, dst, count);
    else if (size == 4)
        swap32(src, dst, count);
    else
        swap64(src, dst, count);
}

static void sum(const uint8_t *src, uint8_t *dst, size_t count, size_t size)
{
    if (size == 1)
        sum8(src, dst, count);
    else if (size == 2)
        sum16(src, dst, count);
    else if (size == 4)
        sum32(src, dst, count);
    else
        sum64(src, dst, count);
}

const stk__codec_kernels stk__codec_kernels_c = {.unshuffle = unshuffle,
                                                 .shuffle = shuffle,
                                                 .unbitshuffle = unbitshuffle,
                                                 .swap = swap,
                                                 .sum = sum,
                                                 .crc32c = stk__crc32c};

const stk__codec_kernels *stk__codec_kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__codec_kernels_avx2;
#endif
    return &stk__codec_kernels_c;
}

stk__codec_crc32c_fn *stk__codec_crc32c_of(const stk_context *ctx)
{
    return stk__codec_kernels_of(ctx)->crc32c;
}
