/* path or URL, range -> bytes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_SOURCE_H
#define STK_SRC_CHECKPOINT_SOURCE_H

#include <stoker/store.h>

#include "base/base.h"

#define STK__VERIFY_BYTES (UINT64_C(4) << 20) /* of one read of what is verified and not kept */

/* A file, or an object of a store. */
typedef struct stk__checkpoint_source {
    int fd;           /* -1: it is an object of a store, or closed */
    stk_store *store; /* NULL: it is a file */
    char key[STK_MAX_OBJECT_KEY];
    uint64_t size;
    const stk_store_call *call; /* asked whether reading is still wanted; NULL: it is */
} stk__checkpoint_source;

/* Open what has to be a file; `what` ("a safetensors file") is for messages. On failure it is
 * closed.
 */
stk_status stk__checkpoint_source_open(stk_context *ctx, const char *path, const char *what,
                                       stk__checkpoint_source *out, stk_error *err);
/* Read a range. STK_ECHANGED: the file became shorter. */
stk_status stk__checkpoint_source_read(const stk__checkpoint_source *source, const char *path,
                                       uint64_t offset, void *to, uint64_t length, stk_error *err);
/* Accepts one that is closed. */
void stk__checkpoint_source_close(stk__checkpoint_source *source);

#endif
