/* an object that holds files -> keys and ranges: what zip and SquashFS have in common */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_CONTAINER_H
#define STK_SRC_STORE_CONTAINER_H

#include "base/url.h"
#include "codec/codec.h"
#include "store/store.h"

/*
 * A container is an object of any store. Its store is a driver whose open() is one call of
 * stk__container_open() with a format, and whose other members are those of STK__CONTAINER_OPS;
 * its name stands in STK__CONTAINERS of base/url.h, so that its URLs are taken apart as
 * NAME:URL!/PATH.
 *
 * A format reads its tables once, when the object is opened for the first time in a context, and
 * adds every file and folder by its path. From then on nothing of it changes but what settle()
 * learns, so that any number of threads ask it without a lock. It neither reads nor caches: the
 * common part reads runs of bytes, as many at once as lie together, and unpacks them.
 */

/* Bytes of a file that come of one run of bytes of the object. */
typedef struct stk__container_run {
    uint64_t at, stored;   /* where they lie, and how many; stored 0, and not raw: zeros */
    uint64_t decoded;      /* bytes that they become (raw: == stored) */
    uint64_t skip, length; /* which of these are the file's, from the offset asked for on; >= 1 */
    bool raw;              /* stored as they are: any range of them can be read alone */
    bool has_sum;
    uint32_t sum; /* CRC-32 of the decoded bytes */
    /* Not 0: the run is not known before settle() has seen the first `lead` bytes at `at`, behind
     * which it lies at no great distance; `stored`, `decoded` and `raw` are right already. */
    uint32_t lead;
} stk__container_run;

typedef enum stk__contained {
    STK__CONTAINED_FILE,
    STK__CONTAINED_FOLDER,
    STK__CONTAINED_OTHER /* links, devices: never followed, not listed, and named by stat() */
} stk__contained;

/* A path of a container: 32 bytes and the path. */
typedef struct stk__container_entry {
    uint64_t length;       /* bytes of a file */
    uint64_t payload;      /* of the format: which file it is */
    int64_t mtime_ns;      /* 0: unknown */
    uint64_t name : 48;    /* where its path begins among the names */
    stk__contained is : 8; /* what it is */
} stk__container_entry;

typedef struct stk__container_format stk__container_format;

#define STK__CONTAINER_PART 4 /* of memory_limit that tables and paths of one may take */

/* An object that was opened: its paths and the tables of its format. */
typedef struct stk__container {
    stk_context *context;
    const stk__container_format *format;
    void *tables; /* of the format */
    uint64_t size, identity;
    int64_t mtime_ns;
    stk__container_entry *entries; /* by path, in the order of bytes */
    size_t count, room;
    char *names; /* paths, each with its end */
    size_t names_length, names_room;
    uint64_t held;        /* bytes of tables and paths, within their part of memory_limit */
    atomic_uint *checked; /* a bit for each entry: the sum of a whole read was found right */
    /* While it is being opened: where it lies. */
    stk_store *store;
    const char *key;
    /* Of container_kept.c, under the lock of the context's slot. */
    struct stk__container *next;
    size_t refs;
    uint64_t used; /* when it was used last */
    char url[];    /* of the object */
} stk__container;

struct stk__container_format {
    const char *name; /* also that of the store: "zip" */
    const char *word; /* of an object in messages: "zip archive" */
    /* Read the tables of `c->store`, `c->key`, of `c->size` bytes, into *tables, and add every path
     * by stk__container_add(). On failure *tables is what close() is to be called with. */
    stk_status (*open)(stk__container *c, void **tables, stk_error *err);
    void (*close)(stk__container *c, void *tables); /* NULL tables: nothing was made */
    /* The run that byte `offset` of a file lies in. Pure. Any thread. Only damage of the tables
     * makes it fail. */
    stk_status (*extent)(const stk__container *c, const void *tables, uint64_t payload,
                         uint64_t size, uint64_t offset, stk__container_run *out);
    /* Look at the `lead` bytes of an extent, and remember where its run is: extent() has no lead
     * for it from now on. Any thread, perhaps several for one file. NULL: no extent has a lead. */
    stk_status (*settle)(const stk__container *c, void *tables, const stk__container_entry *file,
                         const void *lead, const char **reason);
    /* The stored bytes of an extent that is not raw -> exactly e->decoded bytes. Any thread, each
     * with a state of its own. */
    stk_status (*decode)(const stk__container *c, const void *tables, stk__codec_state *state,
                         const stk__container_run *e, const void *stored, void *out,
                         const char **reason);
    /* Whether an object of `size` bytes is one, by some of its bytes. */
    stk_status (*recognise)(stk_store *store, const char *key, uint64_t size, bool *is);
};

/* ---- For formats ---- */

/* For recognise(): a range of an object; *got: it could be read. STK_ENOMEM. */
stk_status stk__container_peek(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                               void *data, bool *got);

/* Read a range of the object while it is opened; one that lies beyond its end is STK_ETRUNCATED. */
stk_status stk__container_read(stk__container *c, uint64_t offset, uint64_t length, void *data,
                               stk_error *err);
/* Count bytes that stay as long as the container; STK_ELIMIT beyond their part of memory_limit. */
stk_status stk__container_hold(stk__container *c, uint64_t count, uint64_t size, stk_error *err);
/*
 * Add a path of `length` bytes, without '/' at its end; the empty one is the root. Refused by name:
 * one that is empty between two '/', "." or "..", absolute, or that holds a zero byte; one
 * of more than STK_MAX_OBJECT_KEY - 1 bytes. Duplicates, and files that have paths below them, are
 * found when all are there.
 */
stk_status stk__container_add(stk__container *c, const char *path, size_t length,
                              const stk__container_entry *entry, stk_error *err);
/* "the zip archive 'x.zip' ..." with the offset of what is wrong in it; NULL err: the status alone.
 */
stk_status stk__container_fail(const stk__container *c, stk_error *err, stk_status status,
                               uint64_t offset, const char *format, ...) STK_PRINTF(5, 6);
const char *stk__container_path(const stk__container *c, const stk__container_entry *entry);

/* ---- Paths (container_index.c) ---- */

/* Sort what was added and refuse what cannot be. */
stk_status stk__container_finish(stk__container *c, stk_error *err);
/* The entry of a path; NULL: there is none. A folder that only paths below it tell of has none. */
const stk__container_entry *stk__container_find(const stk__container *c, const char *key);
/* First entry whose path is not before `path`. */
size_t stk__container_place(const stk__container *c, const char *path);
bool stk__container_is_folder(const stk__container *c, const char *key);
/* Whether the bytes of a whole file that is stored as it is have the sum of its run; found right
 * once it is not computed again. Any thread. */
bool stk__container_sum_right(const stk__container *c, const stk__container_entry *file,
                              const stk__container_run *run, const void *data);

/* ---- Opened objects of a context (container_kept.c) ---- */

/*
 * The tables of an object: those that this context has read already where it is the same object
 * still, else read now. `store` and `key` are used during the call only.
 */
stk_status stk__container_take(stk_context *ctx, const stk__container_format *format,
                               const char *url, stk_store *store, const char *key,
                               stk__container **out, stk_error *err);
/* Those used last stay for who opens the object next. Accepts NULL. */
void stk__container_give(stk__container *c);

/* ---- The store (container.c) ---- */

/* Options that all containers have; a driver has a table of its own over them. */
typedef struct stk__container_options {
    uint32_t struct_size;
    uint64_t unpacked_cache;
} stk__container_options;

#define STK__CONTAINER_OPTIONS(table_name, table_doc)                                              \
    {                                                                                              \
        .name = (table_name), .doc = (table_doc), .struct_size = sizeof(stk__container_options),   \
        .options = stk__container_option_list, .count = STK__CONTAINER_OPTION_COUNT                \
    }
#define STK__CONTAINER_OPTION_COUNT 1
extern const stk_option stk__container_option_list[STK__CONTAINER_OPTION_COUNT];

/* `ops` is the driver's own table. */
stk_status stk__container_open(const stk__container_format *format, const stk_store_ops *ops,
                               stk_context *ctx, const char *url, const void *options,
                               stk_store **out, stk_error *err);
void stk__container_close(stk_store *store);
stk_status stk__container_submit(stk_store *store, stk_read *read);
void stk__container_cancel(stk_store *store, stk_read *read);
stk_status stk__container_stat(stk_store *store, const char *key, const stk_store_call *call,
                               stk_object_info *out, stk_error *err);
stk_status stk__container_list(stk_store *store, const char *prefix, const stk_store_call *call,
                               stk_list_fn *each, void *user, stk_error *err);
stk_status stk__container_map(stk_store *store, const char *key, const void **data, uint64_t *size);
void stk__container_limits(stk_store *store, stk_store_limits *out);
stk_status stk__container_read_now(stk_store *store, const char *key, uint64_t offset,
                                   uint64_t length, void *data);

stk_status stk__container_describe(stk_store *store, const char *key,
                                   void (*line)(void *user, const char *name, const char *value),
                                   void *user, stk_error *err);

/* What the table of a driver has beside name, doc, options and open. */
#define STK__CONTAINER_OPS                                                                         \
    .struct_size = sizeof(stk_store_ops), .close = stk__container_close,                           \
    .submit = stk__container_submit, .cancel = stk__container_cancel, .stat = stk__container_stat, \
    .list = stk__container_list, .map = stk__container_map, .limits = stk__container_limits,       \
    .read_now = stk__container_read_now, .describe = stk__container_describe

/* ---- Recognising (container_enter.c) ---- */

#define STK__CONTAINER_FORMAT(name) extern const stk__container_format stk__##name##_format;
STK__CONTAINERS(STK__CONTAINER_FORMAT)

#endif
