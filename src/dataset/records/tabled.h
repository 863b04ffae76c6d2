/* a folder with index.json, shards with a table of offsets in front -> records of columns */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Mosaic MDS and litdata have in common. A folder holds index.json, which says what the shards
 * are and what a record is made of. A shard begins with u32 n and u32 offsets[n + 1]; record i is
 * the bytes from offsets[i] to offsets[i + 1]. A record is the sizes (u32) of those columns whose
 * size is not known, then the values of all columns. Numbers are little-endian.
 *
 * mds_index.c and litdata_index.c parse the index; tabled.c has the list and the scan,
 * tabled_fields.c makes fields of columns, tabled_values.c values of records.
 */
#ifndef STK_SRC_DATASET_RECORDS_TABLED_H
#define STK_SRC_DATASET_RECORDS_TABLED_H

#include "base/json.h"
#include "dataset/records/records.h"
#include "dataset/records/shard_hash.h"
#include "dataset/widen.h"

#define STK__TABLED_INDEX       "index.json"
#define STK__TABLED_MAX_COLUMNS 256u
#define STK__TABLED_MAX_NAME    255u
#define STK__TABLED_LEARNT      32u /* records that are looked at when a dataset is opened */

typedef enum stk__tabled_form {
    STK__COLUMN_BYTES,   /* as they are */
    STK__COLUMN_IMAGE,   /* JPEG or PNG */
    STK__COLUMN_NUMBERS, /* of a known type; of a known shape, or as many as there are */
    STK__COLUMN_DIGITS,  /* an integer in decimal digits */
    STK__COLUMN_NDARRAY, /* MDS: type and shape in front, in one byte each and the dimensions */
    STK__COLUMN_TENSOR,  /* litdata: u32 type, rank, dimensions in front, big-endian */
    STK__COLUMN_NUMPY,   /* the same, little-endian, and NumPy's types */
    STK__COLUMN_PIL,     /* u32 width, height, length of the mode; mode; pixels */
    STK__COLUMN_REFUSED
} stk__tabled_form;

typedef struct stk__tabled_column {
    char *name;
    char *encoding;        /* by the format's name: "ndarray:uint8" */
    stk__tabled_form form; /* the next ones: see stk__tabled_fields() */
    const char *refused;   /* static: why, and what to do */
    bool sized;            /* its size is in front of each record */
    bool typed;            /* the encoding says `dtype` */
    bool nameless;         /* `name` is a number, as the place in a list */
    uint64_t size;         /* not sized: bytes */
    stk_dtype dtype;       /* STK_DTYPE_NONE: each record says it */
    bool shaped;           /* the encoding says `rank` and `shape`; else they are those of the
                              records that were looked at */
    bool varies;           /* the first dimension does */
    uint32_t rank;
    int64_t shape[STK_MAX_RANK];
    int field;                    /* -1: it is not read */
    stk__dataset_widen_fn *widen; /* of a label */
} stk__tabled_column;

typedef struct stk__tabled_shard {
    char *name; /* key below the folder */
    char *zip;  /* key of its compressed form, or NULL */
    uint64_t records;
    uint64_t bytes; /* UINT64_MAX: not told */
    char *told;     /* its hash, in small digits; NULL: none that is known */
    stk__shard_hash hash;
} stk__tabled_shard;

/* The state of such a dataset. */
typedef struct stk__tabled {
    stk_context *context;
    stk__tabled_column *columns;
    uint32_t num_columns, num_sized;
    stk__tabled_shard *shards;
    size_t num_shards;
    uint64_t block_bytes; /* not 0: a record is so many bytes, of all items one behind the other */
    bool bare;            /* no sizes in front: the record is its one column */
    bool hashed;          /* what the index has of hashes is held against the shards */
    char unknown[96];     /* names of hashes that are none of ours: "blake2b, sha512" */
    stk_field *fields;
    uint32_t num_fields;
} stk__tabled;

/* The options begin with this. */
typedef struct stk__tabled_options {
    stk__records_options common;
    const char *fields, *varying;
} stk__tabled_options;

#define STK__TABLED_OPTIONS                                                                        \
    {.name = "fields",                                                                             \
     .type = STK_OPTION_STRING,                                                                    \
     .offset = offsetof(stk__tabled_options, fields),                                              \
     .metavar = "COLUMN,...",                                                                      \
     .doc = "Columns that are read; else all."},                                                   \
        {.name = "varying",                                                                        \
         .type = STK_OPTION_STRING,                                                                \
         .offset = offsetof(stk__tabled_options, varying),                                         \
         .metavar = "COLUMN,...",                                                                  \
         .doc = "Columns of arrays whose first dimension varies, although it is the same in the "  \
                "records that are looked at when the dataset is opened."},                         \
    {                                                                                              \
        .name = "index", .type = STK_OPTION_STRING,                                                \
        .offset = offsetof(stk__records_options, index), .initial = "none",                        \
        .metavar = "none|auto|FILE",                                                               \
        .doc = "Where it is kept at which byte the records lie. The shards say it themselves, in " \
               "one read each: auto, as of webdataset, is for very many of them on another "       \
               "machine."                                                                          \
    }

/* Parse an index into a state of zeros but for `context`. */
typedef stk_status stk__tabled_parse_fn(const void *options, const char *text, uint64_t length,
                                        const char *key, stk__tabled *out, stk_error *err);

/* ---- tabled.c ---- */

/* For list(): read index.json below the URL, parse it, add the shards. Sets set->state. Blocks. */
stk_status stk__tabled_list(stk__records *set, const char *url, const void *options,
                            stk__tabled_parse_fn *parse, stk_error *err);
stk_status stk__tabled_scan(stk__shard *shard, const void *options, stk_error *err);
void stk__tabled_close(stk__records *set);

/* Whether the folder of a URL has an index with these two words near its beginning: 2, else 0. */
int stk__tabled_recognise(stk_context *ctx, const char *url, const char *first, const char *second);
/* For parsers: the next column, the next shard; the texts are copied. */
stk_status stk__tabled_add_column(stk__tabled *t, const char *who, const char *name,
                                  const char *encoding, stk__tabled_column **out, stk_error *err);
stk_status stk__tabled_add_shard(stk__tabled *t, const char *who, const char *name, const char *zip,
                                 uint64_t records, uint64_t bytes, stk_error *err);
/* "WHO: index.json TEXT" */
stk_status stk__tabled_wrong(const char *who, const char *key, stk_error *err, const char *format,
                             ...) STK_PRINTF(4, 5);
/* A whole number of an object of JSON; false: it has none, or a negative one. */
bool stk__tabled_count(const json_t *object, const char *name, uint64_t *out);

/* ---- tabled_fields.c ---- */

/* For open(). */
stk_status stk__tabled_fields(stk__records *set, const void *options, stk_error *err);
void stk__tabled_describe(const stk__records *set,
                          void (*line)(void *user, const char *name, const char *value),
                          void *user);

/* ---- tabled_values.c ---- */

/* An array within a value. */
typedef struct stk__block {
    stk_dtype dtype;
    uint32_t rank;
    int64_t shape[STK_MAX_RANK];
    const unsigned char *data;
    uint64_t bytes;
} stk__block;

/* Types by the numbers that litdata writes; STK_DTYPE_NONE: none that is read. */
stk_dtype stk__litdata_torch_dtype(uint64_t number);
stk_dtype stk__litdata_numpy_dtype(uint64_t number);
/* The value of each column; false: *reason says why the record is none. */
bool stk__tabled_cut(const stk__tabled *t, const void *record, uint64_t length, stk_slice *values,
                     const char **reason);
/* The array of a value of a form that has one. */
bool stk__column_block(const stk__tabled_column *column, const stk_slice *value, stk__block *out,
                       const char **reason);
/* As stk_dataset_ops.prepare, and stk__record_format.bound. */
void stk__tabled_prepare(stk_dataset *dataset, stk_sample *samples, size_t n);
void stk__tabled_bound(const stk__records *set, const stk__record_part *parts, uint32_t n,
                       stk_locator *to, size_t i);

#endif
