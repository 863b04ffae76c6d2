/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of double: the reference. */
#define REAL    double
#define EXP     exp
#define ERF     erf
#define TANH    tanh
#define SQRT    sqrt
#define KERNELS stk__nn_kernels_double
#include "nn/kernels_loops.h"
