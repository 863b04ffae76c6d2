/* SPDX-License-Identifier: Apache-2.0 */
/* The same loops, vectorized by the compiler for AVX-512: no sum changes its order. */
#define REAL    float
#define SQRT    sqrtf
#define KERNELS stk__nn_kernels_avx512
#define BF16
#include "nn/kernels_math.h"

#include "nn/kernels_loops.h"
