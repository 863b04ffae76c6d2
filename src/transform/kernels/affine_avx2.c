/* SPDX-License-Identifier: Apache-2.0 */
/* The bilinear warp for AVX2: the channels of a pixel as one vector of doubles, with the operations
 * of affine.c in their order, so that the bits are the same. */
#include "transform/kernels/affine.h"

#include <immintrin.h>

/* Three channels, and the byte behind them. */
static inline __m256d load_pixel(const uint8_t *at)
{
    int32_t bytes;

    memcpy(&bytes, at, sizeof bytes);
    return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes)));
}

static inline __m256d lerp(__m256d a, __m256d b, __m256d at)
{
    return _mm256_add_pd(a, _mm256_mul_pd(_mm256_sub_pd(b, a), at));
}

static inline void put_mean(const stk__spot *s, uint8_t *to)
{
    const __m128i pack = _mm_setr_epi8(0, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256d along = _mm256_set1_pd(s->along), down = _mm256_set1_pd(s->down);
    __m256d high = lerp(load_pixel(s->above + s->left), load_pixel(s->above + s->right), along);
    __m256d low = lerp(load_pixel(s->below + s->left), load_pixel(s->below + s->right), along);
    __m128i values = _mm256_cvttpd_epi32(lerp(high, low, down));
    int32_t bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(values, pack));

    memcpy(to, &bytes, 3);
}

void stk__bilinear_rgb_avx2(const stk__warp *warp, const stk__canvas *canvas, const uint8_t *src,
                            uint8_t *dst)
{
    const double *m = warp->m;

    for (int64_t row = 0; row < canvas->height; row++) {
        double y = (double)row + 0.5;

        for (int64_t column = 0; column < canvas->width; column++) {
            double x = (double)column + 0.5;
            stk__spot spot;

            if (stk__spot_find(canvas, src, m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5],
                               3, &spot))
                put_mean(&spot, dst);
            else
                memcpy(dst, canvas->fill, 3);
            dst += 3;
        }
    }
}
