/* Samples of a dataset one after the other, without a loader: locate, read, prepare. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_SAMPLES_H
#define STK_SRC_CONVERT_SAMPLES_H

#include "convert/convert.h"

/* Takes groups of neighbouring samples of a dataset. One thread. */
typedef struct stk__samples {
    stk_dataset *dataset;
    size_t most;         /* samples of a group */
    stk_sample *samples; /* `most` of them */
    stk_value *values;   /* most x num_fields */
    uint64_t *indices;   /* of the group */
    uint64_t *bounds;    /* bytes of each value at most, in the group; NULL: all are FIXED */
    uint8_t *out;        /* room for all values */
    uint64_t out_room;
    struct need_of *needs; /* of the group, in order */
    stk_slice *slices;     /* their bytes */
    size_t num_needs, room_needs;
    uint8_t *bytes;       /* of all needs that are not decoded */
    struct kept_of *kept; /* decoded ranges that this group and the one before need */
    size_t num_kept, room_kept, next_kept;
    uint8_t *raw; /* of the range that is decoded */
    uint64_t raw_room;
    void *worker; /* of the dataset's worker_open() */
} stk__samples;

stk_status stk__samples_init(stk_dataset *dataset, size_t most, stk__samples *s, stk_error *err);
void stk__samples_release(stk__samples *s);
/* Prepare samples [first, first + count). Blocks. A bad sample is a failure; STK_ENOMEM: they may
 * fit when fewer are taken. */
stk_status stk__samples_take(stk__samples *s, uint64_t first, size_t count, stk_error *err);
/* As many of *count as fit in memory, as samples vary in size: one at least. */
stk_status stk__samples_take_group(stk__samples *s, uint64_t first, size_t *count, stk_error *err);
/* Field `field` of sample `i` of the group, until the next take. */
const void *stk__samples_value(const stk__samples *s, size_t i, uint32_t field);
/* Its bytes. */
uint64_t stk__samples_size(const stk__samples *s, size_t i, uint32_t field);

#endif
