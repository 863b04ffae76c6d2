/* box of an array -> sample */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_WINDOW_H
#define STK_SRC_DATASET_WINDOW_H

#include "array/array.h"
#include "dataset/dataset.h"
#include "dataset/widen.h"

/*
 * A sample is a window: a box of one or more arrays (variables) over common dimensions. Windows are
 * numbered block by block, so that neighbours in number lie in the same chunks. Where the bytes of
 * each chunk lie is found out when the dataset is opened (the manifest), so that locating needs no
 * storage.
 */

enum { STK__WINDOW_DIMS = 12, STK__WINDOW_VARIABLES = 64, STK__WINDOW_FIELDS = 13 };

#define STK__WINDOW_ABSENT  UINT32_MAX       /* a length: the chunk is known not to be there */
#define STK__WINDOW_UNKNOWN (UINT32_MAX - 1) /* a length that only the store knows */

typedef enum stk__window_nan {
    STK__NAN_KEEP,
    STK__NAN_MASK,
    STK__NAN_DROP,
    STK__NAN_FILL
} stk__window_nan;

typedef struct stk__window_options {
    uint32_t struct_size;
    const char *variables, *window, *stride, *overlap, *range, *at, *time, *convert, *mean, *std,
        *stats, *select;
    uint64_t input, target, lead, max_requests;
    bool stack, scale, normalize;
    int32_t nan;
    double fill;
} stk__window_options;

extern const stk_option_table stk__window_table;

stk_status stk__window_open(stk_context *ctx, const char *url, const void *options,
                            stk_dataset **out, stk_error *err);

/* One dimension of the window. */
typedef struct stk__window_dim {
    char name[64];      /* "": none */
    int64_t size;       /* of the arrays */
    int64_t begin, end; /* elements that windows may take */
    int64_t window, stride;
    int64_t chunk;     /* of the variable that has the largest chunks along it */
    uint64_t n;        /* windows along it */
    uint64_t k;        /* of them in a block */
    uint64_t tail;     /* windows of all later dimensions */
    bool dropped;      /* one element is taken, and fields do not have it */
    bool limited;      /* by an option: not all of its elements may be taken */
    uint32_t variable; /* the first that has it */
} stk__window_dim;

/* A chunk that was written without some of the array's codecs. */
typedef struct stk__window_skip {
    uint64_t offset;
    uint32_t object, skipped;
} stk__window_skip;

/* One array of the dataset. */
typedef struct stk__window_variable {
    stk_array *array;
    const stk_array_info *info;
    char name[256];
    char *path;                      /* below the group; NULL: it was opened by itself */
    uint32_t dims[STK__WINDOW_DIMS]; /* of the window, for each of the array's */
    bool plain;                      /* read in part, straight from its objects */
    bool fixed;                      /* chunks are stored as they are, but for the order of bytes */
    bool prefix;                     /* decoding may end early */
    bool sharded;
    uint64_t chunk_bytes;
    uint64_t row_offset, row_bytes; /* of rows that follow each other in one object; 0 bytes: not */
    int64_t low[STK__WINDOW_DIMS], count[STK__WINDOW_DIMS]; /* chunks that windows touch */
    uint64_t num_chunks;
    uint32_t *lengths;       /* of each of them, encoded; NULL: plain */
    uint64_t most_encoded;   /* bytes to ask for of those that are not known; 0: all are */
    uint64_t *offsets;       /* NULL: 0 */
    uint32_t *objects;       /* that they lie in; NULL: number_chunk() computes it */
    stk__window_skip *skips; /* chunks that were written without some codecs, by place */
    size_t num_skips, room_skips;
    uint64_t first_object; /* its objects in the dataset's numbers */
    uint64_t num_objects;
    /* value * scale + offset; elements equal to `missing` are NaN */
    bool converts, has_missing;
    double scale, offset, missing;
    stk_dtype dtype;              /* of its field */
    stk__dataset_widen_fn *widen; /* values become int64 by it, and by nothing else; NULL: above */
} stk__window_variable;

/* A variable's share of a sample. */
typedef struct stk__window_part {
    uint32_t variable, field;
    int32_t mask;        /* field of the mask; -1: none */
    uint64_t at;         /* first element in the field */
    uint64_t values;     /* elements */
    bool alone;          /* no chunk that lies in it lies in another window or part too */
    int64_t time, steps; /* along the dimension of time; steps 0: the whole window */
} stk__window_part;

/* What a thread has while it decodes or prepares. */
typedef struct stk__window_state {
    stk__codec_state *codec;
    void *raw; /* a part as it is stored */
} stk__window_state;

typedef struct stk__window {
    stk_dataset base;
    stk_group *group;
    stk__window_options options; /* texts are NULL */
    stk__window_dim dims[STK__WINDOW_DIMS];
    uint32_t num_dims, time; /* the dimension of time */
    stk__window_variable variables[STK__WINDOW_VARIABLES];
    uint32_t num_variables;
    stk__window_part parts[2 * STK__WINDOW_VARIABLES];
    uint32_t num_parts;
    stk_field fields[STK__WINDOW_FIELDS];
    char *names[STK__WINDOW_FIELDS]; /* of the fields */
    uint32_t num_fields;
    uint64_t raw_bytes; /* of the largest part as it is stored; 0: no part is converted */
    bool rows;          /* a sample is a row of each variable, made by stk__window_open_rows() */
    char *notes;        /* of rows: lines "name\tvalue\n" that describe() says; NULL: none */
} stk__window;

/* ---- Dimensions (window_grid.c) ---- */

/* Set ranges, windows and strides from the options, and number the windows. `url`: as
 * stk__window_select(). */
stk_status stk__window_grid(stk__window *w, const stk__window_options *o, const char *url,
                            stk_error *err);
/* The dimension of a name, or of a number; `num_dims`: there is none. */
uint32_t stk__window_find_dim(const stk__window *w, const char *name, size_t length);
stk_status stk__window_unknown_dim(const stk__window *w, const char *option, const char *name,
                                   size_t length, stk_error *err);
/* First element, in every dimension, of window `index`. */
void stk__window_start(const stk__window *w, uint64_t index, int64_t *start);

/* Limit dimensions by the values of their coordinates, as the option `select` says. `url`: of an
 * array that was opened by itself. Blocks. (window_select.c) */
stk_status stk__window_select(stk__window *w, const char *text, const char *url, stk_error *err);

/* ---- Manifest (window_manifest.c) ---- */

/* The codecs that the chunk at a place was written without: `skipped` of stk_array_place. */
uint32_t stk__window_skipped(const stk__window_variable *v, uint64_t object, uint64_t offset);
/* Find out where the chunks lie that windows touch. Blocks. */
stk_status stk__window_manifest(stk__window *w, stk__window_variable *v,
                                const stk_array_options *options, stk_error *err);

/* ---- Fields (window_fields.c) ---- */

/* Make the fields of a sample and its parts, of variables whose type was chosen. */
stk_status stk__window_fields(stk__window *w, stk_error *err);

/* ---- Values (window_values.c) ---- */

/* Whether elements of this type can become numbers of another. */
bool stk__window_is_real(stk_dtype dtype);
/*
 * Elements of the variable -> the dataset's type: scaled, NaN treated as the options say; `mask`
 * (may be NULL) gets 1 for what is there, 0 for NaN. False: there was NaN and the window is to be
 * dropped.
 */
bool stk__window_convert(const stk__window *w, const stk__window_variable *v, const void *from,
                         uint64_t n, void *to, uint8_t *mask);

/* ---- For others that make windows ---- */

/* What kinds share that deliver windows; each has a describe() of its own. */
stk_status stk__window_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                              stk_locator *to, stk_error *err);
size_t stk__window_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                          size_t size);
void stk__window_prepare(stk_dataset *dataset, stk_sample *samples, size_t n);
stk_status stk__window_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                              void *out, void *worker, const char **reason);
stk_status stk__window_worker_open(stk_dataset *dataset, void **worker);
void stk__window_worker_close(stk_dataset *dataset, void *worker);
void stk__window_close(stk_dataset *dataset);
#define STK__WINDOW_OPS                                                                            \
    .close = stk__window_close, .locate = stk__window_locate, .object = stk__window_object,        \
    .prepare = stk__window_prepare, .decode = stk__window_decode,                                  \
    .worker_open = stk__window_worker_open, .worker_close = stk__window_worker_close

/* A field of one variable, of the window's dimensions that are left. (window_fields.c) */
stk_status stk__window_add_field(stk__window *w, const char *name, const char *ending,
                                 stk_dtype dtype, const int64_t *shape, uint32_t rank,
                                 uint32_t *number, stk_error *err);
/* Of variables, grid, fields and parts that are set: where chunks lie, and the dataset's head.
 * (window_open.c) */
stk_status stk__window_finish(stk__window *w, const stk_array_options *options, stk_error *err);
/* STK_ENOTSUP of the format that is too slow to train from. (window_open.c) */
stk_status stk__window_refuse_slow(const char *url, const stk_array_options *o, stk_error *err);

/* ---- Rows (window_rows.c) ---- */

/* An array of which each row is the value of a field. */
typedef struct stk__window_row {
    stk_array *array; /* NULL: it was taken over */
    const char *path; /* how it is called in messages */
    const char *field;
    bool widened; /* integers become int64 */
} stk__window_row;

/*
 * A dataset whose samples are the rows of arrays of one length: windows of one step along the first
 * dimension, which fields do not have. Each field has the type of its array. `notes`: of
 * stk__window, taken over, also on failure.
 */
stk_status stk__window_open_rows(stk_context *ctx, const stk_dataset_ops *ops,
                                 stk__window_row *rows, uint32_t n,
                                 const stk_array_options *options, char *notes, stk_dataset **out,
                                 stk_error *err);
stk_status stk__window_rows_describe(stk_dataset *dataset,
                                     void (*line)(void *user, const char *name, const char *value),
                                     void *user, stk_error *err);

/* The line "advised chunks", "8x64x64 for NAME: ...", for each variable whose chunks cost twice as
 * many bytes as others would (window_advice.c). */
void stk__window_advise(const stk__window *w,
                        void (*line)(void *user, const char *name, const char *value), void *user);

#endif
