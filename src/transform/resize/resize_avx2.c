/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of the resampler for AVX2. The products of two neighbouring taps are added by one
 * multiplication (16 bits each, 32 together), so the bits are those of resize_kernels.c.
 */
#include <immintrin.h>

#include "transform/resize/resize_kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* ---- Along the rows ---- */

/* Sixteen bytes at `a` and at `b`. */
INLINE __m256i load_two(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                   _mm_loadu_si128((const __m128i *)b), 1);
}

/* Four weights of four pixels -> those of taps `pair` for the channels of two pixels. */
INLINE __m256i spread(const int16_t *weights, int two, int pair)
{
    const int a = 4 * two + pair, b = a + 2;

    return _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)weights),
                                       _mm256_setr_epi32(a, a, a, a, b, b, b, b));
}

/* Bytes of taps 2 * pair and 2 * pair + 1, side by side for each channel and widened. */
INLINE __m256i pair_mask(int bytes, int pair)
{
    const char a = (char)(2 * pair * bytes), b = (char)(a + bytes), none = -1;
    const char d = bytes == 4 ? (char)(a + 3) : none, e = bytes == 4 ? (char)(b + 3) : none;

    return _mm256_broadcastsi128_si256(_mm_setr_epi8(a, none, b, none, (char)(a + 1), none,
                                                     (char)(b + 1), none, (char)(a + 2), none,
                                                     (char)(b + 2), none, d, none, e, none));
}

/* What stays the same along a row. */
typedef struct constants {
    __m256i first, second; /* masks of the two pairs of a group */
    __m256i half, bits;    /* of the rounding shift */
    __m256i order;         /* of packed pixels */
} constants;

/* The weights of one group of taps of four pixels: pair 0 and 1 of pixels 0, 1 and of 2, 3. */
typedef struct group {
    __m256i first_01, second_01, first_23, second_23;
} group;

INLINE group group_at(const int16_t *weights, uint32_t g)
{
    const int16_t *w = weights + (size_t)g * STK__ACROSS_PIXELS * STK__ACROSS_TAPS;

    return (group){spread(w, 0, 0), spread(w, 0, 1), spread(w, 1, 0), spread(w, 1, 1)};
}

/* Add the taps of a group, or its first two, of the pixels whose taps are at `a` and at `b`. */
INLINE __m256i add_group(const constants *k, bool two_taps, __m256i sums, const uint8_t *a,
                         const uint8_t *b, __m256i first, __m256i second)
{
    const __m256i bytes = load_two(a, b);

    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, k->first), first));
    if (!two_taps)
        sums = _mm256_add_epi32(sums,
                                _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, k->second), second));
    return sums;
}

/* The sums of four pixels of two rows: 0, 1 and 2, 3 of the one, and of the other. */
typedef struct row_pair {
    __m256i a01, a23, b01, b23;
} row_pair;

INLINE void add_groups(const constants *k, bool two_taps, row_pair *s, const group *w,
                       const size_t start[4], const uint8_t *a, const uint8_t *b)
{
    s->a01 = add_group(k, two_taps, s->a01, a + start[0], a + start[1], w->first_01, w->second_01);
    s->a23 = add_group(k, two_taps, s->a23, a + start[2], a + start[3], w->first_23, w->second_23);
    s->b01 = add_group(k, two_taps, s->b01, b + start[0], b + start[1], w->first_01, w->second_01);
    s->b23 = add_group(k, two_taps, s->b23, b + start[2], b + start[3], w->first_23, w->second_23);
}

INLINE __m256i pack(const constants *k, __m256i low, __m256i high)
{
    return _mm256_packs_epi32(_mm256_srav_epi32(low, k->bits), _mm256_srav_epi32(high, k->bits));
}

INLINE void store_sums(const constants *k, int bytes, const row_pair *s, uint8_t *a, uint8_t *b)
{
    __m256i rows = _mm256_packus_epi16(pack(k, s->a01, s->a23), pack(k, s->b01, s->b23));

    rows = _mm256_permutevar8x32_epi32(rows, k->order);
    if (bytes == 3)
        rows =
            _mm256_shuffle_epi8(rows, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                          0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)));
    _mm_storeu_si128((__m128i *)a, _mm256_castsi256_si128(rows));
    _mm_storeu_si128((__m128i *)b, _mm256_extracti128_si256(rows, 1));
}

/*
 * Pixels of 3 or 4 bytes: four pixels of two rows at a time, and the last of an odd number of rows
 * twice. Up to two groups of taps, a constant then, stay in registers for all rows.
 */
INLINE void across_pixels(const stk__across *taps, int bytes, uint32_t groups, bool half_group,
                          const uint8_t *src, size_t stride, uint8_t *const *dst, uint32_t rows)
{
    const constants k = {.first = pair_mask(bytes, 0),
                         .second = pair_mask(bytes, 1),
                         .half = _mm256_set1_epi32(1 << (taps->bits - 1)),
                         .bits = _mm256_set1_epi32((int)taps->bits),
                         .order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)};
    const size_t next = (size_t)STK__ACROSS_TAPS * (size_t)bytes;

    for (uint32_t i = 0; i < taps->pixels; i += STK__ACROSS_PIXELS) {
        const int16_t *weights = taps->weights + stk__across_at(groups, i, 0);
        const size_t start[] = {taps->start[i], taps->start[i + 1], taps->start[i + 2],
                                taps->start[i + 3]};
        const size_t at = (size_t)i * (size_t)bytes;
        const group w0 = group_at(weights, 0), w1 = group_at(weights, groups == 2 ? 1 : 0);

        for (uint32_t row = 0; row < rows; row += 2) {
            const uint32_t other = row + 1 < rows ? row + 1 : row;
            const uint8_t *a = src + row * stride, *b = src + other * stride;
            row_pair s = {k.half, k.half, k.half, k.half};

            add_groups(&k, groups == 1 && half_group, &s, &w0, start, a, b);
            if (groups == 2)
                add_groups(&k, half_group, &s, &w1, start, a + next, b + next);
            for (uint32_t g = 1; groups > 2 && g < groups; g++) {
                const group w = group_at(weights, g);

                add_groups(&k, false, &s, &w, start, a + g * next, b + g * next);
            }
            store_sums(&k, bytes, &s, dst[row] + at, dst[other] + at);
        }
    }
}

INLINE void across_any(const stk__across *taps, int bytes, const uint8_t *src, size_t stride,
                       uint8_t *const *dst, uint32_t rows)
{
    if (taps->groups == 1 && taps->half_group)
        across_pixels(taps, bytes, 1, true, src, stride, dst, rows);
    else if (taps->groups == 1)
        across_pixels(taps, bytes, 1, false, src, stride, dst, rows);
    else if (taps->groups == 2 && taps->half_group)
        across_pixels(taps, bytes, 2, true, src, stride, dst, rows);
    else if (taps->groups == 2)
        across_pixels(taps, bytes, 2, false, src, stride, dst, rows);
    else
        across_pixels(taps, bytes, taps->groups, false, src, stride, dst, rows);
}

static void across3(const stk__across *taps, const uint8_t *src, size_t stride, uint8_t *const *dst,
                    uint32_t rows)
{
    across_any(taps, 3, src, stride, dst, rows);
}

static void across4(const stk__across *taps, const uint8_t *src, size_t stride, uint8_t *const *dst,
                    uint32_t rows)
{
    across_any(taps, 4, src, stride, dst, rows);
}

INLINE int load_four_bytes(const uint8_t *at)
{
    int value;

    memcpy(&value, at, 4);
    return value;
}

/* Pixels of one byte: the weights stand just as the taps of four pixels are loaded. */
INLINE __m256i four_greys(uint32_t groups, const uint32_t *start, const int16_t *weights,
                          const uint8_t *row)
{
    __m256i sums = _mm256_setzero_si256();

    for (uint32_t g = 0; g < groups; g++) {
        const __m128i bytes =
            _mm_setr_epi32(load_four_bytes(row + start[0]), load_four_bytes(row + start[1]),
                           load_four_bytes(row + start[2]), load_four_bytes(row + start[3]));
        const __m256i w = _mm256_loadu_si256((const __m256i *)weights);

        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_cvtepu8_epi16(bytes), w));
        row += STK__ACROSS_TAPS;
        weights += STK__ACROSS_PIXELS * STK__ACROSS_TAPS;
    }
    return sums;
}

INLINE void store_four_bytes(uint8_t *to, int value)
{
    memcpy(to, &value, 4);
}

INLINE void across_greys(const stk__across *taps, uint32_t groups, const uint8_t *src,
                         size_t stride, uint8_t *const *dst, uint32_t rows)
{
    const __m256i half = _mm256_set1_epi32(1 << (taps->bits - 1));
    const __m128i bits = _mm_cvtsi32_si128((int)taps->bits);
    const size_t step = (size_t)groups * STK__ACROSS_PIXELS * STK__ACROSS_TAPS;

    for (uint32_t i = 0; i < taps->pixels; i += STK__ACROSS_PIXELS) {
        const int16_t *weights = taps->weights + i / STK__ACROSS_PIXELS * step;
        const uint32_t *start = taps->start + i;

        for (uint32_t row = 0; row < rows; row += 2) {
            const uint32_t other = row + 1 < rows ? row + 1 : row;
            /* Pixels 0, 1 of a row, then of the other; 2, 3 in the upper half. */
            __m256i sums =
                _mm256_hadd_epi32(four_greys(groups, start, weights, src + row * stride),
                                  four_greys(groups, start, weights, src + other * stride));

            sums = _mm256_sra_epi32(_mm256_add_epi32(sums, half), bits);
            sums = _mm256_permute4x64_epi64(_mm256_packs_epi32(sums, sums), 0x08);
            const __m128i both = _mm_shuffle_epi8(
                _mm_packus_epi16(_mm256_castsi256_si128(sums), _mm256_castsi256_si128(sums)),
                _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1));

            store_four_bytes(dst[row] + i, _mm_cvtsi128_si32(both));
            store_four_bytes(dst[other] + i, _mm_extract_epi32(both, 1));
        }
    }
}

static void across1(const stk__across *taps, const uint8_t *src, size_t stride, uint8_t *const *dst,
                    uint32_t rows)
{
    if (taps->groups == 1)
        across_greys(taps, 1, src, stride, dst, rows);
    else
        across_greys(taps, taps->groups, src, stride, dst, rows);
}

/* ---- Down the columns ---- */

/* The sums of 32 bytes, in the order that packing turns back. */
typedef struct block {
    __m256i low, low_high, high_low, high;
} block;

/* Two weights for all lanes; the second is 0 behind the last row. */
INLINE __m256i weight_pair(const int16_t *weights, uint32_t k, uint32_t count)
{
    const uint32_t a = (uint16_t)weights[k], b = k + 1 < count ? (uint16_t)weights[k + 1] : 0;

    return _mm256_set1_epi32((int)(a | b << 16));
}

INLINE void add_pair(block *sums, const uint8_t *a, const uint8_t *b, __m256i weights)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i x = _mm256_loadu_si256((const __m256i *)a);
    const __m256i y = _mm256_loadu_si256((const __m256i *)b);
    const __m256i low = _mm256_unpacklo_epi8(x, y), high = _mm256_unpackhi_epi8(x, y);

    sums->low =
        _mm256_add_epi32(sums->low, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weights));
    sums->low_high = _mm256_add_epi32(sums->low_high,
                                      _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weights));
    sums->high_low = _mm256_add_epi32(sums->high_low,
                                      _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weights));
    sums->high =
        _mm256_add_epi32(sums->high, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weights));
}

INLINE void finish_block(const block *sums, __m256i bits, uint8_t *dst)
{
    const __m256i low = _mm256_packs_epi32(_mm256_srav_epi32(sums->low, bits),
                                           _mm256_srav_epi32(sums->low_high, bits));
    const __m256i high = _mm256_packs_epi32(_mm256_srav_epi32(sums->high_low, bits),
                                            _mm256_srav_epi32(sums->high, bits));

    _mm256_storeu_si256((__m256i *)dst, _mm256_packus_epi16(low, high));
}

/* `count` of at most 4 is a constant wherever this is inlined: its weights stay in registers. */
INLINE void down_few(const uint8_t *const *rows, const int16_t *weights, uint32_t count,
                     uint32_t bits, size_t bytes, uint8_t *dst)
{
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    const __m256i shift_by = _mm256_set1_epi32((int)bits);
    const __m256i w0 = weight_pair(weights, 0, count);
    const __m256i w1 = count > 2 ? weight_pair(weights, 2, count) : half;
    const uint8_t *a = rows[0], *b = rows[count > 1 ? 1 : 0];
    const uint8_t *c = rows[count > 2 ? 2 : 0], *d = rows[count - 1];

    for (size_t i = 0; i < bytes; i += 32) {
        block sums = {half, half, half, half};

        add_pair(&sums, a + i, b + i, w0);
        if (count > 2)
            add_pair(&sums, c + i, d + i, w1);
        finish_block(&sums, shift_by, dst + i);
    }
}

static void down_many(const uint8_t *const *rows, const int16_t *weights, uint32_t count,
                      uint32_t bits, size_t bytes, uint8_t *dst)
{
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    const __m256i shift_by = _mm256_set1_epi32((int)bits);

    for (size_t i = 0; i < bytes; i += 32) {
        block sums = {half, half, half, half};

        for (uint32_t k = 0; k < count; k += 2)
            add_pair(&sums, rows[k] + i, rows[k + 1 < count ? k + 1 : k] + i,
                     weight_pair(weights, k, count));
        finish_block(&sums, shift_by, dst + i);
    }
}

static void down(const uint8_t *const *rows, const int16_t *weights, uint32_t count, uint32_t bits,
                 size_t bytes, uint8_t *dst)
{
    if (count <= 2)
        down_few(rows, weights, count, bits, bytes, dst);
    else if (count == 3)
        down_few(rows, weights, 3, bits, bytes, dst);
    else if (count == 4)
        down_few(rows, weights, 4, bits, bytes, dst);
    else
        down_many(rows, weights, count, bits, bytes, dst);
}

INLINE block load_block(const int32_t *sums)
{
    const __m256i *at = (const __m256i *)sums;

    return (block){_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1), _mm256_loadu_si256(at + 2),
                   _mm256_loadu_si256(at + 3)};
}

static void add(const uint8_t *const *rows, const int16_t *weights, uint32_t count, size_t bytes,
                int32_t *sums)
{
    for (size_t i = 0; i < bytes; i += 32) {
        block part = load_block(sums + i);
        __m256i *at = (__m256i *)(sums + i);

        for (uint32_t k = 0; k < count; k += 2)
            add_pair(&part, rows[k] + i, rows[k + 1 < count ? k + 1 : k] + i,
                     weight_pair(weights, k, count));
        _mm256_storeu_si256(at, part.low);
        _mm256_storeu_si256(at + 1, part.low_high);
        _mm256_storeu_si256(at + 2, part.high_low);
        _mm256_storeu_si256(at + 3, part.high);
    }
}

static void finish(const int32_t *sums, uint32_t bits, size_t bytes, uint8_t *dst)
{
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    const __m256i shift_by = _mm256_set1_epi32((int)bits);

    for (size_t i = 0; i < bytes; i += 32) {
        block part = load_block(sums + i);

        part.low = _mm256_add_epi32(part.low, half);
        part.low_high = _mm256_add_epi32(part.low_high, half);
        part.high_low = _mm256_add_epi32(part.high_low, half);
        part.high = _mm256_add_epi32(part.high, half);
        finish_block(&part, shift_by, dst + i);
    }
}

static void across2(const stk__across *taps, const uint8_t *src, size_t stride, uint8_t *const *dst,
                    uint32_t rows)
{
    stk__resize_kernels_c.across[2](taps, src, stride, dst, rows);
}

const stk__resize_kernels stk__resize_kernels_avx2 = {
    .across = {NULL, across1, across2, across3, across4},
    .down = down,
    .add = add,
    .finish = finish,
};
