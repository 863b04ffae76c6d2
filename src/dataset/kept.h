/* What was found out about files, kept as a file: its bytes, read and written. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_KEPT_H
#define STK_SRC_DATASET_KEPT_H

#include "store/store.h"

/* What changed within this time before it was looked at may have changed after it with no other
 * time to show for it: the coarsest clock of a file system ticks every two seconds. */
#define STK__RACY_NS INT64_C(2000000000)

/* All bytes of an index, in new memory, and what it is as an object. More than a quarter of the
 * memory that is left is STK_ELIMIT: its tables take more than its bytes. Blocks. */
stk_status stk__kept_read(stk_context *ctx, stk_store *store, const char *key, void **data,
                          stk_object_info *info);
/* Replace it. A folder of data without permission to write is left alone, also by a user whom
 * permissions do not bind: STK_EACCES; `own`: the folder is no such one. Blocks. */
stk_status stk__kept_write(stk_store *store, const char *key, bool own, const void *data,
                           uint64_t length, stk_error *err);

#endif
