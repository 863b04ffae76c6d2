/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/table/arrow_flat.h"

#define WORD  4u /* bytes of an offset, and of the number of a vector's entries */
#define ENTRY 2u /* bytes of an entry of a vtable, which begins with two: its size, the table's */

static uint32_t word(const stk__flat *flat, uint32_t at)
{
    return (uint32_t)stk__little_endian(flat->data + at, WORD);
}

static bool within(stk__flat *flat, uint64_t at, uint64_t bytes)
{
    const bool is = at <= flat->size && bytes <= flat->size - at;

    flat->damaged |= !is;
    return is;
}

/* The table whose first byte is `at`. */
static stk__flat_table table_at(stk__flat *flat, uint64_t at)
{
    const stk__flat_table none = {0};

    if (at < WORD || !within(flat, at, WORD)) {
        flat->damaged = true;
        return none;
    }
    const int64_t vtable = (int64_t)at - (int32_t)word(flat, (uint32_t)at);
    if (vtable < 0 || !within(flat, (uint64_t)vtable, 2 * ENTRY)) {
        flat->damaged = true;
        return none;
    }
    const uint8_t *head = flat->data + vtable;
    const stk__flat_table table = {(uint32_t)at, (uint32_t)stk__little_endian(head + ENTRY, ENTRY),
                                   (uint32_t)vtable, (uint32_t)stk__little_endian(head, ENTRY)};
    if (table.vtable_size < 2 * ENTRY || !within(flat, (uint64_t)vtable, table.vtable_size) ||
        !within(flat, at, table.size)) {
        flat->damaged = true;
        return none;
    }
    return table;
}

/* Where a field of `bytes` bytes lies; 0: the table does not have it. */
static uint32_t place(stk__flat *flat, const stk__flat_table *table, unsigned field, unsigned bytes)
{
    const uint32_t entry = (2 + field) * ENTRY;

    if (!table->at || entry + ENTRY > table->vtable_size)
        return 0;
    const uint32_t at = (uint32_t)stk__little_endian(flat->data + table->vtable + entry, ENTRY);
    if (!at)
        return 0;
    if (at < WORD || at > table->size || bytes > table->size - at) {
        flat->damaged = true;
        return 0;
    }
    return table->at + at;
}

/* What an offset at `at` points to, counted from there. */
static uint64_t behind(const stk__flat *flat, uint32_t at)
{
    return (uint64_t)at + word(flat, at);
}

stk__flat_table stk__flat_root(stk__flat *flat)
{
    return within(flat, 0, WORD) ? table_at(flat, behind(flat, 0)) : (stk__flat_table){0};
}

static int64_t signed_number(const uint8_t *at, unsigned bytes)
{
    const uint64_t raw = stk__little_endian(at, bytes);
    const unsigned shift = 64 - 8 * bytes;

    return (int64_t)(raw << shift) >> shift;
}

int64_t stk__flat_number(stk__flat *flat, const stk__flat_table *table, unsigned field,
                         unsigned bytes, int64_t otherwise)
{
    const uint32_t at = place(flat, table, field, bytes);

    return at ? signed_number(flat->data + at, bytes) : otherwise;
}

stk__flat_table stk__flat_child(stk__flat *flat, const stk__flat_table *table, unsigned field)
{
    const uint32_t at = place(flat, table, field, WORD);

    return at ? table_at(flat, behind(flat, at)) : (stk__flat_table){0};
}

stk__flat_vector stk__flat_list(stk__flat *flat, const stk__flat_table *table, unsigned field,
                                unsigned bytes)
{
    const stk__flat_vector none = {0};
    const uint32_t at = place(flat, table, field, WORD);

    if (!at)
        return none;
    const uint64_t begin = behind(flat, at);
    if (!within(flat, begin, WORD))
        return none;
    const uint32_t count = word(flat, (uint32_t)begin);
    if (!within(flat, begin + WORD, (uint64_t)count * bytes))
        return none;
    return (stk__flat_vector){(uint32_t)begin + WORD, count};
}

stk__flat_table stk__flat_entry(stk__flat *flat, const stk__flat_vector *vector, uint32_t i)
{
    return i < vector->count ? table_at(flat, behind(flat, vector->at + i * WORD))
                             : (stk__flat_table){0};
}

int64_t stk__flat_in(const stk__flat *flat, const stk__flat_vector *vector, unsigned bytes,
                     uint32_t i, unsigned at)
{
    return signed_number(flat->data + vector->at + (size_t)i * bytes + at, 8);
}
