/* shapes, chunks, memory -> what is read and written at a time, and where it lies between */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pure planner of a rechunking: no I/O, no allocation. Elements are read in *read slabs*, boxes
 * of whole source chunks, and written in *write slabs*, boxes of whole objects of the target; each
 * is cut at the ends of the region and fits the memory.
 *
 * Where a write slab can be read by itself so that no source chunk is decoded more than twice, that
 * is done (`direct`): one slab is in memory at a time. Else all elements go through a temporary
 * file, which holds them by *pieces*: what lies in both a read and a write slab. Each piece is one
 * run of the file, written once and read once; those of a write slab follow each other, so that the
 * slab is one run of the file, too.
 */
#ifndef STK_SRC_CONVERT_RECHUNK_H
#define STK_SRC_CONVERT_RECHUNK_H

#include <stoker/array.h>

#include "base/base.h"

#define STK__RECHUNK_DECODES 2 /* of a source chunk at most */

typedef struct stk__rechunk_question {
    uint32_t rank;
    int64_t start[STK_ARRAY_MAX_RANK];  /* of the region that is written: multiples of `object` */
    int64_t extent[STK_ARRAY_MAX_RANK]; /* of it, from 1 up */
    int64_t
        source[STK_ARRAY_MAX_RANK]; /* what is decoded at a time; 1: any box can be read alone */
    int64_t object[STK_ARRAY_MAX_RANK]; /* what is written at a time */
    uint64_t read_item, write_item;     /* bytes of an element in the source, and in the target */
    uint64_t memory;                    /* bytes of a slab at most */
} stk__rechunk_question;

typedef struct stk__rechunk_plan {
    stk__rechunk_question of;
    int64_t read[STK_ARRAY_MAX_RANK]; /* of a read slab, multiples of source; unused where direct */
    int64_t write[STK_ARRAY_MAX_RANK]; /* of a write slab, multiples of object */
    bool direct;
    uint32_t decodes;    /* of any source chunk at most, in this region */
    double decoded;      /* elements decoded / elements of the region, on average at most */
    uint64_t slab_bytes; /* of the largest slab */
    uint64_t temp_bytes; /* of the temporary file; 0: none */
    uint64_t num_reads;  /* read slabs; 0 where direct */
    uint64_t num_writes;
} stk__rechunk_plan;

/* Errors: STK_EBUDGET: a source chunk or an object alone does not fit the memory; names both
 * numbers. STK_ELIMIT. */
stk_status stk__rechunk_plan_make(const stk__rechunk_question *question, stk__rechunk_plan *out,
                                  stk_error *err);

/* A box in the coordinates of the array. */
typedef struct stk__rechunk_box {
    int64_t start[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK];
} stk__rechunk_box;

void stk__rechunk_read_slab(const stk__rechunk_plan *plan, uint64_t i, stk__rechunk_box *out);
void stk__rechunk_write_slab(const stk__rechunk_plan *plan, uint64_t i, stk__rechunk_box *out);
uint64_t stk__rechunk_elements(const stk__rechunk_plan *plan, const stk__rechunk_box *box);
/* The slabs of the other kind that a box meets: their number, and the k-th. */
uint64_t stk__rechunk_met(const stk__rechunk_plan *plan, bool writes, const stk__rechunk_box *box);
uint64_t stk__rechunk_met_at(const stk__rechunk_plan *plan, bool writes,
                             const stk__rechunk_box *box, uint64_t k);
/* What read slab `r` and write slab `w`, which meet, share, and the byte of the temporary file at
 * which it begins. */
void stk__rechunk_piece(const stk__rechunk_plan *plan, uint64_t r, uint64_t w,
                        stk__rechunk_box *out, uint64_t *offset);
/* The objects of a write slab: their number, and the k-th, with its number in the array's grid of
 * `shape`. */
uint64_t stk__rechunk_objects(const stk__rechunk_plan *plan, const stk__rechunk_box *slab);
void stk__rechunk_object(const stk__rechunk_plan *plan, const stk__rechunk_box *slab, uint64_t k,
                         const int64_t *shape, stk__rechunk_box *out, uint64_t *number);

#endif
