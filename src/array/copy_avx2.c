/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a destination that is far larger than the caches: stored past them, which spares the read
 * of every line that is overwritten whole.
 */
#include <immintrin.h>

#include "array/room.h"

#define LINE 32

void stk__copy_row_avx2(void *to, const void *from, size_t bytes)
{
    const char *f = from;
    char *t = to;
    size_t head = STK_MIN((size_t)(-(uintptr_t)t & (LINE - 1)), bytes);

    memcpy(t, f, head);
    t += head;
    f += head;
    bytes -= head;
    for (; bytes >= LINE; bytes -= LINE, t += LINE, f += LINE)
        _mm256_stream_si256((__m256i *)t, _mm256_loadu_si256((const __m256i *)f));
    memcpy(t, f, bytes);
}

void stk__copy_fence(void)
{
    _mm_sfence();
}
