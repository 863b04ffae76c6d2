/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a Megatron dataset, "NAME.idx" beside "NAME.bin" [Megatron-LM,
 * megatron/core/datasets/indexed_dataset.py]: "MMIDIDX\0\0", version (u64, 1), code of the type
 * (u8), number of sequences S and of entries of the document index D (u64 each); lengths of the
 * sequences in tokens (S x i32), their places in the .bin in bytes (S x i64), the sequences that
 * documents begin with, and S at the end (D x i64); perhaps a mode of each sequence (S x u8). All
 * little endian. Its writers lay the sequences one behind the other, and only that is read.
 */
#ifndef STK_SRC_DATASET_MEGATRON_H
#define STK_SRC_DATASET_MEGATRON_H

#include "dataset/object.h"
#include "dataset/packing.h"

typedef struct stk__megatron {
    stk_dtype dtype;
    uint64_t tokens, sequences, documents;
} stk__megatron;

/* Whether an object begins as such an index. */
stk_status stk__megatron_is_index(stk_store *store, const stk__object *index, bool *is,
                                  stk_error *err);
/*
 * Read an index whole, and check every place in it against the `size` bytes of the .bin.
 * `documents` gets their boundaries; NULL: they are checked and not kept. Blocks.
 * Errors: STK_EFORMAT, STK_ETRUNCATED, STK_EKIND (a type that is no integer), STK_ELIMIT.
 */
stk_status stk__megatron_read(stk_store *store, const stk__object *index, uint64_t size,
                              stk__documents *documents, stk__megatron *out, stk_error *err);

#endif
