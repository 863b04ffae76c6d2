/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proto.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static size_t varint(uint8_t to[10], uint64_t value)
{
    size_t n = 0;

    while (value >= 0x80) {
        to[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    to[n++] = (uint8_t)value;
    return n;
}

bool stk__proto_put_varint(stk__bytes *to, uint64_t value)
{
    uint8_t bytes[10];

    return stk__bytes_put(to, bytes, varint(bytes, value));
}

static bool put_key(stk__bytes *to, unsigned field, unsigned wire)
{
    return stk__proto_put_varint(to, field << 3 | wire);
}

static bool put_bits(stk__bytes *to, uint64_t bits, int count)
{
    uint8_t bytes[8];

    for (int i = 0; i < count; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    return stk__bytes_put(to, bytes, (size_t)count);
}

bool stk__proto_number(stk__bytes *to, unsigned field, uint64_t value)
{
    return put_key(to, field, WIRE_VARINT) && stk__proto_put_varint(to, value);
}

bool stk__proto_double(stk__bytes *to, unsigned field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return put_key(to, field, WIRE_64) && put_bits(to, bits, 8);
}

bool stk__proto_float(stk__bytes *to, unsigned field, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return put_key(to, field, WIRE_32) && put_bits(to, bits, 4);
}

bool stk__proto_text(stk__bytes *to, unsigned field, const char *text)
{
    size_t begun = stk__proto_begin(to, field);

    return begun && stk__bytes_clean(to, text) && stk__proto_end(to, begun);
}

bool stk__proto_head(stk__bytes *to, unsigned field, uint64_t length)
{
    return put_key(to, field, WIRE_BYTES) && stk__proto_put_varint(to, length);
}

size_t stk__proto_begin(stk__bytes *to, unsigned field)
{
    return put_key(to, field, WIRE_BYTES) ? to->length : 0;
}

/* The length is known now: what was put moves behind it. */
bool stk__proto_end(stk__bytes *to, size_t begun)
{
    uint8_t bytes[10];

    if (begun == 0)
        return false;
    size_t length = to->length - begun, n = varint(bytes, length);
    if (!stk__bytes_reserve(to, n))
        return false;
    memmove(to->data + begun + n, to->data + begun, length);
    memcpy(to->data + begun, bytes, n);
    to->length += n;
    return true;
}
