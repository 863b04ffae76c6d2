/* Samples of several datasets matched by a key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_PAIR_H
#define STK_SRC_DATASET_PAIR_H

#include "dataset/join.h"

typedef struct stk__pair_by {
    const char *field; /* the name of the key in each dataset */
    bool drop_missing; /* leave out samples without a partner; else they are an error */
    bool take_first;   /* of several samples with one key; else they are an error */
} stk__pair_by;

/*
 * Read the keys of all samples and find those that all datasets have: join->rows has, source by
 * source, the index of each pair, in the order of the first; *size is how many there are.
 * `left_out` becomes what describe says of the others. Blocks.
 */
stk_status stk__pair_match(stk__join *join, const stk__pair_by *by, uint64_t *size, char *left_out,
                           size_t room, stk_error *err);

#endif
