/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "dataset/table/csv_marks.h"

static uint64_t equal(__m256i low, __m256i high, char c)
{
    const __m256i all = _mm256_set1_epi8(c);
    const uint32_t first = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, all));
    const uint32_t second = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, all));

    return first | (uint64_t)second << 32;
}

void stk__csv_marks_avx2(const char *bytes, char delimiter, stk__csv_marks *out)
{
    const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(bytes + 32));

    out->lines = equal(low, high, '\n');
    out->ends = out->lines | equal(low, high, delimiter);
    out->others = equal(low, high, '"') | equal(low, high, '\r');
}
