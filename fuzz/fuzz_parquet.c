/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of `parquet:`. Input: a file. It is opened, so that its footer, the indexes and the headers
 * of its pages are read, and rows of it are taken: their pieces are read, decoded and prepared.
 */
#include <stdio.h>

#include "fuzz_support.h"

#define PARQUET_NEEDS  512
#define PARQUET_FIELDS 256
#define PARQUET_ROWS   4
#define PARQUET_ROOM   (UINT64_C(64) << 20) /* of a piece that is decoded */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct parquet_row {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice needs[PARQUET_NEEDS];
    uint32_t num_needs;
    uint64_t bound[PARQUET_FIELDS];
    stk_value values[PARQUET_FIELDS];
    stk_status status;
} parquet_row;

static stk_status row_add(stk_locator *self, size_t i, const stk_need *need)
{
    parquet_row *r = (parquet_row *)self;
    char key[4096];
    stk_store *store = NULL;
    const char *reason = NULL;
    stk_error err;

    FUZZ_CHECK(i == 0 && r->num_needs < PARQUET_NEEDS && need->length && need->decoded);
    r->needs[r->num_needs++] = (stk_slice){NULL, 0};
    if (need->decoded > PARQUET_ROOM)
        r->status = STK_ELIMIT;
    if (r->status != STK_OK)
        return STK_OK;
    r->dataset->ops->object(r->dataset, need->object, &store, key, sizeof key);
    uint8_t *data = calloc(1, need->length + FUZZ_TAIL);
    uint8_t *out = malloc(need->decoded); /* of just this size */
    FUZZ_CHECK(data && out);
    r->status = stk_store_read(store, key, need->offset, need->length, data, &err);
    FUZZ_CHECK(r->status == STK_OK);
    r->status = r->dataset->ops->decode(r->dataset, need, data, out, NULL, &reason);
    FUZZ_CHECK(r->status == STK_OK || reason);
    free(data);
    r->needs[r->num_needs - 1] = (stk_slice){out, need->decoded};
    return STK_OK;
}

static void row_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    FUZZ_CHECK(i == 0 && field < PARQUET_FIELDS);
    ((parquet_row *)self)->bound[field] = bytes;
}

static unsigned check_values(const parquet_row *r, const stk_sample *s)
{
    unsigned sum = 0;

    for (uint32_t f = 0; f < r->dataset->num_fields && s->status == STK_OK; f++) {
        const stk_field *field = &r->dataset->fields[f];
        const stk_value *v = &r->values[f];
        FUZZ_CHECK(v->data || !v->size);
        FUZZ_CHECK(field->layout == STK_FIXED ? v->size == stk_field_bytes(field)
                                              : v->size % stk_dtype_size(field->dtype) == 0);
        sum += fuzz_sum(v->data, v->size);
    }
    FUZZ_CHECK(s->status == STK_OK || stk_status_fault(s->status) == STK_FAULT_SAMPLE);
    return sum;
}

/* By pages, or mixed in blocks. */
static void take_row(stk_dataset *d, uint64_t index, bool mixed)
{
    static parquet_row r;
    stk_sample s = {.struct_size = sizeof s, .value_size = sizeof(stk_value), .index = index};
    stk_error err;

    r = (parquet_row){.base = {.struct_size = sizeof(stk_locator),
                               .add = row_add,
                               .cost = fuzz_cost,
                               .bytes = row_bytes,
                               .blocks = mixed,
                               .mixed = mixed},
                      .dataset = d};
    FUZZ_CHECK(d->ops->locate(d, &index, 1, &r.base, &err) == STK_OK);
    s.needs = r.needs;
    s.values = r.values;
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const uint64_t bytes = stk_field_bytes(&d->fields[f]);
        void *out = bytes ? malloc(bytes) : NULL;
        r.values[f] = (stk_value){out, bytes, out, bytes};
    }
    if (r.status == STK_OK) {
        d->ops->prepare(d, &s, 1);
        (void)check_values(&r, &s);
    }
    for (uint32_t f = 0; f < d->num_fields; f++)
        free(r.values[f].out);
    for (uint32_t i = 0; i < r.num_needs; i++)
        free((void *)r.needs[i].data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://t");
    stk_dataset *d = NULL;
    stk_error err;

    fuzz_put(room.store, "a.parquet", data, size);
    fuzz_ready(&room);
    stk_error_init(&err);
    if (stk_dataset_open(room.ctx, "parquet:mem://t/a.parquet?nulls=zero", &d, &err) == STK_OK) {
        for (uint64_t i = 0; i < PARQUET_ROWS && i < d->size && d->num_fields <= PARQUET_FIELDS;
             i++)
            take_row(d, i % 2 ? d->size - 1 - i / 2 : i / 2, i / 2 % 2);
        FUZZ_CHECK(stk_dataset_describe(d, fuzz_line, &err, &err) == STK_OK);
        stk_dataset_close(&d);
    } else {
        FUZZ_CHECK(!d && err.text[0] && err.status != STK_EINTERNAL);
    }
    fuzz_close(&room);
    return 0;
}
