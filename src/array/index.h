/* bytes of a shard index -> where the chunks of the shard lie */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_INDEX_H
#define STK_SRC_ARRAY_INDEX_H

#include "array/room.h"

typedef struct stk__shard_index {
    uint64_t count;
    atomic_uint refs;
    bool absent;      /* the whole shard is */
    uint64_t pairs[]; /* offset from the object's start, bytes; absent chunks: twice UINT64_MAX */
} stk__shard_index;

stk_status stk__index_cache_create(stk_context *ctx, uint64_t limit, stk__index_cache **out);
void stk__index_cache_destroy(stk__index_cache **cache);
/* Give a walk that is at a shard its index; takes over the reference. (walk.c) */
void stk__walk_enter(stk__walk *walk, stk__shard_index *index);
/* A reference, or NULL. */
stk__shard_index *stk__index_get(const stk_array *a, uint32_t level, uint64_t chunk);
void stk__index_unref(const stk_array *a, stk__shard_index *index);

#endif
