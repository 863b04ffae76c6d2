/* fields -> a message of Protocol Buffers */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * https://protobuf.dev/programming-guides/encoding/: a message is its fields one after another,
 * each a key (number and wire type) and a value.
 */
#ifndef STK_SRC_BASE_PROTO_H
#define STK_SRC_BASE_PROTO_H

#include "base/bytes.h"

#define STK__PROTO_MOST INT32_MAX /* bytes of a message, as its readers have it */

/* A field of a message. All of these: false where there is no memory. */
bool stk__proto_number(stk__bytes *to, unsigned field, uint64_t value);
bool stk__proto_float(stk__bytes *to, unsigned field, float value);
bool stk__proto_double(stk__bytes *to, unsigned field, double value);
/* A text, with '?' in place of what is not UTF-8. */
bool stk__proto_text(stk__bytes *to, unsigned field, const char *text);
/* A number without a key: one of those that are packed. */
bool stk__proto_put_varint(stk__bytes *to, uint64_t value);
/* Only the beginning of a message, text or bytes of a length that is known: they follow elsewhere.
 */
bool stk__proto_head(stk__bytes *to, unsigned field, uint64_t length);
/* A message within the message: what is put between them. The number that begin gives goes to end;
 * 0: no memory. */
size_t stk__proto_begin(stk__bytes *to, unsigned field);
bool stk__proto_end(stk__bytes *to, size_t begun);

#endif
