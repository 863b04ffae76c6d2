/* SPDX-License-Identifier: Apache-2.0 */
/* Three planes of bytes become pixels of three bytes. */
#ifndef STK_SRC_DATASET_PLANES_H
#define STK_SRC_DATASET_PLANES_H

#include "base/base.h"

/* out[3 i + c] = planes[c * pixels + i]. `planes` and `out` do not overlap. */
typedef void stk__planes_fn(const unsigned char *planes, size_t pixels, unsigned char *out);

stk__planes_fn stk__planes_interleave3_c; /* the definition */
#if defined(STK_WITH_AVX2)
stk__planes_fn stk__planes_interleave3_avx2;
#endif

/* The fastest that the context's instruction sets allow. */
stk__planes_fn *stk__planes_interleave3(const stk_context *ctx);

#endif
