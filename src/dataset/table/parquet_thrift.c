/* SPDX-License-Identifier: Apache-2.0 */
/* Thrift's compact protocol. */
#include "dataset/table/parquet_thrift.h"

enum { STOP, TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };

#define LONG_LIST  15 /* a count of so many follows as a number */
#define VARINT_MAX 10

static uint64_t fail(stk__thrift *t)
{
    t->bad = true;
    t->at = t->end;
    return 0;
}

static uint8_t take_byte(stk__thrift *t)
{
    return t->at < t->end ? *t->at++ : (uint8_t)fail(t);
}

static uint64_t take_varint(stk__thrift *t)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < VARINT_MAX && t->at < t->end; i++) {
        const uint8_t byte = *t->at++;
        x |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            return x;
    }
    return fail(t);
}

static int64_t take_signed(stk__thrift *t)
{
    const uint64_t x = take_varint(t);

    return (int64_t)(x >> 1 ^ (0 - (x & 1)));
}

bool stk__thrift_next(stk__thrift *t, stk__thrift_field *field)
{
    const uint8_t byte = take_byte(t);

    field->type = byte & 15;
    if (field->type == STOP || t->bad)
        return false;
    if (field->type > STRUCT)
        return fail(t);
    const int64_t id = byte >> 4 ? field->id + (byte >> 4) : take_signed(t);
    if (id < INT16_MIN || id > INT16_MAX)
        return fail(t);
    field->id = (int16_t)id;
    return !t->bad;
}

int64_t stk__thrift_int(stk__thrift *t, const stk__thrift_field *field)
{
    if (field->type == I8)
        return (int8_t)take_byte(t);
    return field->type >= I16 && field->type <= I64 ? take_signed(t) : (int64_t)fail(t);
}

bool stk__thrift_bool(stk__thrift *t, const stk__thrift_field *field)
{
    return field->type == TRUE || field->type == FALSE ? field->type == TRUE : fail(t);
}

stk__thrift_text stk__thrift_binary(stk__thrift *t, const stk__thrift_field *field)
{
    stk__thrift_text text = {NULL, 0};

    const uint64_t length = field->type == BINARY ? take_varint(t) : fail(t);
    if (t->bad || length > (uint64_t)(t->end - t->at) || length > UINT32_MAX) {
        fail(t);
        return text;
    }
    text = (stk__thrift_text){t->at, (uint32_t)length};
    t->at += length;
    return text;
}

bool stk__thrift_struct(stk__thrift *t, const stk__thrift_field *field)
{
    return field->type == STRUCT ? true : fail(t);
}

/* Every element takes a byte at least. */
static uint32_t take_count(stk__thrift *t, uint64_t count)
{
    return (uint32_t)(count <= (uint64_t)(t->end - t->at) && count <= UINT32_MAX ? count : fail(t));
}

uint32_t stk__thrift_list(stk__thrift *t, const stk__thrift_field *field, stk__thrift_field *of)
{
    *of = (stk__thrift_field){0};
    if (field->type != LIST && field->type != SET)
        return (uint32_t)fail(t);
    const uint8_t byte = take_byte(t);
    of->type = byte & 15;
    if (of->type == STOP || of->type > STRUCT)
        return (uint32_t)fail(t);
    return take_count(t, byte >> 4 == LONG_LIST ? take_varint(t) : byte >> 4);
}

static void skip(stk__thrift *t, uint8_t type, bool element, unsigned depth);

static void skip_map(stk__thrift *t, unsigned depth)
{
    const uint32_t count = take_count(t, take_varint(t));

    if (!count)
        return;
    const uint8_t types = take_byte(t);
    for (uint32_t i = 0; i < count && !t->bad; i++) {
        skip(t, types >> 4, true, depth);
        skip(t, types & 15, true, depth);
    }
}

static void skip_many(stk__thrift *t, uint8_t type, unsigned depth)
{
    stk__thrift_field field = {0, type}, of;

    if (type == STRUCT) {
        field.type = 0;
        while (stk__thrift_next(t, &field))
            skip(t, field.type, false, depth);
        return;
    }
    const uint32_t count = stk__thrift_list(t, &field, &of);
    for (uint32_t i = 0; i < count && !t->bad; i++)
        skip(t, of.type, true, depth);
}

static void skip(stk__thrift *t, uint8_t type, bool element, unsigned depth)
{
    const stk__thrift_field field = {0, type};

    if (depth == STK__THRIFT_DEPTH) {
        fail(t);
    } else if (type == TRUE || type == FALSE) {
        if (element) /* those of lists have a byte of their own */
            take_byte(t);
    } else if (type == I8) {
        take_byte(t);
    } else if (type >= I16 && type <= I64) {
        take_varint(t);
    } else if (type == DOUBLE) {
        if (t->end - t->at < 8)
            fail(t);
        else
            t->at += 8;
    } else if (type == BINARY) {
        stk__thrift_binary(t, &field);
    } else if (type == MAP) {
        skip_map(t, depth + 1);
    } else if (type == LIST || type == SET || type == STRUCT) {
        skip_many(t, type, depth + 1);
    } else {
        fail(t);
    }
}

void stk__thrift_skip(stk__thrift *t, const stk__thrift_field *field)
{
    skip(t, field->type, false, 0);
}
