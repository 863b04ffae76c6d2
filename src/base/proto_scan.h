/* bytes of a message of Protocol Buffers -> its fields, in place and without memory */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * https://protobuf.dev/programming-guides/encoding/. Whatever the bytes, nothing beyond them is
 * read, and each byte is looked at once for each walk.
 */
#ifndef STK_SRC_BASE_PROTO_SCAN_H
#define STK_SRC_BASE_PROTO_SCAN_H

#include "base/base.h"

#define STK__PROTO_DEPTH 16 /* groups within groups, of fields that nobody asked for */

typedef enum stk__proto_wire {
    STK__PROTO_VARINT = 0,
    STK__PROTO_64 = 1,
    STK__PROTO_BYTES = 2,
    STK__PROTO_GROUP = 3, /* is passed over: an unknown field */
    STK__PROTO_32 = 5
} stk__proto_wire;

/* What is left of a message. */
typedef struct stk__proto_cursor {
    const uint8_t *at, *end;
} stk__proto_cursor;

typedef struct stk__proto_field {
    uint32_t number;
    stk__proto_wire wire;
    uint64_t value;         /* of a varint */
    stk__proto_cursor data; /* of bytes; of 32 and 64 bits: those of the number; of a varint: its */
} stk__proto_field;

typedef enum stk__proto_scanned {
    STK__PROTO_FOUND,
    STK__PROTO_END, /* of the message, which is sound up to there */
    STK__PROTO_BAD  /* it is no message */
} stk__proto_scanned;

/* A varint; as everywhere bits beyond the 64th are dropped. False: it does not end within 10 bytes.
 */
static inline bool stk__proto_varint(stk__proto_cursor *c, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && c->at < c->end; shift += 7) {
        const uint8_t byte = *c->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* The next field of a message; unknown groups are passed over. */
stk__proto_scanned stk__proto_next(stk__proto_cursor *cursor, stk__proto_field *out);

#endif
