/* SPDX-License-Identifier: Apache-2.0 */
/* The loops for AVX2; what a loop does not take goes to the one in C. */
#include "codec/kernels.h"

#include "base/crc32c.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- Shuffle ---- */

/*
 * The bytes of N registers are numbered in a row, per 128-bit lane: 16 N of them. Interleaving
 * register i with i + N/2 moves byte a to where the bits of its number, rotated left by one, point.
 * Planes -> elements is log2(N) rotations, elements -> planes is four.
 */
INLINE void rotate(__m256i *x, int n, int rounds)
{
    __m256i y[16];

#pragma GCC unroll 4
    for (int r = 0; r < rounds; r++) {
#pragma GCC unroll 8
        for (int i = 0; i < n / 2; i++) {
            y[2 * i] = _mm256_unpacklo_epi8(x[i], x[i + n / 2]);
            y[2 * i + 1] = _mm256_unpackhi_epi8(x[i], x[i + n / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < n; i++)
            x[i] = y[i];
    }
}

INLINE void unshuffle_n(const uint8_t *src, uint8_t *dst, size_t count, int n, int rounds,
                        bool reverse)
{
    const uint8_t *first = reverse ? src + (size_t)(n - 1) * count : src;
    ptrdiff_t step = reverse ? -(ptrdiff_t)count : (ptrdiff_t)count;
    size_t done = count / 32 * 32;

    for (size_t e = 0; e < done; e += 32) {
        __m256i x[16];
        uint8_t *to = dst + e * (size_t)n;
#pragma GCC unroll 16
        for (int i = 0; i < n; i++)
            x[i] = _mm256_loadu_si256((const __m256i *)(first + i * step + e));
        rotate(x, n, rounds);
        /* Lane 0 has elements 0 to 15, lane 1 the others: two registers make one of the output. */
#pragma GCC unroll 8
        for (int i = 0; i < n / 2; i++) {
            __m256i low = _mm256_permute2x128_si256(x[2 * i], x[2 * i + 1], 0x20);
            __m256i high = _mm256_permute2x128_si256(x[2 * i], x[2 * i + 1], 0x31);
            _mm256_storeu_si256((__m256i *)(to + 32 * i), low);
            _mm256_storeu_si256((__m256i *)(to + 16 * n + 32 * i), high);
        }
    }
    for (size_t e = done; e < count; e++)
        for (int i = 0; i < n; i++)
            dst[e * (size_t)n + (size_t)i] = first[i * step + (ptrdiff_t)e];
}

INLINE void shuffle_n(const uint8_t *src, uint8_t *dst, size_t count, int n, bool reverse)
{
    uint8_t *first = reverse ? dst + (size_t)(n - 1) * count : dst;
    ptrdiff_t step = reverse ? -(ptrdiff_t)count : (ptrdiff_t)count;
    size_t done = count / 32 * 32;

    for (size_t e = 0; e < done; e += 32) {
        __m256i x[16];
        const uint8_t *from = src + e * (size_t)n;
#pragma GCC unroll 8
        for (int i = 0; i < n / 2; i++) {
            __m256i low = _mm256_loadu_si256((const __m256i *)(from + 32 * i));
            __m256i high = _mm256_loadu_si256((const __m256i *)(from + 16 * n + 32 * i));
            x[2 * i] = _mm256_permute2x128_si256(low, high, 0x20);
            x[2 * i + 1] = _mm256_permute2x128_si256(low, high, 0x31);
        }
        rotate(x, n, 4);
#pragma GCC unroll 16
        for (int i = 0; i < n; i++)
            _mm256_storeu_si256((__m256i *)(first + i * step + e), x[i]);
    }
    for (size_t e = done; e < count; e++)
        for (int i = 0; i < n; i++)
            first[i * step + (ptrdiff_t)e] = src[e * (size_t)n + (size_t)i];
}

static void unshuffle(const uint8_t *src, uint8_t *dst, size_t count, size_t size, bool reverse)
{
    if (size == 2)
        unshuffle_n(src, dst, count, 2, 1, reverse);
    else if (size == 4)
        unshuffle_n(src, dst, count, 4, 2, reverse);
    else if (size == 8)
        unshuffle_n(src, dst, count, 8, 3, reverse);
    else if (size == 16)
        unshuffle_n(src, dst, count, 16, 4, reverse);
    else
        stk__codec_kernels_c.unshuffle(src, dst, count, size, reverse);
}

static void shuffle(const uint8_t *src, uint8_t *dst, size_t count, size_t size, bool reverse)
{
    if (size == 2)
        shuffle_n(src, dst, count, 2, reverse);
    else if (size == 4)
        shuffle_n(src, dst, count, 4, reverse);
    else if (size == 8)
        shuffle_n(src, dst, count, 8, reverse);
    else if (size == 16)
        shuffle_n(src, dst, count, 16, reverse);
    else
        stk__codec_kernels_c.shuffle(src, dst, count, size, reverse);
}

/* ---- Bit shuffle ---- */

INLINE __m256i delta_swap(__m256i x, int shift, int64_t mask)
{
    __m256i t = _mm256_xor_si256(x, _mm256_srli_epi64(x, shift));

    t = _mm256_and_si256(t, _mm256_set1_epi64x(mask));
    return _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64(t, shift)));
}

/* Eight rows of bits -> one plane of bytes: the rows' bytes are brought together as those of
 * 8-byte elements are, then each eight are turned. */
INLINE void plane_of_bits(const uint8_t *src, uint8_t *plane, size_t row)
{
    size_t done = row / 32 * 32;

    for (size_t c = 0; c < done; c += 32) {
        __m256i x[8];
#pragma GCC unroll 8
        for (size_t i = 0; i < 8; i++)
            x[i] = _mm256_loadu_si256((const __m256i *)(src + i * row + c));
        rotate(x, 8, 3);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            x[i] = delta_swap(x[i], 7, INT64_C(0x00aa00aa00aa00aa));
            x[i] = delta_swap(x[i], 14, INT64_C(0x0000cccc0000cccc));
            x[i] = delta_swap(x[i], 28, INT64_C(0x00000000f0f0f0f0));
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m256i low = _mm256_permute2x128_si256(x[2 * i], x[2 * i + 1], 0x20);
            __m256i high = _mm256_permute2x128_si256(x[2 * i], x[2 * i + 1], 0x31);
            _mm256_storeu_si256((__m256i *)(plane + 8 * c + 32 * (size_t)i), low);
            _mm256_storeu_si256((__m256i *)(plane + 8 * c + 128 + 32 * (size_t)i), high);
        }
    }
    for (size_t c = done; c < row; c++) {
        uint64_t bits = 0;
        for (size_t i = 0; i < 8; i++)
            bits |= (uint64_t)src[i * row + c] << (8 * i);
        bits = stk__turn_bits(bits);
        memcpy(plane + 8 * c, &bits, sizeof bits);
    }
}

static void unbitshuffle(const uint8_t *src, uint8_t *dst, uint8_t *room, size_t count, size_t size)
{
    uint8_t *planes = size == 1 ? dst : room;

    for (size_t byte = 0; byte < size; byte++)
        plane_of_bits(src + byte * count, planes + byte * count, count / 8);
    if (size > 1)
        unshuffle(room, dst, count, size, false);
}

/* ---- Byte order ---- */

static void swap(const uint8_t *src, uint8_t *dst, size_t count, size_t size)
{
    uint8_t order[32];
    size_t bytes = count * size, done = bytes / 32 * 32;

    for (size_t i = 0; i < 32; i++)
        order[i] = (uint8_t)((i & 15) ^ (size - 1));
    __m256i mask = _mm256_loadu_si256((const __m256i *)order);
    for (size_t i = 0; i < done; i += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(src + i));
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_shuffle_epi8(x, mask));
    }
    stk__codec_kernels_c.swap(src + done, dst + done, (bytes - done) / size, size);
}

/* ---- Sums ---- */

/* Sums within each lane, then what lane 0 and all before it brought. */
#define DEFINE_SUM(bits, bytes, add, last)                                                         \
    static void sum##bits(const uint8_t *src, uint8_t *dst, size_t count)                          \
    {                                                                                              \
        __m256i before = _mm256_setzero_si256();                                                   \
        size_t done = count / (32 / bytes) * 32, i = 0;                                            \
        for (; i < done; i += 32) {                                                                \
            __m256i x = _mm256_loadu_si256((const __m256i *)(src + i));                            \
            if (bytes < 2)                                                                         \
                x = add(x, _mm256_slli_si256(x, 1));                                               \
            if (bytes < 4)                                                                         \
                x = add(x, _mm256_slli_si256(x, 2));                                               \
            x = add(x, _mm256_slli_si256(x, 4));                                                   \
            x = add(x, _mm256_slli_si256(x, 8));                                                   \
            __m256i ends = _mm256_shuffle_epi8(x, last);                                           \
            x = add(x, _mm256_permute2x128_si256(ends, ends, 0x08));                               \
            __m256i out = add(x, before);                                                          \
            _mm256_storeu_si256((__m256i *)(dst + i), out);                                        \
            __m256i all = add(ends, _mm256_permute2x128_si256(ends, ends, 0x08));                  \
            before = add(before, _mm256_permute2x128_si256(all, all, 0x11));                       \
        }                                                                                          \
        uint##bits##_t sum = (uint##bits##_t)_mm256_extract_epi32(before, 0), x;                   \
        for (i = done / bytes; i < count; i++) {                                                   \
            memcpy(&x, src + i * bytes, bytes);                                                    \
            sum = (uint##bits##_t)(sum + x);                                                       \
            memcpy(dst + i * bytes, &sum, bytes);                                                  \
        }                                                                                          \
    }

DEFINE_SUM(8, 1, _mm256_add_epi8, _mm256_set1_epi8(15))
DEFINE_SUM(16, 2, _mm256_add_epi16, _mm256_set1_epi16(0x0f0e))
DEFINE_SUM(32, 4, _mm256_add_epi32, _mm256_set1_epi32(0x0f0e0d0c))

static void sum(const uint8_t *src, uint8_t *dst, size_t count, size_t size)
{
    if (size == 1)
        sum8(src, dst, count);
    else if (size == 2)
        sum16(src, dst, count);
    else if (size == 4)
        sum32(src, dst, count);
    else
        stk__codec_kernels_c.sum(src, dst, count, size);
}

/* ---- CRC-32C ---- */

INLINE uint64_t word(const uint8_t *data)
{
    uint64_t x;

    memcpy(&x, data, sizeof x);
    return x;
}

/* Three rows of bytes at a time, as the instruction takes three cycles and one can begin in each;
 * joined by what zeros in the place of the later rows do to the earlier ones. */
static uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t length)
{
    enum { ROW = STK__CRC32C_SHIFT };
    uint64_t a = ~crc;

    if (length >= 3 * ROW) {
        const stk__crc32c_tables *t = stk__crc32c_get();
        for (; length >= 3 * ROW; data += 3 * ROW, length -= 3 * ROW) {
            uint64_t b = 0, c = 0;
            for (size_t i = 0; i < ROW; i += 8) {
                a = _mm_crc32_u64(a, word(data + i));
                b = _mm_crc32_u64(b, word(data + ROW + i));
                c = _mm_crc32_u64(c, word(data + 2 * ROW + i));
            }
            a = stk__crc32c_shift(t, stk__crc32c_shift(t, (uint32_t)a) ^ (uint32_t)b) ^ c;
        }
    }
    for (; length >= 8; data += 8, length -= 8)
        a = _mm_crc32_u64(a, word(data));
    for (; length; data++, length--)
        a = _mm_crc32_u8((uint32_t)a, *data);
    return ~(uint32_t)a;
}

const stk__codec_kernels stk__codec_kernels_avx2 = {.unshuffle = unshuffle,
                                                    .shuffle = shuffle,
                                                    .unbitshuffle = unbitshuffle,
                                                    .swap = swap,
                                                    .sum = sum,
                                                    .crc32c = crc32c};
