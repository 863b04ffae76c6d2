/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One RecordBatch of Message.fbs: its nodes (rows and nulls of each field) and buffers are listed
 * in the order of the schema's fields; which buffers a field has follows from its type.
 */
#include <stdio.h>

#include "dataset/table/arrow_views.h"

enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_VARIADIC };
enum { DICTIONARY_ID, DICTIONARY_DATA, DICTIONARY_DELTA };
enum { PAIR = 16, PREFIX = 8 }; /* bytes of FieldNode and Buffer; of a buffer's size, packed */

/* A batch being read. */
typedef struct batch {
    stk__arrow_scan *scan;
    stk__flat *flat;
    stk__flat_vector nodes, buffers, variadic;
    uint64_t rows, body, size; /* where the body lies in the file, and its bytes */
    uint8_t codec;
    uint32_t next_node, next_buffer, next_variadic;
    const char *what; /* "record batch 3", "dictionary 0" */
    stk_error *err;
    stk__arrow_unpacker unpacker;
    uint64_t last_at; /* where the first buffer of the last piece begins */
    uint32_t alike;   /* pieces before that have the same */
    uint32_t views;   /* pieces of views before */
} batch;

static stk_status fail(const batch *b, stk_status status, uint32_t node, const char *text)
{
    return stk__table_file_fail(b->scan->file, status, b->body, b->err, "%s, column '%s': %s",
                                b->what, stk__arrow_name(&b->scan->schema, node), text);
}

static stk_status damaged(const batch *b, const char *text)
{
    return stk__table_file_fail(b->scan->file, STK_EFORMAT, b->body, b->err,
                                "%s: %s; copy or write it again", b->what, text);
}

/* ---- The tree of a batch ---- */

/* Buffers of a node; *variadic: it has an entry that says how many more. */
static uint32_t buffers_of(const stk__arrow_node *node, bool old, bool as_values, bool *variadic)
{
    *variadic = false;
    if (node->dictionary && !as_values)
        return 2;
    switch (node->type) {
    case STK__ARROW_NULL:
    case STK__ARROW_RUN_END:
        return 0;
    case STK__ARROW_STRUCT:
    case STK__ARROW_FIXED_LIST:
        return 1;
    case STK__ARROW_UNION:
        return (node->dense ? 2u : 1u) + old;
    case STK__ARROW_BINARY_VIEW:
    case STK__ARROW_UTF8_VIEW:
        *variadic = true;
        return 2;
    case STK__ARROW_LIST_VIEW:
    case STK__ARROW_LARGE_LIST_VIEW:
        return 3;
    default:
        if (stk__arrow_is_bytes(node->type))
            return 3;
        return 2;
    }
}

/* Give nodes `from` to `to` their entries. `whose` is told apart: a dictionary has its values. */
static stk_status spread(batch *b, uint32_t from, uint32_t to, bool as_values)
{
    const stk__arrow_schema *s = &b->scan->schema;
    stk__arrow_spot *spots = b->scan->spots;

    for (uint32_t i = from; i < to;) {
        const stk__arrow_node *node = &s->nodes[i];
        const bool values = as_values && i == from;
        bool variadic = false;
        const uint32_t own = buffers_of(node, b->scan->old, values, &variadic);
        uint64_t more = 0;
        if (variadic) {
            if (b->next_variadic == b->variadic.count)
                return damaged(b, "it has fewer counts of buffers than its schema has views");
            more = (uint64_t)stk__flat_in(b->flat, &b->variadic, 8, b->next_variadic++, 0);
        }
        if (b->next_node == b->nodes.count || own > b->buffers.count - b->next_buffer ||
            more > b->buffers.count - b->next_buffer - own)
            return damaged(b, "it has fewer nodes or buffers than its schema has");
        spots[i] = (stk__arrow_spot){b->next_node++, b->next_buffer, (uint32_t)more};
        b->next_buffer += own + (uint32_t)more;
        i = node->dictionary && !values ? node->end : i + 1;
    }
    if (b->next_node != b->nodes.count || b->next_buffer != b->buffers.count)
        return damaged(b, "it has more nodes or buffers than its schema has");
    return STK_OK;
}

static uint64_t length_of(const batch *b, uint32_t node)
{
    return (uint64_t)stk__flat_in(b->flat, &b->nodes, PAIR, b->scan->spots[node].node, 0);
}

static uint64_t nulls_of(const batch *b, uint32_t node)
{
    return (uint64_t)stk__flat_in(b->flat, &b->nodes, PAIR, b->scan->spots[node].node, 8);
}

/* ---- The buffers of one column ---- */

/* Buffer `k` of a node, as a place in the file, at least `least` bytes as they are decoded. */
static stk_status take_buffer(const batch *b, uint32_t node, uint32_t k, uint64_t least,
                              stk__arrow_slot *slot)
{
    const uint32_t i = b->scan->spots[node].buffer + k;
    const uint64_t at = (uint64_t)stk__flat_in(b->flat, &b->buffers, PAIR, i, 0),
                   length = (uint64_t)stk__flat_in(b->flat, &b->buffers, PAIR, i, 8);

    if (at > b->size || length > b->size - at)
        return fail(b, STK_ETRUNCATED, node,
                    "a buffer does not lie within the batch's body; copy or write it again");
    if (b->codec ? length < PREFIX && (length || least) : length < least)
        return fail(b, STK_EFORMAT, node,
                    "a buffer is shorter than its rows take; copy or write it again");
    *slot = (stk__arrow_slot){b->body + at, length};
    return STK_OK;
}

static stk_status add_validity(const batch *b, uint32_t node, stk__arrow_layout *layout)
{
    return take_buffer(b, node, 0, stk__divide_up(b->rows, 8), &layout->slot[layout->slots++]);
}

/* The validity of the structs that a column lies in, the outermost first, and its own. */
static stk_status add_validities(const batch *b, uint32_t node, stk__arrow_layout *layout)
{
    const stk__arrow_node *nodes = b->scan->schema.nodes;
    uint32_t above[STK__ARROW_MAX_DEPTH], n = 0;

    for (uint32_t p = nodes[node].parent; p != STK__ARROW_NONE; p = nodes[p].parent)
        if (nulls_of(b, p))
            above[n++] = p;
    if (n > STK__ARROW_PARENTS)
        return fail(b, STK_EKIND, node, "more than 3 of the structs around it have nulls");
    layout->parents = (uint8_t)n;
    while (n > 0)
        STK_TRY(add_validity(b, above[--n], layout));
    layout->validity = nulls_of(b, node) != 0;
    return layout->validity ? add_validity(b, node, layout) : STK_OK;
}

/* Rows of each node: those of the batch, and those of a list's values. */
static stk_status check_rows(const batch *b, uint32_t node)
{
    const stk__arrow_node *nodes = b->scan->schema.nodes;

    for (uint32_t p = node; p != STK__ARROW_NONE; p = nodes[p].parent)
        if (length_of(b, p) != b->rows || nulls_of(b, p) > b->rows)
            return fail(b, STK_EFORMAT, p,
                        "its rows or nulls are not those of the batch; copy or write it again");
    return STK_OK;
}

/* What the value buffer of a packed batch becomes: its first 8 bytes say so. */
static stk_status unpacked_size(const batch *b, uint32_t node, const stk__arrow_slot *slot,
                                uint64_t *bytes)
{
    const uint8_t *prefix = NULL;

    *bytes = slot->length;
    if (!b->codec || !slot->length)
        return STK_OK;
    STK_TRY(stk__arrow_look(b->scan, slot->at, PREFIX, &prefix, b->err));
    const int64_t says = (int64_t)stk__little_endian(prefix, PREFIX);
    if (says < -1)
        return fail(b, STK_EFORMAT, node, "a packed buffer says that it has less than no bytes");
    *bytes = says < 0 ? slot->length - PREFIX : (uint64_t)says;
    return STK_OK;
}

/* Offsets that are behind each other, and the bytes of the longest value, each of `item` bytes. */
static stk_status longest_of(batch *b, uint32_t node, const stk__arrow_layout *layout,
                             uint64_t item, uint32_t *longest)
{
    const stk__arrow_slot *slot = &layout->slot[layout->parents + layout->validity];
    const unsigned width = layout->wide ? 8 : 4;
    const uint64_t least = (b->rows + 1) * width, room = least + STK__ARROW_PADDING;
    const uint8_t *packed = NULL, *raw = NULL;
    const char *reason = NULL;
    uint64_t size = 0, most = 0;

    b->unpacker.codec = b->codec;
    STK_TRY(stk__arrow_look(b->scan, slot->at, slot->length, &packed, b->err));
    uint8_t *unpacked = b->codec ? stk__alloc(b->scan->schema.ctx, room) : NULL;
    if (b->codec && !unpacked)
        return fail(b, STK_ENOMEM, node, "no memory to unpack its offsets");
    stk_status status = stk__arrow_unpack(&b->unpacker, packed, slot->length, least, unpacked, room,
                                          &raw, &size, &reason);
    if (status != STK_OK)
        status = fail(b, status, node, reason);
    for (uint64_t i = 0; status == STK_OK && i < b->rows; i++) {
        const uint64_t from = stk__little_endian(raw + i * width, width),
                       to = stk__little_endian(raw + (i + 1) * width, width);
        if (to < from)
            status = fail(b, STK_EFORMAT, node,
                          "an offset is less than the one before; copy or write it again");
        most = STK_MAX(most, to - from);
    }
    stk__free(b->scan->schema.ctx, unpacked);
    *longest = most > UINT32_MAX / item ? 0 : (uint32_t)(most * item);
    return status;
}

/* ---- Pieces ---- */

/* Bytes of the values of rows that are all null. */
static uint64_t empty_bytes(const batch *b, const stk__arrow_node *n)
{
    const uint64_t item = n->type == STK__ARROW_FIXED_LIST ? stk_dtype_size((n + 1)->dtype)
                          : n->dtype                       ? stk_dtype_size(n->dtype)
                                                           : 1;

    if (stk__arrow_is_bytes(n->type) || stk__arrow_is_view(n->type) || stk__arrow_is_list(n->type))
        return 0;
    return b->rows * (n->width ? n->width : 1) > UINT32_MAX
               ? UINT64_MAX
               : b->rows * STK_MAX(n->width, 1u) * item;
}

/* Codes in place of values. */
static stk_status add_codes(batch *b, uint32_t node, stk__arrow_layout *layout, uint64_t *bytes)
{
    const stk__arrow_node *n = &b->scan->schema.nodes[node];

    layout->form = STK__ARROW_CODES;
    layout->bytes = n->index_bytes;
    layout->is_signed = n->index_signed;
    layout->number = n->empty ? 0 : n->rows;
    *bytes = n->empty ? empty_bytes(b, n) : 4 * b->rows;
    return take_buffer(b, node, 1, b->rows * n->index_bytes, &layout->slot[layout->slots++]);
}

static stk_status add_offsets(batch *b, uint32_t node, stk__arrow_layout *layout)
{
    layout->offsets = true;
    layout->wide = stk__arrow_is_wide(b->scan->schema.nodes[node].type);
    return take_buffer(b, node, 1, (b->rows + 1) * (layout->wide ? 8 : 4),
                       &layout->slot[layout->slots++]);
}

/* Bytes: texts, or as many in each row. */
static stk_status add_bytes(batch *b, uint32_t node, stk__arrow_layout *layout,
                            stk__table_piece *piece, uint64_t *bytes)
{
    const stk__arrow_node *n = &b->scan->schema.nodes[node];

    layout->bytes = 1;
    stk__arrow_slot *slot = &layout->slot[layout->slots++];
    *bytes = b->rows * n->width;
    if (!layout->offsets)
        return take_buffer(b, node, 1, *bytes, slot);
    STK_TRY(take_buffer(b, node, 2, 0, slot));
    STK_TRY(unpacked_size(b, node, slot, bytes));
    return longest_of(b, node, layout, 1, &piece->longest);
}

/* Numbers: of rows, or of the lists that they have. */
static stk_status add_numbers(batch *b, uint32_t node, stk__arrow_layout *layout,
                              stk__table_piece *piece, uint64_t *bytes)
{
    const stk__arrow_node *n = &b->scan->schema.nodes[node], *value = n;
    const bool fixed = n->type == STK__ARROW_FIXED_LIST;
    uint64_t values = b->rows;

    if (layout->offsets || fixed) {
        value++;
        values = length_of(b, node + 1);
        layout->inner = nulls_of(b, node + 1) != 0;
    }
    if (fixed && values < b->rows * n->width)
        return fail(b, STK_EFORMAT, node, "its lists have fewer values than they should");
    if (fixed)
        values = b->rows * n->width;
    if (values > UINT32_MAX)
        return fail(b, STK_ELIMIT, node, "it has 2^32 values or more in one batch");
    layout->form = value->form;
    layout->bytes = value->bytes;
    layout->scale = value->scale;
    if (layout->offsets && b->codec && (value->form != STK__ARROW_PLAIN || layout->inner))
        layout->number = (uint32_t)values;
    if (layout->inner)
        STK_TRY(
            take_buffer(b, node + 1, 0, stk__divide_up(values, 8), &layout->slot[layout->slots++]));
    const uint64_t item = stk_dtype_size(value->dtype);
    *bytes = values * item;
    STK_TRY(take_buffer(b, (uint32_t)(value - b->scan->schema.nodes), 1,
                        value->form == STK__ARROW_BITS ? stk__divide_up(values, 8)
                                                       : values * value->bytes,
                        &layout->slot[layout->slots++]));
    return layout->offsets ? longest_of(b, node, layout, item, &piece->longest) : STK_OK;
}

/* Offsets and values, behind the validities. `own`: the column's own values, not codes of them. */
static stk_status add_values(batch *b, uint32_t node, bool own, stk__arrow_layout *layout,
                             stk__table_piece *piece, uint64_t *bytes)
{
    const stk__arrow_node *n = &b->scan->schema.nodes[node];
    const bool text = stk__arrow_is_bytes(n->type);

    if (n->dictionary && !own)
        return add_codes(b, node, layout, bytes);
    if (text || stk__arrow_is_list(n->type))
        STK_TRY(add_offsets(b, node, layout));
    return text || n->type == STK__ARROW_FIXED_BINARY ? add_bytes(b, node, layout, piece, bytes)
                                                      : add_numbers(b, node, layout, piece, bytes);
}

/* Where the piece begins: before its first buffer, where the one before begins there, too. */
static stk_status place(batch *b, uint32_t node, stk__arrow_layout *layout, stk__table_piece *piece)
{
    stk__arrow_slot *first = layout->slot, *last = &layout->slot[layout->slots - 1];

    if (!last->length && last != first)
        last->at = (last - 1)->at + (last - 1)->length;
    b->alike = first->at == b->last_at ? b->alike + 1 : 0;
    b->last_at = first->at;
    /* Buffers begin at multiples of 8: these are left out. */
    const uint64_t shift = b->alike ? b->alike + (b->alike - 1) / 7 : 0;
    if (shift >= first->at)
        return fail(b, STK_ELIMIT, node, "too many columns lie in one struct with nulls");
    piece->offset = first->at - shift;
    const uint64_t end = last->at + last->length;
    piece->length = end > piece->offset ? end - piece->offset : 0;
    for (uint32_t i = 0; i < layout->slots; i++)
        if (layout->slot[i].at < piece->offset || !piece->length)
            return fail(b, STK_EFORMAT, node,
                        "its buffers do not follow each other; write it again");
        else
            layout->slot[i].at -= piece->offset;
    if (!stk__arrow_layout_pack(layout, piece->own))
        return fail(b, STK_EKIND, node,
                    "its buffers do not follow each other, or lie more than 2 GiB apart; write it "
                    "again with smaller batches");
    return STK_OK;
}

/* ---- Views ---- */

/* The lengths of all views, together, and the longest. */
static stk_status measure_views(batch *b, uint32_t node, const stk__arrow_slot *slot,
                                uint64_t *bytes, uint32_t *longest)
{
    const uint64_t least = b->rows * STK__ARROW_VIEW, room = least + STK__ARROW_PADDING;
    const uint8_t *packed = NULL, *raw = NULL;
    const char *reason = NULL;
    uint64_t size = 0;

    b->unpacker.codec = b->codec;
    STK_TRY(stk__arrow_look(b->scan, slot->at, slot->length, &packed, b->err));
    uint8_t *unpacked = NULL;
    if (b->codec && room <= stk__memory_left(b->scan->schema.ctx))
        unpacked = stk__alloc(b->scan->schema.ctx, room);
    if (b->codec && !unpacked)
        return fail(b, STK_ENOMEM, node, "no memory to unpack its views");
    stk_status status = stk__arrow_unpack(&b->unpacker, packed, slot->length, least, unpacked, room,
                                          &raw, &size, &reason);
    if (status != STK_OK)
        status = fail(b, status, node, reason);
    *bytes = 0;
    *longest = 0;
    for (uint64_t i = 0; status == STK_OK && i < b->rows; i++) {
        const uint32_t length = (uint32_t)stk__little_endian(raw + i * STK__ARROW_VIEW, 4);
        *bytes += length;
        *longest = STK_MAX(*longest, length);
    }
    stk__free(b->scan->schema.ctx, unpacked);
    return status;
}

/* The buffers of views, up to where the last ends; *scratch: what the packed ones become. */
static stk_status add_views(batch *b, uint32_t node, stk__table_piece *piece, uint64_t *end,
                            uint64_t *bytes, uint64_t *scratch)
{
    const stk__arrow_spot *spot = &b->scan->spots[node];
    const bool nulls = nulls_of(b, node) != 0;
    stk__arrow_slot slot = {0};
    uint64_t size = 0;

    *end = b->body;
    *scratch = 0;
    for (uint64_t k = 0; k < (uint64_t)spot->texts + 2; k++) {
        const uint64_t least = k == 1            ? b->rows * STK__ARROW_VIEW
                               : k == 0 && nulls ? stk__divide_up(b->rows, 8)
                                                 : 0;
        STK_TRY(take_buffer(b, node, (uint32_t)k, least, &slot));
        STK_TRY(unpacked_size(b, node, &slot, &size));
        if (size > UINT32_MAX)
            return fail(b, STK_ELIMIT, node,
                        "it has 4 GiB or more in one batch; write it again with smaller batches");
        *scratch += b->codec ? stk__round_up(size, 8) : 0;
        *end = slot.length ? STK_MAX(*end, slot.at + slot.length) : *end;
        if (k == 1)
            STK_TRY(measure_views(b, node, &slot, bytes, &piece->longest));
    }
    return STK_OK;
}

/* The piece of a column of views: the batch's metadata and its body so far. */
static stk_status place_views(batch *b, uint32_t node, bool own, stk__table_piece *piece)
{
    const stk__arrow_node *nodes = b->scan->schema.nodes;
    const stk__arrow_spot *spot = &b->scan->spots[node];
    const uint64_t metadata = b->body - b->flat->size;
    uint64_t end = 0, bytes = 0, scratch = 0;

    for (uint32_t p = nodes[node].parent; !own && p != STK__ARROW_NONE; p = nodes[p].parent)
        if (nulls_of(b, p))
            return fail(b, STK_EKIND, node,
                        "a struct around these views has nulls: write it as string or binary");
    STK_TRY(add_views(b, node, piece, &end, &bytes, &scratch));
    /* Pieces begin at bytes of their own, and buffers at multiples of 8. */
    const uint64_t lead = 1 + b->views + b->views / 7;
    const stk__arrow_views views = {.lead = (uint32_t)lead,
                                    .body = b->flat->size,
                                    .buffer = spot->buffer,
                                    .count = spot->texts,
                                    .validity = !own && nulls_of(b, node) != 0};
    if (lead >= metadata || !stk__arrow_views_pack(&views, piece->own))
        return fail(b, STK_ELIMIT, node, "too many columns of views: write them as string");
    b->views++;
    piece->offset = metadata - lead;
    piece->length = end - piece->offset;
    piece->decoded = stk__arrow_views_decoded(piece->rows, bytes, scratch);
    return STK_OK;
}

/* Add the piece of a column; of `own` values, its dictionary. */
static stk_status add_piece(batch *b, uint32_t node, bool own)
{
    stk__arrow_node *n = &b->scan->schema.nodes[node];
    stk__arrow_layout layout = {.codec = b->codec};
    stk__table_piece piece = {.first_row = own ? 0 : b->scan->rows,
                              .rows = (uint32_t)b->rows,
                              .column = n->column,
                              .columns = 1,
                              .dictionary = STK__TABLE_NO_PIECE};
    uint64_t bytes = 0;
    uint32_t number = 0;

    if (n->dictionary && !own) {
        if (n->delta)
            return fail(b, STK_EKIND, node,
                        "its dictionary comes in parts (delta); write it again with one");
        if (n->piece == STK__TABLE_NO_PIECE && !n->empty)
            return fail(b, STK_EFORMAT, node, "no dictionary comes before it");
        piece.dictionary = n->piece;
        piece.longest = n->longest;
    }
    if (own && (length_of(b, node) != b->rows || nulls_of(b, node)))
        return fail(b, STK_EKIND, node, "its dictionary has a null, or other rows than it says");
    if (!own)
        STK_TRY(check_rows(b, node));
    if (stk__arrow_is_view(n->type) && (own || !n->dictionary)) {
        STK_TRY(place_views(b, node, own, &piece));
    } else {
        if (!own)
            STK_TRY(add_validities(b, node, &layout));
        STK_TRY(add_values(b, node, own, &layout, &piece, &bytes));
        STK_TRY(place(b, node, &layout, &piece));
        piece.decoded = stk__arrow_room_size(&layout, piece.rows, n->width ? n->width : 1, bytes);
    }
    if (piece.decoded > UINT32_MAX)
        return fail(b, STK_ELIMIT, node,
                    "it has 4 GiB or more in one batch; write it again with smaller batches");
    if (!own)
        return stk__table_file_piece(b->scan->file, &piece, &number, b->err);
    STK_TRY(stk__table_file_dictionary(b->scan->file, &piece, &number, b->err));
    n->piece = number;
    n->rows = piece.rows;
    n->longest = piece.longest;
    return STK_OK;
}

/* ---- The two kinds of batch ---- */

static stk_status read_head(batch *b, const stk__flat_table *table)
{
    enum { CODEC, METHOD };
    const stk__flat_table packed = stk__flat_child(b->flat, table, BATCH_COMPRESSION);
    const int64_t rows = stk__flat_number(b->flat, table, BATCH_LENGTH, 8, 0);

    b->nodes = stk__flat_list(b->flat, table, BATCH_NODES, PAIR);
    b->buffers = stk__flat_list(b->flat, table, BATCH_BUFFERS, PAIR);
    b->variadic = stk__flat_list(b->flat, table, BATCH_VARIADIC, 8);
    if (packed.at) {
        const int64_t codec = stk__flat_number(b->flat, &packed, CODEC, 1, 0);
        if (codec < 0 || codec > 1 || stk__flat_number(b->flat, &packed, METHOD, 1, 0) != 0)
            return damaged(b, "it is packed in a way that is not known");
        b->codec = (uint8_t)(codec + 1);
    }
    if (b->flat->damaged || rows < 0)
        return damaged(b, "its message is damaged");
    if (rows > INT32_MAX)
        return stk__table_file_fail(b->scan->file, STK_ELIMIT, b->body, b->err,
                                    "%s has %lld rows; at most 2147483647: write it again with "
                                    "smaller batches",
                                    b->what, (long long)rows);
    b->rows = (uint64_t)rows;
    return STK_OK;
}

static stk_status read_rows(batch *b, const stk__flat_table *table)
{
    stk__arrow_scan *scan = b->scan;
    const stk__arrow_schema *s = &scan->schema;

    STK_TRY(read_head(b, table));
    STK_TRY(spread(b, 0, s->num_nodes, false));
    if (!b->rows)
        return STK_OK;
    STK_TRY(stk__table_file_group(scan->file, scan->rows, b->err));
    for (uint32_t i = 0; i < s->num_nodes; i++)
        if (s->nodes[i].wanted)
            STK_TRY(add_piece(b, i, false));
    scan->rows += b->rows;
    return STK_OK;
}

static stk_status read_dictionary(batch *b, const stk__flat_table *table)
{
    stk__arrow_schema *s = &b->scan->schema;
    const int64_t id = stk__flat_number(b->flat, table, DICTIONARY_ID, 8, 0);
    const bool delta = stk__flat_number(b->flat, table, DICTIONARY_DELTA, 1, 0);
    const stk__flat_table data = stk__flat_child(b->flat, table, DICTIONARY_DATA);

    STK_TRY(read_head(b, &data));
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        stk__arrow_node *node = &s->nodes[i];
        if (!node->wanted || !node->dictionary || node->id != id)
            continue;
        node->delta = delta;
        if (delta)
            continue;
        if (!b->scan->replaces && (node->empty || node->piece != STK__TABLE_NO_PIECE))
            return damaged(b, "a file has one dictionary of a column, and this is another");
        node->piece = STK__TABLE_NO_PIECE;
        node->empty = !b->rows;
        b->next_node = b->next_buffer = b->next_variadic = 0;
        STK_TRY(spread(b, i, node->end, true));
        if (b->rows)
            STK_TRY(add_piece(b, i, true));
    }
    return STK_OK;
}

stk_status stk__arrow_batch(stk__arrow_scan *scan, stk__flat *flat, const stk__flat_table *table,
                            bool dictionary, uint64_t body, uint64_t size, stk_error *err)
{
    char what[64];
    batch b = {.scan = scan,
               .flat = flat,
               .body = body,
               .size = size,
               .what = what,
               .err = err,
               .unpacker = {.context = scan->schema.ctx}};
    uint64_t *number = dictionary ? &scan->dictionaries : &scan->batches;

    snprintf(what, sizeof what, "%s %llu", dictionary ? "dictionary" : "record batch",
             (unsigned long long)(*number)++);
    const stk_status status = dictionary ? read_dictionary(&b, table) : read_rows(&b, table);
    stk__arrow_unpacker_release(&b.unpacker);
    return status;
}
