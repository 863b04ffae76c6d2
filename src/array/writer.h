/* values -> chunks, metadata */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_WRITER_H
#define STK_SRC_ARRAY_WRITER_H

#include "array/room.h"

/* The zarr.json of what is to be written; of version 2 its .zarray, and its .zattrs in
 * `attributes`, which is NULL else. New references. */
stk_status stk__writer_metadata(stk_context *ctx, const stk_array_writer_options *options,
                                json_t **out, json_t **attributes, stk_error *err);
/* STK_EINVAL where `prefix` of a store is an array or a group already. */
stk_status stk__writer_check_free(stk_store *store, const char *prefix, const char *url,
                                  stk_error *err);

#endif
