/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of texts and bytes [Columnar.html, "Variable-size Binary View Layout"]: a row has 16 bytes,
 * a text of up to 12 in it, or the first four of a longer one, the number of a buffer and a place
 * there. How many buffers there are the batch says, so a piece is the batch's message and its body
 * up to the last of them, and is decoded by what the message says.
 */
#include "dataset/table/arrow_views.h"

enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION };
enum { MESSAGE_VERSION, MESSAGE_TYPE, MESSAGE_HEADER };
enum { DICTIONARY_ID, DICTIONARY_DATA };
enum { IS_DICTIONARY = 2 };
enum { PAIR = 16, PREFIX = 8, SHORT = 12 };

#define MARK 3u /* in place of the codec that a layout begins with */
#define LEAD_BITS                                                                                  \
    13u /* own[0]: MARK, validity, bytes before the metadata, from there to the body */
#define LEAD_AT   3u
#define BODY_AT   (LEAD_AT + LEAD_BITS)
#define MOST_LEAD ((1u << LEAD_BITS) - 1)

bool stk__arrow_views_pack(const stk__arrow_views *views, uint64_t own[2])
{
    if (views->lead > MOST_LEAD)
        return false;
    own[0] = MARK | (uint64_t)views->validity << 2 | (uint64_t)views->lead << LEAD_AT |
             (uint64_t)views->body << BODY_AT;
    own[1] = views->buffer | (uint64_t)views->count << 32;
    return true;
}

static stk__arrow_views unpack(const uint64_t own[2])
{
    return (stk__arrow_views){.lead = (uint32_t)(own[0] >> LEAD_AT) & MOST_LEAD,
                              .body = (uint32_t)(own[0] >> BODY_AT),
                              .buffer = (uint32_t)own[1],
                              .count = (uint32_t)(own[1] >> 32),
                              .validity = own[0] >> 2 & 1};
}

bool stk__arrow_is_views(const stk__table_piece *piece)
{
    return (piece->own[0] & 3) == MARK;
}

/* Where the parts of a decoded piece are; gives where the values begin. */
static uint64_t arrange(uint32_t rows, stk__table_vector *vector)
{
    *vector = (stk__table_vector){.rows = rows, .nulls = sizeof *vector};
    vector->offsets = vector->nulls + stk__round_up(rows, 8);
    vector->values = vector->offsets + stk__round_up(4 * ((uint64_t)rows + 1), 8);
    return vector->values;
}

uint64_t stk__arrow_views_decoded(uint32_t rows, uint64_t bytes, uint64_t scratch)
{
    stk__table_vector vector;

    return bytes > UINT32_MAX || scratch > UINT32_MAX
               ? UINT64_MAX
               : arrange(rows, &vector) + stk__round_up(bytes, 8) + stk__round_up(scratch, 8);
}

/* ---- Buffers --------------------------------------------------------------------------------- */

/* A column's buffers in one batch. */
typedef struct views {
    stk__arrow_unpacker unpacker;
    const uint8_t *body; /* and how much of it is there */
    uint64_t size;
    stk__flat *flat;
    stk__flat_vector buffers;
    uint32_t first, count;
    uint32_t rows;
    uint8_t *room; /* to unpack in */
    uint64_t room_size, used;
    const char **reason;
} views;

static stk_status fail(const views *v, const char *text)
{
    *v->reason = text;
    return STK_EFORMAT;
}

/* Buffer `k` of the column, of `least` bytes at least; packed ones one behind the other in the
 * room. */
static stk_status take(views *v, uint32_t k, uint64_t least, const uint8_t **out, uint64_t *size)
{
    const uint64_t at = (uint64_t)stk__flat_in(v->flat, &v->buffers, PAIR, v->first + k, 0),
                   length = (uint64_t)stk__flat_in(v->flat, &v->buffers, PAIR, v->first + k, 8);

    if (length == 0 && least == 0) {
        *out = v->body;
        *size = 0;
        return STK_OK;
    }
    if (at > v->size || length > v->size - at)
        return fail(v, "a buffer does not lie within the batch's body");
    STK_TRY(stk__arrow_unpack(&v->unpacker, v->body + at, length, least, v->room + v->used,
                              v->room_size - v->used, out, size, v->reason));
    if (*out == v->room + v->used)
        v->used += STK_MIN(stk__round_up(*size, 8), v->room_size - v->used);
    return STK_OK;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* The buffers that the message in front of the body lists. */
static stk_status read_message(views *v, const stk__arrow_views *p, const uint8_t *metadata)
{
    *v->flat = (stk__flat){.data = metadata, .size = p->body};
    const stk__flat_table root = stk__flat_root(v->flat);
    stk__flat_table batch = stk__flat_child(v->flat, &root, MESSAGE_HEADER);

    if (stk__flat_number(v->flat, &root, MESSAGE_TYPE, 1, 0) == IS_DICTIONARY)
        batch = stk__flat_child(v->flat, &batch, DICTIONARY_DATA);
    const stk__flat_table packed = stk__flat_child(v->flat, &batch, BATCH_COMPRESSION);
    v->buffers = stk__flat_list(v->flat, &batch, BATCH_BUFFERS, PAIR);
    v->unpacker.codec = packed.at ? (uint8_t)(stk__flat_number(v->flat, &packed, 0, 1, 0) + 1) : 0;
    v->first = p->buffer;
    v->count = p->count;
    if (v->flat->damaged || v->first > v->buffers.count ||
        (uint64_t)v->count + 2 > v->buffers.count - v->first || v->unpacker.codec > 2)
        return fail(v, "its message is not the one that was there when the dataset was opened");
    return STK_OK;
}

typedef struct text {
    const uint8_t *data;
    uint64_t size;
} text;

/* The text of a view; false: it lies nowhere. */
static bool find(const views *v, const text *buffers, const uint8_t *view, const uint8_t **out,
                 uint32_t *length)
{
    *length = (uint32_t)stk__little_endian(view, 4);
    if (*length <= SHORT) {
        *out = view + 4;
        return true;
    }
    const uint32_t buffer = (uint32_t)stk__little_endian(view + 8, 4),
                   at = (uint32_t)stk__little_endian(view + 12, 4);
    if (buffer >= v->count || at > buffers[buffer].size || *length > buffers[buffer].size - at)
        return false;
    *out = buffers[buffer].data + at;
    return true;
}

static stk_status copy_texts(views *v, const text *buffers, const uint8_t *rows,
                             const stk__table_vector *vector, uint8_t *out, uint64_t capacity)
{
    const uint8_t *nulls = vector->nulls ? out + vector->nulls : NULL, *from;
    uint32_t *offsets = (uint32_t *)(void *)(out + vector->offsets);
    uint8_t *to = out + vector->values;
    uint32_t length;
    uint64_t used = 0;

    offsets[0] = 0;
    for (uint32_t i = 0; i < v->rows; i++) {
        if (!nulls || !nulls[i]) {
            if (!find(v, buffers, rows + (size_t)i * STK__ARROW_VIEW, &from, &length))
                return fail(v, "a view lies beyond its buffer");
            if (length > capacity - used)
                return fail(v, "its views have other lengths than when the dataset was opened");
            memcpy(to + used, from, length);
            used += length;
        }
        offsets[i + 1] = (uint32_t)used;
    }
    return STK_OK;
}

static stk_status take_nulls(views *v, bool validity, uint8_t *nulls)
{
    const uint8_t *bits = NULL;
    uint64_t size = 0;

    memset(nulls, 0, v->rows);
    if (!validity)
        return STK_OK;
    STK_TRY(take(v, 0, stk__divide_up(v->rows, 8), &bits, &size));
    for (uint32_t i = 0; i < v->rows; i++)
        nulls[i] = ~(bits[i >> 3] >> (i & 7)) & 1;
    return STK_OK;
}

/* What its packed buffers become, together. */
static stk_status scratch_of(const views *v, uint64_t *bytes)
{
    *bytes = 0;
    for (uint32_t k = 0; v->unpacker.codec && k < v->count + 2; k++) {
        const uint64_t at = (uint64_t)stk__flat_in(v->flat, &v->buffers, PAIR, v->first + k, 0),
                       length = (uint64_t)stk__flat_in(v->flat, &v->buffers, PAIR, v->first + k, 8);
        if (length < PREFIX)
            continue;
        if (at > v->size || length > v->size - at)
            return fail(v, "a buffer does not lie within the batch's body");
        const uint64_t says = stk__little_endian(v->body + at, PREFIX);
        if (says == UINT64_MAX)
            continue;
        if (says > UINT32_MAX)
            return fail(v, "a packed buffer says that it has 4 GiB or more");
        *bytes += stk__round_up(says, 8);
    }
    return STK_OK;
}

static stk_status decode(views *v, bool validity, uint8_t *out, uint64_t capacity,
                         const stk__table_vector *vector)
{
    stk_context *ctx = v->unpacker.context;
    const uint8_t *rows = NULL;
    uint64_t size = 0;

    STK_TRY(take_nulls(v, validity, out + vector->nulls));
    STK_TRY(take(v, 1, (uint64_t)v->rows * STK__ARROW_VIEW, &rows, &size));
    text *buffers = stk__calloc(ctx, (uint64_t)v->count + 1, sizeof *buffers);
    if (!buffers)
        return STK_ENOMEM;
    stk_status status = STK_OK;
    for (uint32_t k = 0; status == STK_OK && k < v->count; k++)
        status = take(v, 2 + k, 0, &buffers[k].data, &buffers[k].size);
    if (status == STK_OK)
        status = copy_texts(v, buffers, rows, vector, out, capacity);
    stk__free(ctx, buffers);
    return status;
}

stk_status stk__arrow_views_decode(stk_context *context, const stk__table_piece *piece,
                                   const void *data, void *out, const char **reason)
{
    const stk__arrow_views p = unpack(piece->own);
    stk__table_vector *vector = out;
    stk__flat flat;
    uint64_t scratch = 0;
    views v = {
        .unpacker = {.context = context}, .flat = &flat, .rows = piece->rows, .reason = reason};

    if ((uint64_t)p.lead + p.body > piece->length)
        return fail(&v, "it is not where it was when the dataset was opened");
    STK_TRY(read_message(&v, &p, (const uint8_t *)data + p.lead));
    v.body = (const uint8_t *)data + p.lead + p.body;
    v.size = piece->length - p.lead - p.body;
    STK_TRY(scratch_of(&v, &scratch));
    const uint64_t values = arrange(v.rows, vector);
    if (values > piece->decoded || scratch > piece->decoded - values)
        return fail(&v, "its buffers have other sizes than when the dataset was opened");
    v.room = (uint8_t *)out + piece->decoded - scratch;
    v.room_size = scratch;
    const stk_status status =
        decode(&v, p.validity, out, piece->decoded - scratch - values, vector);
    stk__arrow_unpacker_release(&v.unpacker);
    return status;
}
