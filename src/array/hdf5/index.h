/* where each chunk of a dataset lies. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_HDF5_INDEX_H
#define STK_SRC_ARRAY_HDF5_INDEX_H

#include "base/base.h"

#define STK__HDF5_MOST_STORED (UINT32_MAX - 2) /* bytes of a chunk; what is above has a meaning */

/* A chunk that was written. 24 bytes. */
typedef struct stk__hdf5_chunk {
    uint64_t number; /* in C order, over the chunks of the dataset's shape */
    uint64_t offset; /* in the file */
    uint32_t bytes;
    uint32_t mask; /* filters that were skipped, as the file has them */
} stk__hdf5_chunk;

/* Chunks by number, each once. Does not change once it is made: any number of threads. */
typedef struct stk__hdf5_index {
    stk__hdf5_chunk *chunks;
    size_t count, room;
} stk__hdf5_index;

/* The chunk of this number; NULL: it was never written. */
const stk__hdf5_chunk *stk__hdf5_index_find(const stk__hdf5_index *index, uint64_t number);

#endif
