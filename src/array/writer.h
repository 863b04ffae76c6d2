/* values -> chunks, metadata */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_WRITER_H
#define STK_SRC_ARRAY_WRITER_H

#include "array/room.h"

/* The zarr.json of what is to be written; a new reference. */
stk_status stk__writer_metadata(stk_context *ctx, const stk_array_writer_options *options,
                                json_t **out, stk_error *err);

#endif
