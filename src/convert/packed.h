/* What the files of the converter of packed pictures share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_PACKED_H
#define STK_SRC_CONVERT_PACKED_H

#include "base/text.h"
#include "convert/array_target.h"
#include "convert/crew.h"
#include "convert/survey_sample.h"
#include "transform/transform.h"

#define STK__PACKED_NODES 7

/* Arrays of the target, by number of the node; those of a layout that has them not are not among
 * the nodes, and have the number 0, of the group. */
typedef struct stk__packed_arrays {
    size_t pixels; /* `image`, or `bytes` */
    size_t label, name, kept, offset, shape;
} stk__packed_arrays;

/* Height and width of a picture of the ragged layout; zeros: its header is broken. */
typedef struct stk__packed_side {
    uint32_t height, width;
} stk__packed_side;

/* A job as the target sees it: of other options, and canceled as the one it is of. */
typedef struct stk__packed_job {
    stk_conversion_job seam;
    const stk_conversion_job *of;
} stk__packed_job;

/* What a thread packs with. */
typedef struct stk__packed_member {
    stk__survey_sample sample;
    stk__decoding *decoding;
    void *scratch;
    stk__pipeline *sized; /* of the ragged layout: to the sides of the last picture */
    stk__packed_side side;
    uint8_t *spare; /* room for a picture that is decoded to be looked at */
    size_t spare_room;
} stk__packed_member;

/* A conversion of pictures to packed ones, shared by its threads. */
typedef struct stk__packed {
    const stk_conversion_job *job;
    stk__packed_job writing;
    stk_convert_arrays_options arrays; /* of `writing` */
    stk_context *context;
    stk_dataset *dataset;
    const stk_convert_options *options;
    const stk_convert_packed_options *own;
    stk_conversion_report *report;
    uint32_t image, label; /* fields of the dataset */
    bool encoded;          /* the pictures are files of JPEG or PNG */
    bool ragged;
    bool skips; /* pictures that are broken are left out */
    uint64_t max_errors;

    /* What becomes of a picture. */
    char transforms[96];     /* "resize(256), center_crop(256x256)"; "": nothing */
    stk__pipeline *pipeline; /* of them; NULL: nothing, or ragged */
    int64_t height, width, channels;
    uint64_t short_side;
    uint64_t picture_bytes;  /* of the largest picture as it is packed */
    uint64_t scratch;        /* of a pipeline */
    stk__packed_side *sides; /* of the ragged layout: of all rows */
    uint64_t *offsets;       /* likewise: of all rows in `bytes` */

    /* Where rows go. */
    uint64_t rows, shards, chunk_rows;
    uint64_t shard_rows;  /* of the largest; of the fixed layout of all but the last */
    uint64_t *first_rows; /* of the ragged layout: of each shard, and one more */
    uint64_t shard_bytes; /* of the elements of a whole shard */
    uint64_t total_bytes; /* of all elements */
    uint64_t group_most;  /* rows whose labels are one object: of whole shards */

    stk__target_node nodes[STK__PACKED_NODES];
    size_t num_nodes;
    stk__packed_arrays at;
    int64_t sides_of[STK__PACKED_NODES][12]; /* shape, chunk, object of each node */
    char *attributes;                        /* of the root */

    uint64_t budget;
    uint32_t num_members;
    uint64_t slots; /* shards in work at a time */
    stk__share files;
    stk__decode_room room;
    stk__packed_member *members;
    stk__array_target *target;
    stk__crew *crew;

    /* The shards in work. */
    uint64_t first_shard, num_shards; /* of this step */
    uint8_t **slabs;                  /* one for each slot */
    /* Of the group in work, by row from its first on. */
    uint64_t group_first, group_rows;
    int64_t *labels;
    uint8_t *kept;
    char **names; /* NULL: the dataset has none */

    atomic_uint_fast64_t passed; /* rows, for the progress */
    atomic_uint_fast64_t left_out;
} stk__packed;

/* The first row of a shard; of the shard behind the last: all rows. */
uint64_t stk__packed_first_row(const stk__packed *p, uint64_t shard);
/* Where a row of a shard begins in it, and the bytes of it. */
uint64_t stk__packed_row_at(const stk__packed *p, uint64_t shard, uint64_t row);
uint64_t stk__packed_row_bytes(const stk__packed *p, uint64_t row);
/* Of the ragged layout: what lies in front of a row, the head of a PPM, and its length; `out` NULL:
 * the length alone. */
size_t stk__packed_head(const stk__packed *p, uint64_t row, char *out);
uint64_t stk__packed_groups(const stk__packed *p);
/* The shard that a row is in. */
uint64_t stk__packed_shard_of(const stk__packed *p, uint64_t row);
/* Called by the thread that waits, ten times a second. */
stk_status stk__packed_watch(void *packed, stk_error *err);

/* ---- What is written (packed_nodes.c) ---- */

/* What becomes of the pictures, by options and fields. */
stk_status stk__packed_choose(stk__packed *p, stk_error *err);
/* Shards and nodes; of the ragged layout the sides are known. */
stk_status stk__packed_lay_out(stk__packed *p, stk_error *err);

/* ---- Rows (packed_rows.c) ---- */

stk_status stk__packed_members_open(stk__packed *p, stk_error *err);
void stk__packed_members_close(stk__packed *p);
/* Of the ragged layout: read the headers of all pictures. */
stk_status stk__packed_measure(stk__packed *p, stk_error *err);
/* So many more pictures are left out, of which `last` says why one is; NULL: nothing does.
 * STK_EBADSAMPLES: that is more than max_errors allows. */
stk_status stk__packed_left_out(stk__packed *p, uint64_t count, const char *last, stk_error *err);
/* Fill slabs, labels and names of the shards in work. */
stk_status stk__packed_fill(stk__packed *p, stk_error *err);
/* Pack a row to see what it takes: the bytes that it becomes, and the time of the CPU. */
stk_status stk__packed_try(stk__packed *p, stk__packed_member *m, uint64_t row, uint64_t *bytes,
                           uint64_t *cpu_ns, stk_error *err);

/* ---- A dry run (packed_tell.c) ---- */

stk_status stk__packed_tell(stk__packed *p, stk_error *err);

#endif
