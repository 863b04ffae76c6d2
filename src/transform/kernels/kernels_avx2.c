/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2. The same bits as kernels.c: there is no fused multiply-add in AVX2, and
 * none is wanted. */
#include "transform/kernels/kernels_loops.h"

#include <immintrin.h>

STK__DEFINE_CONVERT(copy1, STK__COPY1)
STK__DEFINE_CONVERT(copy2, STK__COPY2)
STK__DEFINE_CONVERT(copy4, STK__COPY4)
STK__DEFINE_CONVERT(copy8, STK__COPY8)
STK__DEFINE_INTERLEAVED(unit, STK__UNIT)
STK__DEFINE_INTERLEAVED(affine_u8, STK__AFFINE_U8)
STK__DEFINE_INTERLEAVED(unit_affine, STK__UNIT_AFFINE)
STK__DEFINE_REORDER(affine_f32, STK__AFFINE_F32)

/*
 * x / 255 without a division: 1/255 in two parts. The first has 17 bits, and its product with any
 * uint8 fits the 24 of a float exactly (255 * 0x10101 = 0xffffff); the second brings the rest. For
 * all 256 values of x the rounded sum is the rounded quotient (tests/parity tries each).
 */
#define INVERSE_HIGH 0x1.0101p-8f
#define INVERSE_LOW  0x1.0101p-32f

/* Eight integers -> eight results of `value`. */
STK__INLINE __m256 finish_u8(stk__value value, __m256i integers, __m256 scale, __m256 shift)
{
    __m256 x = _mm256_cvtepi32_ps(integers);

    if (value != STK__AFFINE_U8)
        x = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(INVERSE_HIGH)),
                          _mm256_mul_ps(x, _mm256_set1_ps(INVERSE_LOW)));
    if (value != STK__UNIT)
        x = _mm256_add_ps(_mm256_mul_ps(x, scale), shift);
    return x;
}

/* Eight elements at `src` -> eight results. */
STK__INLINE __m256 eight(stk__value value, const char *src, size_t i, __m256 scale, __m256 shift)
{
    if (value == STK__AFFINE_F32)
        return _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps((const float *)src + i), scale), shift);
    return finish_u8(value, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(src + i))),
                     scale, shift);
}

STK__INLINE void flat_one(stk__value value, const char *restrict src, float *restrict dst, size_t n,
                          const stk_transform_affine *affine)
{
    float scale = stk__scale(affine, 0), shift = stk__shift(affine, 0);
    __m256 scales = _mm256_set1_ps(scale), shifts = _mm256_set1_ps(shift);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256 a = eight(value, src, i, scales, shifts),
               b = eight(value, src, i + 8, scales, shifts);
        __m256 c = eight(value, src, i + 16, scales, shifts),
               d = eight(value, src, i + 24, scales, shifts);

        _mm256_storeu_ps(dst + i, a);
        _mm256_storeu_ps(dst + i + 8, b);
        _mm256_storeu_ps(dst + i + 16, c);
        _mm256_storeu_ps(dst + i + 24, d);
    }
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, eight(value, src, i, scales, shifts));
    for (; i < n; i++)
        stk__put(value, src, i, dst, i, scale, shift);
}

/* Several channels: eight pixels are `count` vectors, and the pattern of the channels is as long.
 */
STK__INLINE void flat_pattern(stk__value value, const char *restrict src, float *restrict dst,
                              size_t n, uint32_t count, const stk_transform_affine *affine)
{
    size_t step = (size_t)count * STK__LANES, i = 0;

    for (; i + step <= n; i += step)
        for (uint32_t k = 0; k < count; k++)
            _mm256_storeu_ps(dst + i + k * 8,
                             eight(value, src, i + k * 8, _mm256_loadu_ps(affine->scale + k * 8),
                                   _mm256_loadu_ps(affine->shift + k * 8)));
    for (size_t k = 0; i < n; i++, k++)
        stk__put(value, src, i, dst, i, affine->scale[k], affine->shift[k]);
}

STK__INLINE void flat(stk__value value, const void *src, void *dst, size_t pixels,
                      uint32_t channels, const stk_transform_affine *affine)
{
    size_t n = pixels * channels;

    if (!affine || affine->count == 1)
        flat_one(value, src, dst, n, affine);
    else if (affine->count == 3)
        flat_pattern(value, src, dst, n, 3, affine);
    else
        flat_pattern(value, src, dst, n, affine->count, affine);
}

/*
 * Eight pixels of 2 to 4 bytes. Each half of a vector gets four pixels; one byte shuffle for each
 * channel picks its bytes and widens them to 32 bits. Reads at most 16 bytes beyond the pixels,
 * which the tail of the source allows.
 */
STK__INLINE void planar_pixels(stk__value value, const uint8_t *restrict src, float *restrict dst,
                               size_t pixels, uint32_t channels, size_t plane,
                               const stk_transform_affine *affine)
{
    __m256i pick[4];
    __m256 scales[4], shifts[4];
    size_t p = 0;

    for (uint32_t c = 0; c < channels; c++) {
        int at = (int)c, step = (int)channels;
        __m128i half =
            _mm_setr_epi8((char)at, -1, -1, -1, (char)(at + step), -1, -1, -1,
                          (char)(at + 2 * step), -1, -1, -1, (char)(at + 3 * step), -1, -1, -1);

        pick[c] = _mm256_broadcastsi128_si256(half);
        scales[c] = _mm256_set1_ps(stk__scale(affine, c));
        shifts[c] = _mm256_set1_ps(stk__shift(affine, c));
    }
    for (; p + 8 <= pixels; p += 8) {
        const uint8_t *at = src + p * channels;
        __m128i low = _mm_loadu_si128((const __m128i *)at);
        __m128i high = _mm_loadu_si128((const __m128i *)(at + 4 * (size_t)channels));
        __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);

        for (uint32_t c = 0; c < channels; c++)
            _mm256_storeu_ps(
                dst + c * plane + p,
                finish_u8(value, _mm256_shuffle_epi8(bytes, pick[c]), scales[c], shifts[c]));
    }
    for (; p < pixels; p++)
        for (uint32_t c = 0; c < channels; c++)
            stk__put(value, src, p * channels + c, dst, c * plane + p, stk__scale(affine, c),
                     stk__shift(affine, c));
}

STK__INLINE void planar_u8(stk__value value, const void *src, void *dst, size_t pixels,
                           uint32_t channels, size_t plane, const stk_transform_affine *affine)
{
    switch (channels) {
    case 1:
        flat_one(value, src, dst, pixels, affine);
        break;
    case 2:
        planar_pixels(value, src, dst, pixels, 2, plane, affine);
        break;
    case 3:
        planar_pixels(value, src, dst, pixels, 3, plane, affine);
        break;
    case 4:
        planar_pixels(value, src, dst, pixels, 4, plane, affine);
        break;
    default:
        stk__planar_of(value, src, dst, pixels, channels, plane, affine);
    }
}

#define DEFINE_FLAT(name, value)                                                                   \
    static void flat_##name(const void *src, void *dst, size_t pixels, uint32_t channels,          \
                            size_t plane, const stk_transform_affine *affine)                      \
    {                                                                                              \
        flat(value, src, dst, pixels, channels, affine);                                           \
    }

#define DEFINE_PLANAR(name, value)                                                                 \
    static void planar_##name(const void *src, void *dst, size_t pixels, uint32_t channels,        \
                              size_t plane, const stk_transform_affine *affine)                    \
    {                                                                                              \
        planar_u8(value, src, dst, pixels, channels, plane, affine);                               \
    }

DEFINE_FLAT(unit, STK__UNIT)
DEFINE_FLAT(affine_u8, STK__AFFINE_U8)
DEFINE_FLAT(unit_affine, STK__UNIT_AFFINE)
DEFINE_FLAT(affine_f32, STK__AFFINE_F32)
DEFINE_PLANAR(unit, STK__UNIT)
DEFINE_PLANAR(affine_u8, STK__AFFINE_U8)
DEFINE_PLANAR(unit_affine, STK__UNIT_AFFINE)

static void reverse_bytes(const uint8_t *restrict src, uint8_t *restrict dst, size_t n)
{
    const __m256i turn = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(src + n - i - 32));

        x = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x, turn), 0x4e);
        _mm256_storeu_si256((__m256i *)(dst + i), x);
    }
    for (; i + 16 <= n; i += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(src + n - i - 16));

        _mm_storeu_si128((__m128i *)(dst + i), _mm_shuffle_epi8(x, _mm256_castsi256_si128(turn)));
    }
    for (; i < n; i++)
        dst[i] = src[n - 1 - i];
}

/* Five pixels of three bytes a time; the sixteenth byte is written over by the next store. */
static void reverse_triples(const uint8_t *restrict src, uint8_t *restrict dst, size_t pixels)
{
    const __m128i turn = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, -1);
    size_t i = 0;

    for (; i + 6 <= pixels; i += 5) {
        __m128i x = _mm_loadu_si128((const __m128i *)(src + (pixels - i - 5) * 3));

        _mm_storeu_si128((__m128i *)(dst + i * 3), _mm_shuffle_epi8(x, turn));
    }
    stk__reverse_of(src, dst + i * 3, pixels - i, 3);
}

static void reverse(const void *src, void *dst, size_t pixels, size_t pixel_bytes)
{
    if (pixel_bytes == 1)
        reverse_bytes(src, dst, pixels);
    else if (pixel_bytes == 3)
        reverse_triples(src, dst, pixels);
    else
        stk__reverse(src, dst, pixels, pixel_bytes);
}

/* Four pixels at a time; the store writes four bytes more than they are, so the last six are left
 * to the loop. */
static void pack(const void *source, void *destination, size_t pixels, bool reversed)
{
    const __m128i along = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m128i back = _mm_setr_epi8(12, 13, 14, 8, 9, 10, 4, 5, 6, 0, 1, 2, -1, -1, -1, -1);
    const __m128i pick = reversed ? back : along;
    const uint8_t *src = source;
    uint8_t *dst = destination;
    size_t i = 0;

    for (; i + 6 <= pixels; i += 4) {
        size_t from = reversed ? pixels - i - 4 : i;
        __m128i x = _mm_loadu_si128((const __m128i *)(src + 4 * from));

        _mm_storeu_si128((__m128i *)(dst + 3 * i), _mm_shuffle_epi8(x, pick));
    }
    stk__pack(reversed ? src : src + 4 * i, dst + 3 * i, pixels - i, reversed);
}

STK__DEFINE_KERNELS(stk__kernels_avx2)
