/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/parquet_thrift.h"

static void put(stk__thrift_out *t, const void *data, size_t length)
{
    if (!t->failed && !stk__bytes_put(t->to, data, length))
        t->failed = true;
}

static void put_byte(stk__thrift_out *t, unsigned value)
{
    const uint8_t byte = (uint8_t)value;

    put(t, &byte, 1);
}

static void put_varint(stk__thrift_out *t, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        put_byte(t, (unsigned)(value & 0x7f) | 0x80);
    put_byte(t, (unsigned)value);
}

/* Small numbers of either sign are short: 0, -1, 1, -2, ... */
static void put_zigzag(stk__thrift_out *t, int64_t value)
{
    put_varint(t, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_head(stk__thrift_out *t, int field, stk__thrift_out_type type)
{
    const int distance = field - t->last[t->depth];

    t->last[t->depth] = field;
    if (distance >= 1 && distance <= 15) {
        put_byte(t, (unsigned)distance << 4 | (unsigned)type);
        return;
    }
    put_byte(t, (unsigned)type);
    put_zigzag(t, field);
}

void stk__thrift_out_bool(stk__thrift_out *t, int field, bool value)
{
    put_head(t, field, value ? STK__THRIFT_TRUE : STK__THRIFT_FALSE);
}

void stk__thrift_out_i8(stk__thrift_out *t, int field, int8_t value)
{
    put_head(t, field, STK__THRIFT_I8);
    put_byte(t, (uint8_t)value);
}

void stk__thrift_out_number(stk__thrift_out *t, int field, stk__thrift_out_type type, int64_t value)
{
    put_head(t, field, type);
    put_zigzag(t, value);
}

void stk__thrift_out_binary(stk__thrift_out *t, int field, const void *data, size_t length)
{
    put_head(t, field, STK__THRIFT_BINARY);
    stk__thrift_out_element_binary(t, data, length);
}

void stk__thrift_out_text(stk__thrift_out *t, int field, const char *text)
{
    stk__thrift_out_binary(t, field, text, strlen(text));
}

void stk__thrift_out_struct(stk__thrift_out *t, int field, const void *data, size_t length)
{
    put_head(t, field, STK__THRIFT_STRUCT);
    put(t, data, length);
}

void stk__thrift_out_begin(stk__thrift_out *t, int field)
{
    put_head(t, field, STK__THRIFT_STRUCT);
    stk__thrift_out_element(t);
}

void stk__thrift_out_end(stk__thrift_out *t)
{
    put_byte(t, 0);
    if (t->depth > 0)
        t->depth--;
}

void stk__thrift_out_list(stk__thrift_out *t, int field, stk__thrift_out_type type, uint64_t count)
{
    put_head(t, field, STK__THRIFT_LIST);
    put_byte(t, (unsigned)(count < 15 ? count : 15) << 4 | (unsigned)type);
    if (count >= 15)
        put_varint(t, count);
}

void stk__thrift_out_element(stk__thrift_out *t)
{
    t->last[++t->depth] = 0;
}

void stk__thrift_out_element_bool(stk__thrift_out *t, bool value)
{
    put_byte(t, value ? STK__THRIFT_TRUE : STK__THRIFT_FALSE);
}

void stk__thrift_out_element_number(stk__thrift_out *t, int64_t value)
{
    put_zigzag(t, value);
}

void stk__thrift_out_element_binary(stk__thrift_out *t, const void *data, size_t length)
{
    put_varint(t, length);
    put(t, data, length);
}
