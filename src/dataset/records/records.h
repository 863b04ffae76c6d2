/* shards -> an index of records; bytes of a record -> fields */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard is an object that holds records one after the other; a record is one part or more, each a
 * range of its shard. A format scans a shard once and says where the parts lie; from then on every
 * record is read by ranges, in any order.
 *
 * A dataset of a format: its `stk_dataset_ops` has open() that calls stk__records_open(), and
 * close, locate, object and describe are those below; prepare() is the format's own.
 */
#ifndef STK_SRC_DATASET_RECORDS_RECORDS_H
#define STK_SRC_DATASET_RECORDS_RECORDS_H

#include "dataset/dataset.h"
#include "dataset/listing.h"
#include "store/store.h"

#define STK__RECORDS_MAX_SHARDS (UINT64_C(1) << 20)
#define STK__RECORDS_MAX_PARTS  (UINT64_C(1) << 32) /* of all shards together */
#define STK__RECORDS_MAX_KINDS  256u
#define STK__RECORDS_MAX_KIND   255u /* bytes of the name of a kind */
#define STK__RECORDS_MAX_OFFSET ((UINT64_C(1) << 56) - 1)

typedef struct stk__record_part { /* 16 bytes */
    uint64_t kind : 8, offset : 56;
    uint64_t length;
} stk__record_part;

/* ---- For scan(): one shard, read through a window (shard.c) ---- */

typedef struct stk__shard stk__shard;

const char *stk__shard_key(const stk__shard *shard);
uint64_t stk__shard_size(const stk__shard *shard);
/* Its number in the dataset, and the state that the format's list() may have made. */
uint64_t stk__shard_number(const stk__shard *shard);
void *stk__shard_state(const stk__shard *shard);
stk_context *stk__shard_context(const stk__shard *shard);
/* The store that it lies in, under its key. */
stk_store *stk__shard_store(const stk__shard *shard);
/*
 * `size` bytes from `offset` on, which have to lie within the shard (else STK_ETRUNCATED, naming
 * it). Near forward reads come from one window, far ones skip. Blocks.
 */
stk_status stk__shard_read(stk__shard *shard, uint64_t offset, void *out, size_t size,
                           stk_error *err);
/* The next record begins; the one before it has a part at least. */
stk_status stk__shard_record(stk__shard *shard, stk_error *err);
/* A part of it; `kind` names it ("jpg", "cls"; "" where records have one part). A record has one of
 * each kind at most: STK_EFORMAT. */
stk_status stk__shard_part(stk__shard *shard, const char *kind, uint64_t offset, uint64_t length,
                           stk_error *err);
/* Mix what tells the record from others, as its key, into the fingerprint, with the record's place;
 * it does not matter how the records are cut into shards. */
void stk__shard_print(stk__shard *shard, const void *data, size_t length);
/* An error at a byte of the shard: names shard, record and offset. */
stk_status stk__shard_fail(const stk__shard *shard, stk_status status, uint64_t offset,
                           stk_error *err, const char *format, ...) STK_PRINTF(5, 6);

/* The print of a shard whose first record is number `first` of the dataset: those of all shards add
 * up to that of the records in their order. (shard.c) */
uint64_t stk__shard_print_at(uint64_t print, uint64_t first);

/* ---- A format ---- */

typedef struct stk__records stk__records;

/* The first member of the options of each format; their rows of the table. */
typedef struct stk__records_options {
    uint32_t struct_size;
    const char *index;
} stk__records_options;

#define STK__RECORDS_OPTION_INDEX                                                                  \
    {                                                                                              \
        .name = "index", .type = STK_OPTION_STRING,                                                \
        .offset = offsetof(stk__records_options, index), .initial = "auto",                        \
        .metavar = "auto|none|FILE",                                                               \
        .doc = "Where it is kept at which byte the records lie, so that opening the shards again " \
               "takes no time: auto is a file beside local shards, and the folder of a cache "     \
               "(cache+URL); none reads the shards' headers each time. With another one than "     \
               "none, SHARD.idx of DALI is read in place of a shard's headers."                    \
    }

typedef struct stk__record_format {
    const stk_dataset_ops *ops; /* its name is that of the spec and of the index */
    const char *suffix;         /* of shards in a folder: ".tar" */
    /* (optional) Whether a file of a folder is a shard. NULL: it ends with the suffix. */
    bool (*is_shard)(const char *name, size_t length);
    uint32_t version; /* of what scan() says; another one makes kept indexes old. From 1 on */
    /* (optional) Say what the shards are, by stk__records_add_store() and _add_shard(); it may set
     * set->state. NULL: stk__records_list(), of the spec. `url` as of open(). */
    stk_status (*list)(stk__records *set, const char *url, const void *options, stk_error *err);
    /* Walk a shard from its first byte to its last. Several shards at a time, on several threads.
     */
    stk_status (*scan)(stk__shard *shard, const void *options, stk_error *err);
    /* Learn fields (set->base.fields, num_fields) and the schema from the kinds and the first
     * records, which stk__records_load() reads; and set->field_of. */
    stk_status (*open)(stk__records *set, const void *options, stk_error *err);
    /* (optional) Free set->state, which may be NULL. */
    void (*close)(stk__records *set);
    /* (optional) Bound the values of sample `i` of a call of locate(), by to->bytes() of fields
     * that are RAGGED or BYTES. NULL: the field of each part has its length at most. */
    void (*bound)(const stk__records *set, const stk__record_part *parts, uint32_t n,
                  stk_locator *to, size_t i);
    /* (optional) More lines of the description. */
    void (*describe)(const stk__records *set,
                     void (*line)(void *user, const char *name, const char *value), void *user);
} stk__record_format;

/* ---- The table of a dataset ---- */

/* A shard, and what it was when it was scanned. */
typedef struct stk__records_shard {
    uint64_t key;   /* where it begins in `text` */
    uint32_t store; /* in `stores` */
    uint64_t size;  /* bytes */
    uint64_t identity;
    int64_t mtime_ns;
    int64_t scanned_ns; /* Unix time when the scan began */
    uint64_t print;     /* see stk__shard_print() */
    uint64_t first_record, records;
    uint64_t first_part, parts;
} stk__records_shard;

typedef stk__listed_place stk__records_store;

typedef struct stk__records_table {
    stk_context *context;
    char *text; /* keys of the shards, each ended by a zero */
    size_t text_bytes, text_room;
    stk__records_shard *shards;
    size_t num_shards, shards_room;
    char *kinds[STK__RECORDS_MAX_KINDS];
    uint32_t num_kinds;
    uint32_t *starts; /* number of the first part of each record, and of all parts at the end */
    uint64_t num_records;
    stk__record_part *parts;
    uint64_t num_parts;
} stk__records_table;

#define STK__RECORDS_NO_FIELD (-1) /* read, and no field's own */
#define STK__RECORDS_UNREAD   (-2) /* parts of the kind are not read */

typedef enum stk__records_index_use {
    STK__RECORDS_INDEX_NONE,    /* not asked for, or there is no place for it */
    STK__RECORDS_INDEX_USED,    /* no shard has changed since it was written */
    STK__RECORDS_INDEX_WRITTEN, /* shards were scanned */
    STK__RECORDS_INDEX_REFUSED  /* shards were scanned and the index could not be written */
} stk__records_index_use;

struct stk__records {
    stk_dataset base;
    const stk__record_format *format;
    stk__records_store *stores;
    size_t num_stores, stores_room;
    stk__records_table table;
    int field_of[STK__RECORDS_MAX_KINDS]; /* of each kind: its field, or one of the above */
    uint64_t bytes_of[STK__RECORDS_MAX_KINDS], parts_of[STK__RECORDS_MAX_KINDS];
    stk__records_index_use index_use;
    uint64_t scanned;                     /* shards that were read when it was opened */
    bool of_folder;                       /* the spec is one folder */
    struct stk__records_watched *watched; /* of each shard; NULL: stores see for themselves */
    void *state;                          /* the format's own */
};

/* Open a dataset of a format: the shards, their table, the fields. `options` begin with
 * stk__records_options. Blocks. */
stk_status stk__records_open(stk_context *ctx, const char *url, const stk__record_format *format,
                             const void *options, stk_dataset **out, stk_error *err);
void stk__records_close(stk_dataset *dataset);
/* One need for each part that is read, in the order of scan(). */
stk_status stk__records_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                               stk_locator *to, stk_error *err);
size_t stk__records_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                           size_t size);
stk_status stk__records_describe(stk_dataset *dataset,
                                 void (*line)(void *user, const char *name, const char *value),
                                 void *user, stk_error *err);

/* The parts of a record, *n of them. needs[k] of a sample is the k-th of those whose kind is read.
 */
const stk__record_part *stk__records_parts(const stk__records *set, uint64_t record, uint32_t *n);
/* The shard that a record lies in. */
uint64_t stk__records_shard_of(const stk__records *set, uint64_t record);
const char *stk__records_shard_key(const stk__records *set, uint64_t shard);
/* The number of a kind; -1: none has that name. */
int stk__records_kind(const stk__records *set, const char *name);
/* One part's bytes in new memory, with STK_TAIL bytes beyond, for open(). Blocks. */
stk_status stk__records_load(stk__records *set, uint64_t record, uint32_t part, void **data,
                             uint64_t *length, stk_error *err);
/* An error of a record, for open(): names the shard, the record and its first byte. */
stk_status stk__records_fail(const stk__records *set, stk_status status, uint64_t record,
                             stk_error *err, const char *format, ...) STK_PRINTF(5, 6);

/* ---- For list() (list.c) ---- */

/* The shards of a spec: braces, lists, a folder. */
stk_status stk__records_list(stk__records *set, const char *url, stk_error *err);
/* Open the store of a folder, or find it among those that are open. */
stk_status stk__records_add_store(stk__records *set, const char *folder, uint32_t *store,
                                  stk_error *err);
/* The next shard. */
stk_status stk__records_add_shard(stk__records *set, uint32_t store, const char *key,
                                  stk_error *err);

/* ---- Scanning (scan.c) ---- */

/* Look at all shards, take from `known` (may be NULL) those that are as they were, scan the others,
 * and fill the table. Blocks. */
stk_status stk__records_scan(stk__records *set, const void *options,
                             const stk__records_table *known, stk_error *err);
void stk__records_table_release(stk__records_table *table);

/* ---- Index (index.c: bytes; index_file.c: files) ---- */

/* Bytes of an index that are the table's, in new memory. `of` is the name of the format and its
 * version. */
stk_status stk__records_index_make(const stk__records_table *table, uint64_t of, void **data,
                                   uint64_t *length);
/* The table of an index. Whatever the bytes, it is sound: parts lie within their shards, counts and
 * keys are such as scanning gives. STK_EFORMAT, STK_ECHECKSUM, STK_ELIMIT, STK_ENOMEM. */
stk_status stk__records_index_parse(stk_context *ctx, const void *data, uint64_t length,
                                    uint64_t of, stk__records_table *out);
/* A hash of a format and of what its scan says. */
uint64_t stk__records_index_of(const stk__record_format *format);
/* Scan, with an index where there is a place for it. Blocks. */
stk_status stk__records_index(stk__records *set, const char *url, const void *options,
                              stk_error *err);

/* ---- Shards that change (watch.c) ---- */

/* Have the stores hold their reads to the shards as they were scanned. */
stk_status stk__records_watch(stk__records *set, stk_error *err);
/* STK_ECHANGED for a shard that is another one now; local ones are looked at now and then. */
stk_status stk__records_unchanged(const stk__records *set, uint64_t shard, stk_error *err);

#endif
