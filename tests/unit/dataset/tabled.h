/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of records taken one at a time by locate, read and prepare, all of their fields. */
#ifndef STK_TESTS_TABLED_H
#define STK_TESTS_TABLED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/records/tabled.h"
#include "support/objects.h"
#include "support/support.h"

#define TAKEN_FIELDS 16

typedef struct taken {
    stk_locator base;
    stk_dataset *dataset;
    void *need;
    stk_slice slice;
    uint64_t bound[TAKEN_FIELDS];
    stk_value values[TAKEN_FIELDS];
    stk_sample sample;
} taken;

static inline stk_status taken_add(stk_locator *self, size_t i, const stk_need *need)
{
    taken *t = (taken *)self;
    char key[1024];
    stk_store *store = NULL;
    stk_error err;

    assert_null(t->need);
    t->dataset->ops->object(t->dataset, need->object, &store, key, sizeof key);
    t->need = malloc(need->length + 1);
    assert_ok(stk_store_read(store, key, need->offset, need->length, t->need, &err), &err);
    t->slice = (stk_slice){t->need, need->length};
    return STK_OK;
}

static inline void taken_cost(stk_locator *self, size_t i, double nanoseconds)
{
}

static inline void taken_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    ((taken *)self)->bound[field] = bytes;
}

/* To be freed with taken_free(). */
static inline taken *take(stk_dataset *d, uint64_t index)
{
    taken *t = calloc(1, sizeof *t);
    stk_error err;

    assert_true(t && d->num_fields <= TAKEN_FIELDS);
    t->base = (stk_locator){.struct_size = sizeof(stk_locator),
                            .add = taken_add,
                            .cost = taken_cost,
                            .bytes = taken_bytes};
    t->dataset = d;
    assert_ok(d->ops->locate(d, &index, 1, &t->base, &err), &err);
    t->sample = (stk_sample){.struct_size = sizeof(stk_sample),
                             .value_size = sizeof(stk_value),
                             .index = index,
                             .needs = &t->slice,
                             .values = t->values};
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const uint64_t bytes = stk_field_bytes(&d->fields[f]);
        void *out = malloc(bytes ? bytes : t->bound[f] + 1);
        t->values[f] = (stk_value){out, bytes ? bytes : t->bound[f], out, bytes};
    }
    d->ops->prepare(d, &t->sample, 1);
    return t;
}

static inline void taken_free(taken *t)
{
    for (uint32_t f = 0; f < t->dataset->num_fields; f++)
        free(t->values[f].out);
    free(t->need);
    free(t);
}

/* The value of a field by its name. */
static inline const stk_value *taken_value(const taken *t, const char *name)
{
    for (uint32_t f = 0; f < t->dataset->num_fields; f++)
        if (strcmp(t->dataset->fields[f].name, name) == 0)
            return &t->values[f];
    fail_msg("there is no field %s", name);
    return NULL;
}

/* It is these bytes. */
static inline void check_value(const taken *t, const char *name, const void *wanted, size_t size)
{
    const stk_value *value = taken_value(t, name);

    assert_int_equal(value->size, size);
    assert_memory_equal(value->data, wanted, size);
}

static inline void check_text(const taken *t, const char *name, const char *wanted)
{
    check_value(t, name, wanted, strlen(wanted));
}

static inline const stk_field *field_of(const stk_dataset *d, const char *name)
{
    for (uint32_t f = 0; f < d->num_fields; f++)
        if (strcmp(d->fields[f].name, name) == 0)
            return &d->fields[f];
    fail_msg("there is no field %s", name);
    return NULL;
}

/* ---- Shards that are made here ---- */

typedef struct made {
    unsigned char bytes[4096];
    size_t size;
} made;

static inline void made_u32(made *m, uint32_t value)
{
    assert_true(m->size + 4 <= sizeof m->bytes);
    memcpy(m->bytes + m->size, &value, 4); /* little-endian machines alone run the tests */
    m->size += 4;
}

static inline void made_bytes(made *m, const void *data, size_t size)
{
    assert_true(m->size + size <= sizeof m->bytes);
    memcpy(m->bytes + m->size, data, size);
    m->size += size;
}

/* A shard whose records are all these bytes. */
static inline made made_shard(uint32_t n, const void *record, size_t size)
{
    made m = {.size = 0};

    made_u32(&m, n);
    for (uint32_t i = 0; i <= n; i++)
        made_u32(&m, 4 + 4 * (n + 1) + i * (uint32_t)size);
    for (uint32_t i = 0; i < n; i++)
        made_bytes(&m, record, size);
    return m;
}

/* Opening fails so, and says this. */
static inline void check_refused(stk_context *ctx, const char *spec, stk_status status,
                                 const char *says)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    const stk_status is = stk_dataset_open(ctx, spec, &d, &err);
    if (is != status || !strstr(err.text, says))
        fail_msg("%s: %s, \"%s\"; wanted %s, \"%s\"", spec, stk_status_name(is), err.text,
                 stk_status_name(status), says);
    assert_null(d);
}

#endif
