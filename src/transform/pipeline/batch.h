/* random words -> how much of the partner a batch takes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_PIPELINE_BATCH_H
#define STK_SRC_TRANSFORM_PIPELINE_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* Words that a draw of Beta may use: each try takes two. */
#define STK__BETA_WORDS 128

/*
 * A draw of Beta(alpha, alpha), in [0, 1], from STK__BETA_WORDS random words. alpha > 0. Uses only
 * operations that IEEE 754 rounds correctly, so that it is the same on every machine.
 */
double stk__beta(double alpha, const uint32_t words[STK__BETA_WORDS]);

/* Natural logarithm of x > 0 (finite, normal) and exponential, to about 1e-15, of the same
 * operations. */
double stk__ln(double x);
double stk__e_to(double x);

#endif
