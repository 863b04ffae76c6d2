/* A batch of a dataset, by a loader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_FUZZ_DELIVER_H
#define STK_FUZZ_DELIVER_H

#include "dataset/dataset.h"
#include "fuzz_support.h"

static inline void fuzz_deliver(stk_dataset *dataset)
{
    stk_loader_options o;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = 3;
    o.num_workers = 0;
    o.memory_budget = 4 << 20;
    o.shuffle = (int32_t)(dataset->size % 3);
    o.cache = (int32_t)(dataset->size % 2) * STK_CACHE_DECODED;
    stk_error_init(&err);
    stk_status status = stk_loader_create(dataset, &o, &loader, &err);
    if (status == STK_OK)
        status = stk_loader_next(loader, -1, &batch, &err);
    for (uint32_t f = 0; f < dataset->num_fields && batch; f++) {
        stk_tensor t = {.struct_size = sizeof t};
        FUZZ_CHECK(stk_batch_field(batch, f, &t) == STK_OK);
        (void)fuzz_sum(t.data, stk_batch_count(batch) * stk_field_bytes(&dataset->fields[f]));
    }
    FUZZ_CHECK(status == STK_OK || (err.text[0] && status != STK_EINTERNAL));
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
}

/* Open a dataset, and where that succeeds take a batch and have it described. */
static inline void fuzz_try(stk_context *ctx, const char *spec)
{
    stk_dataset *dataset = NULL;
    stk_error err;

    stk_error_init(&err);
    if (stk_dataset_open(ctx, spec, &dataset, &err) != STK_OK) {
        FUZZ_CHECK(!dataset && err.text[0] && err.status != STK_EINTERNAL);
        return;
    }
    fuzz_deliver(dataset);
    FUZZ_CHECK(stk_dataset_describe(dataset, fuzz_line, &err, &err) == STK_OK);
    stk_dataset_close(&dataset);
}

#endif
