/* SPDX-License-Identifier: Apache-2.0 */
/* pixels.c, 32 pixels at a time. */
#include "codec/image/pixels.h"

#include <immintrin.h>

/* Sixteen samples as 16-bit numbers. */
static inline __m256i load16(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

static inline __m256i three_times(__m256i v)
{
    return _mm256_add_epi16(_mm256_add_epi16(v, v), v);
}

/* Even and odd samples, by turns. */
static inline void store_both(uint8_t *out, __m256i even, __m256i odd)
{
    _mm256_storeu_si256((__m256i *)out, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

static void widen(const uint8_t *in, uint8_t *out, size_t n)
{
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);

    for (size_t i = 0; i < n; i += 16) {
        __m256i three = three_times(load16(in + i));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(three, load16(in + i - 1)), one);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(three, load16(in + i + 1)), two);
        store_both(out + 2 * i, _mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2));
    }
}

static inline __m256i load_between(const uint8_t *near, const uint8_t *far)
{
    return _mm256_add_epi16(three_times(load16(near)), load16(far));
}

static void widen_between(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n)
{
    const __m256i seven = _mm256_set1_epi16(7), eight = _mm256_set1_epi16(8);
    __m256i before = load_between(near - 16, far - 16), here = load_between(near, far);

    for (size_t i = 0; i < n; i += 16) {
        __m256i next = load_between(near + i + 16, far + i + 16);
        __m256i three = three_times(here);
        /* One to the left, one to the right. */
        __m256i left = _mm256_permute2x128_si256(before, here, 0x21);
        __m256i right = _mm256_permute2x128_si256(here, next, 0x21);
        left = _mm256_alignr_epi8(here, left, 14);
        right = _mm256_alignr_epi8(right, here, 2);
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(three, left), eight);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(three, right), seven);
        store_both(out + 2 * i, _mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4));
        before = here;
        here = next;
    }
}

static void between(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n, uint32_t round)
{
    const __m256i add = _mm256_set1_epi16((short)round);

    for (size_t i = 0; i < n; i += 16) {
        __m256i sum = _mm256_add_epi16(load_between(near + i, far + i), add);
        sum = _mm256_srli_epi16(sum, 2);
        __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        _mm_storeu_si128((__m128i *)(out + i), bytes);
    }
}

/* 32 pixels, as four vectors in each of which the halves are 16 pixels apart. */
static inline void store_rgbx(uint8_t *out, __m256i r, __m256i g, __m256i b)
{
    const __m256i all = _mm256_set1_epi8((char)255);
    __m256i rg = _mm256_unpacklo_epi8(r, g), bx = _mm256_unpacklo_epi8(b, all);
    __m256i v0 = _mm256_unpacklo_epi16(rg, bx), v1 = _mm256_unpackhi_epi16(rg, bx);
    rg = _mm256_unpackhi_epi8(r, g);
    bx = _mm256_unpackhi_epi8(b, all);
    __m256i v2 = _mm256_unpacklo_epi16(rg, bx), v3 = _mm256_unpackhi_epi16(rg, bx);
    __m256i *to = (__m256i *)(void *)out;

    _mm256_storeu_si256(to, _mm256_permute2x128_si256(v0, v1, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(v2, v3, 0x20));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(v0, v1, 0x31));
    _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(v2, v3, 0x31));
}

/*
 * Three vectors of 16 bytes, each with those of its own component where they go among 48, or'ed.
 * Upper and lower halves do the same for 16 pixels each.
 */
static inline void store_rgb(uint8_t *out, __m256i r, __m256i g, __m256i b)
{
#define TWICE(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)
    const __m256i order_r = TWICE(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5);
    const __m256i order_g = TWICE(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10);
    const __m256i order_b = TWICE(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15);
    const __m256i second = TWICE(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0);
    const __m256i third = TWICE(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0);
#undef TWICE
    r = _mm256_shuffle_epi8(r, order_r);
    g = _mm256_shuffle_epi8(g, order_g);
    b = _mm256_shuffle_epi8(b, order_b);
    __m256i v0 = _mm256_blendv_epi8(_mm256_blendv_epi8(r, g, second), b, third);
    __m256i v1 = _mm256_blendv_epi8(_mm256_blendv_epi8(g, b, second), r, third);
    __m256i v2 = _mm256_blendv_epi8(_mm256_blendv_epi8(b, r, second), g, third);
    __m256i *to = (__m256i *)(void *)out;

    _mm256_storeu_si256(to, _mm256_permute2x128_si256(v0, v1, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(v2, v0, 0x30));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(v1, v2, 0x31));
}

/*
 * Sixteen pixels of 16-bit samples, cb and cr less 128. A product of 16 bits that is rounded has
 * the value of the definition for all 256 samples: of 0.402 cr and -0.228 cb; what is missing to
 * 1.402 and 1.772 are whole samples.
 */
static inline void convert(__m256i y, __m256i cb, __m256i cr, __m256i out[3])
{
    const __m256i by_r = _mm256_set1_epi16(13172), by_b = _mm256_set1_epi16(-7471);
    const __m256i by_g = _mm256_set1_epi32((int)(-23401u << 16 | (-11277u & 0xffff)));
    const __m256i half = _mm256_set1_epi32(1 << 14);

    out[0] = _mm256_add_epi16(_mm256_add_epi16(y, cr), _mm256_mulhrs_epi16(cr, by_r));
    out[2] = _mm256_add_epi16(_mm256_add_epi16(y, cb),
                              _mm256_add_epi16(cb, _mm256_mulhrs_epi16(cb, by_b)));
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), by_g);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), by_g);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 15);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 15);
    out[1] = _mm256_add_epi16(y, _mm256_packs_epi32(low, high));
}

/* 32 pixels; the halves of vectors are packed in the order that they were unpacked in. */
static inline void convert_32(const uint8_t *const in[3], size_t i, __m256i out[3])
{
    const __m256i zero = _mm256_setzero_si256(), middle = _mm256_set1_epi16(128);
    __m256i v[3], low[3], high[3];

    for (int c = 0; c < 3; c++) {
        v[c] = _mm256_loadu_si256((const __m256i *)(in[c] + i));
        low[c] = _mm256_unpacklo_epi8(v[c], zero);
        high[c] = _mm256_unpackhi_epi8(v[c], zero);
    }
    convert(low[0], _mm256_sub_epi16(low[1], middle), _mm256_sub_epi16(low[2], middle), low);
    convert(high[0], _mm256_sub_epi16(high[1], middle), _mm256_sub_epi16(high[2], middle), high);
    for (int c = 0; c < 3; c++)
        out[c] = _mm256_packus_epi16(low[c], high[c]);
}

static void color_rgb(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    __m256i p[3];

    for (size_t i = 0; i < n; i += 32) {
        convert_32(in, i, p);
        store_rgb(out + 3 * i, p[0], p[1], p[2]);
    }
}

static void color_rgbx(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    __m256i p[3];

    for (size_t i = 0; i < n; i += 32) {
        convert_32(in, i, p);
        store_rgbx(out + 4 * i, p[0], p[1], p[2]);
    }
}

static inline __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static void plain_rgb(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += 32)
        store_rgb(out + 3 * i, load(in[0] + i), load(in[1] + i), load(in[2] + i));
}

static void plain_rgbx(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += 32)
        store_rgbx(out + 4 * i, load(in[0] + i), load(in[1] + i), load(in[2] + i));
}

const stk__pixel_kernels stk__pixel_kernels_avx2 = {
    .widen = widen,
    .widen_between = widen_between,
    .between = between,
    .color = {color_rgb, color_rgbx},
    .plain = {plain_rgb, plain_rgbx},
};
