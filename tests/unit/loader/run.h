/* Deliveries of a loader, kept row by row. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_LOADER_RUN_H
#define STK_TESTS_UNIT_LOADER_RUN_H

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/counting.h"

/* All a run delivers, row by row. */
typedef struct row {
    uint64_t epoch, step, position, index;
} row;

typedef struct run {
    row *rows;
    size_t n, room;
} run;

static inline void keep(run *r, const stk_batch *batch)
{
    stk_tensor index = {.struct_size = sizeof index};

    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
        if (r->n == r->room) {
            r->room = r->room * 2 + 256;
            r->rows = realloc(r->rows, r->room * sizeof *r->rows);
        }
        r->rows[r->n++] = (row){stk_batch_epoch(batch), stk_batch_step(batch),
                                stk_batch_positions(batch)[i], ((uint64_t *)index.data)[i]};
    }
}

static inline stk_loader *open_loader(stk_dataset *dataset, const stk_loader_options *o)
{
    stk_loader_options given = *o;
    stk_loader *loader;
    stk_error err;

    /* Unless it is said, any number of samples may be bad. */
    if (!given.max_errors && given.on_error != STK_ON_ERROR_FAIL)
        given.max_errors = "100%";
    assert_ok(stk_loader_create(dataset, &given, &loader, &err), &err);
    return loader;
}

/* Take everything up to the end of `epochs` epochs. */
static inline void drain(stk_loader *loader, uint64_t epochs, bool ragged, run *out)
{
    stk_batch *batch;
    stk_error err;

    for (uint64_t ends = 0; ends < epochs;) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS) {
            ends++;
            continue;
        }
        assert_ok(status, &err);
        counting_check(batch, ragged);
        if (out)
            keep(out, batch);
        stk_batch_release(&batch);
    }
}

static inline stk_loader_options base_options(void)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = 16;
    o.shuffle = STK_SHUFFLE_FULL;
    o.seed = 11;
    o.memory_budget = 32 << 20;
    o.num_workers = 2;
    o.max_errors = NULL;
    return o;
}

#endif
