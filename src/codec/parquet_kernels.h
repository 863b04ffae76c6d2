/* the loops of Parquet's encodings, in C and for one instruction set: the same values. Inside
 * src/codec. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_PARQUET_KERNELS_H
#define STK_SRC_CODEC_PARQUET_KERNELS_H

#include "base/base.h"

/* Numbers that are packed together, and bytes that unpacking may look at behind the last group. */
#define STK__PARQUET_GROUP  8u
#define STK__PARQUET_BEYOND 16u

/* Nothing here needs alignment but what a pointer's type asks. Sums wrap around. */
typedef struct stk__parquet_kernels {
    /* Groups of eight numbers of `width` bits (0 to 32), the least bit first. STK__PARQUET_BEYOND
     * bytes behind the last group can be read. */
    void (*unpack)(const uint8_t *in, unsigned width, uint32_t *out, size_t groups);
    /* The highest of them; 0: there are none. */
    uint32_t (*highest)(const uint32_t *numbers, size_t count);
    /* Element `i` of the output is that of `entries` which codes[i] says; of `size` bytes. */
    void (*look_up)(const uint8_t *entries, const uint32_t *codes, uint8_t *out, size_t count,
                    size_t size);
    /* Each number is the one before, `least` and a difference; the first follows `last`. Returns
     * the last. `out` is of numbers of 4 or 8 bytes. */
    uint32_t (*add_up32)(const uint32_t *differences, uint32_t least, uint32_t last, uint8_t *out,
                         size_t count);
    uint64_t (*add_up64)(const uint32_t *differences, uint64_t least, uint64_t last, uint8_t *out,
                         size_t count);
} stk__parquet_kernels;

extern const stk__parquet_kernels stk__parquet_kernels_c;
#ifdef STK_WITH_AVX2
extern const stk__parquet_kernels stk__parquet_kernels_avx2;
#endif

const stk__parquet_kernels *stk__parquet_kernels_of(const stk_context *ctx);

#endif
