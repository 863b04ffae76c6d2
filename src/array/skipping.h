/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of chunks that were written without some of the array's codecs. */
#ifndef STK_SRC_ARRAY_SKIPPING_H
#define STK_SRC_ARRAY_SKIPPING_H

#include "array/room.h"

/* Remember what chains without some codecs are made of: the array as it is, and its list of them.
 */
stk_status stk__skipping_create(const stk_array *a, const char *codecs, stk__skipping **out,
                                stk_error *err);
void stk__skipping_destroy(stk__skipping **skipping);
/* The chain for `skipped` of a place, made once; lives as long as the array. A failure has a static
 * text. Any thread. */
stk_status stk__skipping_chain(stk__skipping *skipping, uint32_t skipped, const stk__chain **out,
                               const char **reason);
/* The list of codecs of located chunks, JSON as the format gave it; NULL: they are as the type
 * says. */
const char *stk__array_codecs(const stk_array *a);

#endif
