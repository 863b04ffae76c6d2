/* samples -> the bytes of Arrow IPC files */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row is a sample. Values gather column by column until a record batch is full; then its message
 * is written: what it has as FlatBuffers, and its buffers, each packed by itself [Columnar.html,
 * "Serialization and IPC"; apache/arrow format/Schema.fbs, Message.fbs, File.fbs].
 */
#ifndef STK_SRC_CONVERT_ARROW_H
#define STK_SRC_CONVERT_ARROW_H

#include "codec/codec.h"
#include "convert/arrow_flat.h"
#include "convert/rows.h"

typedef struct stk__arrow_out_options {
    uint32_t struct_size;
    int32_t codec; /* 0 lz4, 1 zstd, 2 none */
    int64_t level;
    uint64_t batch_size, batch_rows, shard_size;
} stk__arrow_out_options;

typedef enum stk__arrow_out_kind {
    STK__ARROW_NUMBER, /* one in each row */
    STK__ARROW_TENSOR, /* a list of one length */
    STK__ARROW_VALUES, /* a list of any length */
    STK__ARROW_STRING  /* a string of bytes */
} stk__arrow_out_kind;

typedef struct stk__arrow_out_column {
    const stk__rows_column *row;
    stk__arrow_out_kind kind;
    stk__bytes has;     /* where rows may be null: uint8_t of each row, 0 of one that is */
    stk__bytes offsets; /* of VALUES and STRING: int32_t, where each row ends */
    stk__bytes values;
    uint64_t nulls; /* of the batch */
} stk__arrow_out_column;

/* Where a message lies: a Block of File.fbs. */
typedef struct stk__arrow_out_block {
    uint64_t offset, metadata, body;
} stk__arrow_out_block;

typedef struct stk__arrow_out_writer {
    stk__rows_writer base;
    const stk__arrow_out_options *options; /* the job's */
    stk__arrow_out_column *columns;
    uint64_t rows, size; /* of the batch that is filled; bytes of its values */
    stk__arrow_out_block *blocks;
    size_t num_blocks, room_blocks;
    stk__flat_out flat;
    stk__codec_state *state;
    stk__bytes body, plain; /* of a message; a buffer before it is packed */
    uint64_t *buffers;      /* place and length of each, of a message */
    uint32_t num_buffers;
} stk__arrow_out_writer;

stk_status stk__arrow_out_no_memory(stk_error *err);
/* Values of a row of a TENSOR column. */
uint64_t stk__arrow_out_width(const stk__arrow_out_column *column);

/* ---- Messages (arrow_messages.c) ---- */

/* The magic and the schema. */
stk_status stk__arrow_out_schema(stk__arrow_out_writer *writer, stk_error *err);
/* A record batch of what was gathered, which is empty afterwards. Nothing where there are no rows.
 */
stk_status stk__arrow_out_batch(stk__arrow_out_writer *writer, stk_error *err);
/* The end of the messages, the footer and the magic. */
stk_status stk__arrow_out_footer(stk__arrow_out_writer *writer, stk_error *err);

#endif
