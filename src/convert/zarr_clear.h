/* a folder with Zarr in it -> the folder without */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_ZARR_CLEAR_H
#define STK_SRC_CONVERT_ZARR_CLEAR_H

#include "base/base.h"

/* Remove documents and chunks of Zarr, at any depth; those of the root go first, so that nothing is
 * taken for complete meanwhile. Other objects stay. Links are not followed. Blocks. */
stk_status stk__zarr_clear(stk_context *ctx, const char *url, stk_error *err);
/* Whether an object of this name would go. */
bool stk__zarr_is_own(const char *name);

#endif
