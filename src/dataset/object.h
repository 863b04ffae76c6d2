/* SPDX-License-Identifier: Apache-2.0 */
/* What the datasets made of files share: finding, mapping and loading one object of a store. */
#ifndef STK_SRC_DATASET_OBJECT_H
#define STK_SRC_DATASET_OBJECT_H

#include "dataset/dataset.h"
#include "dataset/watched.h"

/* One object, and its bytes where they are in memory. */
typedef struct stk__object {
    char key[512]; /* two names of 255 bytes and a '/' between them */
    uint64_t size, identity;
    int64_t mtime_ns;
    const unsigned char *data; /* all of it, readable STK_TAIL bytes beyond; NULL: in the store */
    void *owned;               /* memory to be freed, or NULL where the store keeps it */
} stk__object;

/* Whether `key` is a file of the store; fills `object`. A missing one is no error. Blocks. */
stk_status stk__object_find(stk_store *store, const char *key, stk__object *object, bool *found,
                            stk_error *err);

/* Set `data` if the store holds the object in memory; otherwise leave it NULL. */
stk_status stk__object_map(stk_store *store, stk__object *object, stk_error *err);

/* Set `data`: mapped, or read whole into memory. Blocks. */
stk_status stk__object_load(stk_store *store, stk__object *object, stk_error *err);

/* Read a range, from memory or from the store. Blocks. */
stk_status stk__object_read(stk_store *store, const stk__object *object, uint64_t offset,
                            uint64_t length, void *data, stk_error *err);

/* The needs of samples that lie in an object one behind the other, every `step` bytes from `first`
 * on; none where it is in memory. */
stk_status stk__object_locate(const stk__object *object, uint64_t first, uint64_t step,
                              uint64_t length, const uint64_t *indices, size_t n, stk_locator *to);

/* STK_ECHANGED for one that is another now, by stk__watched_look(); one that was loaded is what it
 * was. Messages begin with `who`. Any thread. */
stk_status stk__object_unchanged(stk_store *store, const stk__object *object, stk__watched_file *w,
                                 const char *who, stk_error *err);

/* Bytes of memory that it owns. */
uint64_t stk__object_held(const stk__object *object);

/* Free what it owns. */
void stk__object_release(stk_context *ctx, stk__object *object);

/* Copy a key for stk_dataset_ops.object(): cut to `size`, its full length returned. */
size_t stk__object_copy_key(char *to, size_t size, const char *key);

/* The last part of a key, which does not end at *length; a folder's may have a '/' behind. */
const char *stk__object_name(const char *key, size_t *length);

#endif
