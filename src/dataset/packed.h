/* a group of arrays of pictures that need no decoding -> samples */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_PACKED_H
#define STK_SRC_DATASET_PACKED_H

#include "dataset/dataset.h"

/* Pictures packed by stoker convert: `image` [N, height, width, channels] and `label` [N]. */
extern const stk_dataset_ops stk__packed_pictures, stk__packed_decoded;

/* Whether a folder is a group of Zarr; `images:` reads it as packed pictures then. Blocks. */
bool stk__packed_is_group(stk_store *store);
/* Whether a group says that it is packed pictures. Blocks. */
bool stk__packed_recognise(stk_context *ctx, const char *url);
/* Open one. Blocks. */
stk_status stk__packed_open(stk_context *ctx, const char *url, stk_dataset **out, stk_error *err);

#endif
