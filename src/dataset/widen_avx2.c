/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "dataset/widen.h"

void stk__widen_u16_avx2(const void *from, size_t n, int64_t *out)
{
    const char *at = from;
    size_t i = 0;

    for (; i + 16 <= n; i += 16, at += 32)
        for (int v = 0; v < 4; v++)
            _mm256_storeu_si256((__m256i *)(out + i + 4 * v), _mm256_cvtepu16_epi64(_mm_loadl_epi64(
                                                                  (const __m128i *)(at + 8 * v))));
    for (; i < n; i++, at += 2) {
        uint16_t x;
        memcpy(&x, at, sizeof x);
        out[i] = x;
    }
}

void stk__widen_u32_avx2(const void *from, size_t n, int64_t *out)
{
    const char *at = from;
    size_t i = 0;

    for (; i + 8 <= n; i += 8, at += 32)
        for (int v = 0; v < 2; v++)
            _mm256_storeu_si256((__m256i *)(out + i + 4 * v), _mm256_cvtepu32_epi64(_mm_loadu_si128(
                                                                  (const __m128i *)(at + 16 * v))));
    for (; i < n; i++, at += 4) {
        uint32_t x;
        memcpy(&x, at, sizeof x);
        out[i] = x;
    }
}
