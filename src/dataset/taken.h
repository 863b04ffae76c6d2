/* Samples read one by one while a dataset is opened, without a loader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_TAKEN_H
#define STK_SRC_DATASET_TAKEN_H

#include "dataset/dataset.h"

/* A range that a sample needs, and its bytes. */
typedef struct stk__taken_part {
    stk_need need;
    void *bytes; /* owned; NULL: an object that may be missing is */
    uint64_t size;
} stk__taken_part;

/*
 * One sample at a time, on one thread; several may take samples of one dataset side by side. What
 * two samples that are taken one behind the other share is read and decoded once.
 */
typedef struct stk__taken {
    stk_dataset *dataset;
    void *worker;                  /* what the dataset keeps for the thread, or NULL */
    stk_value *values;             /* of the sample, until the next one is taken */
    uint64_t line;                 /* of its object, from 1; 0: not known */
    stk__taken_part *parts, *kept; /* of the sample; of the one before */
    size_t num_parts, room_parts, num_kept, room_kept;
    stk_slice *slices;
    size_t room_slices;
    uint64_t *bounds; /* of each field: bytes of a value that varies; UINT64_MAX: not said */
    char *out;
    uint64_t room_out;
} stk__taken;

/* To be ended with stk__taken_close(), whatever comes. Does not wait for storage. */
stk_status stk__taken_open(stk__taken *taken, stk_dataset *dataset, stk_error *err);
/* Read and prepare a sample: taken->values[f].data and .size. A bad sample is an error that names
 * it. Blocks. */
stk_status stk__taken_read(stk__taken *taken, uint64_t index, stk_error *err);
void stk__taken_close(stk__taken *taken);

/* Whether a value is an integer, bool among them; one of any such type. False: as int64 it would be
 * another number. */
bool stk__taken_is_integer(stk_dtype dtype);
bool stk__taken_integer(stk_dtype dtype, const void *data, int64_t *out);

#endif
