/* nodes of a target -> the documents that Zarr says them with */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_ZARR_DOCUMENTS_H
#define STK_SRC_CONVERT_ZARR_DOCUMENTS_H

#include "array/array.h"
#include "base/json.h"
#include "convert/array_target.h"

/* What is written of a target, and what of it its arrays are written with. */
typedef struct stk__zarr_documents {
    stk_context *context;
    const stk_convert_arrays_options *own;
    const stk__target_node *nodes;
    size_t num_nodes;
    bool v2;
    stk_array_writer **writers; /* one for each node, NULL of groups */
} stk__zarr_documents;

/* All but `writers` is set; stk__zarr_documents_release() after a failure as well. */
stk_status stk__zarr_documents_init(stk__zarr_documents *documents, stk_error *err);
void stk__zarr_documents_release(stk__zarr_documents *documents);

/* Called with the name of a document below the target, and its value. */
typedef stk_status stk__zarr_document_fn(void *user, const char *name, const json_t *value,
                                         stk_error *err);
/* Tell of all documents of nodes, inner ones first, in the same order each time; without `root`
 * those of the target itself are left out. */
stk_status stk__zarr_documents_each(const stk__zarr_documents *documents, bool root,
                                    stk__zarr_document_fn *each, void *user, stk_error *err);
/* The document of the root of a group that holds all others, so that one read opens them all:
 * zarr.json, or .zmetadata of version 2. A new reference. */
stk_status stk__zarr_documents_root(const stk__zarr_documents *documents, json_t **out,
                                    stk_error *err);
const char *stk__zarr_documents_root_name(const stk__zarr_documents *documents);

/* The name, below the target, of an object of the node at `path`. STK_ELIMIT: it is too long. */
stk_status stk__zarr_below(const char *path, const char *name, char out[STK_MAX_OBJECT_KEY],
                           stk_error *err);

#endif
