/* SPDX-License-Identifier: Apache-2.0 */
/* The loops for AVX2; what a loop does not take goes to the one in C. */
#include "codec/parquet_kernels.h"

#include <immintrin.h>

#define NARROW 25 /* bits of a number that lies within four bytes, wherever it begins */

/* ---- Packed bits ---- */

/* For number i of some that begin at bit `first`: which `size` bytes have it, and its first bit. */
static void place(unsigned first, unsigned width, unsigned count, unsigned size, uint8_t *order,
                  uint8_t *shift)
{
    for (unsigned i = 0; i < count; i++) {
        const unsigned bit = first + i * width;
        for (unsigned k = 0; k < size; k++)
            order[i * size + k] = (uint8_t)(bit / 8 + k);
        memset(shift + i * size, 0, size);
        shift[i * size] = (uint8_t)(bit % 8);
    }
}

/* Four numbers in each lane, of four bytes each. */
static void unpack_narrow(const uint8_t *in, unsigned width, uint32_t *out, size_t groups)
{
    const unsigned half = 4 * width;
    uint8_t order[32], shift[32];

    place(0, width, 4, 4, order, shift);
    place(half % 8, width, 4, 4, order + 16, shift + 16);
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)order),
                  bits = _mm256_loadu_si256((const __m256i *)shift),
                  mask = _mm256_set1_epi32((int)((1u << width) - 1));
    for (size_t g = 0; g < groups; g++, in += width, out += STK__PARQUET_GROUP) {
        const __m256i x = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(in + half / 8)),
                                           _mm_loadu_si128((const __m128i *)in));
        const __m256i y = _mm256_srlv_epi32(_mm256_shuffle_epi8(x, bytes), bits);
        _mm256_storeu_si256((__m256i *)out, _mm256_and_si256(y, mask));
    }
}

/* Two numbers in each lane, of eight bytes each. */
static void unpack_wide(const uint8_t *in, unsigned width, uint32_t *out, size_t groups)
{
    const __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6),
                  mask = _mm256_set1_epi64x((int64_t)((UINT64_C(1) << width) - 1));
    __m256i bytes[2], bits[2];

    for (unsigned h = 0; h < 2; h++) {
        uint8_t order[32], shift[32];
        place(4 * h * width % 8, width, 2, 8, order, shift);
        place((4 * h + 2) * width % 8, width, 2, 8, order + 16, shift + 16);
        bytes[h] = _mm256_loadu_si256((const __m256i *)order);
        bits[h] = _mm256_loadu_si256((const __m256i *)shift);
    }
    for (size_t g = 0; g < groups; g++, in += width, out += STK__PARQUET_GROUP)
        for (unsigned h = 0; h < 2; h++) {
            const uint8_t *first = in + 4 * h * width / 8, *second = in + (4 * h + 2) * width / 8;
            const __m256i x = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)second),
                                               _mm_loadu_si128((const __m128i *)first));
            const __m256i y = _mm256_and_si256(
                _mm256_srlv_epi64(_mm256_shuffle_epi8(x, bytes[h]), bits[h]), mask);
            _mm_storeu_si128((__m128i *)(out + 4 * h),
                             _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(y, low)));
        }
}

static void unpack(const uint8_t *in, unsigned width, uint32_t *out, size_t groups)
{
    if (width && width <= NARROW)
        unpack_narrow(in, width, out, groups);
    else if (width && width < 32)
        unpack_wide(in, width, out, groups);
    else
        stk__parquet_kernels_c.unpack(in, width, out, groups);
}

/* ---- Codes ---- */

static uint32_t highest(const uint32_t *numbers, size_t count)
{
    __m256i most = _mm256_setzero_si256();
    uint32_t lanes[8];
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        most = _mm256_max_epu32(most, _mm256_loadu_si256((const __m256i *)(numbers + i)));
    _mm256_storeu_si256((__m256i *)lanes, most);
    uint32_t rest = stk__parquet_kernels_c.highest(numbers + i, count - i);
    for (size_t k = 0; k < 8; k++)
        rest = STK_MAX(rest, lanes[k]);
    return rest;
}

/* Entries are less than 4 GiB, so that a code is positive as an int, too. */
static void look_up(const uint8_t *entries, const uint32_t *codes, uint8_t *out, size_t count,
                    size_t size)
{
    size_t i = 0;

    if (size == 4)
        for (; i + 8 <= count; i += 8)
            _mm256_storeu_si256(
                (__m256i *)(out + 4 * i),
                _mm256_i32gather_epi32((const int *)(const void *)entries,
                                       _mm256_loadu_si256((const __m256i *)(codes + i)), 4));
    if (size == 8)
        for (; i + 4 <= count; i += 4)
            _mm256_storeu_si256(
                (__m256i *)(out + 8 * i),
                _mm256_i32gather_epi64((const long long *)(const void *)entries,
                                       _mm_loadu_si128((const __m128i *)(codes + i)), 8));
    stk__parquet_kernels_c.look_up(entries, codes + i, out + i * size, count - i, size);
}

/* ---- Differences ---- */

/* Sums within a register in three rounds, then the last of the register before. */
static uint32_t add_up32(const uint32_t *differences, uint32_t least, uint32_t last, uint8_t *out,
                         size_t count)
{
    const __m256i each = _mm256_set1_epi32((int)least), end = _mm256_set1_epi32(7);
    __m256i before = _mm256_set1_epi32((int)last);
    size_t i = 0;

    for (; i + 8 <= count; i += 8) {
        __m256i x = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(differences + i)), each);
        x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
        x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
        /* The sum of the first lane is in all of the second. */
        const __m256i first = _mm256_shuffle_epi32(x, 0xff);
        x = _mm256_add_epi32(x, _mm256_permute2x128_si256(first, first, 0x08));
        x = _mm256_add_epi32(x, before);
        _mm256_storeu_si256((__m256i *)(out + 4 * i), x);
        before = _mm256_permutevar8x32_epi32(x, end);
    }
    if (i)
        memcpy(&last, out + 4 * (i - 1), sizeof last);
    return stk__parquet_kernels_c.add_up32(differences + i, least, last, out + 4 * i, count - i);
}

static uint64_t add_up64(const uint32_t *differences, uint64_t least, uint64_t last, uint8_t *out,
                         size_t count)
{
    const __m256i each = _mm256_set1_epi64x((int64_t)least);
    __m256i before = _mm256_set1_epi64x((int64_t)last);
    size_t i = 0;

    for (; i + 4 <= count; i += 4) {
        __m256i x = _mm256_add_epi64(
            _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(differences + i))), each);
        x = _mm256_add_epi64(x, _mm256_slli_si256(x, 8));
        const __m256i first = _mm256_unpackhi_epi64(x, x);
        x = _mm256_add_epi64(x, _mm256_permute2x128_si256(first, first, 0x08));
        x = _mm256_add_epi64(x, before);
        _mm256_storeu_si256((__m256i *)(out + 8 * i), x);
        before = _mm256_permute4x64_epi64(x, 0xff);
    }
    if (i)
        memcpy(&last, out + 8 * (i - 1), sizeof last);
    return stk__parquet_kernels_c.add_up64(differences + i, least, last, out + 8 * i, count - i);
}

const stk__parquet_kernels stk__parquet_kernels_avx2 = {.unpack = unpack,
                                                        .highest = highest,
                                                        .look_up = look_up,
                                                        .add_up32 = add_up32,
                                                        .add_up64 = add_up64};
