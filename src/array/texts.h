/* bytes of a chunk <-> elements of varying length */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_TEXTS_H
#define STK_SRC_ARRAY_TEXTS_H

#include "array/room.h"

#define STK__TEXTS_READ 4 /* of the memory of a read: what is on its way; the rest is decoded */

/* Refuse an array whose elements vary in length. */
stk_status stk__array_fixed(const stk_array *a, stk_error *err);
/* The fill value of a JSON value. */
stk_status stk__texts_fill(stk_array *a, const json_t *value, const char *key, stk_error *err);

/* What the chunks of one read hold; one thread. */
typedef struct stk__texts stk__texts;
/* Decode the bytes of a need into `out`, an stk_array_string for each element of its chunk. */
stk_status stk__texts_decode(stk__texts *texts, const stk_array *a, stk__codec_state *state,
                             const stk__need *need, const void *data, stk_array_string *out,
                             stk_error *err);

/* The elements of a chunk as its codecs get them, in *buffer, which grows (texts_write.c). Errors:
 * STK_EINVAL: one is too long, or no UTF-8. */
stk_status stk__texts_encode(const stk_array *a, const stk_array_string *elements, uint8_t **buffer,
                             size_t *room, uint64_t *bytes, stk_error *err);
bool stk__texts_are_fill(const stk_array *a, const stk_array_string *elements);

#endif
