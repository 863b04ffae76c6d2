/* what was seen of objects while something is opened -> not asked for again */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_OPENING_H
#define STK_SRC_STORE_OPENING_H

#include <xxhash.h>

#include "store/store.h"

/*
 * Whoever opens a URL asks the same of its store again and again, each time with a store of its
 * own: whether it is a container, an array, a group, what it is called. Stores of other machines
 * keep what they saw of an object from the beginning of an opening to its end (store.h), 10 s at
 * most: that it is not there, or its size and identity, and ranges of its bytes that came along; or
 * that it could not be asked for, with all tries. An opening so sees one state of each object.
 * Nothing is kept while nothing is opened.
 */
#define STK__OPENING_AHEAD (UINT64_C(128) << 10) /* first bytes that come along with a look */
#define STK__OPENING_END   (UINT64_C(64) << 10)  /* last bytes, of what a URL names */

typedef struct stk__seen {
    bool absent;
    uint64_t size, identity;
    int64_t mtime_ns;
    char etag[128];
    stk_error error; /* status STK_OK: it was answered */
} stk__seen;

/* Whether its answer has no bytes. */
static inline bool stk__seen_none(const stk__seen *seen)
{
    return seen->absent || seen->error.status != STK_OK;
}

/* Whether something is opened now; no lock is taken. */
bool stk__opening_is(stk_context *ctx);
/* What is known of an object, by a hash of its whole name. False: nothing. */
bool stk__opening_find(stk_context *ctx, XXH128_hash_t name, stk__seen *out);
/* The same with a range of its bytes, all of it; `up_to`: or as far as the object goes, *got. */
bool stk__opening_read(stk_context *ctx, XXH128_hash_t name, uint64_t offset, uint64_t length,
                       bool up_to, void *data, uint64_t *got, stk__seen *out);
/* Keep it, with `length` bytes from `offset` on, where there is room. */
void stk__opening_note(stk_context *ctx, XXH128_hash_t name, const stk__seen *seen, uint64_t offset,
                       const void *data, uint64_t length);
/* Something was written or removed: all of it. */
void stk__opening_forget(stk_context *ctx);

#endif
