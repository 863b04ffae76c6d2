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
    bool is_array;          /* else a group, and nothing below counts */
    stk_dtype dtype;        /* of the elements that write() gets; STK_DTYPE_NONE: bytes */
    const char *type_name;  /* "float32", "datetime64[ns]", "S8" */
    uint64_t itemsize;
    uint32_t rank;
    const int64_t *shape;
    const int64_t *chunk_shape;
    const int64_t *object_shape;        /* of what is written at a time: a shard, else a chunk */
    const char *const *dimension_names; /* `rank`, each may be NULL; NULL: none has one */
    const void *fill_value;             /* one element, of the machine; NULL: not defined */
} stk__target_node;

/* One object's elements, cut at the end of the array. */
typedef struct stk__target_box {
    const int64_t *start, *shape; /* `rank` values; start is a multiple of object_shape */
    const void *data;             /* its first element */
    const int64_t *strides;       /* bytes between neighbours of each dimension */
    uint64_t number;              /* of the object, in C order of the grid */
} stk__target_box;

typedef struct stk__array_target stk__array_target;

/*
 * What a kind of target does. The order: open, then of each object of each array has_object and
 * write, then finish once, then close. After a failure or a kill what was written stays where
 * `resumes`, and nothing has the name of the target where not.
 */
typedef struct stk__array_target_ops {
    const char *name;   /* "zarr" */
    bool resumes;       /* goes on after a kill, and takes parts (--part, --join) */
    bool has_shards;    /* the option shards is heeded */
    bool one_at_a_time; /* write() is called by one thread at a time; else by any number */
    /* Begin, or go on. `nodes` are groups before what is in them, the root first; they and the job
     * live until close(). Refuses what the target cannot hold, by name, before anything is written.
     * Options of the job's `own`, a stk_convert_arrays_options, that the target does not heed are
     * refused here. */
    stk_status (*open)(const stk_conversion_job *job, const stk__target_node *nodes,
                       size_t num_nodes, stk__array_target **out, stk_error *err);
    /* (optional) Whether an object is complete, by an earlier run; its bytes into *bytes. NULL:
     * none is. Called before any write(), by the calling thread. */
    bool (*has_object)(stk__array_target *target, size_t node, uint64_t number, uint64_t *bytes);
    /* Write an object of array `node`; *bytes is what it takes there, 0 where it is absent or not
     * known. With the option verify it is read back and compared where that can be done now.
     * Blocks. */
    stk_status (*write)(stk__array_target *target, size_t node, const stk__target_box *box,
                        uint64_t *bytes, stk_error *err);
    /* (optional) Make safe and note what was written so far; by the calling thread, while others
     * write. Called now and then. */
    stk_status (*checkpoint)(stk__array_target *target, stk_error *err);
    /* All objects are written: metadata, durably, and the name. */
    stk_status (*finish)(stk__array_target *target, stk_error *err);
    /* What was written is read back by opening the target once it is finished: for targets whose
     * write() cannot compare. The caller holds a hash of each object against it. */
    bool verify_finished;
    void (*close)(stk__array_target *target); /* accepts one that was not finished */
} stk__array_target_ops;

/* The beginning of what a kind of target has of its own. */
struct stk__array_target {
    const stk__array_target_ops *ops;
    const stk_conversion_job *job;
};

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
