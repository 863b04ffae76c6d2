/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of the resampler in C: what every other version must give, bit for bit. */
#include "transform/resize/resize_kernels.h"

#define INLINE static inline __attribute__((always_inline))

INLINE uint8_t clip(int32_t sum, uint32_t bits)
{
    int32_t value = (sum + ((int32_t)1 << (bits - 1))) >> bits;

    return (uint8_t)STK_MAX(0, STK_MIN(value, 255));
}

/* `bytes`, and `count` where it is small, are constants wherever this is inlined. */
INLINE void across_row(const stk__across *taps, uint32_t bytes, uint32_t count,
                       const uint8_t *restrict src, uint8_t *restrict dst)
{
    for (uint32_t i = 0; i < taps->pixels; i++) {
        const uint8_t *restrict from = src + taps->start[i];
        const int16_t *restrict weights = taps->weights + stk__across_at(taps->groups, i, 0);
        int32_t sums[4] = {0};

        for (uint32_t k = 0; k < count; k++) {
            const int32_t weight = weights[stk__across_at(taps->groups, 0, k)];

            for (uint32_t c = 0; c < bytes; c++)
                sums[c] += *from++ * weight;
        }
        for (uint32_t c = 0; c < bytes; c++)
            dst[i * bytes + c] = clip(sums[c], taps->bits);
    }
}

INLINE void across(const stk__across *taps, uint32_t bytes, const uint8_t *src, size_t stride,
                   uint8_t *const *dst, uint32_t rows)
{
    const uint32_t count = taps->groups * STK__ACROSS_TAPS - (taps->half_group ? 2 : 0);

    for (uint32_t row = 0; row < rows; row++) {
        const uint8_t *from = src + row * stride;

        if (count == 2)
            across_row(taps, bytes, 2, from, dst[row]);
        else if (count == 4)
            across_row(taps, bytes, 4, from, dst[row]);
        else
            across_row(taps, bytes, count, from, dst[row]);
    }
}

#define DEFINE_ACROSS(bytes)                                                                       \
    static void across##bytes(const stk__across *taps, const uint8_t *src, size_t stride,          \
                              uint8_t *const *dst, uint32_t rows)                                  \
    {                                                                                              \
        across(taps, bytes, src, stride, dst, rows);                                               \
    }

DEFINE_ACROSS(1)
DEFINE_ACROSS(2)
DEFINE_ACROSS(3)
DEFINE_ACROSS(4)

/* Bytes of a row whose sums fit the first-level cache with the rows that they come from. */
enum { PART = 512 };

static void add(const uint8_t *const *rows, const int16_t *weights, uint32_t count, size_t bytes,
                int32_t *restrict sums)
{
    for (uint32_t k = 0; k < count; k++) {
        const uint8_t *restrict row = rows[k];
        const int32_t weight = weights[k];

        for (size_t i = 0; i < bytes; i++)
            sums[i] += row[i] * weight;
    }
}

static void finish(const int32_t *restrict sums, uint32_t bits, size_t bytes, uint8_t *restrict dst)
{
    for (size_t i = 0; i < bytes; i++)
        dst[i] = clip(sums[i], bits);
}

static void down(const uint8_t *const *rows, const int16_t *weights, uint32_t count, uint32_t bits,
                 size_t bytes, uint8_t *dst)
{
    for (size_t at = 0; at < bytes; at += PART) {
        const size_t part = STK_MIN(bytes - at, (size_t)PART);
        int32_t sums[PART] = {0};

        for (uint32_t k = 0; k < count; k++) {
            const uint8_t *row = rows[k] + at;

            add(&row, weights + k, 1, part, sums);
        }
        finish(sums, bits, part, dst + at);
    }
}

const stk__resize_kernels stk__resize_kernels_c = {
    .across = {NULL, across1, across2, across3, across4},
    .down = down,
    .add = add,
    .finish = finish,
};

const stk__resize_kernels *stk__resize_kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__resize_kernels_avx2;
#endif
    return &stk__resize_kernels_c;
}
