/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of float in C: what every other version must give, bit for bit. */
#define REAL    float
#define SQRT    sqrtf
#define KERNELS stk__nn_kernels_c
#define BF16
#include "nn/kernels_math.h"

#include "nn/kernels_loops.h"

const stk__nn_kernels *stk__nn_kernels_of(const stk_context *ctx)
{
#ifdef STK_WITH_AVX2
    if (stk__cpu_has_avx2(ctx))
        return &stk__nn_kernels_avx2;
#endif
    return &stk__nn_kernels_c;
}
