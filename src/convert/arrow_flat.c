/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/arrow_flat.h"

#define WORD  4u /* bytes of an offset, and of the number of a vector's entries */
#define ENTRY 2u /* bytes of an entry of a vtable, which begins with two: its size, the table's */
#define WIDE  8u /* the greatest alignment */
#define MOST  INT32_MAX

static void write_number(stk__flat_out *o, uint64_t at, unsigned bytes, uint64_t value)
{
    for (unsigned k = 0; !o->failed && k < bytes; k++)
        o->bytes.data[at + k] = (char)(value >> (8 * k));
}

/* `more` zeros behind the last byte, which is filled up so that what lies `head` bytes on is at a
 * multiple of `align`. Gives where they begin. */
static uint32_t add_zeros(stk__flat_out *o, uint64_t more, unsigned head, unsigned align)
{
    const uint64_t at = stk__round_up(o->bytes.length + head, align) - head,
                   room = at - o->bytes.length + more;

    if (o->failed || more > MOST || at + more > MOST || !stk__bytes_reserve(&o->bytes, room)) {
        o->failed = true;
        return 0;
    }
    memset(o->bytes.data + o->bytes.length, 0, (size_t)room);
    o->bytes.length += (size_t)room;
    return (uint32_t)at;
}

void stk__flat_out_begin(stk__flat_out *o)
{
    o->bytes.length = 0;
    o->failed = false;
    add_zeros(o, WORD, 0, 1);
}

void stk__flat_out_root(stk__flat_out *o, uint32_t table)
{
    write_number(o, 0, WORD, table);
}

uint32_t stk__flat_out_table(stk__flat_out *o, const uint8_t *bytes, unsigned slots)
{
    const unsigned head = (2 + slots) * ENTRY;
    uint64_t size = WORD;

    for (unsigned s = 0; s < slots; s++)
        if (bytes[s])
            size = stk__round_up(size, bytes[s]) + bytes[s];
    const uint32_t vtable = add_zeros(o, head + size, head, WIDE);
    const uint32_t table = vtable + head;
    write_number(o, vtable, ENTRY, head);
    write_number(o, vtable + ENTRY, ENTRY, size);
    write_number(o, table, WORD, head); /* how far back the vtable is */
    uint64_t at = WORD;
    for (unsigned s = 0; s < slots; s++) {
        if (!bytes[s])
            continue;
        at = stk__round_up(at, bytes[s]);
        write_number(o, vtable + (2 + s) * ENTRY, ENTRY, at);
        at += bytes[s];
    }
    return table;
}

/* Where field `slot` of a table lies. */
static uint64_t place_of(const stk__flat_out *o, uint32_t table, unsigned slot)
{
    const uint8_t *data = (const uint8_t *)o->bytes.data;
    const uint64_t head = stk__little_endian(data + table, WORD);

    return table + stk__little_endian(data + (table - head) + (2 + slot) * ENTRY, ENTRY);
}

void stk__flat_out_set(stk__flat_out *o, uint32_t table, unsigned slot, unsigned bytes,
                       uint64_t value)
{
    if (!o->failed)
        write_number(o, place_of(o, table, slot), bytes, value);
}

void stk__flat_out_refer(stk__flat_out *o, uint32_t table, unsigned slot, uint32_t to)
{
    if (o->failed)
        return;
    const uint64_t at = place_of(o, table, slot);
    write_number(o, at, WORD, to - at);
}

uint32_t stk__flat_out_vector(stk__flat_out *o, uint64_t count, unsigned bytes)
{
    uint64_t size;

    if (!stk__mul_size(count, bytes, &size) || size > MOST) {
        o->failed = true;
        return 0;
    }
    const uint32_t at = add_zeros(o, WORD + size, WORD, WIDE);
    write_number(o, at, WORD, count);
    return at;
}

void stk__flat_out_put(stk__flat_out *o, uint32_t vector, unsigned bytes, uint64_t i, unsigned at,
                       unsigned size, uint64_t value)
{
    write_number(o, vector + WORD + i * bytes + at, size, value);
}

void stk__flat_out_refer_entry(stk__flat_out *o, uint32_t vector, uint64_t i, uint32_t to)
{
    const uint64_t at = vector + WORD + i * WORD;

    write_number(o, at, WORD, to - at);
}

uint32_t stk__flat_out_text(stk__flat_out *o, const char *text, size_t length)
{
    if (length > MOST - WORD - 1) {
        o->failed = true;
        return 0;
    }
    const uint32_t at = add_zeros(o, WORD + length + 1, WORD, WORD); /* a zero behind it */
    write_number(o, at, WORD, length);
    if (!o->failed)
        memcpy(o->bytes.data + at + WORD, text, length);
    return at;
}
