/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a table taken one at a time, as the loader does it: pieces read, decoded, prepared. */
#ifndef STK_TESTS_PARQUET_H
#define STK_TESTS_PARQUET_H

#include <stdio.h>
#include <stdlib.h>

#include "dataset/dataset.h"
#include "support/objects.h"
#include "support/support.h"

#define ROW_NEEDS  64
#define ROW_FIELDS 64

typedef struct row {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice needs[ROW_NEEDS];
    uint32_t num_needs;
    uint64_t bound[ROW_FIELDS];
    stk_value values[ROW_FIELDS];
    stk_status status; /* of reading and decoding */
    const char *reason;
    stk_sample sample;
} row;

static inline stk_status row_add(stk_locator *self, size_t i, const stk_need *need)
{
    row *r = (row *)self;
    char key[1024];
    stk_store *store = NULL;
    stk_error err;

    assert_true(i == 0 && r->num_needs < ROW_NEEDS && need->length && need->decoded);
    r->dataset->ops->object(r->dataset, need->object, &store, key, sizeof key);
    unsigned char *data = calloc(1, need->length + STK_TAIL);
    unsigned char *out = malloc(need->decoded);
    assert_true(data && out);
    assert_ok(stk_store_read(store, key, need->offset, need->length, data, &err), &err);
    const char *reason = NULL;
    const stk_status status = r->dataset->ops->decode(r->dataset, need, data, out, NULL, &reason);
    if (status != STK_OK && r->status == STK_OK) {
        r->status = status;
        r->reason = reason;
    }
    free(data);
    r->needs[r->num_needs++] = (stk_slice){out, need->decoded};
    return STK_OK;
}

static inline void row_cost(stk_locator *self, size_t i, double nanoseconds)
{
    assert_true(nanoseconds >= 0);
}

static inline void row_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    assert_true(field < ROW_FIELDS);
    ((row *)self)->bound[field] = bytes;
}

/* Rows are taken as where samples come in blocks, and mixed. */
static bool row_blocks, row_mixed;

/* To be freed with row_free(). */
static inline row *row_take(stk_dataset *d, uint64_t index)
{
    row *r = calloc(1, sizeof *r);
    stk_error err;

    assert_true(r && d->num_fields <= ROW_FIELDS);
    r->base = (stk_locator){.struct_size = sizeof(stk_locator),
                            .add = row_add,
                            .cost = row_cost,
                            .bytes = row_bytes,
                            .blocks = row_blocks,
                            .mixed = row_mixed};
    r->dataset = d;
    assert_ok(d->ops->locate(d, &index, 1, &r->base, &err), &err);
    r->sample = (stk_sample){.struct_size = sizeof(stk_sample),
                             .value_size = sizeof(stk_value),
                             .index = index,
                             .needs = r->needs,
                             .values = r->values,
                             .status = r->status,
                             .reason = r->reason};
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const uint64_t bytes = stk_field_bytes(&d->fields[f]);
        void *out = malloc(bytes ? bytes : r->bound[f] + 1);
        r->values[f] = (stk_value){out, bytes ? bytes : r->bound[f], out, bytes};
    }
    if (r->status == STK_OK)
        d->ops->prepare(d, &r->sample, 1);
    return r;
}

static inline void row_free(row *r)
{
    for (uint32_t f = 0; f < r->dataset->num_fields; f++)
        free(r->values[f].out);
    for (uint32_t i = 0; i < r->num_needs; i++)
        free((void *)r->needs[i].data);
    free(r);
}

static inline void row_is(const row *r, const char *name, const void *wanted, size_t size)
{
    for (uint32_t f = 0; f < r->dataset->num_fields; f++)
        if (strcmp(r->dataset->fields[f].name, name) == 0) {
            assert_int_equal(r->values[f].size, size);
            assert_memory_equal(r->values[f].data, wanted, size);
            return;
        }
    fail_msg("there is no field %s", name);
}

#endif
