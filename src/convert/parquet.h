/* samples -> the bytes of Parquet files */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row is a sample. The values of a column gather in a page; pages that are full are encoded and
 * wait in memory until their row group is, as the chunks of a group lie one behind the other. The
 * indexes of pages lie before the footer.
 */
#ifndef STK_SRC_CONVERT_PARQUET_H
#define STK_SRC_CONVERT_PARQUET_H

#include "codec/codec.h"
#include "convert/parquet_format.h"
#include "convert/parquet_thrift.h"
#include "convert/rows.h"

/* ---- Columns (parquet_columns.c) ---- */

typedef enum stk__parquet_out_kind {
    STK__PARQUET_NUMBER,  /* one in each row */
    STK__PARQUET_NUMBERS, /* a list of them */
    STK__PARQUET_BYTES,   /* a string of bytes */
    STK__PARQUET_PICTURE, /* the bytes of the structure {bytes, path} */
    STK__PARQUET_PATH     /* its path, of which there is none */
} stk__parquet_out_kind;

/* The least and the greatest value, of what has an order. */
typedef union stk__parquet_out_value {
    int64_t integer;
    uint64_t whole; /* of unsigned types and bool */
    double real;
} stk__parquet_out_value;

typedef struct stk__parquet_out_bounds {
    bool any; /* there was a value that is no NaN */
    stk__parquet_out_value least, most;
} stk__parquet_out_bounds;

/* A page that is encoded. */
typedef struct stk__parquet_out_page {
    uint64_t at, first_row; /* in its chunk, in its row group */
    uint32_t bytes;         /* with its header */
    uint64_t nulls, values;
    stk__parquet_out_bounds bounds;
} stk__parquet_out_page;

typedef struct stk__parquet_out_column {
    const stk_field *field; /* the dataset's */
    uint32_t number;        /* of the field */
    stk__parquet_out_kind kind;
    const stk__rows_column *row; /* with the mask of its nulls */
    bool optional;               /* a row may be null, or readers expect so: labels with names */
    bool codes;                  /* 8 bits: stored as codes of a dictionary of all values */

    stk__bytes values;  /* of the page that is filled, as they are in memory; of strings PLAIN */
    stk__bytes lengths; /* of NUMBERS: uint64_t, values of each row */
    stk__bytes nulls;   /* where rows may be null: uint8_t, 1 of each that is */
    uint64_t rows, present; /* of the page, values that are there */

    stk__bytes pages; /* encoded, of the chunk */
    stk__parquet_out_page *list;
    size_t num_pages, room_pages;
    uint64_t chunk_rows, chunk_values, chunk_nulls; /* of the encoded pages */
    uint64_t plain_bytes;                           /* of them before compression, with headers */
    uint64_t dictionary_bytes;                      /* of the page in front of them; 0: none */
    stk__parquet_out_bounds bounds;
    bool compressed; /* the chunk, as its first page decides */
    bool unordered;  /* a page has no bounds: no index of values */
} stk__parquet_out_column;

/* The columns of those that are written, *count of them, in memory of the dataset's context; NULL:
 * no memory. */
stk__parquet_out_column *stk__parquet_out_columns(const stk_dataset *dataset,
                                                  const stk__rows_writer *writer, uint32_t *count);
void stk__parquet_out_columns_free(stk_context *ctx, stk__parquet_out_column *columns,
                                   uint32_t count);
/* Why there can be no columns of a field; NULL: there can. */
const char *stk__parquet_out_refuses(const stk_field *field);
stk__parquet_type stk__parquet_out_type_of(const stk__parquet_out_column *column);
/* Bytes of a number as it is stored PLAIN; 0 of bool. */
uint32_t stk__parquet_out_width(stk_dtype dtype);
/* Levels of a value that is there. */
unsigned stk__parquet_out_definition(const stk__parquet_out_column *column);
/* Fields 2 (schema) and 5 (key-value metadata) of the footer. */
void stk__parquet_out_put_schema(const stk__rows_writer *writer,
                                 const stk__parquet_out_column *columns, uint32_t count,
                                 stk__thrift_out *to);
void stk__parquet_out_put_notes(const stk_dataset *dataset, const stk__rows_writer *writer,
                                stk__thrift_out *to);
/* Field 3 of the metadata of a chunk. */
void stk__parquet_out_put_path(const stk__parquet_out_column *column, stk__thrift_out *to);

/* ---- Bounds (parquet_bounds.c) ---- */

/* Whether values of a column have an order here. */
bool stk__parquet_out_has_bounds(const stk__parquet_out_column *column);
/* Of `count` values as they are in memory. */
void stk__parquet_out_bounds_take(stk_dtype dtype, const void *values, uint64_t count,
                                  stk__parquet_out_bounds *to);
void stk__parquet_out_bounds_merge(stk_dtype dtype, const stk__parquet_out_bounds *from,
                                   stk__parquet_out_bounds *to);
/* Whether neither bound of `after` is less than that of `before`. */
bool stk__parquet_out_bounds_ascend(stk_dtype dtype, const stk__parquet_out_bounds *before,
                                    const stk__parquet_out_bounds *after);
/* The least or the `most`, PLAIN; gives the bytes. */
size_t stk__parquet_out_bound_put(stk_dtype dtype, const stk__parquet_out_bounds *bounds, bool most,
                                  uint8_t out[8]);

/* ---- Levels (parquet_levels.c) ---- */

/* Levels of up to `width` bits in runs and groups of eight ["RLE", Encodings.md]. */
bool stk__parquet_out_levels(stk__bytes *to, const uint8_t *levels, uint64_t count, unsigned width);

/* ---- Files (parquet_pages.c, parquet_file.c) ---- */

typedef struct stk__parquet_out_options {
    uint32_t struct_size;
    int32_t codec; /* 0 zstd, 1 none */
    int64_t level;
    uint64_t page_size, row_group_size, row_group_rows, shard_size;
} stk__parquet_out_options;

/* What the footer needs of a chunk; the rest is in the buffers of the file. */
typedef struct stk__parquet_out_chunk {
    uint64_t metadata_bytes, values_bytes, places_bytes; /* of its parts of the buffers */
} stk__parquet_out_chunk;

typedef struct stk__parquet_out_group {
    uint64_t rows, offset, plain_bytes, bytes;
} stk__parquet_out_group;

typedef struct stk__parquet_out_file {
    stk__rows_writer base;
    const stk_dataset *dataset; /* the job's, as the next */
    const stk__parquet_out_options *options;
    stk__shard_files *files; /* of `base` */
    stk__codec_state *state;
    stk__parquet_out_column *columns;
    uint32_t num_columns;
    uint64_t group_rows, group_size; /* of the group that is filled; bytes of its values */
    stk__bytes metadata;             /* ColumnMetaData of all chunks */
    stk__bytes values, places;       /* ColumnIndex, OffsetIndex of all chunks */
    stk__parquet_out_chunk *chunks;
    size_t num_chunks, room_chunks;
    stk__parquet_out_group *groups;
    size_t num_groups, room_groups;
    stk__bytes body, levels, packed; /* scratch of a page */
} stk__parquet_out_file;

stk_status stk__parquet_out_no_memory(stk_error *err);
/* Add the value of a row to the page of a column, which is ended before where that is full. */
stk_status stk__parquet_out_page_add(stk__parquet_out_file *file, stk__parquet_out_column *column,
                                     const void *data, uint64_t size, uint64_t number,
                                     stk_error *err);
/* The same of a row that is null. */
stk_status stk__parquet_out_page_add_null(stk__parquet_out_column *column, stk_error *err);
/* Encode what is in the page; not where it is empty. */
stk_status stk__parquet_out_page_end(stk__parquet_out_file *file, stk__parquet_out_column *column,
                                     stk_error *err);

/* `file` holds its first member. Release it also after a failure. */
stk_status stk__parquet_out_init(stk__parquet_out_file *file, stk_error *err);
void stk__parquet_out_release(stk__parquet_out_file *file);
/* An object of `files` has begun. */
stk_status stk__parquet_out_begin(stk__parquet_out_file *file, stk_error *err);
/* Sample `i` of the group, `number` of the dataset. */
stk_status stk__parquet_out_add(stk__parquet_out_file *file, const stk__samples *samples, size_t i,
                                uint64_t number, stk_error *err);
/* Bytes that are not written yet, roughly. */
uint64_t stk__parquet_out_waiting(const stk__parquet_out_file *file);
/* The last row group, the indexes and the footer: the object is whole. */
stk_status stk__parquet_out_finish(stk__parquet_out_file *file, stk_error *err);

#endif
