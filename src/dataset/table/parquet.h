/* footer, pages of Parquet -> columns, pieces, vectors. Inside src/dataset/table/parquet*.c only.
 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Names and numbers are those of apache/parquet-format, src/main/thrift/parquet.thrift. */
#ifndef STK_SRC_DATASET_TABLE_PARQUET_H
#define STK_SRC_DATASET_TABLE_PARQUET_H

#include "codec/codec.h"
#include "dataset/table/parquet_thrift.h"
#include "dataset/table/table.h"

/* ---- Schema (parquet_schema.c) ---- */

/* What values become. */
typedef enum stk__parquet_as {
    STK__PARQUET_AS_STORED,  /* numbers, bytes of one width, or strings */
    STK__PARQUET_AS_NARROW,  /* INT32 -> its lower one or two bytes */
    STK__PARQUET_AS_TIME,    /* INT96 -> nanoseconds since 1970 */
    STK__PARQUET_AS_DECIMAL, /* -> float64 */
    STK__PARQUET_AS_WHOLE    /* booleans -> bytes */
} stk__parquet_as;

/* What decoding has to know of a column and its chunk. */
typedef struct stk__parquet_leaf {
    uint32_t type : 3;     /* stk__parquet_type */
    uint32_t as : 3;       /* stk__parquet_as */
    uint32_t form : 2;     /* stk__parquet_form */
    uint32_t item : 4;     /* bytes of a value; 0: strings, or bytes of one width, `length` each */
    uint32_t most : 6;     /* definition level of what is there */
    uint32_t repeated : 6; /* definition level of an element of the list, null or not; 0: no list */
    uint32_t scale : 7;    /* of decimals */
    uint32_t codec : 3;
    uint32_t entries : 29; /* of the dictionary; 0: there is none */
    uint32_t length;       /* of FIXED */
    uint32_t room;         /* LIST: values of the piece at most; BYTES: bytes */
} stk__parquet_leaf;

typedef enum stk__parquet_form {
    STK__PARQUET_PAGE,       /* one data page */
    STK__PARQUET_CHUNK,      /* all pages of a column chunk, the dictionary among them */
    STK__PARQUET_DICTIONARY, /* a dictionary page */
} stk__parquet_form;

/* A leaf of the schema. */
typedef struct stk__parquet_column {
    stk__parquet_leaf leaf;
    stk__table_column column; /* with a name and a note of `texts` */
    uint32_t number;          /* of the table's column; NONE: another leaf's stands for it */
    bool wanted;
    char bound; /* 'i', 'u', 'f': how bounds of its values are read; 0: they are not */
} stk__parquet_column;

#define STK__PARQUET_NONE_NUMBER UINT32_MAX

typedef struct stk__parquet_schema {
    stk_context *ctx;
    stk__parquet_column *columns;
    uint32_t count;
    char *texts; /* names and notes */
} stk__parquet_schema;

/* SchemaElement's list of the footer. `wrong` is set on failure: what is wrong. */
stk_status stk__parquet_schema_read(stk_context *ctx, stk__thrift list, stk__parquet_schema *out,
                                    const char **wrong);
void stk__parquet_schema_release(stk__parquet_schema *schema);

/* ---- Footer (parquet_footer.c) ---- */

typedef struct stk__parquet_bounds {
    stk__thrift_text least, most; /* data NULL: not known */
} stk__parquet_bounds;

/* A ColumnChunk. */
typedef struct stk__parquet_chunk {
    int32_t type, codec;
    int64_t values, compressed;
    int64_t data_at, dictionary_at; /* file offsets; 0: not told */
    int64_t offset_index_at, offset_index_length, column_index_at, column_index_length;
    uint32_t encodings;   /* bits */
    bool only_dictionary; /* encoding_stats say that all data pages are of codes */
    bool encrypted, elsewhere, has_meta;
    stk__parquet_bounds bounds;
} stk__parquet_chunk;

/* FileMetaData; lists are where they begin. */
typedef struct stk__parquet_footer {
    int64_t rows;
    stk__thrift schema, groups;
    uint32_t num_groups;
    stk__thrift_field groups_of;
    bool has_schema, has_groups, encrypted;
    stk__thrift_text writer, fields; /* fields: what convert wrote of shapes, as JSON */
} stk__parquet_footer;

typedef struct stk__parquet_group {
    int64_t rows;
    stk__thrift chunks;
    uint32_t num_chunks;
    stk__thrift_field chunks_of;
} stk__parquet_group;

void stk__parquet_footer_read(stk__thrift *t, stk__parquet_footer *out);
/* The next RowGroup of footer->groups, the next ColumnChunk of group->chunks. */
void stk__parquet_group_read(stk__thrift *t, stk__parquet_group *out);
void stk__parquet_chunk_read(stk__thrift *t, stk__parquet_chunk *out);

/* ---- Pages (parquet_page.c) ---- */

enum {
    STK__PARQUET_DATA = 0,
    STK__PARQUET_INDEX_PAGE = 1,
    STK__PARQUET_DICT = 2,
    STK__PARQUET_DATA2 = 3
};

#define STK__PARQUET_HEADER_MOST 65536u /* bytes of a page's header: it may hold bounds */
#define STK__PARQUET_HEAD        32u    /* bytes of levels in front of values, where all are full */

/* A PageHeader. */
typedef struct stk__parquet_page {
    int32_t type, encoding, repetition_encoding, definition_encoding;
    int64_t compressed, uncompressed;           /* bytes behind the header */
    int64_t values, rows, nulls;                /* rows, nulls: of DATA2 */
    int64_t repetition_bytes, definition_bytes; /* of DATA2 */
    bool packed;                                /* DATA2: its values are compressed */
    bool has_crc;
    uint32_t crc;
    uint32_t header; /* bytes of the header itself */
} stk__parquet_page;

/* *more: it goes on beyond `length`. NULL, or what is wrong. */
const char *stk__parquet_page_read(const uint8_t *data, uint64_t length, stk__parquet_page *out,
                                   bool *more);

/* What decoding takes besides its output. */
typedef struct stk__parquet_room {
    stk_context *ctx;
    stk__codec_state *codecs;
    struct {
        uint8_t *data;
        uint64_t size;
    } parts[5];
} stk__parquet_room;

enum {
    STK__PARQUET_UNPACKED,
    STK__PARQUET_VALUES,
    STK__PARQUET_LEVELS,
    STK__PARQUET_ENTRIES,
    STK__PARQUET_LENGTHS
};

/* At least `size` bytes that a part has for itself, and STK_TAIL behind; NULL: no memory. */
uint8_t *stk__parquet_room_part(stk__parquet_room *room, int part, uint64_t size);
void stk__parquet_room_release(stk__parquet_room *room);
/* Bytes that it holds. */
uint64_t stk__parquet_room_held(const stk__parquet_room *room);

/* A page without its compression: levels and values. */
typedef struct stk__parquet_body {
    const uint8_t *repetition, *definition, *values;
    uint64_t repetition_length, definition_length, values_length;
    uint8_t head[STK__PARQUET_HEAD]; /* levels, where the values are at home */
} stk__parquet_body;

/* Where the values of a page lie if none is null, behind STK__PARQUET_HEAD bytes at least. */
typedef struct stk__parquet_home {
    uint8_t *values;
    uint64_t size;
} stk__parquet_home;

/* One without nulls is decompressed to its `home`, if it has one. */
stk_status stk__parquet_page_open(const stk__parquet_page *page, const stk__parquet_leaf *leaf,
                                  stk__parquet_room *room, const uint8_t *data,
                                  const stk__parquet_home *home, stk__parquet_body *out,
                                  const char **reason);

/* ---- Decoding (parquet_decode.c, parquet_convert.c) ---- */

/* Bytes that a piece of the leaf decodes to at most; false: 4 GiB or more. */
bool stk__parquet_decoded(const stk__parquet_leaf *leaf, uint64_t rows, uint64_t *size);
stk_status stk__parquet_decode(stk__parquet_room *room, const stk__parquet_leaf *leaf,
                               const stk__table_piece *piece, const uint8_t *data, void *out,
                               const char **reason);
/* Of a chunk that is one piece, whose pages may fail each by itself: why the rows of one that did
 * have no value, in the order of `nulls`. */
#define STK__PARQUET_REASONS 3
extern const char *const stk__parquet_reasons[];
/* `count` values of an encoding that is not of codes -> values of the column. */
stk_status stk__parquet_values(stk__parquet_room *room, const stk__parquet_leaf *leaf,
                               int32_t encoding, const uint8_t *in, uint64_t length, uint8_t *out,
                               uint64_t count, const char **reason);
/* The same of strings. */
stk_status stk__parquet_texts(stk__parquet_room *room, int32_t encoding, const uint8_t *in,
                              uint64_t length, const stk__parquet_strings *out, uint64_t count,
                              const char **reason);
static inline uint32_t stk__parquet_item(const stk__parquet_leaf *leaf)
{
    return leaf->item ? leaf->item : leaf->length;
}
/* Whether values are strings, each of its own length. */
static inline bool stk__parquet_is_text(const stk__parquet_leaf *leaf)
{
    return leaf->type == STK__PARQUET_BYTE_ARRAY && leaf->as == STK__PARQUET_AS_STORED;
}

static inline void stk__parquet_leaf_put(const stk__parquet_leaf *leaf, uint64_t own[2])
{
    memcpy(own, leaf, sizeof *leaf);
}

static inline stk__parquet_leaf stk__parquet_leaf_get(const uint64_t own[2])
{
    stk__parquet_leaf leaf;

    memcpy(&leaf, own, sizeof leaf);
    return leaf;
}
_Static_assert(sizeof(stk__parquet_leaf) == 16, "it is kept in the two numbers of a piece");

/* ---- Scanning (parquet_scan.c, parquet_chunk.c) ---- */

typedef struct stk__parquet_scan {
    stk__table_file *file;
    stk_context *ctx;
    uint64_t size; /* of the file */
    uint8_t *footer;
    uint64_t footer_at, footer_length;
    stk__parquet_schema schema;
    struct {
        uint8_t *data;
        uint64_t at, length, room;
    } window; /* bytes that were read before */
    uint32_t group;
    uint64_t first_row;      /* of the group */
    bool short_chunks;       /* sizes of chunks leave out the headers of dictionaries */
    stk__parquet_room *room; /* for pages that have to be decoded to know their size */
} stk__parquet_scan;

stk_status stk__parquet_scan_file(stk__table_file *file, const void *options, stk_error *err);
/* Bytes [offset, offset + length) of the file, where they are in memory until the next call; the
 * window is filled from there with `more`. */
stk_status stk__parquet_see(stk__parquet_scan *scan, uint64_t offset, uint64_t length,
                            uint64_t more, const uint8_t **out, stk_error *err);
/* Pieces of a column chunk of `rows` rows. */
stk_status stk__parquet_chunk_pieces(stk__parquet_scan *scan, const stk__parquet_column *column,
                                     const stk__parquet_chunk *chunk, uint64_t rows,
                                     stk_error *err);

#endif
