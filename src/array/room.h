/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the array room share. */
#ifndef STK_SRC_ARRAY_ROOM_H
#define STK_SRC_ARRAY_ROOM_H

#include "array/array.h"
#include "array/type.h"

#define STK__ARRAY_MAX_LEVELS 4 /* shards in shards, and the chunks in them */
#define STK__ARRAY_CODECS     256
#define STK__ARRAY_IDLE       16 /* codec states kept from read to read */
#define STK__ARRAY_FORMAT     64 /* bytes of what a format is called */
/* A store is far whose requests are worth so many bytes that are read in vain. */
#define STK__ARRAY_FAR_GAP (UINT64_C(1) << 16)

/* ---- The grid ---- */

/* One level of chunks: shards, shards in them, and the chunks that are decoded. */
typedef struct stk__level {
    int64_t shape[STK_ARRAY_MAX_RANK]; /* of one, in the array's dimensions */
    int64_t count[STK_ARRAY_MAX_RANK]; /* that hold elements of the array */
    uint64_t total;                    /* product of `count` */
    int64_t *edges; /* where chunks begin along dimension `uneven`, and the end; NULL: every
                       `shape` elements. A chunk that is longer than what belongs to it is cut. */
    uint32_t uneven;
    /* Of shards: */
    int64_t inner[STK_ARRAY_MAX_RANK]; /* chunks of the next level in one */
    uint32_t axes[STK_ARRAY_MAX_RANK]; /* axes[i]: the array's dimension that is the index's i */
    uint64_t inner_total;              /* product of `inner` */
    stk__chain *index_chain;           /* encoded <-> inner_total pairs of uint64 */
    uint64_t index_bytes;              /* encoded */
    bool index_at_start;
} stk__level;

/* Where objects lie. */
typedef enum stk__manifest {
    STK__MANIFEST_KEYS,   /* one object for each outermost chunk, its key made by a rule */
    STK__MANIFEST_ONE,    /* all chunks one after the other in one object, as they are */
    STK__MANIFEST_PLACES, /* the format says object, offset and length of each chunk */
    STK__MANIFEST_READ    /* each chunk is an object of a store that the format's read() is
                             (chunk_store.c) */
} stk__manifest;

typedef struct stk__shared_store {
    stk_store *store;
    atomic_uint refs;
} stk__shared_store;

/* Share a store, which is taken over, also on failure. (build.c) */
stk_status stk__shared_create(stk_store **store, stk__shared_store **out, stk_error *err);
stk__shared_store *stk__shared_ref(stk__shared_store *shared);
void stk__shared_unref(stk__shared_store *shared);

typedef struct stk__index_cache stk__index_cache;

typedef struct stk__reading stk__reading;

typedef struct stk__own_options stk__own_options;

/* Chains without codecs that some chunks were written without. (skipping.c) */
typedef struct stk__skipping stk__skipping;

struct stk_array {
    stk_context *context;
    stk__shared_store *shared;
    stk_array_options options;
    stk_array_info info;
    char *prefix; /* of all keys: "" or "a/b/" */
    char *rest;   /* the way on below the object that was opened; NULL: none */
    char *metadata_key;
    char format[STK__ARRAY_FORMAT];
    const stk_array_format_ops *ops; /* that opened it, and its state */
    void *state;
    bool owns_state; /* close() of the format is called */

    stk__type type;
    uint32_t rank;
    int64_t shape[STK_ARRAY_MAX_RANK];
    uint64_t bytes;
    unsigned char *fill; /* itemsize bytes; zeros where none is defined */
    char *fill_text;     /* of elements of varying length: what `fill` points at */
    bool fill_defined;
    bool fill_is_zero;
    stk__json attributes;  /* object, or none */
    char *attributes_text; /* JSON */
    char **names;          /* `rank`, each may be NULL; NULL: none */
    char codecs[STK__ARRAY_CODECS];
    char order;

    stk__level levels[STK__ARRAY_MAX_LEVELS];
    uint32_t num_levels; /* the last is that of the chunks */
    /* How elements lie in a decoded chunk: strides in bytes for the array's dimensions. */
    int64_t chunk_strides[STK_ARRAY_MAX_RANK];
    uint64_t chunk_bytes;
    uint64_t decode_bytes; /* of a chunk and all that lies between its codecs */
    stk__chain *chain;
    stk__skipping *skipping; /* of located chunks with codecs; has a lock of its own */
    /* Of PLACES: for each object the array whose chain decodes its chunks, the first elements of a
     * chunk of this one; one without a chain has lent it. NULL: `chain` decodes all. */
    stk_array *const *parts;

    stk__manifest manifest;
    char separator;         /* of KEYS */
    bool key_c;             /* of KEYS: "c/" in front */
    char *object_key;       /* of all but KEYS: what was opened; "" a folder */
    uint64_t object_offset; /* of ONE: of the first chunk */
    uint64_t object_size;   /* of ONE */
    bool fortran;           /* of ONE: the first dimension runs fastest */
    bool as_is;           /* of ONE, and of PLACES without codecs: elements are as the type says */
    char **objects;       /* of PLACES: their keys; NULL: object_key alone */
    uint64_t num_objects; /* of PLACES */
    struct stk__array_watch *watch; /* of ONE and PLACES (watch.h); NULL: none */
    stk__shared_store *home;        /* of READ: where it was opened; NULL: `shared` */

    stk__index_cache *indexes;               /* has a lock of its own */
    pthread_mutex_t mutex;                   /* guards the rest */
    stk__reading *readings;                  /* in progress */
    stk__codec_state *idle[STK__ARRAY_IDLE]; /* codec states that no read uses */
    uint32_t num_idle;
    uint64_t idle_bytes; /* that they hold; at most `memory` of the options */
};

/* Where a chunk begins along a dimension; of the count: the end, or beyond it. */
static inline int64_t stk__level_begin(const stk__level *level, uint32_t d, int64_t chunk)
{
    int64_t begin;

    if (level->edges && d == level->uneven)
        return level->edges[STK_MIN(chunk, level->count[d])];
    return __builtin_mul_overflow(chunk, level->shape[d], &begin) ? INT64_MAX : begin;
}
/* The chunk that holds an element, or the count where that lies beyond. (build.c) */
int64_t stk__level_of(const stk__level *level, uint32_t d, int64_t element);

/* ---- Building an array (build.c) ---- */

/* Compute one level's counts. Errors: STK_EFORMAT (a chunk of 0), STK_ELIMIT. */
stk_status stk__level_init(const stk_array *a, stk__level *level, const char *key, stk_error *err);
/* After type, shape and levels are set: sizes, strides and the info. */
stk_status stk__array_finish(stk_array *a, stk_error *err);
/* Set a dimension's name, copied. */
stk_status stk__array_name(stk_array *a, uint32_t dimension, const char *name, stk_error *err);
stk_status stk__array_no_memory(const stk_array *a, stk_error *err);

/* What an array is called among formats: "zarr v3". */
void stk__array_set_format(stk_array *a, const char *format);

/* ---- Formats ---- */

/* The format that is surest to know what lies there, and how sure it is; 0 and NULL: none. (open.c)
 */
int stk__array_best_format(stk_store *store, const char *key, const stk_array_format_ops **out);
/* Open what lies under `key` by a format that was chosen; `a` has context, store and options.
 * (format.c) */
stk_status stk__array_open_with(stk_array *a, const stk_array_format_ops *ops,
                                const stk_array_opening *opening, stk_error *err);
/* The same in a store that is shared, by the format that recognises it where `format` is NULL.
 * `own`: options of formats that the URL had. (open.c) */
stk_status stk__array_open_key(stk__shared_store *shared, const stk_array_opening *opening,
                               const stk_array_format_ops *format, const stk__own_options *own,
                               stk_array **out, stk_error *err);
/* Forget the texts of its options, which are the caller's. (open.c) */
void stk__array_drop_texts(stk_array *a);
/* Call locate() of its format; STK_ENOENT: the chunk is absent. (format.c) */
stk_status stk__array_locate(const stk_array *a, uint64_t chunk, stk_array_place *out,
                             stk_error *err);
/* Make `a` read its chunks by read() of its format. (chunk_store.c) */
stk_status stk__array_read_by_format(stk_array *a, stk_error *err);
/* Chunks whose elements are as the type says, in order C or F. (format.c) */
stk_status stk__array_plain_chain(stk_array *a, bool fortran, stk_error *err);
/* What a chain of the array's innermost chunks is made of, but for its codecs. (zarr.c) */
void stk__array_chain_spec(const stk_array *a, stk__chain_spec *spec);
/* The store in which it was opened. */
stk_store *stk__array_home(const stk_array *a);

/*
 * Options of formats in the query of a URL. While the format is not known each table takes its own;
 * once it is, those that no table or only those of others know are refused. (format_options.c)
 */
/* Take them out of `url`. `ops` NULL: those of every format. */
stk_status stk__own_options_take(stk_context *ctx, char *url, const stk_array_format_ops *ops,
                                 stk__own_options **out, stk_error *err);
/* Those of a format, complete; NULL: it has no table. */
stk_status stk__own_options_get(const stk__own_options *own, const stk_array_format_ops *ops,
                                const void **out, stk_error *err);
void stk__own_options_free(stk_context *ctx, stk__own_options **own);

/* The format that the options name; NULL: it is found by content. (open.c) */
stk_status stk__array_named(const stk_context *ctx, const stk_array_options *options,
                            const stk_array_format_ops **out, stk_error *err);

/* An array without its metadata; closed by stk_array_close(). `prefix` is taken over by copy. */
stk_status stk__array_create(stk_context *ctx, stk__shared_store *shared, const char *prefix,
                             const stk_array_options *options, stk_array **out, stk_error *err);
/* Options as they are used; NULL: the defaults. */
stk_status stk__array_settle(stk_context *ctx, const stk_array_options *options,
                             stk_array_options *out, stk_error *err);

/* Uncompressed data in one object, object_key, from `offset` on. */
stk_status stk__array_one_object(stk_array *a, uint64_t offset, bool fortran, stk_error *err);

/* The coordinates and the number of the outermost chunk that a key below the array names; false: it
 * is none of the grid. The reverse of stk__array_key(). (decode.c) */
bool stk__array_key_parse(const stk_array *a, const char *key, int64_t *at, uint64_t *number);

/* ---- Copying (copy.c) ---- */

/* Copy `bytes` that are one run in both memories. */
typedef void stk__copy_row_fn(void *to, const void *from, size_t bytes);
stk__copy_row_fn stk__copy_row_avx2;
/* After the last of them: what they stored comes before what this thread stores from here on. */
void stk__copy_fence(void);
/* stk__array_copy(); `large`: into a destination that no cache holds. */
void stk__array_copy_large(const stk_array *a, const stk__box *box, const stk__need *need,
                           const void *decoded, void *out, const int64_t *strides, bool large);

/* ---- Writing ---- */

/* The reverse of stk__array_copy(): what lies in the box goes to its place in a whole chunk. */
void stk__array_gather(const stk_array *a, const stk__box *box, const stk__need *need,
                       const void *data, const int64_t *strides, void *chunk);
/* Write JSON under a key. (put_json.c) */
stk_status stk__array_put_json(stk_store *store, const char *key, const json_t *value,
                               stk_error *err);

/* ---- Codec states ---- */

stk_status stk__state_take(stk_array *a, stk__codec_state **out, stk_error *err);
void stk__state_give(stk_array *a, stk__codec_state *state);

#endif
