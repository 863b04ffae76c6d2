/* SPDX-License-Identifier: Apache-2.0 */
/* Eight positions at a time through the network of permutation.c, which is the definition. */
#include "base/permutation.h"

#include <immintrin.h>

#include "base/random.h"

static inline __m256i mix(__m256i x, uint32_t key)
{
    x = _mm256_xor_si256(x, _mm256_set1_epi32((int)key));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32(0x7feb352d));
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)0x846ca68b));
    return _mm256_srli_epi32(x, 7);
}

/* The low halves of eight 64-bit words. */
static inline __m256i narrow(const uint64_t *from)
{
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256i a = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)from), even);
    __m256i b = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(from + 4)), even);

    return _mm256_permute2x128_si256(a, b, 0x20);
}

void stk__permutation_pass_avx2(const stk__permutation *p, const uint64_t *positions, uint64_t *out,
                                size_t n)
{
    const __m256i left_mask = _mm256_set1_epi32((int)((1u << p->left_bits) - 1));
    const __m256i right_mask = _mm256_set1_epi32((int)((1u << p->right_bits) - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)p->right_bits);
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256i x = narrow(positions + i);
        __m256i left = _mm256_srl_epi32(x, shift), right = _mm256_and_si256(x, right_mask);
        for (int round = 0; round < STK_PERMUTATION_ROUNDS; round += 2) {
            __m256i change = _mm256_and_si256(mix(right, p->keys[round]), left_mask);
            left = _mm256_xor_si256(left, change);
            change = _mm256_and_si256(mix(left, p->keys[round + 1]), right_mask);
            right = _mm256_xor_si256(right, change);
        }
        x = _mm256_or_si256(_mm256_sll_epi32(left, shift), right);
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_cvtepu32_epi64(_mm256_castsi256_si128(x)));
        _mm256_storeu_si256((__m256i *)(out + i + 4),
                            _mm256_cvtepu32_epi64(_mm256_extracti128_si256(x, 1)));
    }
    stk__permutation_pass(p, positions + i, out + i, n - i);
}
