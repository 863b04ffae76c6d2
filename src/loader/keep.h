/* the cache of a loader: what is kept in it, and whether a need is there */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_KEEP_H
#define STK_SRC_LOADER_KEEP_H

#include "dataset/dataset.h"
#include "loader/cache.h"

/*
 * It keeps what was read, or what became of it: all needs or all fields of a sample by its index,
 * or where samples share ranges, those by object and offset. Fixed but for the cache itself, which
 * has a lock of its own.
 */
typedef struct stk__keeping {
    stk__cache *cache; /* NULL: none */
    bool encoded;      /* as it was read */
    bool ranges;       /* samples share what it keeps: the dataset decodes ranges, or neighbouring
                          samples need the same */
} stk__keeping;

/* Whether the cache keeps samples: their needs where it keeps what was read, else their fields. */
bool stk__keeps_samples(const stk__keeping *keeping);
/* Whether the cache is for needs that are decoded to so many bytes, 0: that are not. */
bool stk__keeps_need(const stk__keeping *keeping, uint64_t decoded);
/* Whether a need is already in the cache; its slice then says where. */
bool stk__kept_need(const stk__keeping *keeping, const stk_need *need, stk_slice *slice);
/* The bytes of a need that has to be decoded, as they were read; NULL: not in the cache. */
const void *stk__kept_bytes(const stk__keeping *keeping, const stk_need *need, uint64_t *size);

#endif
