/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops in C: what every other version must give. A group of eight numbers of w bits is w
 * bytes, so that each width has a loop of its own with constant shifts, which the compiler makes of
 * straight code.
 */
#include "codec/parquet_kernels.h"

/* ---- Packed bits ---- */

static inline __attribute__((always_inline)) void unpack_group(const uint8_t *in, unsigned width,
                                                               uint32_t *out)
{
    const uint64_t mask = (UINT64_C(1) << width) - 1;

    for (unsigned i = 0; i < STK__PARQUET_GROUP; i++) {
        const unsigned bit = i * width;
        uint64_t x;
        memcpy(&x, in + bit / 8, sizeof x);
        out[i] = (uint32_t)(x >> bit % 8 & mask);
    }
}

static inline __attribute__((always_inline)) void unpack_of(const uint8_t *in, unsigned width,
                                                            uint32_t *out, size_t groups)
{
    for (size_t g = 0; g < groups; g++, in += width, out += STK__PARQUET_GROUP)
        unpack_group(in, width, out);
}

#define CASE(width)                                                                                \
    case width:                                                                                    \
        unpack_of(in, width, out, groups);                                                         \
        break;
#define CASES(width) CASE(width) CASE(width + 1) CASE(width + 2) CASE(width + 3)

static void unpack(const uint8_t *in, unsigned width, uint32_t *out, size_t groups)
{
    switch (width) {
        CASES(0)
        CASES(4)
        CASES(8)
        CASES(12)
        CASES(16)
        CASES(20)
        CASES(24)
        CASES(28)
        CASE(32)
    default:
        break;
    }
}

/* ---- Codes ---- */

static uint32_t highest(const uint32_t *numbers, size_t count)
{
    uint32_t most = 0;

    for (size_t i = 0; i < count; i++)
        most = STK_MAX(most, numbers[i]);
    return most;
}

#define LOOK_UP(size)                                                                              \
    for (size_t i = 0; i < count; i++)                                                             \
        memcpy(out + i * (size), entries + (size_t)codes[i] * (size), size);

static void look_up(const uint8_t *entries, const uint32_t *codes, uint8_t *out, size_t count,
                    size_t size)
{
    switch (size) {
    case 1:
        LOOK_UP(1)
        break;
    case 2:
        LOOK_UP(2)
        break;
    case 4:
        LOOK_UP(4)
        break;
    case 8:
        LOOK_UP(8)
        break;
    default:
        LOOK_UP(size)
    }
}

/* ---- Differences ---- */

#define ADD_UP(bits)                                                                               \
    static uint##bits##_t add_up##bits(const uint32_t *differences, uint##bits##_t least,          \
                                       uint##bits##_t last, uint8_t *out, size_t count)            \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            last += least + differences[i];                                                        \
            memcpy(out + i * sizeof last, &last, sizeof last);                                     \
        }                                                                                          \
        return last;                                                                               \
    }

ADD_UP(32)
ADD_UP(64)

const stk__parquet_kernels stk__parquet_kernels_c = {.unpack = unpack,
                                                     .highest = highest,
                                                     .look_up = look_up,
                                                     .add_up32 = add_up32,
                                                     .add_up64 = add_up64};

const stk__parquet_kernels *stk__parquet_kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__parquet_kernels_avx2;
#endif
    return &stk__parquet_kernels_c;
}
