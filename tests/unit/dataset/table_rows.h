/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables taken one at a time by locate, read, decode and prepare, all of their fields. */
#ifndef STK_TESTS_TABLE_ROWS_H
#define STK_TESTS_TABLE_ROWS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/objects.h"
#include "support/support.h"

#define ROW_FIELDS 64
#define ROW_NEEDS  64

typedef struct row {
    stk_locator base;
    stk_dataset *dataset;
    void *needs[ROW_NEEDS];
    stk_slice slices[ROW_NEEDS];
    uint32_t num_needs;
    stk_status status; /* of reading and decoding */
    const char *reason;
    uint64_t bound[ROW_FIELDS];
    stk_value values[ROW_FIELDS];
    stk_sample sample;
} row;

static inline stk_status row_add(stk_locator *self, size_t i, const stk_need *need)
{
    row *r = (row *)self;
    char key[1024];
    stk_store *store = NULL;
    stk_error err;

    (void)i;
    assert_true(r->num_needs < ROW_NEEDS);
    r->dataset->ops->object(r->dataset, need->object, &store, key, sizeof key);
    void *data = calloc(1, need->length + STK_TAIL);
    assert_non_null(data);
    assert_ok(stk_store_read(store, key, need->offset, need->length, data, &err), &err);
    /* Of just this size, so that a sanitizer sees what is written beyond. */
    void *decoded = aligned_alloc(64, stk__round_up(need->decoded, 64));
    assert_non_null(decoded);
    if (r->status == STK_OK)
        r->status = r->dataset->ops->decode(r->dataset, need, data, decoded, NULL, &r->reason);
    free(data);
    r->slices[r->num_needs] = (stk_slice){decoded, need->decoded};
    r->needs[r->num_needs++] = decoded;
    return STK_OK;
}

static inline void row_cost(stk_locator *self, size_t i, double nanoseconds)
{
    (void)self, (void)i, (void)nanoseconds;
}

static inline void row_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    (void)i;
    ((row *)self)->bound[field] = bytes;
}

/* To be freed with row_free(). */
static inline row *row_take(stk_dataset *d, uint64_t index)
{
    row *r = calloc(1, sizeof *r);
    stk_error err;

    assert_true(r && d->num_fields <= ROW_FIELDS);
    r->base = (stk_locator){
        .struct_size = sizeof(stk_locator), .add = row_add, .cost = row_cost, .bytes = row_bytes};
    r->dataset = d;
    assert_ok(d->ops->locate(d, &index, 1, &r->base, &err), &err);
    r->sample = (stk_sample){.struct_size = sizeof(stk_sample),
                             .value_size = sizeof(stk_value),
                             .index = index,
                             .needs = r->slices,
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
    for (uint32_t f = 0; f < d->num_fields && r->sample.status == STK_OK; f++)
        assert_true(r->values[f].size <= r->values[f].capacity);
    return r;
}

static inline void row_free(row *r)
{
    for (uint32_t f = 0; f < r->dataset->num_fields; f++)
        free(r->values[f].out);
    for (uint32_t i = 0; i < r->num_needs; i++)
        free(r->needs[i]);
    free(r);
}

static inline const stk_value *row_value(const row *r, const char *name)
{
    for (uint32_t f = 0; f < r->dataset->num_fields; f++)
        if (strcmp(r->dataset->fields[f].name, name) == 0)
            return &r->values[f];
    fail_msg("there is no field %s", name);
    return NULL;
}

static inline void row_is(const row *r, const char *name, const void *wanted, size_t size)
{
    const stk_value *value = row_value(r, name);

    assert_int_equal(r->sample.status, STK_OK);
    assert_int_equal(value->size, size);
    assert_memory_equal(value->data, wanted, size);
}

static inline void row_is_text(const row *r, const char *name, const char *wanted)
{
    row_is(r, name, wanted, strlen(wanted));
}

static inline void row_is_integer(const row *r, const char *name, int64_t wanted)
{
    row_is(r, name, &wanted, sizeof wanted);
}

static inline void row_is_real(const row *r, const char *name, double wanted)
{
    row_is(r, name, &wanted, sizeof wanted);
}

/* Opening fails so. */
static inline void table_refused(stk_context *ctx, const char *spec, stk_status status,
                                 const char *says)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    if (stk_dataset_open(ctx, spec, &d, &err) != status || !strstr(err.text, says))
        fail_msg("%s: %s: '%s' is not in '%s'", spec, stk_status_name(err.status), says, err.text);
    assert_null(d);
}

/* A sample is bad so. */
static inline void row_is_bad(stk_dataset *d, uint64_t index, const char *says)
{
    row *r = row_take(d, index);

    assert_int_not_equal(r->sample.status, STK_OK);
    assert_int_equal(stk_status_fault(r->sample.status), STK_FAULT_SAMPLE);
    assert_non_null(r->sample.reason);
    if (!strstr(r->sample.reason, says))
        fail_msg("'%s' is not in '%s'", says, r->sample.reason);
    row_free(r);
}

#endif
