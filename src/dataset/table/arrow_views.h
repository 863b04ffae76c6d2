/* views of texts in a batch -> a piece, its vector */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_TABLE_ARROW_VIEWS_H
#define STK_SRC_DATASET_TABLE_ARROW_VIEWS_H

#include "dataset/table/arrow.h"

/* What `own` of a piece of views says: it is the batch's metadata and its body. */
typedef struct stk__arrow_views {
    uint32_t lead;   /* bytes before the metadata */
    uint32_t body;   /* where the body begins, counted from the metadata */
    uint32_t buffer; /* number of the column's validity among the buffers */
    uint32_t count;  /* buffers of texts */
    bool validity;   /* a row is null */
} stk__arrow_views;

/* False: it does not fit. */
bool stk__arrow_views_pack(const stk__arrow_views *views, uint64_t own[2]);
bool stk__arrow_is_views(const stk__table_piece *piece);
/* Bytes that a piece decodes to, for `bytes` bytes of texts and `scratch` of buffers that are
 * unpacked; UINT64_MAX: too many. */
uint64_t stk__arrow_views_decoded(uint32_t rows, uint64_t bytes, uint64_t scratch);
stk_status stk__arrow_views_decode(stk_context *context, const stk__table_piece *piece,
                                   const void *data, void *out, const char **reason);

#endif
