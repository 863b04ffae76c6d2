/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX [http://yann.lecun.com/exdb/mnist], plain or gzip: big-endian words; magic 0x00000801
 * (labels: bytes, one dimension) or 0x00000803 (images: bytes, three dimensions), the dimensions,
 * then the bytes.
 */
#ifndef STK_SRC_DATASET_IDX_H
#define STK_SRC_DATASET_IDX_H

#include "dataset/object.h"

#define STK__IDX_LABELS 0x801u
#define STK__IDX_IMAGES 0x803u

/* An IDX file that has been checked: its values are the bytes from `first` on. */
typedef struct stk__idx {
    stk__object object;
    uint64_t first;
    uint32_t dims[3];
} stk__idx;

static inline uint32_t stk__idx_rank(uint32_t magic)
{
    return magic & 0xff;
}

/* Open the file that `object` names: its header and size are checked; `load`, and any gzip file, is
 * read into memory. Blocks. */
stk_status stk__idx_open(stk_store *store, stk__idx *file, uint32_t magic, bool load,
                         stk_error *err);

#endif
