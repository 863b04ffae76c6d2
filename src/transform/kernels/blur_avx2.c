/* SPDX-License-Identifier: Apache-2.0 */
/* The two passes of the blur for AVX2: 16 elements at a time, two distances of the filter to a
 * multiplication. Integers: the same bits as blur.c. */
#include "transform/kernels/blur.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

#define LANES 16

/* Weights k and k + 1, over and over; 0 behind the last. */
INLINE __m256i weights_of(const stk__blur *blur, uint32_t k)
{
    uint16_t a = (uint16_t)blur->weights[k];
    uint16_t b = k < blur->radius ? (uint16_t)blur->weights[k + 1] : 0;

    return _mm256_set1_epi32((int32_t)((uint32_t)b << 16 | a));
}

/* Sums of 16 elements: `low` has elements 0-3 and 8-11, `high` the others. */
typedef struct sums {
    __m256i low, high;
} sums;

INLINE void add_products(sums *s, __m256i a, __m256i b, __m256i weights)
{
    s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weights));
    s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weights));
}

INLINE __m256i finish(sums s, int shift)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(s.low, shift), _mm256_srai_epi32(s.high, shift));
}

INLINE __m256i widened(const uint8_t *in)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)in));
}

/* The two elements at a distance of `k`, added: at most 510. The middle is there once. */
INLINE __m256i row_pair(const uint8_t *in, size_t k, size_t step)
{
    return k == 0 ? widened(in) : _mm256_add_epi16(widened(in + k * step), widened(in - k * step));
}

static void row(const stk__blur *blur, const uint8_t *in, int16_t *out, size_t n, size_t step)
{
    const int shift = STK__BLUR_BITS - STK__BLUR_KEPT_BITS;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        sums s = {_mm256_set1_epi32(1 << (shift - 1)), _mm256_set1_epi32(1 << (shift - 1))};

        for (uint32_t k = 0; k <= blur->radius; k += 2) {
            __m256i a = row_pair(in + i, k, step);
            __m256i b = k < blur->radius ? row_pair(in + i, k + 1, step) : _mm256_setzero_si256();

            add_products(&s, a, b, weights_of(blur, k));
        }
        _mm256_storeu_si256((__m256i *)(out + i), finish(s, shift));
    }
    stk__blur_kernels_c.row(blur, in + i, out + i, n - i, step);
}

INLINE __m256i column_pair(const int16_t *const *middle, size_t k, size_t i)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)(middle[k] + i));

    if (k == 0)
        return x;
    return _mm256_add_epi16(x, _mm256_loadu_si256((const __m256i *)(*(middle - k) + i)));
}

static void column(const stk__blur *blur, const int16_t *const *rows, uint8_t *out, size_t n)
{
    const int shift = STK__BLUR_BITS + STK__BLUR_KEPT_BITS;
    const int16_t *const *middle = rows + blur->radius;
    const int16_t *rest[STK__BLUR_MAX_TAPS];
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        sums s = {_mm256_set1_epi32(1 << (shift - 1)), _mm256_set1_epi32(1 << (shift - 1))};

        for (uint32_t k = 0; k <= blur->radius; k += 2) {
            __m256i a = column_pair(middle, k, i);
            __m256i b = k < blur->radius ? column_pair(middle, k + 1, i) : _mm256_setzero_si256();

            add_products(&s, a, b, weights_of(blur, k));
        }
        __m256i words = finish(s, shift);
        _mm_storeu_si128(
            (__m128i *)(out + i),
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
    if (i == n)
        return;
    for (uint32_t k = 0; k <= 2 * blur->radius; k++)
        rest[k] = rows[k] + i;
    stk__blur_kernels_c.column(blur, rest, out + i, n - i);
}

const stk__blur_kernels stk__blur_kernels_avx2 = {.row = row, .column = column};
