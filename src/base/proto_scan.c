/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proto_scan.h"

enum { WIRE_GROUP_END = 4 };

static bool take(stk__proto_cursor *c, uint64_t length, stk__proto_cursor *out)
{
    if (length > (uint64_t)(c->end - c->at))
        return false;
    *out = (stk__proto_cursor){c->at, c->at + length};
    c->at += length;
    return true;
}

/* The number and type of a field: 29 and 3 bits. */
static bool take_key(stk__proto_cursor *c, uint32_t *number, uint32_t *wire)
{
    uint64_t key = 0;

    if (!stk__proto_varint(c, &key) || key > UINT32_MAX || key >> 3 == 0)
        return false;
    *number = (uint32_t)(key >> 3);
    *wire = (uint32_t)(key & 7);
    return true;
}

static bool take_value(stk__proto_cursor *c, stk__proto_field *f)
{
    const uint8_t *at = c->at;
    uint64_t length = 0;

    switch (f->wire) {
    case STK__PROTO_VARINT:
        if (!stk__proto_varint(c, &f->value))
            return false;
        f->data = (stk__proto_cursor){at, c->at};
        return true;
    case STK__PROTO_64:
        return take(c, 8, &f->data);
    case STK__PROTO_32:
        return take(c, 4, &f->data);
    case STK__PROTO_BYTES:
        return stk__proto_varint(c, &length) && take(c, length, &f->data);
    case STK__PROTO_GROUP:
        break;
    }
    return false;
}

/* Behind the key that opens a group: go behind the one that closes it. */
static bool pass_group(stk__proto_cursor *c, uint32_t number)
{
    uint32_t open[STK__PROTO_DEPTH] = {number}, depth = 1, wire = 0;
    stk__proto_field f = {0};

    while (depth) {
        if (!take_key(c, &f.number, &wire))
            return false;
        if (wire == WIRE_GROUP_END) {
            if (f.number != open[--depth])
                return false;
        } else if (wire == STK__PROTO_GROUP) {
            if (depth == STK__PROTO_DEPTH)
                return false;
            open[depth++] = f.number;
        } else {
            f.wire = (stk__proto_wire)wire;
            if (wire > STK__PROTO_32 || !take_value(c, &f))
                return false;
        }
    }
    return true;
}

stk__proto_scanned stk__proto_next(stk__proto_cursor *cursor, stk__proto_field *out)
{
    uint32_t wire = 0;

    while (cursor->at < cursor->end) {
        if (!take_key(cursor, &out->number, &wire))
            return STK__PROTO_BAD;
        if (wire == STK__PROTO_GROUP) {
            if (!pass_group(cursor, out->number))
                return STK__PROTO_BAD;
            continue;
        }
        if (wire > STK__PROTO_32 || wire == WIRE_GROUP_END)
            return STK__PROTO_BAD;
        out->wire = (stk__proto_wire)wire;
        return take_value(cursor, out) ? STK__PROTO_FOUND : STK__PROTO_BAD;
    }
    return STK__PROTO_END;
}
