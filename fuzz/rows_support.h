/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets of tables and of shards that are tables share: rows are taken as the loader
 * does it, each need read or decoded into as much room as it says and each value held against its
 * bound.
 */
#ifndef STK_FUZZ_ROWS_SUPPORT_H
#define STK_FUZZ_ROWS_SUPPORT_H

#include <stdio.h>

#include "fuzz_support.h"

#define ROWS_FIELDS  256
#define ROWS_NEEDS   512
#define ROWS_SAMPLES 32 /* that are taken, so that small inputs stay fast */

typedef struct fuzz_row {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice needs[ROWS_NEEDS];
    uint32_t num_needs;
    stk_status status;
    const char *reason;
    uint64_t bound[ROWS_FIELDS];
    stk_value values[ROWS_FIELDS];
} fuzz_row;

/* The bytes of a need, of just its size, so that a sanitizer sees what is read beyond; where they
 * are decoded, with the tail that decoders may read. */
static inline void *rows_read(fuzz_row *r, const stk_need *need)
{
    char key[4096];
    stk_store *store = NULL;
    stk_error err;

    r->dataset->ops->object(r->dataset, need->object, &store, key, sizeof key);
    void *data = calloc(1, need->length + (need->decoded ? FUZZ_TAIL : !need->length));
    FUZZ_CHECK(data);
    const stk_status status = stk_store_read(store, key, need->offset, need->length, data, &err);
    if (r->status == STK_OK)
        r->status = status;
    return data;
}

static inline stk_status rows_add(stk_locator *self, size_t i, const stk_need *need)
{
    fuzz_row *r = (fuzz_row *)self;

    FUZZ_CHECK(i == 0 && r->num_needs < ROWS_NEEDS && (need->length || !need->decoded));
    FUZZ_CHECK((need->decoded != 0) == (r->dataset->ops->decode != NULL));
    stk_slice *slice = &r->needs[r->num_needs++];
    if (need->length > FUZZ_MEMORY || need->decoded > FUZZ_MEMORY) {
        FUZZ_CHECK(need->decoded);
        r->status = STK_EBUDGET; /* as the loader says */
        r->reason = "it does not fit the memory";
        return STK_OK;
    }
    void *data = rows_read(r, need);
    *slice = (stk_slice){data, need->length};
    if (!need->decoded)
        return STK_OK;
    void *decoded = malloc(need->decoded);
    FUZZ_CHECK(decoded);
    if (r->status == STK_OK)
        r->status = r->dataset->ops->decode(r->dataset, need, data, decoded, NULL, &r->reason);
    free(data);
    *slice = (stk_slice){decoded, need->decoded};
    return STK_OK;
}

static inline void rows_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    fuzz_row *r = (fuzz_row *)self;

    FUZZ_CHECK(i == 0 && field < r->dataset->num_fields);
    r->bound[field] = bytes;
}

/* A value of its size, or within its bound; every byte of it is there. */
static inline unsigned rows_check(const fuzz_row *r, const stk_sample *s)
{
    unsigned sum = 0;

    FUZZ_CHECK(s->status == STK_OK ||
               (s->reason && stk_status_fault(s->status) == STK_FAULT_SAMPLE));
    for (uint32_t f = 0; s->status == STK_OK && f < r->dataset->num_fields; f++) {
        const stk_field *field = &r->dataset->fields[f];
        const stk_value *v = &r->values[f];
        FUZZ_CHECK(v->data &&
                   (field->layout == STK_FIXED
                        ? v->size == stk_field_bytes(field)
                        : v->size <= r->bound[f] && v->size % stk_dtype_size(field->dtype) == 0));
        sum += fuzz_sum(v->data, v->size);
    }
    return sum;
}

static inline void rows_take(stk_dataset *d, uint64_t index)
{
    static fuzz_row r;
    stk_sample s = {.struct_size = sizeof s, .value_size = sizeof(stk_value), .index = index};
    static char none[1];
    stk_error err;

    memset(&r, 0, sizeof r);
    r.base = (stk_locator){.struct_size = sizeof(stk_locator),
                           .add = rows_add,
                           .cost = fuzz_cost,
                           .bytes = rows_bytes};
    r.dataset = d;
    FUZZ_CHECK(d->ops->locate(d, &index, 1, &r.base, &err) == STK_OK);
    s.needs = r.needs;
    s.values = r.values;
    for (uint32_t f = 0; f < d->num_fields; f++) {
        /* What varies lies where it was decoded, or is written to as much room as was said. */
        const uint64_t bytes = stk_field_bytes(&d->fields[f]);
        void *out = bytes ? malloc(bytes) : d->ops->decode ? none : malloc(STK_MAX(r.bound[f], 1));
        FUZZ_CHECK(out != NULL);
        r.values[f] = (stk_value){out, bytes ? bytes : r.bound[f], out, bytes};
    }
    FUZZ_CHECK(r.status == STK_OK || stk_status_fault(r.status) == STK_FAULT_SAMPLE);
    if (r.status == STK_OK) {
        d->ops->prepare(d, &s, 1);
        (void)rows_check(&r, &s);
    }
    for (uint32_t f = 0; f < d->num_fields; f++)
        if (r.values[f].out != none)
            free(r.values[f].out);
    for (uint32_t i = 0; i < r.num_needs; i++)
        free((void *)r.needs[i].data);
}

static inline void rows_open(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    if (stk_dataset_open(ctx, spec, &d, &err) != STK_OK) {
        FUZZ_CHECK(!d && err.status != STK_OK && err.text[0] && err.status != STK_EINTERNAL);
        return;
    }
    FUZZ_CHECK(d->size > 0 && (d->ops->decode || d->num_fields <= ROWS_FIELDS));
    for (uint64_t i = 0; d->num_fields <= ROWS_FIELDS && i < ROWS_SAMPLES && i < d->size; i++)
        rows_take(d, i % 2 ? d->size - 1 - i / 2 : i / 2);
    FUZZ_CHECK(stk_dataset_describe(d, fuzz_line, &err, &err) == STK_OK);
    stk_dataset_close(&d);
}

#endif
