/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers of one column in one batch -> its vector. */
#include <math.h>

#include "dataset/table/arrow_views.h"

#define WORDS 4 /* of 8 bytes, of the longest decimal */

static stk_status fail(const char *text, const char **reason)
{
    *reason = text;
    return STK_EFORMAT;
}

/* ---- Room ---- */

static uint64_t values_of(const stk__arrow_layout *layout, uint64_t rows, uint64_t width)
{
    const uint64_t in_rows = layout->form == STK__ARROW_CODES ? rows : rows * width;

    return layout->offsets ? layout->number : in_rows;
}

/* Bytes that validity, offsets or values that are not PLAIN take in the scratch, whichever takes
 * most. */
static uint64_t scratch_of(const stk__arrow_layout *layout, uint64_t rows, uint64_t width)
{
    const uint64_t values = values_of(layout, rows, width), bytes = layout->form == STK__ARROW_BITS
                                                                        ? stk__divide_up(values, 8)
                                                                        : values * layout->bytes;
    uint64_t most = stk__divide_up(rows, 8);

    if (!layout->codec)
        return 0;
    if (layout->offsets)
        most = STK_MAX(most, (rows + 1) * (layout->wide ? 8u : 4u));
    if (layout->form != STK__ARROW_PLAIN)
        most = STK_MAX(most, bytes);
    return stk__round_up(most + STK__ARROW_PADDING, 8);
}

static void arrange(const stk__arrow_layout *layout, uint32_t rows, uint32_t width,
                    stk__arrow_room *room)
{
    uint64_t at = sizeof(stk__table_vector);

    *room = (stk__arrow_room){0};
    if (layout->parents || layout->validity || layout->inner) {
        room->nulls = at;
        at += stk__round_up(rows, 8);
    }
    if (layout->offsets || stk__arrow_is_empty(layout)) {
        room->offsets = at;
        at += stk__round_up(4 * ((uint64_t)rows + 1), 8);
    }
    if (layout->inner && layout->codec) {
        room->inner = at;
        room->inner_size = stk__round_up(
            stk__divide_up(values_of(layout, rows, width), 8) + STK__ARROW_PADDING, 8);
        at += room->inner_size;
    }
    room->values = at;
    room->scratch_size = scratch_of(layout, rows, width);
}

uint64_t stk__arrow_room_size(const stk__arrow_layout *layout, uint32_t rows, uint32_t width,
                              uint64_t bytes)
{
    stk__arrow_room room;

    if (bytes > UINT32_MAX)
        return UINT64_MAX;
    arrange(layout, rows, width, &room);
    return room.values + stk__round_up(bytes + (layout->codec ? STK__ARROW_PADDING : 0), 8) +
           room.scratch_size;
}

/* The other way round; false: `decoded` is not that of such a piece. */
static bool room_of(const stk__arrow_layout *layout, uint32_t rows, uint32_t width,
                    uint64_t decoded, stk__arrow_room *room)
{
    arrange(layout, rows, width, room);
    if (decoded < room->values || room->scratch_size > decoded - room->values)
        return false;
    room->scratch = decoded - room->scratch_size;
    room->capacity = room->scratch - room->values;
    return true;
}

/* ---- A piece ---- */

typedef struct decoder {
    const stk__table_column *column;
    stk__arrow_layout layout;
    stk__arrow_room room;
    stk__arrow_unpacker unpacker;
    uint32_t rows, next; /* the slot that comes next */
    const uint8_t *data;
    uint8_t *out, *nulls; /* nulls: or NULL */
    const uint8_t *inner; /* a bit for each value of lists, 0: null; or NULL */
    uint32_t *offsets;
    uint64_t first;  /* of lists and texts: where their values begin in the buffer */
    uint64_t values; /* of lists and texts, all of them */
    const char **reason;
} decoder;

static stk_status next_slot(decoder *d, uint64_t least, void *room, uint64_t capacity,
                            const uint8_t **out, uint64_t *size)
{
    const stk__arrow_slot *slot = &d->layout.slot[d->next++];

    return stk__arrow_unpack(&d->unpacker, d->data + slot->at, slot->length, least, room, capacity,
                             out, size, d->reason);
}

/* A bit that is 0 in one of the bitmaps: the row is null. */
static stk_status read_nulls(decoder *d)
{
    const uint32_t bitmaps = d->layout.parents + d->layout.validity;
    const uint8_t *bits = NULL;
    uint64_t size = 0;

    if (!bitmaps && !d->layout.inner)
        return STK_OK;
    d->nulls = d->out + d->room.nulls;
    memset(d->nulls, 0, d->rows);
    for (uint32_t b = 0; b < bitmaps; b++) {
        STK_TRY(next_slot(d, stk__divide_up(d->rows, 8), d->out + d->room.scratch,
                          d->room.scratch_size, &bits, &size));
        for (uint32_t i = 0; i < d->rows; i++)
            d->nulls[i] |= ~(bits[i >> 3] >> (i & 7)) & 1;
    }
    return STK_OK;
}

/* Offsets as they are stored -> counted from the first value on. */
static stk_status read_offsets(decoder *d)
{
    const unsigned width = d->layout.wide ? 8 : 4;
    const uint8_t *raw = NULL;
    uint64_t size = 0, last;

    STK_TRY(next_slot(d, ((uint64_t)d->rows + 1) * width, d->out + d->room.scratch,
                      d->room.scratch_size, &raw, &size));
    d->offsets = (uint32_t *)(void *)(d->out + d->room.offsets);
    d->first = last = stk__little_endian(raw, width);
    for (uint32_t i = 0; i <= d->rows; i++) {
        const uint64_t offset = stk__little_endian(raw + (size_t)i * width, width);
        if (offset < last)
            return fail("an offset is less than the one before", d->reason);
        if (offset - d->first > UINT32_MAX)
            return fail("an offset is beyond 4 GiB", d->reason);
        d->offsets[i] = (uint32_t)(offset - d->first);
        last = offset;
    }
    d->values = d->offsets[d->rows];
    return STK_OK;
}

/* Which of `n` values from `first` on are null. A list that has one is told. */
static stk_status read_inner(decoder *d, uint64_t first, uint64_t n)
{
    const uint32_t width = d->column->width;
    uint64_t size = 0;

    if (!d->layout.inner)
        return STK_OK;
    if (n > UINT64_MAX / 2 || first > UINT64_MAX / 2)
        return fail("a list lies beyond its values", d->reason);
    STK_TRY(next_slot(d, stk__divide_up(first + n, 8), d->out + d->room.inner, d->room.inner_size,
                      &d->inner, &size));
    for (uint32_t i = 0; i < d->rows; i++) {
        uint64_t k = first + (d->offsets ? d->offsets[i] : (uint64_t)i * width);
        const uint64_t end =
            d->offsets ? first + d->offsets[i + 1] : first + ((uint64_t)i + 1) * width;
        while (k < end && d->inner[k >> 3] >> (k & 7) & 1)
            k++;
        if (k < end && !d->nulls[i])
            d->nulls[i] = STK__TABLE_HOLES;
    }
    return STK_OK;
}

/* ---- Forms of values ---- */

static void copy_bits(const uint8_t *from, uint64_t first, uint8_t *to, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = from[(first + i) >> 3] >> ((first + i) & 7) & 1;
}

/* Magnitude of a two's complement number, its most significant word last, as a double. */
static double decimal(const uint8_t *at, unsigned bytes, double unit)
{
    const bool negative = at[bytes - 1] & 0x80;
    uint8_t word[8 * WORDS];
    double value = 0;
    unsigned carry = negative;

    for (unsigned i = 0; i < bytes; i++) {
        const unsigned byte = negative ? (uint8_t)~at[i] + carry : at[i];
        word[i] = (uint8_t)byte;
        carry = byte >> 8;
    }
    if (bytes == 4)
        value = (double)stk__little_endian(word, 4);
    for (unsigned i = bytes / 8; i-- > 0;)
        value = ldexp(value, 64) + (double)stk__little_endian(word + 8 * (size_t)i, 8);
    value = unit < 0 ? value / -unit : value * unit;
    return negative ? -value : value;
}

static void copy_decimals(const decoder *d, const uint8_t *from, uint64_t n, double *to)
{
    const unsigned bytes = d->layout.bytes;
    const int scale = d->layout.scale;
    /* A power of ten is divided by, as it is exact up to 22. */
    const double unit = scale > 0 ? -pow(10, scale) : pow(10, -scale);

    for (uint64_t i = 0; i < n; i++)
        to[i] = decimal(from + i * bytes, bytes, unit);
}

static stk_status copy_codes(const decoder *d, const uint8_t *from, uint32_t *to)
{
    const unsigned bytes = d->layout.bytes, shift = 64 - 8 * bytes;

    for (uint32_t i = 0; i < d->rows; i++) {
        uint64_t code = stk__little_endian(from + (size_t)i * bytes, bytes);
        if (d->layout.is_signed) /* below 0 is beyond the end, too */
            code = (uint64_t)((int64_t)(code << shift) >> shift);
        if (d->nulls && d->nulls[i])
            code = 0;
        if (code >= d->layout.number)
            return fail("a code is no entry of its dictionary", d->reason);
        to[i] = (uint32_t)code;
    }
    return STK_OK;
}

/* `n` values from `first` on, of `item` bytes each as they are given. */
static stk_status read_values(decoder *d, uint64_t first, uint64_t n, uint64_t item)
{
    uint8_t *to = d->out + d->room.values;
    const bool direct = d->layout.form == STK__ARROW_PLAIN;
    const uint8_t *from = NULL;
    uint64_t end, size = 0;

    if (!stk__add_size(first, n, &end) || end > UINT64_MAX / 64 || n * item > d->room.capacity)
        return fail("a list or text lies beyond its values", d->reason);
    const uint64_t least =
        d->layout.form == STK__ARROW_BITS ? stk__divide_up(end, 8) : end * d->layout.bytes;
    STK_TRY(next_slot(d, least, direct ? to : d->out + d->room.scratch,
                      direct ? d->room.capacity : d->room.scratch_size, &from, &size));
    if (d->layout.form == STK__ARROW_BITS)
        copy_bits(from, first, to, n);
    else if (d->layout.form == STK__ARROW_DECIMALS)
        copy_decimals(d, from + first * d->layout.bytes, n, (double *)(void *)to);
    else if (d->layout.form == STK__ARROW_CODES)
        return copy_codes(d, from, (uint32_t *)(void *)to);
    else
        memmove(to, from + first * item, n * item);
    return STK_OK;
}

/* ---- Nulls ---- */

/* What is stored in the place of a null is anything. */
static void clear_holes(const decoder *d, uint64_t first, uint64_t n, uint64_t item)
{
    uint8_t *values = d->out + d->room.values;

    for (uint64_t i = 0, k = first; d->inner && i < n; i++, k++)
        if (!(d->inner[k >> 3] >> (k & 7) & 1))
            memset(values + i * item, 0, item);
}

static void clear_rows(const decoder *d, uint64_t bytes)
{
    uint8_t *values = d->out + d->room.values;

    for (uint32_t i = 0; d->nulls && i < d->rows; i++)
        if (d->nulls[i] == 1)
            memset(values + i * bytes, 0, bytes);
}

/* Lists and texts of null rows become empty, and those behind them move up. */
static void close_gaps(decoder *d, uint64_t item)
{
    uint8_t *values = d->out + d->room.values;
    uint32_t from = 0, to = 0;

    for (uint32_t i = 0; d->nulls && i < d->rows; i++) {
        const uint32_t end = d->offsets[i + 1];
        if (d->nulls[i] != 1) {
            if (to != from)
                memmove(values + to * item, values + from * item, (end - from) * item);
            to += end - from;
        }
        d->offsets[i + 1] = to;
        from = end;
    }
    d->values = d->offsets[d->rows];
}

/* Codes of a dictionary without entries. */
static stk_status decode_empty(decoder *d, stk__table_vector *vector)
{
    const bool values = d->column->kind == STK__COLUMN_VALUES;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < d->rows; i++)
        if (!d->nulls || !d->nulls[i])
            return fail("a code is no entry of its dictionary", d->reason);
    if (values)
        bytes = (uint64_t)d->rows * d->column->width * stk_dtype_size(d->column->dtype);
    if (bytes > d->room.capacity)
        return fail("a row lies beyond its values", d->reason);
    memset(d->out + d->room.values, 0, bytes);
    memset(d->out + d->room.offsets, 0, 4 * ((size_t)d->rows + 1));
    vector->offsets = values ? 0 : d->room.offsets;
    vector->codes = 0;
    return STK_OK;
}

static stk_status decode(decoder *d, stk__table_vector *vector)
{
    const bool codes = d->layout.form == STK__ARROW_CODES;
    const uint64_t width = codes ? 1 : d->column->width,
                   item = codes ? 4 : stk_dtype_size(d->column->dtype);

    STK_TRY(read_nulls(d));
    *vector = (stk__table_vector){
        .rows = d->rows, .values = d->room.values, .nulls = d->room.nulls, .codes = codes};
    if (stk__arrow_is_empty(&d->layout))
        return decode_empty(d, vector);
    if (!d->layout.offsets) {
        STK_TRY(read_inner(d, 0, d->rows * width));
        STK_TRY(read_values(d, 0, d->rows * width, item));
        clear_holes(d, 0, d->rows * width, item);
        if (!codes)
            clear_rows(d, width * item);
        return STK_OK;
    }
    STK_TRY(read_offsets(d));
    STK_TRY(read_inner(d, d->first, d->values));
    STK_TRY(read_values(d, d->first, d->values, item));
    clear_holes(d, d->first, d->values, item);
    close_gaps(d, item);
    vector->offsets = d->room.offsets;
    return STK_OK;
}

stk_status stk__arrow_decode(const stk__table *table, const stk__table_column *column,
                             const stk__table_piece *piece, const void *data, void *out,
                             void *worker, const char **reason)
{
    stk_context *context = ((const stk_dataset *)(const void *)table)->context;
    decoder d = {.column = column, .rows = piece->rows, .data = data, .out = out, .reason = reason};

    if (stk__arrow_is_views(piece))
        return stk__arrow_views_decode(context, piece, data, out, reason);
    if (!stk__arrow_layout_unpack(piece->own, piece->length, &d.layout) ||
        !room_of(&d.layout, d.rows, column->width, piece->decoded, &d.room))
        return fail("it is not where it was when the dataset was opened", reason);
    d.unpacker =
        (stk__arrow_unpacker){.context = context, .codec = d.layout.codec, .state = worker};
    const stk_status status = decode(&d, out);
    if (!worker)
        stk__arrow_unpacker_release(&d.unpacker);
    return status;
}
