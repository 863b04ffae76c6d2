/* answer of ListObjectsV2 -> objects and folders */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_LIST_H
#define STK_SRC_STORE_S3_LIST_H

#include "store/store.h"

#define STK__S3_TOKEN 2048 /* bytes of a continuation token, with its end */

/* An object, or a folder: a common prefix, whose key ends in '/'. Valid within the call. */
typedef struct stk__s3_entry {
    const char *key; /* whole, from the bucket's root */
    const char *etag;
    uint64_t size;
    int64_t mtime_ns; /* 0: not said */
    bool is_folder;
} stk__s3_entry;

typedef stk_status stk__s3_entry_fn(void *user, const stk__s3_entry *entry, stk_error *err);

/*
 * Read one page [S3 API Reference, ListObjectsV2]: nothing is given before all of it is known to be
 * sound. `next` is the token of the page behind it, "" where it is the last. Keys that were escaped
 * for the answer (encoding-type=url) are given as they are. `where` names the list in messages.
 * Errors: STK_EFORMAT; what `each` returns.
 */
stk_status stk__s3_list_read(const char *text, size_t length, const char *where,
                             stk__s3_entry_fn *each, void *user, char next[STK__S3_TOKEN],
                             stk_error *err);

/* "2009-10-12T17:50:30.000Z" as Unix time. False: it is none. */
bool stk__s3_time(const char *text, int64_t *ns);

#endif
