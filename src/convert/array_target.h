/* Boxes of elements -> arrays and groups of a target, whole and safe. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_ARRAY_TARGET_H
#define STK_SRC_CONVERT_ARRAY_TARGET_H

#include <stoker/array.h>

#include "convert/convert.h"

/* A node of what is converted, as the target is to hold it. Valid until the target is closed. */
typedef struct stk__target_node {
    const char *path;       /* below the target: "a/t2m"; "": the target itself */
    const char *attributes; /* a JSON object, as Zarr has them: without names of dimensions */
    const char *other;      /* of the root: what a target is of that was begun with other nodes or
                               options, for messages; NULL: of other arrays */
    bool is_array;          /* else a group, and nothing below counts */
    stk_dtype dtype;        /* of the elements that write() gets; STK_DTYPE_NONE: bytes */
    const char *type_name;  /* "float32", "datetime64[ns]", "S8" */
    uint64_t itemsize;
    bool varies; /* the elements vary in length: each is an stk_array_string */
    uint32_t rank;
    const int64_t *shape;
    const int64_t *chunk_shape;
    const int64_t *object_shape;        /* of what is written at a time: a shard, else a chunk */
    const char *const *dimension_names; /* `rank`, each may be NULL; NULL: none has one */
    const void *fill_value;    /* of what is absent: one element, little endian; never NULL */
    bool whole;                /* no object is left out, since all of it is the fill value */
    const void *missing_value; /* what `_FillValue` means, which is no attribute here; NULL: no
                                  value stands for a missing one */
} stk__target_node;

/* One object's elements, cut at the end of the array. */
typedef struct stk__target_box {
    const int64_t *start, *shape; /* `rank` values; start is a multiple of object_shape */
    const void *data;             /* its first element */
    const int64_t *strides;       /* bytes between neighbours of each dimension */
    uint64_t number;              /* of the object, in C order of the grid */
} stk__target_box;

/* Which of `count` parts of all objects is written; count 0: all. number 0: none but the metadata,
 * once all parts are there. */
typedef struct stk__target_part {
    uint64_t number, count;
} stk__target_part;

typedef struct stk__array_target stk__array_target;

/*
 * What a kind of target does. The order: open; then for each array, of each object that is
 * this part's has_object and, unless it has it, write; then finish once; then close. After a
 * failure or a kill what was written stays where `resumes`, and nothing has the name of the target
 * where not.
 */
typedef struct stk__array_target_ops {
    const char *name; /* for messages: "Zarr" */
    bool resumes;     /* goes on after a kill, and takes parts (--part, --join) */
    bool has_shards;  /* the option shards is heeded */
    /* Begin, or go on. `nodes` are groups before what is in them, the root first; they and the job
     * live until close(). Refuses what the target cannot hold, by name, and options of the job's
     * `own`, a stk_convert_arrays_options, that it does not heed, before anything is written; with
     * `dry_run` nothing is. */
    stk_status (*open)(const stk_conversion_job *job, const stk__target_node *nodes,
                       size_t num_nodes, const stk__target_part *part, uint32_t members,
                       stk__array_target **out, stk_error *err);
    /* (optional) Whether an object is complete, by an earlier run. Any thread. NULL: none is. */
    bool (*has_object)(const stk__array_target *target, size_t node, uint64_t number);
    /* (optional) Read a box of what such objects hold, in C order, `bytes` in all. Blocks. */
    stk_status (*read)(const stk__array_target *target, size_t node, const stk_array_box *box,
                       void *data, uint64_t bytes, stk_error *err);
    /* Bytes that one write() of an object of array `node` holds at most. */
    uint64_t (*memory)(const stk__array_target *target, size_t node);
    /* Write an object of array `node`, by thread `member`, below `members` of open(), at a time;
     * all objects of an array come before the first of the next. With the option verify it is read
     * back and compared. Blocks. */
    stk_status (*write)(stk__array_target *target, uint32_t member, size_t node,
                        const stk__target_box *box, stk_error *err);
    /* (optional) Make safe and note what was written so far; by the calling thread, ten times a
     * second, while others write. */
    stk_status (*checkpoint)(stk__array_target *target, stk_error *err);
    /* All objects are written: metadata, durably, and the name. */
    stk_status (*finish)(stk__array_target *target, stk_error *err);
    /* Bytes of all objects that are there, also of earlier runs; once it is finished. */
    uint64_t (*bytes)(const stk__array_target *target);
    void (*close)(stk__array_target *target); /* also one that was not finished */
} stk__array_target_ops;

/* The beginning of what a kind of target has of its own. */
struct stk__array_target {
    const stk__array_target_ops *ops;
    const stk_conversion_job *job;
};

/* Words of the options codec and shuffle; AUTO is the target's usual one. */
enum {
    STK__ARRAYS_CODEC_NONE = 0,
    STK__ARRAYS_CODEC_ZLIB = 3,
    STK__ARRAYS_CODEC_BLOSC = 4,
    STK__ARRAYS_CODEC_AUTO = 6,
    STK__ARRAYS_SHUFFLE_NONE = 1,
    STK__ARRAYS_SHUFFLE_BITS = 3
};

/* Zarr, of version 3, or 2 where the option zarr_format says so; and of version 2. */
extern const stk__array_target_ops stk__array_target_zarr, stk__array_target_zarr2;

/*
 * Convert the array or group that `job->source` names to such a target: the run() of a converter
 * whose options are the table "arrays" (stk__convert_arrays_option_table). Opens the source, makes
 * the nodes from it and the options, plans, writes, verifies, fills the report.
 */
stk_status stk__convert_arrays(const stk_conversion_job *job, const stk__array_target_ops *target,
                               stk_conversion_report *report, stk_error *err);
/* `takes` of such a converter: whether an array or a group is at a URL. */
bool stk__convert_takes_arrays(stk_context *ctx, const char *source, const char **why);

#endif
