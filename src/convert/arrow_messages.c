/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/arrow.h"
#include "dataset/dataset.h"

#define MAGIC       "ARROW1\0" /* with what fills it up to 8 bytes */
#define MAGIC_BYTES 6u
#define PREFIX      8u /* of a message: four bytes of ones, the length of its metadata */
#define ALIGNED     8u
#define BLOCK       24u /* bytes of a Block, of which the last four of the first 16 are nothing */
#define PAIR        16u /* of a FieldNode, of a Buffer */
#define STORED      (~UINT64_C(0)) /* in place of the length of a buffer that is not packed */

enum { V5 = 4 };
enum { IS_SCHEMA = 1, IS_BATCH = 3 };
enum { MESSAGE_VERSION, MESSAGE_TYPE, MESSAGE_HEADER, MESSAGE_BODY, MESSAGE_SLOTS };
enum { SCHEMA_ORDER, SCHEMA_FIELDS, SCHEMA_METADATA, SCHEMA_SLOTS };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN };
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_SLOTS };
enum { FOOTER_VERSION, FOOTER_SCHEMA, FOOTER_DICTIONARIES, FOOTER_BATCHES, FOOTER_SLOTS };
/* Union Type of Schema.fbs. */
enum { INT = 2, FLOAT = 3, BINARY = 4, UTF8 = 5, BOOL = 6, LIST = 12, FIXED_LIST = 16 };

/* ---- The schema ------------------------------------------------------------------------------ */

/* The type of a number behind the field that has it. */
static void put_number_type(stk__flat_out *o, uint32_t field, stk_dtype dtype)
{
    const unsigned bits = 8 * (unsigned)stk_dtype_size(dtype);
    const bool is_float = stk__dtype_is_float(dtype),
               is_signed = dtype == STK_INT8 || dtype == STK_INT16 || dtype == STK_INT32 ||
                           dtype == STK_INT64;
    uint32_t type;

    if (dtype == STK_BOOL) {
        type = stk__flat_out_table(o, NULL, 0);
    } else if (is_float) {
        type = stk__flat_out_table(o, (const uint8_t[]){2}, 1);
        stk__flat_out_set(o, type, 0, 2, bits == 16 ? 0 : bits == 32 ? 1 : 2);
    } else {
        type = stk__flat_out_table(o, (const uint8_t[]){4, 1}, 2);
        stk__flat_out_set(o, type, 0, 4, bits);
        stk__flat_out_set(o, type, 1, 1, is_signed);
    }
    stk__flat_out_set(o, field, FIELD_TYPE_TYPE, 1,
                      dtype == STK_BOOL ? BOOL
                      : is_float        ? FLOAT
                                        : INT);
    stk__flat_out_refer(o, field, FIELD_TYPE, type);
}

/* A Field without its type; room for `children`, whose vector is *below. */
static uint32_t put_field(stk__flat_out *o, const char *name, bool nullable, unsigned children,
                          uint32_t *below)
{
    static const uint8_t slots[] = {4, 1, 1, 4, 0, 4};
    const uint32_t field = stk__flat_out_table(o, slots, STK_COUNT(slots)),
                   text = stk__flat_out_text(o, name, strlen(name));

    *below = stk__flat_out_vector(o, children, 4);
    stk__flat_out_refer(o, field, FIELD_NAME, text);
    stk__flat_out_set(o, field, FIELD_NULLABLE, 1, nullable);
    stk__flat_out_refer(o, field, FIELD_CHILDREN, *below);
    return field;
}

/* "item" is the name that Arrow's own writers give. */
static uint32_t put_column(stk__flat_out *o, const stk__arrow_out_column *c)
{
    const stk_field *field = c->row->field;
    const bool list = c->kind == STK__ARROW_TENSOR || c->kind == STK__ARROW_VALUES;
    uint32_t below, none;
    const uint32_t at = put_field(o, field->name, c->row->mask >= 0, list, &below);

    if (c->kind == STK__ARROW_NUMBER) {
        put_number_type(o, at, field->dtype);
        return at;
    }
    const uint32_t type =
        stk__flat_out_table(o, (const uint8_t[]){4}, c->kind == STK__ARROW_TENSOR);
    stk__flat_out_refer(o, at, FIELD_TYPE, type);
    if (c->kind == STK__ARROW_TENSOR)
        stk__flat_out_set(o, type, 0, 4, stk__arrow_out_width(c));
    stk__flat_out_set(o, at, FIELD_TYPE_TYPE, 1,
                      c->kind == STK__ARROW_TENSOR   ? FIXED_LIST
                      : c->kind == STK__ARROW_VALUES ? LIST
                      : field->text                  ? UTF8
                                                     : BINARY);
    if (list) {
        const uint32_t item = put_field(o, "item", false, 0, &none);
        put_number_type(o, item, field->dtype);
        stk__flat_out_refer_entry(o, below, 0, item);
    }
    return at;
}

/* A Schema, with the key of shapes. */
static uint32_t put_schema(const stk__arrow_out_writer *w, stk__flat_out *o)
{
    static const uint8_t slots[SCHEMA_SLOTS] = {2, 4, 4};
    stk__text shapes = {.ctx = o->bytes.ctx};
    const uint32_t schema = stk__flat_out_table(o, slots, SCHEMA_SLOTS),
                   fields = stk__flat_out_vector(o, w->base.num_columns, 4);

    stk__flat_out_refer(o, schema, SCHEMA_FIELDS, fields);
    for (uint32_t i = 0; i < w->base.num_columns; i++)
        stk__flat_out_refer_entry(o, fields, i, put_column(o, &w->columns[i]));
    const uint32_t pairs = stk__flat_out_vector(o, 1, 4),
                   pair = stk__flat_out_table(o, (const uint8_t[]){4, 4}, 2),
                   key = stk__flat_out_text(o, STK__ROWS_FIELDS, sizeof STK__ROWS_FIELDS - 1);
    stk__rows_put_fields(&w->base, &shapes);
    o->failed |= shapes.failed;
    const uint32_t value = stk__flat_out_text(o, shapes.bytes, shapes.length);
    stk__flat_out_refer(o, schema, SCHEMA_METADATA, pairs);
    stk__flat_out_refer_entry(o, pairs, 0, pair);
    stk__flat_out_refer(o, pair, 0, key);
    stk__flat_out_refer(o, pair, 1, value);
    stk__text_release(&shapes);
    return schema;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static const uint8_t message_slots[MESSAGE_SLOTS] = {2, 1, 4, 8};

/* Begin a Message in w->flat; its header is still to come. */
static uint32_t begin_message(stk__arrow_out_writer *w, unsigned type, uint64_t body)
{
    stk__flat_out *o = &w->flat;

    stk__flat_out_begin(o);
    const uint32_t message = stk__flat_out_table(o, message_slots, MESSAGE_SLOTS);
    stk__flat_out_root(o, message);
    stk__flat_out_set(o, message, MESSAGE_VERSION, 2, V5);
    stk__flat_out_set(o, message, MESSAGE_TYPE, 1, type);
    stk__flat_out_set(o, message, MESSAGE_BODY, 8, body);
    return message;
}

/* What is in w->flat, filled up, with its prefix. Gives its bytes, with these. */
static stk_status write_message(stk__arrow_out_writer *w, uint64_t *bytes, stk_error *err)
{
    static const char zeros[ALIGNED] = {0};
    stk__flat_out *o = &w->flat;
    uint8_t prefix[PREFIX];
    const size_t fill = (size_t)(stk__round_up(o->bytes.length, ALIGNED) - o->bytes.length);

    if (o->failed || !stk__bytes_put(&o->bytes, zeros, fill))
        return stk__arrow_out_no_memory(err);
    for (int k = 0; k < 4; k++) {
        prefix[k] = 0xff;
        prefix[4 + k] = (uint8_t)(o->bytes.length >> (8 * k));
    }
    *bytes = PREFIX + o->bytes.length;
    STK_TRY(stk__shard_files_write(&w->base.files, prefix, PREFIX, err));
    return stk__shard_files_write(&w->base.files, o->bytes.data, o->bytes.length, err);
}

stk_status stk__arrow_out_schema(stk__arrow_out_writer *w, stk_error *err)
{
    uint64_t bytes;

    w->num_blocks = 0;
    STK_TRY(stk__shard_files_write(&w->base.files, MAGIC, ALIGNED, err));
    const uint32_t message = begin_message(w, IS_SCHEMA, 0);
    stk__flat_out_refer(&w->flat, message, MESSAGE_HEADER, put_schema(w, &w->flat));
    return write_message(w, &bytes, err);
}

/* ---- Buffers --------------------------------------------------------------------------------- */

/* Bytes of 0 and others as bits, the lowest of a byte first, in w->plain. */
static bool pack_bits(stk__arrow_out_writer *w, const stk__bytes *from)
{
    const size_t bytes = (from->length + 7) / 8;

    w->plain.length = 0;
    if (!stk__bytes_reserve(&w->plain, bytes + 1))
        return false;
    uint8_t *out = (uint8_t *)w->plain.data;
    memset(out, 0, bytes);
    for (size_t i = 0; i < from->length; i++)
        out[i / 8] |= (uint8_t)((from->data[i] != 0) << (i % 8));
    w->plain.length = bytes;
    return true;
}

/* The bytes of a buffer behind w->body, packed, with how many they were before. *got 0: it became
 * no smaller. */
static stk_status pack(stk__arrow_out_writer *w, const void *data, uint64_t length, uint64_t *got,
                       stk_error *err)
{
    const stk__block_kind zstd = {STK__BLOCK_ZSTD, (int)w->options->level, 0};
    const bool lz4 = w->options->codec == 0;
    const uint64_t bound = lz4 ? stk__lz4_frame_bound(length) : stk__block_bound(&zstd, length);
    const char *reason = NULL;

    if (!stk__bytes_reserve(&w->body, bound))
        return stk__arrow_out_no_memory(err);
    char *to = w->body.data + w->body.length;
    const stk_status status =
        lz4 ? stk__lz4_frame_encode(w->state, data, length, to, got, &reason)
            : stk__block_encode(&zstd, w->state, data, length, to, bound, got, &reason);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_CONVERT, "a buffer could not be compressed: %s",
                         reason ? reason : stk_status_text(status));
    *got = *got < length ? *got : 0;
    return STK_OK;
}

static bool put_length(stk__bytes *to, uint64_t length)
{
    uint8_t bytes[8];

    for (int k = 0; k < 8; k++)
        bytes[k] = (uint8_t)(length >> (8 * k));
    return stk__bytes_put(to, bytes, sizeof bytes);
}

/* The next buffer of the batch. */
static stk_status put_buffer(stk__arrow_out_writer *w, const void *data, uint64_t length,
                             stk_error *err)
{
    static const char zeros[ALIGNED] = {0};
    const bool packs = w->options->codec < 2 && length;
    const size_t begun = w->body.length;
    uint64_t got = 0;

    if (packs && !put_length(&w->body, length))
        return stk__arrow_out_no_memory(err);
    if (packs)
        STK_TRY(pack(w, data, length, &got, err));
    w->body.length += (size_t)got;
    if (packs && !got) {
        w->body.length = begun;
        if (!put_length(&w->body, STORED))
            return stk__arrow_out_no_memory(err);
    }
    if (!got && !stk__bytes_put(&w->body, data, (size_t)length))
        return stk__arrow_out_no_memory(err);
    w->buffers[2 * w->num_buffers] = begun;
    w->buffers[2 * w->num_buffers++ + 1] = w->body.length - begun;
    const size_t fill = (size_t)(stk__round_up(w->body.length, ALIGNED) - w->body.length);
    return stk__bytes_put(&w->body, zeros, fill) ? STK_OK : stk__arrow_out_no_memory(err);
}

static stk_status put_bits(stk__arrow_out_writer *w, const stk__bytes *from, stk_error *err)
{
    if (!pack_bits(w, from))
        return stk__arrow_out_no_memory(err);
    return put_buffer(w, w->plain.data, w->plain.length, err);
}

/* Where rows end, after the 0 where the first begins. */
static stk_status put_offsets(stk__arrow_out_writer *w, const stk__arrow_out_column *c,
                              stk_error *err)
{
    const int32_t first = 0;

    w->plain.length = 0;
    if (!stk__bytes_put(&w->plain, &first, sizeof first) ||
        !stk__bytes_put(&w->plain, c->offsets.data, c->offsets.length))
        return stk__arrow_out_no_memory(err);
    return put_buffer(w, w->plain.data, w->plain.length, err);
}

static stk_status put_buffers(stk__arrow_out_writer *w, const stk__arrow_out_column *c,
                              stk_error *err)
{
    STK_TRY(c->nulls ? put_bits(w, &c->has, err) : put_buffer(w, "", 0, err));
    if (c->kind >= STK__ARROW_VALUES)
        STK_TRY(put_offsets(w, c, err));
    if (c->kind == STK__ARROW_TENSOR || c->kind == STK__ARROW_VALUES)
        STK_TRY(put_buffer(w, "", 0, err)); /* of values none is null */
    if (c->row->field->dtype == STK_BOOL)
        return put_bits(w, &c->values, err);
    return put_buffer(w, c->values.length ? c->values.data : "", c->values.length, err);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* A FieldNode for each column and its list's values, a Buffer for each buffer. */
static void put_lists(stk__arrow_out_writer *w, uint32_t batch)
{
    stk__flat_out *o = &w->flat;
    uint64_t nodes = w->base.num_columns, at = 0;

    for (uint32_t i = 0; i < w->base.num_columns; i++)
        nodes += w->columns[i].kind == STK__ARROW_TENSOR || w->columns[i].kind == STK__ARROW_VALUES;
    const uint32_t list = stk__flat_out_vector(o, nodes, PAIR);
    stk__flat_out_refer(o, batch, BATCH_NODES, list);
    for (uint32_t i = 0; i < w->base.num_columns; i++) {
        const stk__arrow_out_column *c = &w->columns[i];
        stk__flat_out_put(o, list, PAIR, at, 0, 8, w->rows);
        stk__flat_out_put(o, list, PAIR, at++, 8, 8, c->nulls);
        if (c->kind == STK__ARROW_TENSOR || c->kind == STK__ARROW_VALUES)
            stk__flat_out_put(o, list, PAIR, at++, 0, 8,
                              c->values.length / stk_dtype_size(c->row->field->dtype));
    }
    const uint32_t buffers = stk__flat_out_vector(o, w->num_buffers, PAIR);
    stk__flat_out_refer(o, batch, BATCH_BUFFERS, buffers);
    for (uint32_t i = 0; i < w->num_buffers; i++) {
        stk__flat_out_put(o, buffers, PAIR, i, 0, 8, w->buffers[2 * i]);
        stk__flat_out_put(o, buffers, PAIR, i, 8, 8, w->buffers[2 * i + 1]);
    }
}

static void put_batch(stk__arrow_out_writer *w)
{
    const bool packs = w->options->codec < 2;
    const uint8_t slots[BATCH_SLOTS] = {8, 4, 4, packs ? 4 : 0};
    stk__flat_out *o = &w->flat;
    const uint32_t message = begin_message(w, IS_BATCH, w->body.length),
                   batch = stk__flat_out_table(o, slots, BATCH_SLOTS);

    stk__flat_out_refer(o, message, MESSAGE_HEADER, batch);
    stk__flat_out_set(o, batch, BATCH_LENGTH, 8, w->rows);
    put_lists(w, batch);
    if (!packs)
        return;
    const uint32_t codec = stk__flat_out_table(o, (const uint8_t[]){1, 1}, 2);
    stk__flat_out_refer(o, batch, BATCH_COMPRESSION, codec);
    stk__flat_out_set(o, codec, 0, 1, (uint64_t)w->options->codec); /* LZ4_FRAME, ZSTD */
}

static void clear(stk__arrow_out_writer *w)
{
    for (uint32_t i = 0; i < w->base.num_columns; i++) {
        stk__arrow_out_column *c = &w->columns[i];
        c->has.length = c->offsets.length = c->values.length = 0;
        c->nulls = 0;
    }
    w->rows = w->size = 0;
}

stk_status stk__arrow_out_batch(stk__arrow_out_writer *w, stk_error *err)
{
    stk__arrow_out_block block = {.offset = w->base.files.bytes};

    if (!w->rows)
        return STK_OK;
    w->body.length = 0;
    w->num_buffers = 0;
    for (uint32_t i = 0; i < w->base.num_columns; i++)
        STK_TRY(put_buffers(w, &w->columns[i], err));
    put_batch(w);
    STK_TRY(write_message(w, &block.metadata, err));
    STK_TRY(stk__shard_files_write(&w->base.files, w->body.data, w->body.length, err));
    block.body = w->body.length;
    stk__arrow_out_block *blocks =
        stk__grow(w->body.ctx, w->blocks, &w->room_blocks, w->num_blocks + 1, sizeof *blocks);
    if (!blocks)
        return stk__arrow_out_no_memory(err);
    w->blocks = blocks;
    blocks[w->num_blocks++] = block;
    clear(w);
    return STK_OK;
}

/* ---- The footer ------------------------------------------------------------------------------ */

static void put_footer(stk__arrow_out_writer *w)
{
    static const uint8_t slots[FOOTER_SLOTS] = {2, 4, 4, 4};
    stk__flat_out *o = &w->flat;

    stk__flat_out_begin(o);
    const uint32_t footer = stk__flat_out_table(o, slots, FOOTER_SLOTS);
    stk__flat_out_root(o, footer);
    stk__flat_out_set(o, footer, FOOTER_VERSION, 2, V5);
    stk__flat_out_refer(o, footer, FOOTER_SCHEMA, put_schema(w, o));
    stk__flat_out_refer(o, footer, FOOTER_DICTIONARIES, stk__flat_out_vector(o, 0, BLOCK));
    const uint32_t blocks = stk__flat_out_vector(o, w->num_blocks, BLOCK);
    stk__flat_out_refer(o, footer, FOOTER_BATCHES, blocks);
    for (size_t i = 0; i < w->num_blocks; i++) {
        stk__flat_out_put(o, blocks, BLOCK, i, 0, 8, w->blocks[i].offset);
        stk__flat_out_put(o, blocks, BLOCK, i, 8, 4, w->blocks[i].metadata);
        stk__flat_out_put(o, blocks, BLOCK, i, 16, 8, w->blocks[i].body);
    }
}

stk_status stk__arrow_out_footer(stk__arrow_out_writer *w, stk_error *err)
{
    static const uint8_t no_more[PREFIX] = {0xff, 0xff, 0xff, 0xff};
    uint8_t length[4];

    put_footer(w);
    if (w->flat.failed)
        return stk__arrow_out_no_memory(err);
    for (int k = 0; k < 4; k++)
        length[k] = (uint8_t)(w->flat.bytes.length >> (8 * k));
    STK_TRY(stk__shard_files_write(&w->base.files, no_more, PREFIX, err));
    STK_TRY(stk__shard_files_write(&w->base.files, w->flat.bytes.data, w->flat.bytes.length, err));
    STK_TRY(stk__shard_files_write(&w->base.files, length, sizeof length, err));
    return stk__shard_files_write(&w->base.files, MAGIC, MAGIC_BYTES, err);
}
