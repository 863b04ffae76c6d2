/* SPDX-License-Identifier: Apache-2.0 */
/* idct.c, all eight columns or rows at a time. The coefficients come in the pairs that one
 * multiply-and-add takes, and the rows between the passes are put into such pairs again. */
#include "codec/image/entropy.h"
#include "codec/image/idct.h"

#include <immintrin.h>

/* a of the lower, b of the higher one of a pair. */
#define PAIR(a, b) _mm256_set1_epi32((int)((uint32_t)(b) << 16 | ((uint32_t)(a)&0xffff)))

/* p[] are the pairs (0, 4), (7, 1), (2, 6), (3, 5); out[] the eight sums, `down` bits rounded off.
 */
static inline __attribute__((always_inline)) void transform(const __m256i p[4], __m256i out[8],
                                                            int down)
{
    const __m256i round = _mm256_set1_epi32(1 << (down - 1));
    __m256i z = _mm256_add_epi16(p[1], p[3]), even[4], odd[4];

    __m256i sum = _mm256_madd_epi16(p[0], PAIR(1 << CONST_BITS, 1 << CONST_BITS));
    __m256i difference = _mm256_madd_epi16(p[0], PAIR(1 << CONST_BITS, -(1 << CONST_BITS)));
    __m256i low = _mm256_madd_epi16(p[2], PAIR(C_0_541, C_0_541 - C_1_847));
    __m256i high = _mm256_madd_epi16(p[2], PAIR(C_0_541 + C_0_765, C_0_541));
    sum = _mm256_add_epi32(sum, round);
    difference = _mm256_add_epi32(difference, round);
    even[0] = _mm256_add_epi32(sum, high);
    even[1] = _mm256_add_epi32(difference, low);
    even[2] = _mm256_sub_epi32(difference, low);
    even[3] = _mm256_sub_epi32(sum, high);
    __m256i y3 = _mm256_madd_epi16(z, PAIR(C_1_175 - C_1_961, C_1_175));
    __m256i y4 = _mm256_madd_epi16(z, PAIR(C_1_175, C_1_175 - C_0_390));
    odd[0] = _mm256_madd_epi16(p[1], PAIR(-C_0_899, C_1_501 - C_0_899));
    odd[1] = _mm256_madd_epi16(p[3], PAIR(C_3_072 - C_2_562, -C_2_562));
    odd[2] = _mm256_madd_epi16(p[3], PAIR(-C_2_562, C_2_053 - C_2_562));
    odd[3] = _mm256_madd_epi16(p[1], PAIR(C_0_298 - C_0_899, -C_0_899));
    odd[0] = _mm256_add_epi32(odd[0], y4);
    odd[1] = _mm256_add_epi32(odd[1], y3);
    odd[2] = _mm256_add_epi32(odd[2], y4);
    odd[3] = _mm256_add_epi32(odd[3], y3);
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_srai_epi32(_mm256_add_epi32(even[i], odd[i]), down);
        out[7 - i] = _mm256_srai_epi32(_mm256_sub_epi32(even[i], odd[i]), down);
    }
}

/* Rows 0 to 7 of eight 32-bit values, clipped to 16 bits -> the pairs of columns (0, 4), (7, 1),
 * (2, 6), (3, 5), a row in each 32 bits. */
static inline __attribute__((always_inline)) void turn(const __m256i rows[8], __m256i p[4])
{
    /* Columns 0 4 7 1 2 6 3 5 of a row. */
    const __m256i order = _mm256_setr_epi8(0, 1, 8, 9, 14, 15, 2, 3, 4, 5, 12, 13, 6, 7, 10, 11, 0,
                                           1, 8, 9, 14, 15, 2, 3, 4, 5, 12, 13, 6, 7, 10, 11);
    __m256i two[4];

    for (int i = 0; i < 4; i++) { /* rows i and i + 4 in the halves */
        two[i] = _mm256_packs_epi32(rows[i], rows[i + 4]);
        two[i] = _mm256_permute4x64_epi64(two[i], 0xd8);
        two[i] = _mm256_shuffle_epi8(two[i], order);
    }
    __m256i a = _mm256_unpacklo_epi32(two[0], two[1]), b = _mm256_unpackhi_epi32(two[0], two[1]);
    __m256i c = _mm256_unpacklo_epi32(two[2], two[3]), d = _mm256_unpackhi_epi32(two[2], two[3]);
    p[0] = _mm256_unpacklo_epi64(a, c);
    p[1] = _mm256_unpackhi_epi64(a, c);
    p[2] = _mm256_unpacklo_epi64(b, d);
    p[3] = _mm256_unpackhi_epi64(b, d);
}

static inline void store_rows(__m128i two, uint8_t *out, size_t stride)
{
    _mm_storel_epi64((__m128i *)out, two);
    _mm_storeh_pd((double *)(void *)(out + stride), _mm_castsi128_pd(two));
}

/* Columns of eight 32-bit values, a row in each -> bytes. */
static inline __attribute__((always_inline)) void store(const __m256i columns[8], uint8_t *out,
                                                        size_t stride)
{
    const __m256i order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0,
                                           4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i half = _mm256_set1_epi8((char)0x80);
    __m256i four[2];

    for (int i = 0; i < 2; i++) { /* columns 4 i to 4 i + 3, rows 0 to 3 and 4 to 7 */
        const __m256i *c = columns + (size_t)i * 4;
        four[i] =
            _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
        four[i] = _mm256_shuffle_epi8(_mm256_xor_si256(four[i], half), order);
    }
    __m256i a = _mm256_unpacklo_epi32(four[0], four[1]);
    __m256i b = _mm256_unpackhi_epi32(four[0], four[1]);
    store_rows(_mm256_castsi256_si128(a), out, stride);
    store_rows(_mm256_castsi256_si128(b), out + 2 * stride, stride);
    store_rows(_mm256_extracti128_si256(a, 1), out + 4 * stride, stride);
    store_rows(_mm256_extracti128_si256(b, 1), out + 6 * stride, stride);
}

void stk__idct_avx2(int16_t *coefficients, const int16_t *quantisers, uint8_t *out, size_t stride)
{
    __m256i pairs[4], sums[8];

    for (int i = 0; i < 4; i++) {
        __m256i *at = (__m256i *)(void *)(coefficients + (size_t)i * 16);
        const __m256i *by = (const __m256i *)(const void *)(quantisers + (size_t)i * 16);
        pairs[i] = _mm256_mullo_epi16(_mm256_load_si256(at), _mm256_load_si256(by));
        _mm256_store_si256(at, _mm256_setzero_si256());
    }
    transform(pairs, sums, CONST_BITS - PASS1_BITS);
    turn(sums, pairs);
    transform(pairs, sums, CONST_BITS + PASS1_BITS + 3);
    store(sums, out, stride);
}
