/* key -> blob that stays */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_CACHE_H
#define STK_SRC_LOADER_CACHE_H

#include "base/base.h"

/* Blobs by a key of two words, kept until the loader ends: what came first stays, and what does not
 * fit is not kept. */
typedef struct stk__cache stk__cache;

stk_status stk__cache_create(stk_context *ctx, uint64_t limit, uint64_t most_entries,
                             stk__cache **out);
void stk__cache_destroy(stk__cache **cache);
/* The blob, valid as long as the cache, or NULL. Lock-free. */
const void *stk__cache_get(stk__cache *cache, uint64_t a, uint64_t b, uint64_t *size);
/* Bring the entry of a key nearer. */
void stk__cache_prefetch(const stk__cache *cache, uint64_t a, uint64_t b);
/* Keep the parts, one behind the other, as the blob of a key; nothing when it is full or has the
 * key. Any thread. */
void stk__cache_put(stk__cache *cache, uint64_t a, uint64_t b, const stk_slice *parts, size_t n);
/* The same, and the blob begins with `n` slices that say where in it each part is; one without
 * bytes at all (NULL) stays so. */
void stk__cache_put_slices(stk__cache *cache, uint64_t a, uint64_t b, const stk_slice *parts,
                           size_t n);
uint64_t stk__cache_bytes(stk__cache *cache);
/* Forget all and keep to a smaller limit from now on; no thread may look into the cache meanwhile.
 */
void stk__cache_shrink(stk__cache *cache, uint64_t limit);

#endif
