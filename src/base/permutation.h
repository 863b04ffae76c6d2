/* keys, positions -> values, inside src/base alone */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_PERMUTATION_H
#define STK_SRC_BASE_PERMUTATION_H

#include "base/base.h"
#include "base/random.h"

/* A first pass through the network, without the swap and the walk: values may lie beyond the size.
 * Both give the same; the second is for networks of 32 bits at most. */
void stk__permutation_pass(const stk__permutation *p, const uint64_t *positions, uint64_t *out,
                           size_t n);
void stk__permutation_pass_avx2(const stk__permutation *p, const uint64_t *positions, uint64_t *out,
                                size_t n);

#endif
