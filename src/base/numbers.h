/* "2", "[2, 4]", "32x28" -> numbers within bounds */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_NUMBERS_H
#define STK_SRC_BASE_NUMBERS_H

#include "base/base.h"

/* A list of numbers: an argument of a transform, of a layer or of a schedule. Messages name `who`
 * and `argument`. */
typedef struct stk__numbers {
    stk_stage stage;
    const char *who, *argument, *text;
    double min, max;
    bool whole; /* integers only */
    bool by_x;  /* 'x' parts numbers as ',' does */
} stk__numbers;

/* Read at most `capacity` numbers; *count is how many, at least 1. `out` may be NULL, to count.
 * STK_EINVAL: the text is none, or a number is out of range. */
stk_status stk__numbers_read(const stk__numbers *numbers, double *out, uint32_t capacity,
                             uint32_t *count, stk_error *err);
/* Fail for the text of such a list: "WHO: ARGUMENT "TEXT" WHY". */
stk_status stk__numbers_refuse(const stk__numbers *numbers, const char *why, stk_error *err);

#endif
