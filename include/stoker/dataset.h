/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets: numbered samples with named fields, and where their bytes are. */
#ifndef STOKER_DATASET_H
#define STOKER_DATASET_H

#include <stoker/options.h>
#include <stoker/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_dataset stk_dataset;

/** FIXED: every sample has the shape; RAGGED: values of any number; BYTES: an encoded object
 * (uint8). */
typedef enum stk_layout { STK_FIXED = 0, STK_RAGGED, STK_BYTES } stk_layout;

/*
 * Fields and samples travel in arrays, whose entries are as far apart as the struct_size of the
 * first says: they are reached by stk_field_at() and stk_sample_at(), so that they can grow.
 */

/** One named part of a sample. `shape` is that of one sample, without the batch; -1 where it
 * varies. */
typedef struct stk_field {
    uint32_t struct_size;
    stk_dtype dtype;
    const char *name; /**< of any length; lives as long as what the field is of */
    stk_layout layout;
    uint32_t rank;
    int64_t shape[STK_MAX_RANK];
    char codec[16]; /**< of BYTES: "image" for JPEG or PNG, "" for others */
    bool picture;   /**< [height, width, channels]: transforms of pictures apply to it */
    bool mask;      /**< a picture of class numbers: moved as its picture, its values kept */
    bool text;      /**< of BYTES: UTF-8, as its source says */
} stk_field;

/** Entry `i` of an array of fields. */
static inline const stk_field *stk_field_at(const stk_field *fields, uint32_t i)
{
    return (const stk_field *)(const void *)((const char *)fields +
                                             (size_t)i * fields->struct_size);
}

/** Bytes of one sample of a FIXED field; 0 for the others. */
STK_API uint64_t stk_field_bytes(const stk_field *field);
/**
 * The value of a field as JSON, as Python reads and writes it: a number, `true`, NaN, a string of
 * bytes that are UTF-8; lists within lists of a field that has dimensions, of complex numbers and
 * of bytes that are no text.
 *
 * Writes at most `room` bytes with the end, cut where it does not fit, and returns the length of
 * all of it, as snprintf(). `data` are the `size` bytes of the value. Any thread.
 */
STK_API size_t stk_field_value_text(const stk_field *field, const void *data, uint64_t size,
                                    char *text, size_t room);

/** What a sample needs from storage. Samples that need the same range share it. */
typedef struct stk_need {
    uint32_t struct_size;
    uint32_t field;          /**< see in_place */
    uint64_t object;         /**< the dataset's number of the object */
    uint64_t offset, length; /**< range of bytes */
    /* Of a dataset that has decode(): */
    uint64_t decoded; /**< bytes that decode() makes of the range, which is not empty then; 0: it is
                         handed over as it is */
    uint64_t wanted;  /**< of them, so many from the first on are enough; 0: all */
    uint64_t at;      /**< see in_place */
    bool optional;    /**< an object that is proven not to be there (STK_ENOENT) is no failure:
                         prepare() gets a slice whose data is NULL */
    bool in_place;    /**< the decoded bytes are those of this sample's field `field` from byte `at`
                         on, and no other sample needs them: decode() may then write them there, and
                         prepare() finds its slice in that place */
    bool up_to;       /**< the object may end before: what there is of the range is read, and
                         `length` of the need that decode() gets says how much that is. Only with
                         `decoded` */
} stk_need;

/**
 * Where locate() puts its answers. For sample `i` of the call it adds each need in turn; the
 * samples come in order. `cost` is the work of preparing sample `i` in nanoseconds, roughly; 0: as
 * the others. `bytes` bounds the size of the value of a field that is RAGGED or BYTES. Statuses of
 * add() are to be passed on.
 *
 * `same` (NULL: it is not asked for) spares the needs of samples that need the same: true says that
 * sample `i`, to which nothing was added, needs just what sample `like` of the call does, an
 * earlier one that needs were added to, none of them in_place. False: its needs are to be added.
 *
 * `run` (NULL: it is not asked for) does so for `n` samples of the call from `i` on, to the first
 * of which needs were added, none of them in_place. It returns how many of them, 1 at least, are
 * prepared together then by prepare_rows(), whose `places` are NULL; the first of the others wants
 * its needs anew.
 *
 * `blocks` says that samples come in blocks or in order, and that there is memory for all that the
 * samples of the blocks at hand need: larger ranges that neighbours share are better than small
 * ones. `mixed` says besides that they come in another order than they are stored in.
 */
typedef struct stk_locator stk_locator;
struct stk_locator {
    uint32_t struct_size;
    stk_status (*add)(stk_locator *self, size_t i, const stk_need *need);
    void (*cost)(stk_locator *self, size_t i, double nanoseconds);
    void (*bytes)(stk_locator *self, size_t i, uint32_t field, uint64_t bytes);
    bool (*same)(stk_locator *self, size_t i, size_t like);
    bool blocks;
    bool mixed;
    size_t (*run)(stk_locator *self, size_t i, size_t n);
};

/** The value of one field of one sample. */
typedef struct stk_value {
    void *out;         /**< in: room for the value, 64 bytes aligned not promised */
    uint64_t capacity; /**< in: bytes of room */
    const void
        *data; /**< out: where the value is: `out`, or bytes of a need, or memory of the dataset */
    uint64_t size; /**< out: bytes of the value; preset to `capacity` of a FIXED field */
} stk_value;

/** One sample on its way through prepare(). */
typedef struct stk_sample {
    uint32_t struct_size;
    uint32_t value_size; /**< of an entry of `values` */
    uint64_t index;      /**< in the dataset */
    uint64_t position;   /**< in the order of the epoch */
    uint64_t epoch;
    const stk_slice *needs; /**< the bytes located, in the order they were added, decoded where the
                               need says so; readable 64 bytes beyond */
    stk_value *values;      /**< one for each field of the dataset: see stk_sample_value() */
    stk_status status;      /**< in: STK_OK; out: why this sample is bad */
    const char *reason;     /**< out: static text for the message; NULL: that of the status */
    void *worker;           /**< in: what worker_open() made for the thread; NULL: nothing */
    uint64_t line; /**< out: the line of the object that the first need is of, from 1, for messages;
                      preset to 0: it has none */
} stk_sample;

/** Sample `i` of those that prepare() is given. */
static inline stk_sample *stk_sample_at(stk_sample *samples, size_t i)
{
    return (stk_sample *)(void *)((char *)samples + i * samples->struct_size);
}

/** The value of field `i` of a sample. */
static inline stk_value *stk_sample_value(const stk_sample *sample, uint32_t i)
{
    return (stk_value *)(void *)((char *)sample->values + (size_t)i * sample->value_size);
}

/** Where the values of one field lie in the rows of a batch. */
typedef struct stk_rows_field {
    void *out;       /**< of row 0; no alignment promised beyond that of the type */
    uint64_t stride; /**< bytes from one row to the next */
} stk_rows_field;

/** Samples that need the same, on their way through prepare_rows(). */
typedef struct stk_rows {
    uint32_t struct_size;
    uint32_t num;
    const uint64_t *indices;      /**< of each: in the dataset */
    const stk_slice *needs;       /**< of all of them, as in stk_sample */
    const uint32_t *places;       /**< of each: its row of the batch; NULL: samples of a run, which
                                     are row `place` and those behind it */
    const stk_rows_field *fields; /**< one for each field of the dataset */
    stk_status *statuses;         /**< of each, in: STK_OK; out: why this sample is bad */
    const char **reasons; /**< of each, in: NULL; out: static text; NULL: that of the status */
    uint64_t *lines;      /**< of each, in: 0; out: as of a sample */
    void *worker;         /**< as of a sample */
    uint32_t place;       /**< where `places` is NULL */
} stk_rows;

/**
 * The seam between storage and training: index -> needs, bytes -> sample. Outsiders may write one.
 * `locate` and `prepare` take many samples at once. They and `object` run on any thread, several at
 * a time; they allocate nothing that the memory budget should know of and do not wait for storage.
 */
typedef struct stk_dataset_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* prefix of the spec: "mnist" */
    const char *doc;      /* one line for `stoker info` and --help */
    /* (optional) NULL: made by the program with stk_dataset_create() alone; open() calls it too.
     * `url` is the spec without its prefix and without the options that the tables of the dataset
     * took; a path below an archive or an image of a file system says so: "zip:x.zip!/a". */
    const stk_option_table *options;
    stk_status (*open)(stk_context *ctx, const char *url, const void *options, stk_dataset **out,
                       stk_error *err);
    /* (optional) How surely a path without a prefix is one of these: 0 no, 1 perhaps, 2 surely;
     * STK_ENOMEM: there was no memory to tell, and nothing is opened. Blocks. */
    int (*recognise)(stk_context *ctx, const char *url);
    /* Frees the state of a dataset; the dataset itself is the library's. */
    void (*close)(stk_dataset *dataset);
    /* (optional) NULL: samples need nothing from storage. */
    stk_status (*locate)(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err);
    /* (optional, with locate) Store and key of an object. Writes at most `size` bytes, returns the
     * key's length; one that does not fit is cut, and the length says so. */
    size_t (*object)(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                     size_t size);
    /* Give each field of each sample its value. A bad sample sets its `status` to a failure and the
     * others go on; an answer (STK_EOS, STK_EAGAIN) there, or from locate() or decode(), fails the
     * run with STK_EINVAL. May not call the loader that it works for. */
    void (*prepare)(stk_dataset *dataset, stk_sample *samples, size_t n);
    /* (optional) Print what it is, in lines of "name: value"; NULL: fields and sizes only. */
    stk_status (*describe)(stk_dataset *dataset,
                           void (*line)(void *user, const char *name, const char *value),
                           void *user, stk_error *err);
    /* (optional) NULL: no need says `decoded`. Decode the bytes of a need into `out`, which has
     * room for need->decoded bytes; the first need->wanted are enough. Called once for all samples
     * that share the range. `worker`: as of a sample. On failure *reason may be set to a static
     * text. Any thread, several at a time; does not wait for storage. */
    stk_status (*decode)(stk_dataset *dataset, const stk_need *need, const void *data, void *out,
                         void *worker, const char **reason);
    /* (optional) What a thread keeps between calls of prepare() and decode(), as the state of a
     * decoder: made for each thread that a loader has, and freed when the loader ends. Its memory
     * is part of `worker_bytes`. Callers without such threads give none. NULL: nothing is kept. */
    stk_status (*worker_open)(stk_dataset *dataset, void **worker);
    void (*worker_close)(stk_dataset *dataset, void *worker);
    /* (optional) What prepare() does, for samples that same() or run() was said of, where all
     * fields are FIXED and go to the batch as they are: write value `i` of a field to its row, and
     * nowhere else. Bytes, statuses and reasons are those of prepare(). NULL: they are prepared
     * like all others. */
    void (*prepare_rows)(stk_dataset *dataset, stk_rows *rows);
} stk_dataset_ops;

/** What a dataset is. */
typedef struct stk_dataset_info {
    uint32_t struct_size;
    uint32_t num_fields;
    const stk_field *fields; /**< see stk_field_at() */
    uint64_t size;           /**< samples */
    uint64_t fingerprint; /**< of what the samples are: the state of a loader is bound to it; 0: of
                             the name, the size and the fields */
    uint64_t
        block_size; /**< neighbouring samples stored together (shuffle: block); 0 and 1: none */
    double cost_ns; /**< usual work of preparing one sample, a guess; 0: unknown */
    uint64_t worker_bytes; /**< memory that one thread holds in decode() and prepare(), at most */
    uint64_t held_bytes;   /**< of samples kept in memory: of the loaders' budget */
    const char *const *classes; /**< names of the labels, or NULL */
    uint32_t num_classes;
    uint64_t decoded_bytes; /**< of all ranges that samples share, decoded; 0: unknown */
    bool null_masks; /**< nulls are told: by the field NAME_mask behind NAME, bool, where one may be
                        (`nulls=mask` of a table) */
} stk_dataset_info;

/**
 * Make a dataset of one's own. `state` is what its functions get from stk_dataset_self(); close()
 * frees it and nothing else. A kind's open() ends with this, and a program that has no kind calls
 * it in its place.
 *
 * Ownership: *out is the caller's, ended with stk_dataset_close(). `ops` and what `info` points to
 * are copied, but for the texts of `ops`. The dataset keeps the context alive. On failure `state`
 * is still the caller's, and close() is not called. Thread: any. Errors: STK_EINVAL (what is wrong
 * with `ops` or `info`), STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_dataset_create(stk_context *context,
                                                    const stk_dataset_ops *ops, void *state,
                                                    const stk_dataset_info *info, stk_dataset **out,
                                                    stk_error *err);
/** The `state` that stk_dataset_create() was given. Any thread. */
STK_API void *stk_dataset_self(const stk_dataset *dataset);
/** What a dataset is; what `out` points to lives as long as the dataset. Any thread. */
STK_API void stk_dataset_get_info(const stk_dataset *dataset, stk_dataset_info *out);

/**
 * Open a dataset from its spec: `digits:`, `mnist:DIR`, `npy:FILE?labels=FILE`, ... or a plain PATH
 * where what is there is unambiguous. Options follow a '?', as `name=value&name=value`: those of
 * the dataset, of every dataset
 * (the table "dataset") and of the store. Blocks.
 * Ownership: *out is the caller's, ended with stk_dataset_close(). Errors name the thing, the
 * value, the remedy.
 */
STK_API STK_NODISCARD stk_status stk_dataset_open(stk_context *context, const char *spec,
                                                  stk_dataset **out, stk_error *err);
/** The same for who shows samples or keeps them in another form: a table whose spec does not say
 * what becomes of nulls tells them (`null_masks` of stk_dataset_info). */
STK_API STK_NODISCARD stk_status stk_dataset_open_with_nulls(stk_context *context, const char *spec,
                                                             stk_dataset **out, stk_error *err);
/** The field that says which values of field `i` are there: false is null. -1: all are. */
STK_API int64_t stk_dataset_null_mask(const stk_dataset *dataset, uint32_t i);
/** Close and set *dataset to NULL. Accepts NULL. No loader may still use it, unless
 * there is another share. */
STK_API void stk_dataset_close(stk_dataset **dataset);
/** Another share of a dataset, as for several views of one: it ends with the last that is closed.
 * Any thread. */
STK_API stk_dataset *stk_dataset_ref(stk_dataset *dataset);

/** The samples `first` <= index < `end`; the new dataset takes over `*dataset` on success. */
STK_API STK_NODISCARD stk_status stk_dataset_range(stk_dataset **dataset, uint64_t first,
                                                   uint64_t end, stk_error *err);
/** The samples of an index list, in its order, copied. */
STK_API STK_NODISCARD stk_status stk_dataset_subset(stk_dataset **dataset, const uint64_t *indices,
                                                    uint64_t n, stk_error *err);
/** Part `part` of a seeded random split into `fractions` (they sum to 1 at most); no list is
 * stored. */
STK_API STK_NODISCARD stk_status stk_dataset_random_split(stk_dataset **dataset,
                                                          const double *fractions,
                                                          uint32_t num_fractions, uint32_t part,
                                                          uint64_t seed, stk_error *err);

/** Print what a dataset is, one "name: value" at a time. Blocks. */
STK_API STK_NODISCARD stk_status stk_dataset_describe(stk_dataset *dataset,
                                                      void (*line)(void *user, const char *name,
                                                                   const char *value),
                                                      void *user, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
