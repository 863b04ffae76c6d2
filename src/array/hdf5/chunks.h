/* the layout of a dataset -> the index of its chunks. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_HDF5_CHUNKS_H
#define STK_SRC_ARRAY_HDF5_CHUNKS_H

#include "array/hdf5/heap.h"

#define STK__HDF5_MOST_PAGE_BITS 30u /* of the elements of a page */

/* An index that is being made. */
typedef struct stk__hdf5_chunks {
    stk__hdf5 *f;
    const stk__hdf5_layout *layout;
    const stk__hdf5_space *space;       /* of the dataset itself */
    uint64_t count[STK_ARRAY_MAX_RANK]; /* chunks of the shape that is read */
    uint64_t most[STK_ARRAY_MAX_RANK];  /* of the maximum shape; UINT64_MAX: unlimited */
    uint64_t bytes;                     /* of a decoded chunk */
    uint32_t num_filters;
    unsigned of_size; /* bytes of a stored size in indexes of layouts 4 and 5 */
    uint32_t element; /* bytes of an address, with filters also of a stored size and a mask */
    /* Of elements of arrays: the dimension that their numbers have in front, UINT32_MAX: none; and
     * the number from which on none was ever set. */
    uint32_t first;
    uint64_t end;
    stk__hdf5_index *index;
} stk__hdf5_chunks;

/* Find all chunks. `shape`: that is read, which may be larger than that of `space`. The chunks are
 * the caller's, in memory of the context, also on failure. */
stk_status stk__hdf5_chunks_find(stk__hdf5 *f, const stk__hdf5_layout *layout,
                                 const stk__hdf5_space *space, const int64_t *shape,
                                 uint32_t num_filters, stk__hdf5_index *out);

/* Add the chunk of these coordinates, counted in chunks; checked. */
stk_status stk__hdf5_chunks_add(stk__hdf5_chunks *c, const uint64_t *at, uint64_t address,
                                uint64_t bytes, uint32_t mask);
/* What an element or a record begins with: the address, with filters also size and mask. */
uint64_t stk__hdf5_chunks_stored(const stk__hdf5_chunks *c, stk__hdf5_fields *at, uint64_t *bytes,
                                 uint32_t *mask);

/* What fixed and extensible arrays have in common (chunk_arrays.c): `count` elements from number
 * `first` on, in memory or in a page of the file; and a block of `length` bytes, which begins with
 * signature, version, client, and the address of the array's header. */
stk_status stk__hdf5_chunks_elements(stk__hdf5_chunks *c, const uint8_t *data, uint64_t first,
                                     uint64_t count);
stk_status stk__hdf5_chunks_page(stk__hdf5_chunks *c, uint64_t address, uint64_t first,
                                 uint64_t count);
stk_status stk__hdf5_chunks_block(const stk__hdf5_chunks *c, uint64_t address, uint64_t length,
                                  const char *signature, uint8_t **data);

/* The indexes of each kind. */
stk_status stk__hdf5_chunks_btree1(stk__hdf5_chunks *c);     /* chunk_tree.c */
stk_status stk__hdf5_chunks_btree2(stk__hdf5_chunks *c);     /* chunk_tree.c */
stk_status stk__hdf5_chunks_fixed(stk__hdf5_chunks *c);      /* fixed_array.c */
stk_status stk__hdf5_chunks_extensible(stk__hdf5_chunks *c); /* extensible_array.c */

#endif
