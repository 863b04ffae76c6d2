/* columns of files -> samples of rows */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table is rows of columns, in files one behind the other. A file keeps its columns in pieces,
 * ranges of bytes that hold the values of one column or more for a run of rows. A format says which
 * columns there are and where the pieces lie, and decodes a piece into vectors; the rest is here:
 * which files, which columns, which rows, what becomes of nulls, and the fields of a sample.
 *
 * A dataset of a format: its `stk_dataset_ops` has open() that calls stk__table_open(), and the
 * other functions are those below.
 */
#ifndef STK_SRC_DATASET_TABLE_TABLE_H
#define STK_SRC_DATASET_TABLE_TABLE_H

#include "dataset/dataset.h"
#include "store/store.h"

#define STK__TABLE_MAX_COLUMNS 4096u
#define STK__TABLE_MAX_FILES   (UINT64_C(1) << 20)
#define STK__TABLE_NO_PIECE    UINT32_MAX
#define STK__TABLE_HOLES       254

/* ---- Columns ---- */

typedef enum stk__table_kind {
    STK__COLUMN_VALUES, /* `width` values in each row */
    STK__COLUMN_LIST,   /* any number of values in a row */
    STK__COLUMN_BYTES,  /* a string of bytes in a row */
    STK__COLUMN_REFUSED /* it cannot be a field, as `note` says: "a list of lists" */
} stk__table_kind;

typedef struct stk__table_column {
    const char *name; /* "image.bytes" of what a struct holds; copied when it is added */
    stk__table_kind kind;
    stk_dtype dtype; /* of a value; of BYTES STK_UINT8 */
    uint32_t rank;   /* of LIST: each row is a tensor of this shape; 0: of any length. Of VALUES
                        that are a list: its values have this shape; 0: none */
    int64_t shape[STK_MAX_RANK];
    uint32_t width; /* of VALUES: 1, and there is no such dimension; more of a list of one length */
    bool list;      /* of VALUES: they are a list, also where width is 1 */
    bool text;      /* of BYTES: they are UTF-8 */
    bool nullable, holes; /* a row may be null; of a list a value within */
    const char *note; /* what is said of its type: "timestamp[us, UTC]", "decimal(9, 2)"; or NULL */
} stk__table_column;

/* Columns that lie in an array of structs, `apart` bytes from each other. */
typedef struct stk__table_columns {
    stk__table_column *first;
    uint32_t count;
    size_t apart;
} stk__table_columns;

#define STK__TABLE_FIELDS "stoker.fields" /* the key of what convert writes of shapes */

/* Give columns that are lists the shapes that convert wrote, as JSON; what is damaged says nothing.
 * STK_ENOMEM. (shapes.c) */
stk_status stk__table_shapes(stk_context *ctx, const char *fields, size_t length,
                             const stk__table_columns *columns, stk_error *err);

/* ---- What a piece decodes to ---- */

/*
 * The vector of one column. A piece decodes to a vector for each of its columns, one behind the
 * other from the first byte on, and then what they point to: places are bytes from the first vector
 * on, and of a multiple of 8. Nothing that a vector says leaves the decoded bytes: the format
 * looks.
 */
typedef struct stk__table_vector {
    uint64_t rows;
    uint64_t values; /* of VALUES rows * width of them; of LIST and BYTES those of all rows */
    union {
        uint64_t offsets; /* of LIST and BYTES: uint32_t [rows + 1], counted in values; the first is
                             0, none is less than the one before */
        uint64_t apart; /* the core's, of VALUES: bytes from a row to the next; 0: rows are close */
    };
    uint64_t nulls; /* uint8_t [rows], 1: null (its value is zero, its list empty); 2 and more: the
                       row has no value of the type (zero and empty as well), for the reason
                       reasons[n - 2]; HOLES: a list with nulls, which are zero; 0: no row is */
    uint32_t codes : 1;  /* 1: values are uint32_t, numbers of rows of the piece's dictionary, whose
                        vector has the column's values (never codes), each below its rows; a null
                        has the code 0, whatever the dictionary holds. Of LIST each value of a list
                        is one, a null NO_PIECE, and rows of the dictionary are without offsets */
    uint32_t piece : 31; /* the core's, of the first vector: the piece's number */
    uint32_t lines; /* uint32_t [rows], numbers of their lines in the file, from 1, UINT32_MAX of
                       all beyond; 0: rows are no lines */
} stk__table_vector;

/* ---- Pieces ---- */

typedef struct stk__table_piece {
    uint64_t offset, length;  /* in its file; not empty */
    uint64_t decoded;         /* bytes of its vectors and what they point to, at most; < 4 GiB */
    uint64_t first_row;       /* in its file */
    uint32_t rows;            /* of a dictionary: its entries */
    uint32_t column, columns; /* the first, in the order in which the file added them; how many */
    uint32_t dictionary;      /* the piece that its codes are of, of the same file; or NO_PIECE */
    uint32_t whole;           /* the core's: the piece that has it as a part; or NO_PIECE */
    uint32_t longest;         /* bytes of a value of LIST or BYTES in it, at most; 0: not known,
                                         and room is taken for `decoded` of each sample */
    uint32_t kind;            /* the core's: of rows, a dictionary, a whole, a sheet */
    uint64_t own[2];          /* the format's: encoding, codec, levels, ... */
} stk__table_piece;

/* A bound of a column's values in a piece, for filters. */
typedef struct stk__table_bound {
    bool is_float;
    int64_t integer;
    double real;
} stk__table_bound;

/* ---- For scan(): one file ---- */

typedef struct stk__table_file stk__table_file;

const char *stk__table_file_key(const stk__table_file *file);
uint64_t stk__table_file_size(const stk__table_file *file);
stk_context *stk__table_file_context(const stk__table_file *file);
/* Exactly these bytes, which have to lie within the file (else STK_ETRUNCATED). Blocks. */
stk_status stk__table_file_read(stk__table_file *file, uint64_t offset, void *out, size_t size,
                                stk_error *err);
/* The next column of the schema; *wanted: its pieces are asked for. Columns come before pieces. */
stk_status stk__table_file_column(stk__table_file *file, const stk__table_column *column,
                                  bool *wanted, stk_error *err);
/* The column of a name as the first file with columns has it, whose scan ends before that of others
 * begins; false: this is that file, or it has none. For types that are learnt. */
bool stk__table_file_known(const stk__table_file *file, const char *name, stk__table_column *out);
/* Rows of the file. One without rows and columns is passed over. */
stk_status stk__table_file_rows(stk__table_file *file, uint64_t rows, stk_error *err);
/* The next piece, *number of it. The pieces of a column come in the order of its rows and hold each
 * row once; no two of a file, dictionaries among them, begin at one byte. Pieces that are
 * dictionaries alone are added by the other function, before those whose codes are of them; a piece
 * with a dictionary is of one column. */
stk_status stk__table_file_piece(stk__table_file *file, const stk__table_piece *piece,
                                 uint32_t *number, stk_error *err);
stk_status stk__table_file_dictionary(stk__table_file *file, const stk__table_piece *piece,
                                      uint32_t *number, stk_error *err);
/* (optional) Where samples come in blocks, one piece in place of several: of one column of VALUES,
 * with the rows of the `count` pieces from `first` on, and the dictionary that their codes are of.
 * It may begin where one of them does. */
stk_status stk__table_file_whole(stk__table_file *file, const stk__table_piece *piece,
                                 uint32_t first, uint32_t count, stk_error *err);
/* (optional) No value of piece `number` that is not null lies outside. */
stk_status stk__table_file_bounds(stk__table_file *file, uint32_t number,
                                  const stk__table_bound *least, const stk__table_bound *most,
                                  stk_error *err);
/* (optional) Rows from here on are stored apart from those before: a row group, a record batch. */
stk_status stk__table_file_group(stk__table_file *file, uint64_t first_row, stk_error *err);
/* (optional) Mix what the rows are into the fingerprint; else it is of schema, rows and size. */
void stk__table_file_print(stk__table_file *file, const void *data, size_t length);
/* An error at a byte of the file, which is named; `format` names row group, column and page. */
stk_status stk__table_file_fail(const stk__table_file *file, stk_status status, uint64_t offset,
                                stk_error *err, const char *format, ...) STK_PRINTF(5, 6);

/* ---- A format ---- */

typedef struct stk__table stk__table;

typedef struct stk__table_format {
    const stk_dataset_ops *ops;  /* its name is that of the spec */
    const char *const *suffixes; /* of files in a folder: {".parquet", ".parq", NULL} */
    /* Say what a file holds. Several files at a time, on several threads; each sees the options. */
    stk_status (*scan)(stk__table_file *file, const void *options, stk_error *err);
    /* Decode the bytes of a piece into `out`, which has room for piece->decoded. Whatever the
     * bytes, what it makes keeps to what stk__table_vector says. `column`: the piece's first
     * column, and the others behind it; one that was not asked for is REFUSED there, and its
     * vector all zeros. `data` is readable STK_TAIL bytes beyond its end. Any thread, several at a
     * time. `worker`: what worker_open() made, or NULL. On failure *reason may be set to a static
     * text. */
    stk_status (*decode)(const stk__table *table, const stk__table_column *column,
                         const stk__table_piece *piece, const void *data, void *out, void *worker,
                         const char **reason);
    /* (optional) What the file calls the groups of rows that scan() told, and the pieces of a
     * column in them, for errors: "row group", "page". */
    const char *group, *piece;
    /* (optional) Why a row has no value, of nulls from 2 on: "is no number of its type". */
    const char *const *reasons;
    uint32_t num_reasons;
    /* (optional) What a thread keeps between calls of decode(), of `worker_bytes` at most.
     * A format with these has stk__table_worker_open() and ..._close() among its ops. */
    stk_status (*worker_open)(const stk__table *table, void **worker);
    void (*worker_close)(const stk__table *table, void *worker);
    /* (optional) Lines on a file for the description: row groups, encodings, codecs. Blocks. */
    stk_status (*describe)(const stk__table *table,
                           void (*line)(void *user, const char *name, const char *value),
                           void *user, stk_error *err);
} stk__table_format;

/* The first member of the options of each format; their rows of the table. */
typedef struct stk__table_options {
    uint32_t struct_size;
    int32_t nulls;          /* stk__table_nulls */
    const char *columns;    /* names with commas; NULL: all that can be fields */
    const char *where;      /* "split == 'train' and length > 10"; NULL: all rows */
    const char *categories; /* "color,size:small|large": texts that are numbers; NULL: none */
} stk__table_options;

typedef enum stk__table_nulls {
    STK__NULLS_FAIL, /* the sample is bad */
    STK__NULLS_ZERO, /* zero, an empty text, an empty list */
    STK__NULLS_MASK, /* the same, and the field NAME_mask says 0 */
    STK__NULLS_DROP  /* the row is left out */
} stk__table_nulls;

#define STK__TABLE_OPTIONS                                                                         \
    {.name = "columns",                                                                            \
     .type = STK_OPTION_STRING,                                                                    \
     .offset = offsetof(stk__table_options, columns),                                              \
     .metavar = "COLUMN,...",                                                                      \
     .doc = "Columns that are read, as label,image.bytes; image is all of image.*, `a,b` one "     \
            "with a comma. Else all that can be fields."},                                         \
        {.name = "where",                                                                          \
         .type = STK_OPTION_STRING,                                                                \
         .offset = offsetof(stk__table_options, where),                                            \
         .metavar = "EXPRESSION",                                                                  \
         .doc = "Only rows for which it is true: columns compared by == != < <= > >= or in (...) " \
                "with numbers and 'texts', is null, and, or, not, parentheses."},                  \
        {.name = "categories",                                                                     \
         .type = STK_OPTION_STRING,                                                                \
         .offset = offsetof(stk__table_options, categories),                                       \
         .metavar = "COLUMN[:NAME|...],...",                                                       \
         .doc = "Columns of text that become numbers of names, int64: the names given, or all "    \
                "texts of the column in the order of their bytes."},                               \
    {                                                                                              \
        .name = "nulls", .type = STK_OPTION_ENUM, .offset = offsetof(stk__table_options, nulls),   \
        .initial = "fail", .choices = "fail|zero|mask|drop",                                       \
        .doc = "What becomes of rows without a value: the sample is bad; zero or an empty text; "  \
               "the same with a field NAME_mask that is 0 there; the row is left out."             \
    }

stk_status stk__table_open(stk_context *ctx, const char *url, const stk__table_format *format,
                           const void *options, stk_dataset **out, stk_error *err);
void stk__table_close(stk_dataset *dataset);
/* The column of field `f` of a dataset of a table. NULL: `f` is a mask, or this is no table but a
 * view of one. */
const stk__table_column *stk__table_field_column(const stk_dataset *dataset, uint32_t f);
stk_status stk__table_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                             stk_locator *to, stk_error *err);
size_t stk__table_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                         size_t size);
stk_status stk__table_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                             void *out, void *worker, const char **reason);
stk_status stk__table_worker_open(stk_dataset *dataset, void **worker);
void stk__table_worker_close(stk_dataset *dataset, void *worker);
void stk__table_prepare(stk_dataset *dataset, stk_sample *samples, size_t n);
void stk__table_prepare_rows(stk_dataset *dataset, stk_rows *rows);
stk_status stk__table_describe(stk_dataset *dataset,
                               void (*line)(void *user, const char *name, const char *value),
                               void *user, stk_error *err);

#endif
