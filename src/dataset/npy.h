/* SPDX-License-Identifier: Apache-2.0 */
/* What the two forms of `npy:` share: one file of samples, and a folder of one file per sample. */
#ifndef STK_SRC_DATASET_NPY_H
#define STK_SRC_DATASET_NPY_H

#include "array/npy/npy.h"
#include "dataset/object.h"

typedef struct stk__npy_options {
    uint32_t struct_size;
    const char *labels;
    bool allow_trailing;
    bool memory;
} stk__npy_options;

/* Read and check the header of an object; mixes its first bytes into *print (may be NULL). Blocks.
 */
stk_status stk__npy_read_header(stk_store *store, const stk__object *object, bool trailing,
                                stk__npy_header *out, uint64_t *print, stk_error *err);

/*
 * The field of samples of this shape: "image" where they are pictures (uint8, height, width and 1,
 * 3 or 4 channels), else "data".
 */
stk_field stk__npy_field(stk_dtype dtype, const int64_t *shape, uint32_t rank);

/* Open a folder. Takes over the store, also on failure. */
stk_status stk__npy_folder_open(stk_context *ctx, stk_store *store, const char *url,
                                const stk__npy_options *options, stk_dataset **out, stk_error *err);

/* How surely the folder is one of npy files: 0 no, 1 perhaps, 2 surely. Blocks. */
int stk__npy_folder_recognise(stk_store *store);

#endif
