/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "dataset/planes.h"

#define Z (-128) /* an index of a shuffle that gives zero */

/*
 * Sixteen pixels at a time: each of the three vectors of output takes bytes of all planes, which
 * three byte shuffles bring to their places with zeros between.
 */
void stk__planes_interleave3_avx2(const unsigned char *planes, size_t pixels, unsigned char *out)
{
    const __m128i red[3] = {
        _mm_setr_epi8(0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z, 5),
        _mm_setr_epi8(Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10, Z),
        _mm_setr_epi8(Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z, Z),
    };
    const __m128i green[3] = {
        _mm_setr_epi8(Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z),
        _mm_setr_epi8(5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10),
        _mm_setr_epi8(Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z),
    };
    const __m128i blue[3] = {
        _mm_setr_epi8(Z, Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z),
        _mm_setr_epi8(Z, 5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z),
        _mm_setr_epi8(10, Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15),
    };
    size_t i = 0;

    for (; i + 16 <= pixels; i += 16) {
        __m128i r = _mm_loadu_si128((const __m128i *)(planes + i));
        __m128i g = _mm_loadu_si128((const __m128i *)(planes + pixels + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(planes + 2 * pixels + i));
        for (int v = 0; v < 3; v++) {
            __m128i rg = _mm_or_si128(_mm_shuffle_epi8(r, red[v]), _mm_shuffle_epi8(g, green[v]));
            _mm_storeu_si128((__m128i *)(out + 3 * i + 16 * v),
                             _mm_or_si128(rg, _mm_shuffle_epi8(b, blue[v])));
        }
    }
    for (; i < pixels; i++) {
        out[3 * i] = planes[i];
        out[3 * i + 1] = planes[pixels + i];
        out[3 * i + 2] = planes[2 * pixels + i];
    }
}
