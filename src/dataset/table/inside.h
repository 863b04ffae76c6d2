/* what the parts of a table of files share */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c is the dataset: opening, needs, samples; describe.c tells of it. scan.c lists and scans
 * the files by several threads; file.c is one file while it is scanned, and what is kept of it;
 * fields.c makes fields of columns; load.c reads columns while the dataset is opened; categories.c
 * learns names of texts; keys.c makes columns of the names of folders.
 */
#ifndef STK_SRC_DATASET_TABLE_INSIDE_H
#define STK_SRC_DATASET_TABLE_INSIDE_H

#include "dataset/listing.h"
#include "dataset/names.h"
#include "dataset/table/table.h"
#include "dataset/watched.h"
#include "dataset/widen.h"

#define STK__TABLE_NONE UINT32_MAX

/* Kinds of pieces. */
enum { STK__PIECE_ROWS, STK__PIECE_DICTIONARY, STK__PIECE_WHOLE, STK__PIECE_SHEET };

/*
 * How a file lays out its columns. Columns that lie in the same pieces make a chain: the list of
 * these pieces in the order of rows. Files that are alike share a layout.
 */
typedef struct stk__table_layout {
    stk__table_column *columns; /* in the order of the file; those not asked for are REFUSED */
    char *text;                 /* their names and notes */
    size_t text_bytes, text_room, columns_room;
    uint32_t num_columns, num_chains;
    uint32_t *chain_of; /* of each column; STK__TABLE_NONE: it is not asked for */
    /* Set when the fields are known. Column `reads[k]` of the table is column_of[k] here, and the
     * need slot_of[k] of a sample; slots are chains, chain_at[s]. */
    uint32_t *column_of, *slot_of, *chain_at;
    uint32_t *by_slot; /* the columns that are read, slot by slot */
    uint32_t num_slots;
} stk__table_layout;

typedef struct stk__table_limits { /* bounds of a piece */
    uint32_t piece;
    stk__table_bound least, most;
} stk__table_limits;

/* What is kept of a file. */
typedef struct stk__table_kept {
    uint64_t key; /* where it begins in `text` */
    uint32_t store;
    uint64_t size, identity;
    int64_t mtime_ns;
    uint64_t first_row, rows, print, groups;
    uint64_t *group_rows; /* where each group begins */
    size_t group_room;
    bool printed;
    stk__table_layout *layout;
    bool owns_layout;
    stk__table_piece *pieces;
    size_t num_pieces, pieces_room, num_wholes, num_sheets;
    uint32_t *chains;    /* where the pieces of each chain begin in `places`, and the end of all */
    uint32_t *places;    /* pieces, chain by chain; NULL: there is one chain, of all pieces */
    uint32_t *by_offset; /* NULL: they are in the order of their offsets */
    stk__table_limits *limits;
    size_t num_limits, limits_room;
} stk__table_kept;

/* A column of the table, and what becomes of it. */
typedef struct stk__table_read {
    stk__table_column
        column;      /* as the first file has it; nullable where one of the files says so */
    int field, mask; /* -1: none */
    stk__dataset_widen_fn *widen; /* of a label; NULL: values are taken as they are */
    stk__names *names;            /* of a column of categories: a value is the number of its name */
    const char *null_reason;      /* of a bad sample */
    const char **value_reasons;   /* one for each of the format's reasons */
    const char *name_reason;      /* of a text that is none of the names */
    const char *holes_reason;     /* of a list with nulls */
    uint64_t bytes;               /* of a value of a FIXED field */
} stk__table_read;

/* A column of the names of folders: NAME=VALUE. */
typedef struct stk__table_key {
    stk__table_column column; /* int64, or text */
    uint32_t at;              /* in key_names */
    int field, mask;          /* -1: none */
    const char *null_reason;  /* of a bad sample */
    bool *met; /* [num_met], of key_values: it is a value of some file, also of one left out */
    uint32_t num_met;
    stk__names *names;       /* of categories: the field is the number of the name */
    int64_t *numbers;        /* of each value; -1: it is none of the names */
    const char *name_reason; /* of a text that is none of them */
} stk__table_key;

/* Why a piece cannot be decoded, with its place. */
typedef struct stk__table_saying {
    const stk__table_piece *piece;
    const char *why;
    char *text;
} stk__table_saying;
/* Rows of all files at which some piece of those that are read begins. */
typedef struct stk__table_cuts {
    uint64_t *rows;
    size_t num;
} stk__table_cuts;

struct stk__table {
    stk_dataset base;
    const stk__table_format *format;
    stk__listed_stores stores;
    char *text; /* keys of the files, each ended by a zero */
    size_t text_bytes, text_room;
    stk__table_kept *files;
    size_t num_files, files_room;
    stk__watched_file *watched;
    char **wanted;                  /* names of columns that are asked for; none: all */
    uint32_t num_wanted, num_named; /* those of fields come first, then those of where */
    stk__table_read *reads;         /* columns that are read */
    uint32_t num_reads;
    stk_field *fields;
    char *names;       /* of fields, and reasons */
    uint64_t num_rows; /* of all files */
    int32_t nulls;
    bool has_lengths;                 /* some field is of no fixed size */
    bool has_sheets;                  /* of some file: see sheets.c */
    uint64_t scratch;                 /* bytes that a thread takes to decode a sheet */
    stk__table_cuts cuts, block_cuts; /* the second of wholes; empty: there are none */
    const char *categories;           /* the option, while it is opened */
    stk__table_key *keys;
    uint32_t num_keys;
    stk__names key_names, key_values;
    uint32_t *file_keys;  /* [file][key_names]: numbers of values; STK__TABLE_NONE: null */
    int64_t *key_numbers; /* of each value */
    size_t files_passed;  /* that where left out before they were opened */
    size_t learnt_from;   /* the file that others have their types of, while they are scanned */
    char *left;           /* a text on columns that are no fields, or NULL */
    uint64_t *rows;       /* those that are taken; NULL: all */
    uint64_t num_taken, num_passed; /* pieces that bounds kept from being read */
    pthread_mutex_t said_lock;      /* guards the next */
    stk__table_saying *said;
    uint32_t num_said;
    size_t said_room;
};

/* One file while it is scanned. */
struct stk__table_file {
    stk__table *table;
    uint64_t number;
    stk__table_kept *kept;
    const char *key;
    stk_store *store;
    uint64_t next_group;
};

static inline const char *stk__table_name(const stk__table *t)
{
    return t->format->ops->name;
}

stk_status stk__table_no_memory(const stk__table *t, stk_error *err);

/* ---- scan.c ---- */

/* The files of a spec. Blocks. */
stk_status stk__table_list(stk__table *t, const char *url, stk_error *err);
/* Scan them: layouts, pieces, rows. Blocks. */
stk_status stk__table_scan(stk__table *t, const void *options, stk_error *err);

/* ---- file.c ---- */

/* After scan(): every column that is asked for has each row once; chains are made. */
stk_status stk__table_file_finish(stk__table_file *file, stk_error *err);
/* Whether a name that was asked for means a column: "image" is "image.bytes", too. */
bool stk__table_names(const char *wanted, const char *name);
void stk__table_kept_release(stk_context *ctx, stk__table_kept *kept);
/* The piece of a chain that has a row of the file. */
uint32_t stk__table_piece_at(const stk__table_kept *kept, uint32_t chain, uint64_t row);
/* The piece that begins at a byte, of so many; NULL: none. */
const stk__table_piece *stk__table_piece_of(const stk__table_kept *kept, uint64_t offset,
                                            uint64_t length);
/* Pieces were added: find by_offset anew. */
stk_status stk__table_sort_pieces(const stk__table *t, stk__table_kept *kept, stk_error *err);
/* Whether two layouts are the same in all but where they are kept. */
bool stk__table_layout_same(const stk__table_layout *a, const stk__table_layout *b);

/* ---- fields.c ---- */

/* Whether a column is asked for, and not for where alone. */
bool stk__table_is_field(const stk__table *t, const stk__table_column *column);
/* The number of a column of a layout; STK__TABLE_NONE: it has none of that name. */
uint32_t stk__table_column_by_name(const stk__table_layout *l, const char *name);
/* Refuse a name of `option` that no column has, with those that there are: STK_EINVAL. */
stk_status stk__table_no_column(const stk__table *t, const char *option, const char *name,
                                stk_error *err);
/* Choose columns, match them over the files, make fields. Blocks: it looks at values. */
stk_status stk__table_fields(stk__table *t, stk_error *err);

/* ---- keys.c ---- */

/* The columns of the names of folders; the files are listed. */
stk_status stk__table_keys_find(stk__table *t, stk_error *err);
/* Leave out files in none of whose rows `where` (may be NULL) holds, and, of nulls=drop, those
 * without a value. *decided: in the others it holds in every row. STK_EINVAL: no file is left. */
struct stk__where;
stk_status stk__table_keys_prune(stk__table *t, const struct stk__where *where, bool *decided,
                                 stk_error *err);
/* Put a file with its values in the place of one before it, which is left out. */
void stk__table_keys_move(stk__table *t, size_t from, size_t to);
/* The column of a name, or NULL. */
const stk__table_key *stk__table_key_by_name(const stk__table *t, const char *name);
/* Its value in all rows of a file; NULL: there is none. */
const void *stk__table_key_value(const stk__table *t, const stk__table_key *key, size_t file,
                                 uint64_t *size);
/* What its field has in all rows of a file: the value, or the number of its name. NULL: *status
 * STK_OK, nothing stands there; else the samples are bad. */
const void *stk__table_key_cell(const stk__table *t, const stk__table_key *key, size_t file,
                                uint64_t *size, stk_status *status, const char **reason);
/* `names` are known: give each value its number. */
stk_status stk__table_key_number(stk__table *t, stk__table_key *key, stk_error *err);
uint64_t stk__table_keys_print(const stk__table *t, uint64_t print);
void stk__table_keys_release(stk__table *t);

/* ---- categories.c ---- */

/* Columns that are numbers of names, as the option says; columns are matched. Blocks: names that
 * are not given are learnt. */
stk_status stk__table_categories(stk__table *t, const char *text, stk_error *err);

/* ---- rows.c ---- */

/* Take the rows where `where` (may be NULL) holds and, of nulls=drop, which have no null. Sets
 * t->rows. Blocks: it reads the columns that it asks. */
stk_status stk__table_choose_rows(stk__table *t, const struct stk__where *where, stk_error *err);

#endif
