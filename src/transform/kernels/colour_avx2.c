/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of colours for AVX2, eight pixels at a time: the same bits as colour.c. */
#include "transform/kernels/colour.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- Eight RGB pixels: 12 bytes in each half ---- */

#define EIGHT 24 /* bytes */
/* Loads of a half read 4 bytes beyond it. */
#define READS 28

typedef struct rgb {
    __m256i r, g, b; /* eight int32 each */
} rgb;

INLINE __m256i load_halves(const uint8_t *src)
{
    __m128i low = _mm_loadu_si128((const __m128i *)src);
    __m128i high = _mm_loadu_si128((const __m128i *)(src + EIGHT / 2));

    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* Every third byte from `first` on, as int32. */
INLINE __m256i channel(__m256i halves, char first)
{
    const char none = -1;
    char second = (char)(first + 3), third = (char)(first + 6), fourth = (char)(first + 9);

    return _mm256_shuffle_epi8(halves,
                               _mm256_setr_epi8(first, none, none, none, second, none, none, none,
                                                third, none, none, none, fourth, none, none, none,
                                                first, none, none, none, second, none, none, none,
                                                third, none, none, none, fourth, none, none, none));
}

INLINE rgb load_rgb(const uint8_t *src)
{
    __m256i halves = load_halves(src);

    return (rgb){.r = channel(halves, 0), .g = channel(halves, 1), .b = channel(halves, 2)};
}

/* Values of 0 to 255 in each. */
INLINE void store_rgb(uint8_t *dst, rgb x)
{
    const __m128i pack = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    __m256i pixels = _mm256_or_si256(
        x.r, _mm256_or_si256(_mm256_slli_epi32(x.g, 8), _mm256_slli_epi32(x.b, 16)));
    __m256i packed = _mm256_shuffle_epi8(pixels, _mm256_broadcastsi128_si256(pack));
    __m128i low = _mm256_castsi256_si128(packed), high = _mm256_extracti128_si256(packed, 1);
    int32_t rest = _mm_extract_epi32(high, 2);

    _mm_storeu_si128((__m128i *)dst, low); /* 4 bytes of the second half, which come next */
    _mm_storel_epi64((__m128i *)(dst + EIGHT / 2), high);
    memcpy(dst + EIGHT / 2 + 8, &rest, sizeof rest);
}

INLINE __m256i luma(rgb x)
{
    __m256i sum = _mm256_add_epi32(_mm256_mullo_epi32(x.r, _mm256_set1_epi32(19595)),
                                   _mm256_mullo_epi32(x.g, _mm256_set1_epi32(38470)));

    sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(x.b, _mm256_set1_epi32(7471)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x8000)), 16);
}

/* grey + factor * (value - grey), cut and without its fraction. */
INLINE __m256i blend_eight(__m256i grey, __m256i value, __m256 factor)
{
    __m256 away = _mm256_cvtepi32_ps(_mm256_sub_epi32(value, grey));
    __m256 x = _mm256_add_ps(_mm256_cvtepi32_ps(grey), _mm256_mul_ps(factor, away));

    x = _mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()), _mm256_set1_ps(255.0f));
    return _mm256_cvttps_epi32(x);
}

static void saturate(const uint8_t *src, uint8_t *dst, size_t pixels, float factor)
{
    __m256 factors = _mm256_set1_ps(factor);
    size_t i = 0, bytes = 3 * pixels;

    for (; i + READS <= bytes; i += EIGHT) {
        rgb x = load_rgb(src + i);
        __m256i l = luma(x);

        store_rgb(dst + i, (rgb){.r = blend_eight(l, x.r, factors),
                                 .g = blend_eight(l, x.g, factors),
                                 .b = blend_eight(l, x.b, factors)});
    }
    stk__colour_kernels_c.saturate(src + i, dst + i, (bytes - i) / 3, factor);
}

static void grey(const uint8_t *src, uint8_t *dst, size_t pixels)
{
    size_t i = 0, bytes = 3 * pixels;

    for (; i + READS <= bytes; i += EIGHT) {
        __m256i l = luma(load_rgb(src + i));

        store_rgb(dst + i, (rgb){.r = l, .g = l, .b = l});
    }
    stk__colour_kernels_c.grey(src + i, dst + i, (bytes - i) / 3);
}

static uint64_t luma_sum(const uint8_t *src, size_t pixels)
{
    size_t i = 0, bytes = 3 * pixels;
    __m256i sums = _mm256_setzero_si256();
    uint64_t parts[4];

    for (; i + READS <= bytes; i += EIGHT)
        sums = _mm256_add_epi64(sums,
                                _mm256_sad_epu8(luma(load_rgb(src + i)), _mm256_setzero_si256()));
    _mm256_storeu_si256((__m256i *)parts, sums);
    return parts[0] + parts[1] + parts[2] + parts[3] +
           stk__colour_kernels_c.luma_sum(src + i, (bytes - i) / 3);
}

/* ---- Hue ---- */

INLINE __m256 select_ps(__m256 mask, __m256 yes, __m256 no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

/* Of each pixel one of three values, by a table of eight corners: bit 31 set for `high`, bit 30 for
 * `middle`. */
INLINE __m256i pick(__m256i table, __m256i corner, __m256i low, __m256i middle, __m256i high)
{
    __m256i which = _mm256_permutevar8x32_epi32(table, corner);
    __m256 x =
        select_ps(_mm256_castsi256_ps(which), _mm256_castsi256_ps(high), _mm256_castsi256_ps(low));

    x = select_ps(_mm256_castsi256_ps(_mm256_slli_epi32(which, 1)), _mm256_castsi256_ps(middle), x);
    return _mm256_castps_si256(x);
}

/* The same steps as hue_pixel() of colour.c. */
INLINE rgb turn(rgb x, __m256 sixths)
{
    const int high_bit = INT32_MIN, middle_bit = 1 << 30;
    const __m256 zero = _mm256_setzero_ps(), six = _mm256_set1_ps(6.0f);
    __m256i high = _mm256_max_epi32(x.r, _mm256_max_epi32(x.g, x.b));
    __m256i low = _mm256_min_epi32(x.r, _mm256_min_epi32(x.g, x.b));
    __m256i range = _mm256_sub_epi32(high, low);
    __m256 is_r = _mm256_castsi256_ps(_mm256_cmpeq_epi32(x.r, high));
    __m256 is_g = _mm256_castsi256_ps(_mm256_cmpeq_epi32(x.g, high));
    __m256 over = select_ps(is_r, _mm256_cvtepi32_ps(_mm256_sub_epi32(x.g, x.b)),
                            select_ps(is_g, _mm256_cvtepi32_ps(_mm256_sub_epi32(x.b, x.r)),
                                      _mm256_cvtepi32_ps(_mm256_sub_epi32(x.r, x.g))));
    __m256 base = select_ps(is_r, zero, select_ps(is_g, _mm256_set1_ps(2), _mm256_set1_ps(4)));
    __m256 position =
        _mm256_div_ps(over, _mm256_cvtepi32_ps(_mm256_max_epi32(range, _mm256_set1_epi32(1))));

    position = _mm256_add_ps(_mm256_add_ps(position, base), sixths);
    position =
        _mm256_add_ps(position, _mm256_and_ps(_mm256_cmp_ps(position, zero, _CMP_LT_OQ), six));
    position =
        _mm256_sub_ps(position, _mm256_and_ps(_mm256_cmp_ps(position, six, _CMP_GE_OQ), six));
    __m256i corner = _mm256_cvttps_epi32(position);
    __m256 along = _mm256_mul_ps(_mm256_cvtepi32_ps(range),
                                 _mm256_sub_ps(position, _mm256_cvtepi32_ps(corner)));
    __m256 falls = _mm256_castsi256_ps(_mm256_slli_epi32(corner, 31));
    __m256 third = select_ps(falls, _mm256_sub_ps(_mm256_cvtepi32_ps(high), along),
                             _mm256_add_ps(_mm256_cvtepi32_ps(low), along));
    __m256i middle = _mm256_cvttps_epi32(_mm256_mul_ps(third, _mm256_set1_ps(STK__HUE_SCALE)));

    middle =
        _mm256_min_epi32(_mm256_max_epi32(middle, _mm256_setzero_si256()), _mm256_set1_epi32(255));
    const __m256i of_r = _mm256_setr_epi32(high_bit, middle_bit, 0, 0, middle_bit, high_bit, 0, 0);
    const __m256i of_g = _mm256_setr_epi32(middle_bit, high_bit, high_bit, middle_bit, 0, 0, 0, 0);
    const __m256i of_b = _mm256_setr_epi32(0, 0, middle_bit, high_bit, high_bit, middle_bit, 0, 0);
    return (rgb){.r = pick(of_r, corner, low, middle, high),
                 .g = pick(of_g, corner, low, middle, high),
                 .b = pick(of_b, corner, low, middle, high)};
}

static void hue(const uint8_t *src, uint8_t *dst, size_t pixels, float sixths)
{
    __m256 turns = _mm256_set1_ps(sixths);
    size_t i = 0, bytes = 3 * pixels;

    for (; i + READS <= bytes; i += EIGHT)
        store_rgb(dst + i, turn(load_rgb(src + i), turns));
    stk__colour_kernels_c.hue(src + i, dst + i, (bytes - i) / 3, sixths);
}

/* ---- Bytes by themselves ---- */

INLINE __m256i load_eight(const uint8_t *src)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)src));
}

/* 32 values of 0 to 255, in order. */
INLINE void store_bytes(uint8_t *dst, __m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));

    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)dst, bytes);
}

static void blend(const uint8_t *src, uint8_t *dst, size_t n, uint8_t grey_value, float factor)
{
    __m256i g = _mm256_set1_epi32(grey_value);
    __m256 f = _mm256_set1_ps(factor);
    size_t i = 0;

    for (; i + 32 <= n; i += 32)
        store_bytes(dst + i, blend_eight(g, load_eight(src + i), f),
                    blend_eight(g, load_eight(src + i + 8), f),
                    blend_eight(g, load_eight(src + i + 16), f),
                    blend_eight(g, load_eight(src + i + 24), f));
    for (; i < n; i++)
        dst[i] = stk__blend(grey_value, src[i], factor);
}

static void blend_two(const uint8_t *greys, const uint8_t *src, uint8_t *dst, size_t n,
                      float factor)
{
    __m256 f = _mm256_set1_ps(factor);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i out[4];

        for (size_t k = 0; k < 4; k++)
            out[k] = blend_eight(load_eight(greys + i + 8 * k), load_eight(src + i + 8 * k), f);
        store_bytes(dst + i, out[0], out[1], out[2], out[3]);
    }
    for (; i < n; i++)
        dst[i] = stk__blend(greys[i], src[i], factor);
}

/* The compiler makes vectors of it. */
static void smooth(const uint8_t *above, const uint8_t *at, const uint8_t *below, uint8_t *dst,
                   size_t n, size_t step)
{
    stk__smooth_loop(above, at, below, dst, n, step);
}

const stk__colour_kernels stk__colour_kernels_avx2 = {
    .blend = blend,
    .blend_two = blend_two,
    .saturate = saturate,
    .grey = grey,
    .luma_sum = luma_sum,
    .smooth = smooth,
    .hue = hue,
};
