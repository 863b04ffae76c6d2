/* boxes of elements, by several threads -> encoded objects */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_ENCODERS_H
#define STK_SRC_CONVERT_ENCODERS_H

#include "array/array.h"
#include "convert/array_target.h"

/* An encoder for each thread, all of the array that is written now. */
typedef struct stk__encoders stk__encoders;

stk_status stk__encoders_create(stk_context *ctx, uint32_t num_members, stk__encoders **out,
                                stk_error *err);
/* Accepts NULL. */
void stk__encoders_destroy(stk__encoders **encoders);
/*
 * Encode an object of an array, by thread `member`; all objects of an array come before the first
 * of the next. *bytes are the member's until its next call. *length 0: all of it is the fill value,
 * and it is absent. `verify`: it is decoded and compared.
 */
stk_status stk__encoders_run(stk__encoders *encoders, uint32_t member,
                             const stk_array_writer *writer, const stk__target_box *box,
                             bool verify, const void **bytes, uint64_t *length, stk_error *err);

#endif
