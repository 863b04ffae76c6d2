/* SPDX-License-Identifier: Apache-2.0 */
/* Integers of any width become int64 or int32. */
#ifndef STK_SRC_DATASET_WIDEN_H
#define STK_SRC_DATASET_WIDEN_H

#include "base/base.h"

/* out[i] = from[i], `n` values. `from` need not be aligned; they do not overlap. */
typedef void stk__dataset_widen_fn(const void *from, size_t n, int64_t *out);

/* The definition for a type; NULL: it is no integer, or one that int64 does not hold. */
stk__dataset_widen_fn *stk__widen_c(stk_dtype dtype);
#if defined(STK_WITH_AVX2)
stk__dataset_widen_fn stk__widen_u16_avx2, stk__widen_u32_avx2;
#endif

/* The same into int32. False: a value does not fit, and what is in `out` then is not to be used. */
typedef bool stk__dataset_narrow_fn(const void *from, size_t n, int32_t *out);
/* For a type; NULL where stk__widen_c() gives NULL. */
stk__dataset_narrow_fn *stk__narrow(stk_dtype dtype);

/* The fastest that the context's instruction sets allow. */
stk__dataset_widen_fn *stk__widen(const stk_context *ctx, stk_dtype dtype);

#endif
