/* What the files of the conversion of arrays share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_ARRAYS_H
#define STK_SRC_CONVERT_ARRAYS_H

#include "array/array.h"
#include "base/text.h"
#include "convert/array_target.h"
#include "convert/arrays_values.h"
#include "convert/crew.h"
#include "convert/rechunk.h"

#define STK__ARRAYS_BOUNCE                                                                         \
    ((uint64_t)256 << 10) /* bytes that pass to or from the temporary file                         \
                           */

/* An array that is converted: what the source has, and how it is done. */
typedef struct stk__arrays_array {
    size_t node; /* in the list of nodes */
    stk_array *array;
    bool is_coordinate; /* its name is that of a dimension: neither rounded nor of another type */
    stk__arrays_values values;
    stk__rechunk_plan plan; /* of what of it is this part's */
    bool nothing;           /* nothing is */
    uint64_t members;       /* threads that write it at a time */
} stk__arrays_array;

/* A conversion of arrays. */
typedef struct stk__arrays {
    const stk_conversion_job *job;
    stk_context *context;
    const stk_convert_options *options;
    const stk_convert_arrays_options *own;
    const stk__array_target_ops *ops;
    uint64_t part, parts; /* this one of so many, from 1; parts 0: whole */
    uint64_t budget;
    uint32_t num_workers;

    stk_group *group;        /* the source, where it is one */
    stk__target_node *nodes; /* parents first */
    stk__arrays_array *arrays;
    size_t num_nodes, num_arrays;

    stk__array_target *target;
    stk__crew *crew;
    stk__arrays_loss loss; /* of all arrays; the caller's thread adds */
    uint64_t total,
        done; /* bytes of elements that pass, for the progress; `done` of what is over */
    stk_conversion_report *report;
} stk__arrays;

/* ---- The source (arrays_source.c) ---- */

/* Open what the job names, and make the nodes and arrays, without chunks of the target. */
stk_status stk__arrays_open(stk__arrays *run, stk_error *err);
void stk__arrays_close(stk__arrays *run);

/* ---- Chunks of the target (arrays_chunks.c) ---- */

stk_status stk__arrays_choose_chunks(stk__arrays *run, stk_error *err);
/* What is asked of chunks of an array for the window and store that the options name, as the source
 * has its elements; *has false: there is no window, or it is not of this array. */
stk_status stk__arrays_question(const stk__arrays *run, const stk__arrays_array *a, bool *has,
                                stk_chunks_question *question, stk_error *err);

/* ---- Plans (arrays_plan.c) ---- */

/* Threads, memory, parts and slabs of every array; the target is open. */
stk_status stk__arrays_plan(stk__arrays *run, stk_error *err);
/* Elements of the largest object of an array. */
uint64_t stk__arrays_object_elements(const stk__target_node *node);
/* The text of a dry run, and its figures, into the report. */
stk_status stk__arrays_tell(stk__arrays *run, stk_error *err);

/* ---- Elements of varying length (arrays_texts.c) ---- */

/* Whether the texts of a chunk, of so many bytes, can be written within the memory. STK_EBUDGET. */
stk_status stk__arrays_texts_fit(const stk__arrays *run, const stk__arrays_array *a, uint64_t bytes,
                                 stk_error *err);
/* Read a box into `out`; *texts, which may have those of an earlier one, holds their bytes. */
stk_status stk__arrays_texts_read(const stk__arrays *run, const stk__arrays_array *a,
                                  const stk_array_box *box, stk_array_string *out,
                                  stk_array_texts **texts, stk_error *err);

/* ---- Work (arrays_copy.c) ---- */

/* Read and write all of an array that is this part's and not done yet. */
stk_status stk__arrays_copy(stk__arrays *run, stk__arrays_array *a, stk_error *err);

#endif
