/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of float in C: what every other version must give, bit for bit. */
#define REAL    float
#define SQRT    sqrtf
#define KERNELS stk__nn_kernels_c
#define BF16
#include "nn/kernels_math.h"

#include "nn/kernels_loops.h"

const stk__nn_kernels *stk__nn_kernels_at(uint32_t i)
{
    const stk__nn_kernels *all[3];
    uint32_t n = 0;

#ifdef STK_WITH_AVX2
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        all[n++] = &stk__nn_kernels_avx512;
    if (avx2)
        all[n++] = &stk__nn_kernels_avx2;
#endif
    all[n++] = &stk__nn_kernels_c;
    return i < n ? all[i] : NULL;
}

const stk__nn_kernels *stk__nn_kernels_of(const stk_context *ctx)
{
    return stk__cpu_has_avx2(ctx) ? stk__nn_kernels_at(0) : &stk__nn_kernels_c;
}
