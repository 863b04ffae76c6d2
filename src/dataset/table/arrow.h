/* messages of Arrow IPC -> columns and pieces of a table */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrow IPC, files and streams, metadata versions V4 and V5 [arrow.apache.org/docs/format/
 * Columnar.html; apache/arrow format/Schema.fbs, Message.fbs, File.fbs]. The fields of the schema
 * are a tree, kept as nodes in the order in which a record batch lists theirs: a node before those
 * below it. A column is a node below structs alone; its buffers in one record batch are a piece.
 */
#ifndef STK_SRC_DATASET_TABLE_ARROW_H
#define STK_SRC_DATASET_TABLE_ARROW_H

#include "base/bytes.h"
#include "codec/codec.h"
#include "dataset/table/arrow_flat.h"
#include "dataset/table/table.h"

#define STK__ARROW_MAGIC       "ARROW1" /* of a file: at both ends */
#define STK__ARROW_MAGIC_BYTES 6u
#define STK__ARROW_MAX_DEPTH   64u
#define STK__ARROW_MAX_NODES   16384u
#define STK__ARROW_NONE        UINT32_MAX
#define STK__ARROW_VIEW        16u /* bytes of a view */
#define STK__ARROW_PARENTS     3u  /* structs with nulls that a column may lie in */

/* Union Type of Schema.fbs. */
typedef enum stk__arrow_type {
    STK__ARROW_NULL = 1,
    STK__ARROW_INT,
    STK__ARROW_FLOAT,
    STK__ARROW_BINARY,
    STK__ARROW_UTF8,
    STK__ARROW_BOOL,
    STK__ARROW_DECIMAL,
    STK__ARROW_DATE,
    STK__ARROW_TIME,
    STK__ARROW_TIMESTAMP,
    STK__ARROW_INTERVAL,
    STK__ARROW_LIST,
    STK__ARROW_STRUCT,
    STK__ARROW_UNION,
    STK__ARROW_FIXED_BINARY,
    STK__ARROW_FIXED_LIST,
    STK__ARROW_MAP,
    STK__ARROW_DURATION,
    STK__ARROW_LARGE_BINARY,
    STK__ARROW_LARGE_UTF8,
    STK__ARROW_LARGE_LIST,
    STK__ARROW_RUN_END,
    STK__ARROW_BINARY_VIEW,
    STK__ARROW_UTF8_VIEW,
    STK__ARROW_LIST_VIEW,
    STK__ARROW_LARGE_LIST_VIEW
} stk__arrow_type;

/* How the values of a column are stored. */
typedef enum stk__arrow_form {
    STK__ARROW_PLAIN,    /* as they are given */
    STK__ARROW_BITS,     /* bool: a bit each, the lowest of a byte first */
    STK__ARROW_DECIMALS, /* integers of 4 to 32 bytes, times 10 to the -scale */
    STK__ARROW_CODES     /* numbers of entries of a dictionary */
} stk__arrow_form;

typedef struct stk__arrow_node {
    uint8_t type;         /* stk__arrow_type */
    uint8_t form;         /* of a type of numbers, of itself alone: not of its dictionary */
    bool nullable, dense; /* dense: of a union, it has offsets */
    bool dictionary;      /* a batch has codes in its place, of `index_bytes` bytes */
    bool index_signed;
    bool wanted; /* its column is */
    uint8_t index_bytes;
    uint8_t bytes; /* of a stored value; 0: bits, or no numbers */
    int16_t scale;
    stk_dtype dtype;      /* of a type of numbers, what its values become; or NONE */
    uint32_t width;       /* of a list of one length, of bytes of one length */
    uint32_t parent, end; /* node above or NONE; the first node that is not below it */
    uint32_t column;      /* or NONE: it is above or within a column */
    int64_t id;           /* of its dictionary */
    uint32_t piece, rows; /* its dictionary now: number of the piece or NO_PIECE, entries */
    uint32_t longest;     /* bytes of an entry at most; 0: not known */
    bool delta, empty;    /* its dictionary is in parts; has no entries */
    uint32_t name;        /* where its name begins in `names` */
    uint64_t note;        /* where what is said of its type begins in `names` */
} stk__arrow_node;

typedef struct stk__arrow_schema {
    stk_context *ctx;
    stk__arrow_node *nodes;
    uint32_t num_nodes;
    size_t room;
    stk__bytes names; /* "a.b\0timestamp[us]\0..." */
} stk__arrow_schema;

/* Read Schema.fbs's table, and tell `file` the columns. */
stk_status stk__arrow_schema_read(stk__arrow_schema *schema, stk__table_file *file, stk__flat *flat,
                                  const stk__flat_table *table, stk_error *err);
void stk__arrow_schema_release(stk__arrow_schema *schema);
static inline const char *stk__arrow_name(const stk__arrow_schema *schema, uint32_t node)
{
    return schema->names.data + schema->nodes[node].name;
}
/* "a list of lists" where the node cannot be a column, else NULL (arrow_types.c). */
const char *stk__arrow_refusal(const stk__arrow_schema *schema, uint32_t node);
/* Fill what a type says of a node, and put what is said of it behind `note` (arrow_types.c). */
void stk__arrow_type_read(stk__arrow_node *node, stk__flat *flat, const stk__flat_table *field,
                          stk__text *note);
static inline bool stk__arrow_is_wide(unsigned type)
{
    return type == STK__ARROW_LARGE_BINARY || type == STK__ARROW_LARGE_UTF8 ||
           type == STK__ARROW_LARGE_LIST;
}
static inline bool stk__arrow_is_view(unsigned type)
{
    return type == STK__ARROW_BINARY_VIEW || type == STK__ARROW_UTF8_VIEW;
}
static inline bool stk__arrow_is_list(unsigned type)
{
    return type == STK__ARROW_LIST || type == STK__ARROW_LARGE_LIST;
}
static inline bool stk__arrow_is_bytes(unsigned type)
{
    return type == STK__ARROW_BINARY || type == STK__ARROW_UTF8 ||
           type == STK__ARROW_LARGE_BINARY || type == STK__ARROW_LARGE_UTF8;
}

/* ---- Where the buffers of a piece are (arrow_layout.c) ---- */

enum { STK__ARROW_SLOTS = STK__ARROW_PARENTS + 4 };

typedef struct stk__arrow_slot {
    uint64_t at, length; /* in the piece */
} stk__arrow_slot;

/*
 * What `own` of a piece says, in 128 bits: a head, a number, then length and distance of each
 * buffer but the last, which ends with the piece. Buffers are in this order: validity of structs
 * around it, its own, offsets, validity of a list's values, values. A piece may begin some bytes
 * before the first, as no two pieces may begin at one byte.
 */
typedef struct stk__arrow_layout {
    uint8_t codec; /* 0 none, 1 lz4, 2 zstd */
    uint8_t parents;
    bool validity, offsets, inner; /* inner: validity of a list's values */
    bool wide;                     /* offsets of 8 bytes */
    uint8_t form, bytes;           /* as of a node; of CODES those of a code */
    bool is_signed;                /* of CODES */
    int16_t scale;                 /* of DECIMALS */
    uint32_t number; /* of CODES entries of the dictionary; of lists that are packed and either not
                        PLAIN or have nulls their values; else 0 */
    uint32_t slots;
    stk__arrow_slot slot[STK__ARROW_SLOTS];
} stk__arrow_layout;

/* False: it does not fit. */
bool stk__arrow_layout_pack(const stk__arrow_layout *layout, uint64_t own[2]);
/* Of a piece of `length` bytes; false: no layout says so. */
bool stk__arrow_layout_unpack(const uint64_t own[2], uint64_t length, stk__arrow_layout *layout);

/* ---- Messages (arrow_scan.c, arrow_batch.c) ---- */

/* The entries of a node in `nodes` and `buffers` of a batch; of views how many buffers of texts. */
typedef struct stk__arrow_spot {
    uint32_t node, buffer, texts;
} stk__arrow_spot;

typedef struct stk__arrow_scan {
    stk__table_file *file;
    stk__arrow_schema schema;
    uint64_t end;     /* byte where messages end */
    uint64_t rows;    /* so far */
    uint64_t batches; /* so far: record batches, dictionaries apart */
    uint64_t dictionaries;
    bool replaces; /* a dictionary may be followed by another (a stream) */
    bool old;      /* metadata version V4: unions have a validity, too */
    uint8_t *window;
    size_t room;
    uint64_t window_at;
    uint32_t window_size;
    stk__arrow_spot *spots; /* of each node of the schema, in the batch that is read */
} stk__arrow_scan;

/* `size` bytes from `at` on, until the next call. */
stk_status stk__arrow_look(stk__arrow_scan *scan, uint64_t at, uint64_t size, const uint8_t **out,
                           stk_error *err);
/* A RecordBatch or, of `dictionary`, a DictionaryBatch, whose body of `size` bytes is at `body`. */
stk_status stk__arrow_batch(stk__arrow_scan *scan, stk__flat *flat, const stk__flat_table *table,
                            bool dictionary, uint64_t body, uint64_t size, stk_error *err);

/* ---- Values ---- */

/* Bytes that a buffer may have beyond those of its rows, where it is packed. */
#define STK__ARROW_PADDING 64u

/* Where the parts of a decoded piece are, its vector first. */
typedef struct stk__arrow_room {
    uint64_t nulls, offsets, values; /* 0: there are none */
    uint64_t inner, inner_size;      /* validity of a list's values, where it is packed */
    uint64_t capacity;               /* bytes of values */
    uint64_t scratch, scratch_size;  /* to unpack buffers in that are not values yet */
} stk__arrow_room;

/* Codes of a dictionary without entries: each row is null, and the piece has no dictionary. */
static inline bool stk__arrow_is_empty(const stk__arrow_layout *layout)
{
    return layout->form == STK__ARROW_CODES && !layout->number;
}
/* Bytes that a piece decodes to, for `bytes` bytes of values, `width` of them in a row that is no
 * list; UINT64_MAX: too many. */
uint64_t stk__arrow_room_size(const stk__arrow_layout *layout, uint32_t rows, uint32_t width,
                              uint64_t bytes);

/* Unpacks the buffers of a piece; all zeros but for `context`. */
typedef struct stk__arrow_unpacker {
    stk_context *context;
    stk__codec_state *state; /* made when it is wanted */
    uint8_t codec;
} stk__arrow_unpacker;

/*
 * The bytes of a buffer, which are `least` at least: those in the piece itself, or unpacked into
 * `room` of `capacity` bytes.
 */
stk_status stk__arrow_unpack(stk__arrow_unpacker *unpacker, const uint8_t *data, uint64_t length,
                             uint64_t least, void *room, uint64_t capacity, const uint8_t **out,
                             uint64_t *size, const char **reason);
void stk__arrow_unpacker_release(stk__arrow_unpacker *unpacker);

stk_status stk__arrow_scan_file(stk__table_file *file, const void *options, stk_error *err);
stk_status stk__arrow_decode(const stk__table *table, const stk__table_column *column,
                             const stk__table_piece *piece, const void *data, void *out,
                             void *worker, const char **reason);

#endif
