/* what a sample needs -> its bytes, without a loader */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_NEED_H
#define STK_SRC_DATASET_NEED_H

#include "dataset/dataset.h"

/* Read the range of a need into `to`, which has room for need->length bytes; of one that is `up_to`
 * need->length becomes what there is. STK_ENOENT: the object is not there. Blocks. */
stk_status stk__need_read(stk_dataset *dataset, stk_need *need, void *to, stk_error *err);
/* Decode all of it into `out`, which has room for need->decoded bytes. On failure *reason may be a
 * static text. Does not wait for storage. */
stk_status stk__need_decode(stk_dataset *dataset, const stk_need *need, const void *data, void *out,
                            void *worker, const char **reason);

#endif
