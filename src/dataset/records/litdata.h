/* index.json of a folder of litdata -> columns and chunks */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_LITDATA_H
#define STK_SRC_DATASET_RECORDS_LITDATA_H

#include "dataset/records/tabled.h"

#define STK__LITDATA_MAX_DEPTH 16 /* of dictionaries and lists within a sample */

typedef struct stk__litdata_options {
    stk__tabled_options tabled;
    uint64_t block_size; /* tokens; 0: items as they are */
} stk__litdata_options;

/*
 * Chunks of PyTreeLoader and TokensLoader [Lightning-AI/litdata: streaming/writer.py,
 * item_loader.py, serializers.py]. STK_EFORMAT, STK_ENOTSUP, STK_EINVAL, STK_ELIMIT, STK_ENOMEM.
 */
stk_status stk__litdata_index_parse(const void *options, const char *text, uint64_t length,
                                    const char *key, stk__tabled *out, stk_error *err);

/* Names of the leaves of a sample, in their order: each call of `leaf` has one. `spec` is
 * data_spec, the text of a PyTree of torch.utils._pytree. A name is the keys that lead to it with
 * dots between; places in lists are numbers, and then `nameless`. */
typedef stk_status stk__litdata_leaf_fn(void *user, const char *name, bool nameless,
                                        stk_error *err);
stk_status stk__litdata_leaves(stk_context *ctx, const char *spec, const char *key,
                               stk__litdata_leaf_fn *leaf, void *user, stk_error *err);

#endif
