/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets of mds: and litdata: share. Input: two bytes of length, index.json, a shard
 * that has the names "a" and "b". Opening reads the index and the table of offsets; then samples
 * are taken as the loader does it, with as much room for each value as locate() says.
 */
#ifndef STK_FUZZ_TABLED_SUPPORT_H
#define STK_FUZZ_TABLED_SUPPORT_H

#include <stdio.h>

#include "fuzz_support.h"

#define TABLED_FIELDS  256
#define TABLED_SAMPLES 32 /* that are taken, so that small inputs stay fast */

typedef struct tabled_one {
    stk_locator base;
    stk_dataset *dataset;
    void *need;
    stk_slice slice;
    stk_status status;
    uint64_t bound[TABLED_FIELDS];
    stk_value values[TABLED_FIELDS];
} tabled_one;

static inline stk_status tabled_add(stk_locator *self, size_t i, const stk_need *need)
{
    tabled_one *t = (tabled_one *)self;
    char key[4096];
    stk_store *store = NULL;
    stk_error err;

    FUZZ_CHECK(i == 0 && !t->need && need->length <= FUZZ_MEMORY);
    t->dataset->ops->object(t->dataset, need->object, &store, key, sizeof key);
    /* Of just this size, so that a sanitizer sees what is read beyond. */
    t->need = malloc(need->length ? need->length : 1);
    FUZZ_CHECK(t->need != NULL);
    t->slice = (stk_slice){t->need, need->length};
    t->status = stk_store_read(store, key, need->offset, need->length, t->need, &err);
    return STK_OK;
}

static inline void tabled_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    tabled_one *t = (tabled_one *)self;

    FUZZ_CHECK(i == 0 && field < t->dataset->num_fields);
    t->bound[field] = bytes;
}

/* A value of its size, or within its bound; every byte of it is there. */
static inline unsigned tabled_check(const tabled_one *t, const stk_sample *s)
{
    unsigned sum = 0;

    for (uint32_t f = 0; f < t->dataset->num_fields; f++) {
        const stk_field *field = &t->dataset->fields[f];
        const stk_value *v = &t->values[f];
        FUZZ_CHECK(s->status != STK_OK || v->data);
        FUZZ_CHECK(s->status != STK_OK ||
                   (field->layout == STK_FIXED
                        ? v->size == stk_field_bytes(field)
                        : v->size <= t->bound[f] && v->size % stk_dtype_size(field->dtype) == 0));
        sum += s->status == STK_OK ? fuzz_sum(v->data, v->size) : 0;
    }
    FUZZ_CHECK(s->status == STK_OK || stk_status_fault(s->status) == STK_FAULT_SAMPLE);
    FUZZ_CHECK(s->status == STK_OK || s->reason);
    return sum;
}

static inline void tabled_take(stk_dataset *d, uint64_t index)
{
    static tabled_one t;
    stk_sample s = {.struct_size = sizeof s, .value_size = sizeof(stk_value), .index = index};
    stk_error err;

    t = (tabled_one){.base = {sizeof(stk_locator), tabled_add, fuzz_cost, tabled_bytes},
                     .dataset = d};
    FUZZ_CHECK(d->ops->locate(d, &index, 1, &t.base, &err) == STK_OK);
    s.needs = &t.slice;
    s.values = t.values;
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const uint64_t bytes = stk_field_bytes(&d->fields[f]);
        void *out = bytes ? malloc(bytes) : malloc(t.bound[f] ? t.bound[f] : 1);
        FUZZ_CHECK(out != NULL);
        t.values[f] = (stk_value){out, bytes ? bytes : t.bound[f], out, bytes};
    }
    if (t.status == STK_OK) {
        d->ops->prepare(d, &s, 1);
        (void)tabled_check(&t, &s);
    }
    for (uint32_t f = 0; f < d->num_fields; f++)
        free(t.values[f].out);
    free(t.need);
}

static inline void tabled_open(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    if (stk_dataset_open(ctx, spec, &d, &err) != STK_OK) {
        FUZZ_CHECK(!d && err.status != STK_OK && err.text[0] && err.status != STK_EINTERNAL);
        return;
    }
    FUZZ_CHECK(d->num_fields <= TABLED_FIELDS && d->size > 0);
    for (uint64_t i = 0; i < TABLED_SAMPLES && i < d->size; i++)
        tabled_take(d, i % 2 ? d->size - 1 - i / 2 : i / 2);
    FUZZ_CHECK(stk_dataset_describe(d, fuzz_line, &err, &err) == STK_OK);
    stk_dataset_close(&d);
}

/* The folder "mem://t" of an input. */
static inline fuzz_room tabled_room(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://t");
    size_t length = 0;

    const uint8_t *index = fuzz_take(&data, &size, &length);
    fuzz_put(room.store, "index.json", index, length);
    fuzz_put(room.store, "a", data, size);
    fuzz_put(room.store, "b", data, size);
    fuzz_ready(&room);
    return room;
}

#endif
