/* SPDX-License-Identifier: Apache-2.0 */
/* The sum, mean, least or greatest of what ranks have sent, in the order of ranks. A bfloat16 is
 * added as a float, and rounded once. */
#include "dist/collectives.h"

#define BLOCK 2048 /* elements that are added over all ranks before the next */

size_t stk__combine_size(stk_dtype dtype)
{
    return dtype == STK_FLOAT32 || dtype == STK_FLOAT64 || dtype == STK_BFLOAT16
               ? stk_dtype_size(dtype)
               : 0;
}

/* A block of one rank onto that of those before it. */
#define DEFINE_ADD(type)                                                                           \
    static void add_##type(type *restrict to, const type *restrict from, uint64_t n,               \
                           stk_combine op)                                                         \
    {                                                                                              \
        if (op == STK_COMBINE_MIN)                                                                 \
            for (uint64_t i = 0; i < n; i++)                                                       \
                to[i] = from[i] < to[i] ? from[i] : to[i];                                         \
        else if (op == STK_COMBINE_MAX)                                                            \
            for (uint64_t i = 0; i < n; i++)                                                       \
                to[i] = from[i] > to[i] ? from[i] : to[i];                                         \
        else                                                                                       \
            for (uint64_t i = 0; i < n; i++)                                                       \
                to[i] += from[i];                                                                  \
    }                                                                                              \
    static void divide_##type(type *x, uint64_t n, type by)                                        \
    {                                                                                              \
        for (uint64_t i = 0; i < n; i++)                                                           \
            x[i] /= by;                                                                            \
    }
DEFINE_ADD(float)
DEFINE_ADD(double)

#define COMBINE(type)                                                                              \
    do {                                                                                           \
        for (uint64_t r = 1; r < world_size; r++)                                                  \
            add_##type(sum, (const type *)(const void *)(from + r * stride), n, op);               \
        if (op == STK_COMBINE_MEAN)                                                                \
            divide_##type(sum, n, (type)world_size);                                               \
    } while (0)

static void combine_float(float *sum, const char *from, size_t stride, uint64_t world_size,
                          uint64_t n, stk_combine op)
{
    memcpy(sum, from, n * sizeof *sum);
    COMBINE(float);
}

static void combine_double(double *sum, const char *from, size_t stride, uint64_t world_size,
                           uint64_t n, stk_combine op)
{
    memcpy(sum, from, n * sizeof *sum);
    COMBINE(double);
}

static void combine_short(uint16_t *out, const char *from, size_t stride, uint64_t world_size,
                          uint64_t n, stk_combine op)
{
    float sum[BLOCK], one[BLOCK];

    stk__bf16_to_floats(sum, (const uint16_t *)(const void *)from, n);
    for (uint64_t r = 1; r < world_size; r++) {
        stk__bf16_to_floats(one, (const uint16_t *)(const void *)(from + r * stride), n);
        add_float(sum, one, n, op);
    }
    if (op == STK_COMBINE_MEAN)
        divide_float(sum, n, (float)world_size);
    stk__floats_to_bf16(out, sum, n);
}

void stk__combine(void *out, const char *from, size_t stride, uint64_t world_size, uint64_t n,
                  stk_dtype dtype, stk_combine op)
{
    const size_t size = stk__combine_size(dtype);

    for (uint64_t i = 0; i < n; i += BLOCK) {
        const uint64_t k = STK_MIN(n - i, (uint64_t)BLOCK);
        void *to = (char *)out + i * size;
        if (dtype == STK_FLOAT32)
            combine_float(to, from + i * size, stride, world_size, k, op);
        else if (dtype == STK_FLOAT64)
            combine_double(to, from + i * size, stride, world_size, k, op);
        else
            combine_short(to, from + i * size, stride, world_size, k, op);
    }
}
