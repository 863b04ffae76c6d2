/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops that define every kernel. kernels.c compiles them for the plain machine, kernels_avx2.c
 * once more for AVX2, where the compiler turns them into vectors and the hottest are written by
 * hand. Multiplication and addition are rounded separately in both, so that the bits are the same.
 */
#ifndef STK_SRC_TRANSFORM_KERNELS_KERNELS_LOOPS_H
#define STK_SRC_TRANSFORM_KERNELS_KERNELS_LOOPS_H

#include "transform/kernels/kernels.h"

#define STK__INLINE static inline __attribute__((always_inline))

/* Elements at any address. */
typedef uint8_t stk__u8 __attribute__((may_alias));
typedef uint16_t stk__u16 __attribute__((aligned(1), may_alias));
typedef uint32_t stk__u32 __attribute__((aligned(1), may_alias));
typedef uint64_t stk__u64 __attribute__((aligned(1), may_alias));
typedef float stk__f32 __attribute__((aligned(1), may_alias));

/* One element: dst[j] = value(src[i]). `value` is a constant wherever this is inlined. */
STK__INLINE void stk__put(stk__value value, const void *restrict src, size_t i, void *restrict dst,
                          size_t j, float scale, float shift)
{
    switch (value) {
    case STK__COPY1:
        ((stk__u8 *)dst)[j] = ((const stk__u8 *)src)[i];
        break;
    case STK__COPY2:
        ((stk__u16 *)dst)[j] = ((const stk__u16 *)src)[i];
        break;
    case STK__COPY4:
        ((stk__u32 *)dst)[j] = ((const stk__u32 *)src)[i];
        break;
    case STK__COPY8:
        ((stk__u64 *)dst)[j] = ((const stk__u64 *)src)[i];
        break;
    case STK__UNIT:
        ((stk__f32 *)dst)[j] = (float)((const stk__u8 *)src)[i] / 255.0f;
        break;
    case STK__AFFINE_U8:
        ((stk__f32 *)dst)[j] = (float)((const stk__u8 *)src)[i] * scale + shift;
        break;
    case STK__UNIT_AFFINE:
        ((stk__f32 *)dst)[j] = (float)((const stk__u8 *)src)[i] / 255.0f * scale + shift;
        break;
    case STK__AFFINE_F32:
        ((stk__f32 *)dst)[j] = ((const stk__f32 *)src)[i] * scale + shift;
        break;
    case STK__VALUE_COUNT:
        break;
    }
}

STK__INLINE float stk__scale(const stk_transform_affine *affine, size_t channel)
{
    return affine ? affine->scale[affine->count == 1 ? 0 : channel] : 1.0f;
}

STK__INLINE float stk__shift(const stk_transform_affine *affine, size_t channel)
{
    return affine ? affine->shift[affine->count == 1 ? 0 : channel] : 0.0f;
}

STK__INLINE void stk__flat(stk__value value, const void *restrict src, void *restrict dst,
                           size_t pixels, uint32_t channels, const stk_transform_affine *affine)
{
    if (!affine || affine->count == 1) {
        float scale = stk__scale(affine, 0), shift = stk__shift(affine, 0);

        for (size_t i = 0; i < pixels * channels; i++)
            stk__put(value, src, i, dst, i, scale, shift);
        return;
    }
    for (size_t p = 0; p < pixels; p++)
        for (uint32_t c = 0; c < channels; c++)
            stk__put(value, src, p * channels + c, dst, p * channels + c, affine->scale[c],
                     affine->shift[c]);
}

STK__INLINE void stk__planar_of(stk__value value, const void *restrict src, void *restrict dst,
                                size_t pixels, uint32_t channels, size_t plane,
                                const stk_transform_affine *affine)
{
    for (uint32_t c = 0; c < channels; c++) {
        float scale = stk__scale(affine, c), shift = stk__shift(affine, c);

        for (size_t p = 0; p < pixels; p++)
            stk__put(value, src, p * channels + c, dst, c * plane + p, scale, shift);
    }
}

STK__INLINE void stk__interleaved_of(stk__value value, const void *restrict src, void *restrict dst,
                                     size_t pixels, uint32_t channels, size_t plane,
                                     const stk_transform_affine *affine)
{
    for (size_t p = 0; p < pixels; p++)
        for (uint32_t c = 0; c < channels; c++)
            stk__put(value, src, c * plane + p, dst, p * channels + c, stk__scale(affine, c),
                     stk__shift(affine, c));
}

/* The usual numbers of channels become constants that the compiler unrolls. */
#define STK__BY_CHANNELS(loop)                                                                     \
    switch (channels) {                                                                            \
    case 1:                                                                                        \
        loop(value, src, dst, pixels, 1, plane, affine);                                           \
        break;                                                                                     \
    case 2:                                                                                        \
        loop(value, src, dst, pixels, 2, plane, affine);                                           \
        break;                                                                                     \
    case 3:                                                                                        \
        loop(value, src, dst, pixels, 3, plane, affine);                                           \
        break;                                                                                     \
    case 4:                                                                                        \
        loop(value, src, dst, pixels, 4, plane, affine);                                           \
        break;                                                                                     \
    default:                                                                                       \
        loop(value, src, dst, pixels, channels, plane, affine);                                    \
    }

STK__INLINE void stk__planar(stk__value value, const void *restrict src, void *restrict dst,
                             size_t pixels, uint32_t channels, size_t plane,
                             const stk_transform_affine *affine){STK__BY_CHANNELS(stk__planar_of)}

STK__INLINE
    void stk__interleaved(stk__value value, const void *restrict src, void *restrict dst,
                          size_t pixels, uint32_t channels, size_t plane,
                          const stk_transform_affine *affine){STK__BY_CHANNELS(stk__interleaved_of)}

/* Kernels with the signature of the table; `plane` means nothing to FLAT. */
#define STK__DEFINE_CONVERT(name, value)                                                           \
    static void flat_##name(const void *src, void *dst, size_t pixels, uint32_t channels,          \
                            size_t plane, const stk_transform_affine *affine)                      \
    {                                                                                              \
        stk__flat(value, src, dst, pixels, channels, affine);                                      \
    }                                                                                              \
    STK__DEFINE_REORDER(name, value)

#define STK__DEFINE_REORDER(name, value)                                                           \
    static void planar_##name(const void *src, void *dst, size_t pixels, uint32_t channels,        \
                              size_t plane, const stk_transform_affine *affine)                    \
    {                                                                                              \
        stk__planar(value, src, dst, pixels, channels, plane, affine);                             \
    }                                                                                              \
    STK__DEFINE_INTERLEAVED(name, value)

#define STK__DEFINE_INTERLEAVED(name, value)                                                       \
    static void interleaved_##name(const void *src, void *dst, size_t pixels, uint32_t channels,   \
                                   size_t plane, const stk_transform_affine *affine)               \
    {                                                                                              \
        stk__interleaved(value, src, dst, pixels, channels, plane, affine);                        \
    }

STK__INLINE void stk__reverse_of(const void *restrict src, void *restrict dst, size_t pixels,
                                 size_t pixel_bytes)
{
    for (size_t i = 0; i < pixels; i++)
        memcpy((char *)dst + i * pixel_bytes, (const char *)src + (pixels - 1 - i) * pixel_bytes,
               pixel_bytes);
}

STK__INLINE void stk__reverse(const void *restrict src, void *restrict dst, size_t pixels,
                              size_t pixel_bytes)
{
    switch (pixel_bytes) {
    case 1:
        stk__reverse_of(src, dst, pixels, 1);
        break;
    case 2:
        stk__reverse_of(src, dst, pixels, 2);
        break;
    case 3:
        stk__reverse_of(src, dst, pixels, 3);
        break;
    case 4:
        stk__reverse_of(src, dst, pixels, 4);
        break;
    case 12:
        stk__reverse_of(src, dst, pixels, 12);
        break;
    default:
        stk__reverse_of(src, dst, pixels, pixel_bytes);
    }
}

STK__INLINE void stk__pack(const stk__u8 *restrict src, stk__u8 *restrict dst, size_t pixels,
                           bool reversed)
{
    for (size_t i = 0; i < pixels; i++) {
        const stk__u8 *from = src + 4 * (reversed ? pixels - 1 - i : i);

        for (size_t c = 0; c < 3; c++)
            dst[3 * i + c] = from[c];
    }
}

STK__INLINE void stk__mix_f32(stk__f32 *restrict a, stk__f32 *restrict b, size_t n, float own,
                              float other)
{
    for (size_t i = 0; i < n; i++) {
        float x = a[i], y = b[i];

        a[i] = x * own + y * other;
        b[i] = y * own + x * other;
    }
}

/* Adding and taking away 1.5 * 2^23 leaves the nearest integer of a float in [0, 2^22), ties to
 * even. */
STK__INLINE uint8_t stk__nearest_u8(float x)
{
    return (uint8_t)(int32_t)((x + 0x1.8p23f) - 0x1.8p23f);
}

STK__INLINE void stk__mix_u8(stk__u8 *restrict a, stk__u8 *restrict b, size_t n, float own,
                             float other)
{
    for (size_t i = 0; i < n; i++) {
        float x = (float)a[i], y = (float)b[i];

        a[i] = stk__nearest_u8(x * own + y * other);
        b[i] = stk__nearest_u8(y * own + x * other);
    }
}

#define STK__CONVERT_ROW(arrange)                                                                  \
    {                                                                                              \
        [STK__COPY1] = arrange##_copy1, [STK__COPY2] = arrange##_copy2,                            \
        [STK__COPY4] = arrange##_copy4, [STK__COPY8] = arrange##_copy8,                            \
        [STK__UNIT] = arrange##_unit, [STK__AFFINE_U8] = arrange##_affine_u8,                      \
        [STK__UNIT_AFFINE] = arrange##_unit_affine, [STK__AFFINE_F32] = arrange##_affine_f32       \
    }

/* The whole table, of the functions above and of reverse() and pack(). */
#define STK__DEFINE_KERNELS(table)                                                                 \
    static void mix_f32(void *a, void *b, size_t n, float own, float other)                        \
    {                                                                                              \
        stk__mix_f32(a, b, n, own, other);                                                         \
    }                                                                                              \
    static void mix_u8(void *a, void *b, size_t n, float own, float other)                         \
    {                                                                                              \
        stk__mix_u8(a, b, n, own, other);                                                          \
    }                                                                                              \
    const stk__kernels table = {                                                                   \
        .convert = {[STK__FLAT] = STK__CONVERT_ROW(flat),                                          \
                    [STK__PLANAR] = STK__CONVERT_ROW(planar),                                      \
                    [STK__INTERLEAVED] = STK__CONVERT_ROW(interleaved)},                           \
        .reverse = reverse,                                                                        \
        .pack = pack,                                                                              \
        .mix_f32 = mix_f32,                                                                        \
        .mix_u8 = mix_u8,                                                                          \
    };

#endif
