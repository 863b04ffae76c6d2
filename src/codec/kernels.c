/* SPDX-License-Identifier: Apache-2.0 */
/* The loops in C: what every other version must give, byte for byte. */
#include "codec/kernels.h"

#define CRC32C_POLYNOMIAL 0x82f63b78u /* reflected, of RFC 3720 */
#define TILE              64          /* elements whose lines stay in the first-level cache */

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

/* ---- CRC-32C ---- */

static stk__crc32c_tables tables;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int bit = 0; bit < 8; bit++)
            x = x >> 1 ^ (x & 1 ? CRC32C_POLYNOMIAL : 0);
        tables.slice[0][i] = x;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            tables.slice[k][i] =
                tables.slice[k - 1][i] >> 8 ^ tables.slice[0][tables.slice[k - 1][i] & 255];
    /* What zeros do to the register is linear: to each bit by itself, then sums of these. */
    uint32_t bits[32];
    for (int i = 0; i < 32; i++) {
        bits[i] = 1u << i;
        for (int n = 0; n < STK__CRC32C_SHIFT; n++)
            bits[i] = bits[i] >> 8 ^ tables.slice[0][bits[i] & 255];
    }
    for (int k = 0; k < 4; k++)
        for (int i = 1; i < 256; i++)
            for (int bit = 0; bit < 8; bit++)
                if (i >> bit & 1)
                    tables.shift[k][i] ^= bits[8 * k + bit];
}

const stk__crc32c_tables *stk__crc32c_get(void)
{
    pthread_once(&tables_once, make_tables);
    return &tables;
}

static uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t length)
{
    const stk__crc32c_tables *t = stk__crc32c_get();

    crc = ~crc;
    for (; length >= 8; data += 8, length -= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                              (uint32_t)data[3] << 24);
        crc = t->slice[7][low & 255] ^ t->slice[6][low >> 8 & 255] ^ t->slice[5][low >> 16 & 255] ^
              t->slice[4][low >> 24] ^ t->slice[3][data[4]] ^ t->slice[2][data[5]] ^
              t->slice[1][data[6]] ^ t->slice[0][data[7]];
    }
    for (; length; data++, length--)
        crc = crc >> 8 ^ t->slice[0][(crc ^ *data) & 255];
    return ~crc;
}

const stk__codec_kernels stk__codec_kernels_c = {.unshuffle = unshuffle,
                                                 .shuffle = shuffle,
                                                 .unbitshuffle = unbitshuffle,
                                                 .swap = swap,
                                                 .sum = sum,
                                                 .crc32c = crc32c};

const stk__codec_kernels *stk__codec_kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__codec_kernels_avx2;
#endif
    return &stk__codec_kernels_c;
}
