/* SPDX-License-Identifier: Apache-2.0 */
/* entropy.c with shifts that leave the flags alone (BMI2, which all processors with AVX2 have), and
 * 32 bytes at a time. */
#include "codec/image/entropy_loops.h"

#include <immintrin.h>

#define MARK 0xff

__attribute__((target("avx2,bmi,bmi2"))) stk__entropy_result
stk__decode_mcus_avx2(stk__entropy *e, uint32_t first, uint32_t count)
{
    return stk__decode_loop(e, first, count);
}

uint8_t *stk__unstuff_avx2(const uint8_t **in, const uint8_t *in_end, uint8_t *out,
                           const uint8_t *out_end, uint32_t *marker)
{
    const __m256i mark = _mm256_set1_epi8((char)MARK);
    const uint8_t *p = *in;

    while (out < out_end && in_end - p > 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        uint32_t marks = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, mark));
        _mm256_storeu_si256((__m256i *)out, v);
        if (!marks) {
            p += 32;
            out += 32;
            continue;
        }
        uint32_t n = (uint32_t)__builtin_ctz(marks) + 1;
        if (p[n]) { /* a marker, or fill bytes */
            p += n - 1;
            out += n - 1;
            break;
        }
        p += n + 1;
        out += n;
    }
    *in = p;
    return stk__unstuff(in, in_end, out, out_end, marker);
}
