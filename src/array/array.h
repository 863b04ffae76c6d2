/* metadata -> chunk grid, manifest, chain; box -> values */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_ARRAY_H
#define STK_SRC_ARRAY_ARRAY_H

#include <stoker/array.h>
#include <stoker/chunks.h>

#include "base/base.h"
#include "base/calendar.h"
#include "codec/codec.h"
#include "store/store.h"

/*
 * What the window dataset and the loader take from an array. The way of a box:
 *
 *   walk   box -> needs: which bytes of which object, or an index to be given first, or fill value
 *   read   the caller's: the planner and the store's asynchronous reads
 *   decode bytes of a need -> its chunk, or straight into the destination
 *   copy   the part of the chunk that lies in the box -> its place in the destination
 */

#define STK__ARRAY_UNKNOWN  UINT64_MAX /* a length that only the store knows: stat() the object */
#define STK__ARRAY_FROM_END UINT64_MAX /* an offset: the last `length` bytes of the object */

/* Formats, found by content or by name. */
extern const stk_array_format_ops stk__array_zarr, stk__array_npy, stk__array_raw, stk__array_hdf5,
    stk__array_libhdf5, stk__array_netcdf3, stk__array_kerchunk;
/* Whether an outsider's table of a format is whole. (format.c) */
stk_status stk__array_kind_check(const void *table, stk_error *err);

extern const stk_option_table stk__array_option_table;

/* The format that the end of a name tells and that is not read here; NULL: none. */
const char *stk__array_foreign(const char *url);

/* ---- Boxes ---- */

typedef struct stk__box {
    int64_t start[STK_ARRAY_MAX_RANK];
    int64_t shape[STK_ARRAY_MAX_RANK]; /* at least 0 */
    int64_t step[STK_ARRAY_MAX_RANK];  /* at least 1 */
} stk__box;

/* Check a public box against the array and fill in its defaults. Errors: STK_EINVAL. */
stk_status stk__array_box(const stk_array *array, const stk_array_box *box, stk__box *out,
                          stk_error *err);

/* ---- Needs (walk.c) ---- */

typedef enum stk__need_kind {
    STK__NEED_BYTES, /* a chunk: read [offset, offset + length) of the object, decode */
    STK__NEED_FILL,  /* a chunk that is known to be absent: fill value, or an error */
    STK__NEED_INDEX  /* a shard: its index comes first, see stk__array_give_index() */
} stk__need_kind;

typedef struct stk__need {
    stk__need_kind kind;
    uint32_t level;       /* of INDEX: 0 the outermost shards */
    uint64_t chunk;       /* number in the grid of chunks; of INDEX: in the grid of its level */
    uint64_t object;      /* number of the object: stk__array_key() */
    uint64_t offset;      /* STK__ARRAY_FROM_END of an index at the end of an object */
    uint64_t length;      /* STK__ARRAY_UNKNOWN: the whole object */
    uint64_t skip;        /* bytes of the decoded chunk in front of those that are read: chunks that
                             are stored as they are, are read in part */
    uint64_t decode_size; /* bytes of what decoding gives; of INDEX: that it takes in memory */
    uint32_t skipped;     /* codecs that the chunk was written without: see stk_array_place */
    uint64_t begin, end;  /* of INDEX: where the shard lies in the object; `end`
                             STK__ARRAY_UNKNOWN: where that ends */
} stk__need;

typedef struct stk__walk stk__walk;

/*
 * Begin to walk over the chunks that hold elements of `box`, object by object. `whole`: chunks are
 * wanted whole, to be kept. The walk remembers where it is: any number of needs is taken at a time.
 */
stk_status stk__walk_create(stk_array *array, const stk__box *box, bool whole, stk__walk **out);
void stk__walk_destroy(stk__walk **walk);
/*
 * The next need. STK_EOS: there is none. After an INDEX the walk is there: once the index has
 * been given it goes on inside the shard; called before, it gives the same need again;
 * stk__walk_pass() leaves the shard out. Errors: a shard index that does not fit its object.
 */
stk_status stk__walk_next(stk__walk *walk, stk__need *need, stk_error *err);
void stk__walk_pass(stk__walk *walk);
/* A walk of its own for the shard that the walk is at. */
stk_status stk__walk_split(const stk__walk *walk, stk__walk **out);

/*
 * Give the bytes of an INDEX need, checked and kept in the array's cache; `walk` (may be NULL),
 * at that place, keeps it as long as it needs it. `object_size`: bytes of the object, or
 * STK__ARRAY_UNKNOWN. A shard that is proven to be absent has `data` NULL. Errors: STK_ECHECKSUM,
 * STK_EFORMAT (entries outside the shard or overlapping), STK_ENOMEM.
 */
stk_status stk__array_give_index(stk_array *array, stk__walk *walk, const stk__need *need,
                                 const void *data, uint64_t object_size, stk__codec_state *state,
                                 stk_error *err);
/* Read all indexes that a box needs and that are not in the cache. Blocks, up to `deadline_ns`. */
stk_status stk__array_load_indexes(stk_array *array, const stk__box *box, uint64_t deadline_ns,
                                   stk_error *err);

/* The store, and the key of an object. Returns its length, as snprintf(). */
stk_store *stk__array_store(const stk_array *array);
size_t stk__array_key(const stk_array *array, uint64_t object, char *key, size_t size);
/* Whether the format says where each chunk lies; else the number of its object follows from its
 * place in the grid, or there is one object. */
bool stk__array_is_located(const stk_array *array);
/* Whether a chunk that the store has proven not to have (STK_ENOENT) becomes fill value. */
bool stk__array_fills(const stk_array *array);

/* ---- Decoding and copying (decode.c, copy.c) ---- */

/*
 * Decode the bytes of a need. `out` has need->decode_size bytes. STK_OK or a failure in `err` with
 * object and offset.
 */
stk_status stk__array_decode(const stk_array *array, stk__codec_state *state, const stk__need *need,
                             const void *data, uint64_t length, void *out, stk_error *err);
/* Whether chunks have chains of their own: then that of the array does not decode them all. */
bool stk__array_has_parts(const stk_array *array);
/* Byte of a destination of these strides from which on the decoded need lies as it is, one run of
 * need->decode_size bytes; -1: it has to be decoded elsewhere and copied. */
int64_t stk__array_place(const stk_array *array, const stk__box *box, const stk__need *need,
                         const int64_t *strides);
/* Whether chunks are stored as they are, but for the order of bytes; and whether that is the order
 * in memory, too: then what is read is what it decodes to. */
bool stk__array_is_copy(const stk_array *array);
bool stk__array_is_plain(const stk_array *array);
/* Whether the elements follow each other in C order in one object, plain, from byte *offset on. */
bool stk__array_is_run(const stk_array *array, uint64_t *offset);
/* Copy what lies in the box from a decoded need; `decoded` NULL: the fill value. */
void stk__array_copy(const stk_array *array, const stk__box *box, const stk__need *need,
                     const void *decoded, void *out, const int64_t *strides);
/* Copy a box from one memory to another; strides in bytes. */
void stk__copy_strided(uint32_t rank, uint64_t itemsize, const int64_t *count, const void *from,
                       const int64_t *from_strides, void *to, const int64_t *to_strides);
/* The chain of the chunks: what a decode costs, its scratch memory. */
const stk__chain *stk__array_chain(const stk_array *array);
/*
 * The shape of pieces of a run of elements in C order: trailing dimensions whole while they fit,
 * the one before them in part, 1 of the others. So a dimension is cut only where those before it
 * are 1, and pieces follow each other, the last ones short. (build.c)
 */
void stk__array_pieces(uint32_t rank, const int64_t *shape, uint64_t itemsize, int64_t *piece);
/* The chunks along a dimension: how many, which one holds an element, where one begins. All are of
 * the chunk's shape but the last, and those at the end of a file that was joined to others. */
int64_t stk__array_chunk_count(const stk_array *array, uint32_t dimension);
int64_t stk__array_chunk_of(const stk_array *array, uint32_t dimension, int64_t element);
int64_t stk__array_chunk_begin(const stk_array *array, uint32_t dimension, int64_t chunk);
/* STK_ECHANGED, with what it was and what it is, of an object that is another one than when the
 * array was opened. Each is looked at now and then, and between two looks it passes; `now`: it is
 * looked at in any case. One that nobody can ask for passes. Any thread; may wait for storage.
 * (watch.c) */
stk_status stk__array_unchanged(const stk_array *array, uint64_t object, bool now, stk_error *err);
/* More bytes than encoders make of a chunk, to ask for one of unknown length; 0: ask for that. */
uint64_t stk__array_most_encoded(const stk_array *array);
/* Strides of C order. */
void stk__array_strides(uint32_t rank, const int64_t *shape, uint64_t itemsize, int64_t *strides);
/* STK__ARRAY_UNKNOWN never: asks the store where it has to. For the length of a need. */
stk_status stk__array_object_size(const stk_array *array, uint64_t object, uint64_t *size,
                                  stk_error *err);

/* ---- Objects of a written array, for who puts them by other means (writer.c) ---- */

/* What stk_array_writer_create() makes, but that nothing is put: it has no store, and keys below
 * "". Ended by stk_array_writer_abandon(). */
stk_status stk__array_writer_plan(stk_context *ctx, const stk_array_writer_options *options,
                                  stk_array_writer **out, stk_error *err);
/* The array as it will be read, without a store: for its keys and grid. */
const stk_array *stk__array_writer_array(const stk_array_writer *writer);
/* The array that such a writer describes, to read what is there already where it is written: at
 * `url`. What is absent is fill value. Closed before the writer ends. */
stk_status stk__array_writer_open(const stk_array_writer *writer, const char *url, stk_array **out,
                                  stk_error *err);
/* The zarr.json, or the .zarray, and then *zattrs is the .zattrs. They stay the writer's. */
const struct json_t *stk__array_writer_metadata(const stk_array_writer *writer,
                                                const struct json_t **zattrs);

/* What a thread encodes objects with. */
typedef struct stk__encoder stk__encoder;
stk_status stk__encoder_create(const stk_array_writer *writer, stk__encoder **out, stk_error *err);
void stk__encoder_destroy(stk__encoder **encoder);
/* Bytes that it takes at most, stk__encoder_check() and its scratch memory included. */
uint64_t stk__encoder_memory(const stk_array_writer *writer);
/* Encode the object that begins at `start`; *bytes are the encoder's until the next call. *length
 * 0: it is all fill value, and absent. */
stk_status stk__encoder_run(stk__encoder *encoder, const int64_t *start, const int64_t *shape,
                            const void *data, const int64_t *strides, const void **bytes,
                            uint64_t *length, stk_error *err);
/* Decode what was encoded last, not absent, and compare it with what it was made of. */
stk_status stk__encoder_check(stk__encoder *encoder, const int64_t *start, const int64_t *shape,
                              const void *data, const int64_t *strides, stk_error *err);

/* Whether options name no format, so that it is found by content. */
bool stk__array_by_content(const stk_array_options *options);

/* The number that an attribute is; `otherwise`: it is none. (open.c) */
double stk__array_number_or(const stk_array *array, const char *name, double otherwise);

/* The element that the attribute `_FillValue` means, into `out` of the array's itemsize; of a
 * number alone. False: there is none, or it is something else. (value.c) */
bool stk__array_fill_attribute(const stk_array *array, void *out);
/* The attribute of version 3 by which xarray knows an element: base64 of a double for floats. A new
 * reference; NULL: no memory, or no number. (value.c) */
struct json_t *stk__fill_attribute_json(stk_context *ctx, stk_dtype dtype, const void *element);

/* The value that stands for "missing" among real numbers, as the elements have it: the attribute
 * `_FillValue` (a number, or base64 as xarray writes it) or `missing_value`. False: there is none,
 * or it is NaN, which is no value anyway. */
bool stk__array_missing(const stk_array *array, double *out);

/* Open a group as stk_group_open() does; `along`: of the files that the URL names, joined along
 * this dimension. NULL: as the URL says. (group.c) */
stk_status stk__group_open_along(stk_context *ctx, const char *url, const char *along,
                                 stk_group **out, stk_error *err);

/* The name of the dimension along which an array of several files is joined; NULL: it is of one, or
 * the dimension has no name. (concat.c) */
const char *stk__array_along(const stk_array *array);

/* ---- Coordinates (coordinate.c) ---- */

#define STK__COORDINATE_NONE INT64_MIN /* a key: no value, NaN, NaT, or a time beyond all dates */

/* What the elements of an array mean: numbers with scale and offset, or times, by `units` and
 * `calendar` as CF has them or by datetime64. */
typedef struct stk__coordinate {
    bool is_time;
    /* Of times: an element is origin + element * up / down, in microseconds. */
    stk__calendar calendar;
    int64_t origin, up, down;
    int64_t months; /* of datetime64 in years and months: in `up` of them; else 0 */
    double scale, offset, missing;
    bool has_missing;
} stk__coordinate;

/* Errors: STK_EKIND: the elements are neither, or units and calendar cannot be read. */
stk_status stk__coordinate_init(const stk_array *array, stk__coordinate *out, stk_error *err);
/* Elements as keys that compare as the values do: instants of times, else the bits of doubles, in
 * order. */
void stk__coordinate_keys(const stk__coordinate *coordinate, const stk_array *array,
                          const void *values, size_t count, int64_t *keys);
/* The key of a number that is looked for among the elements, rounded as they are. */
int64_t stk__coordinate_asked(const stk__coordinate *coordinate, const stk_array *array, double x);

#endif
