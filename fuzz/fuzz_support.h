/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets of datasets share: the input becomes objects of a mem: store, a dataset is
 * opened on them, and every sample is taken through locate, read and prepare as the loader does it.
 * What must hold whatever the bytes: no memory of another is touched, no value differs in size from
 * its field, nothing is left behind.
 */
#ifndef STK_FUZZ_SUPPORT_H
#define STK_FUZZ_SUPPORT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

#include "check.h"
#include "dataset/dataset.h"

#define FUZZ_MEMORY  (UINT64_C(64) << 20) /* what the context may use */
#define FUZZ_SAMPLES 64                   /* of one call */
#define FUZZ_CALLS   64                   /* at most, so that small inputs stay fast */
#define FUZZ_TAIL    64                   /* readable bytes behind a need */
#define FUZZ_FIELDS  5
#ifndef FUZZ_NEEDS
#define FUZZ_NEEDS 1 /* of a sample, at most */
#endif

static inline stk_context *fuzz_context(void)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = FUZZ_MEMORY;
    options.io_engine = STK_IO_THREADS;
    FUZZ_CHECK(stk_context_create(&options, &ctx, &err) == STK_OK);
    return ctx;
}

/* What a context holds, in bytes. */
static inline uint64_t fuzz_held(const stk_context *ctx)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk_context_memory(ctx, &stats);
    return stats.bytes;
}

/* A context with a store for the objects that the input becomes. */
typedef struct fuzz_room {
    stk_context *ctx;
    stk_store *store;
    uint64_t held; /* bytes, once the objects are there */
} fuzz_room;

static inline fuzz_room fuzz_open(const char *url)
{
    fuzz_room room = {.ctx = fuzz_context()};
    char key[64];
    stk_error err;

    FUZZ_CHECK(stk_store_open(room.ctx, url, &room.store, key, sizeof key, &err) == STK_OK);
    return room;
}

/* The objects are there, and reading begins. */
static inline void fuzz_ready(fuzz_room *room)
{
    room->held = fuzz_held(room->ctx);
}

/* Everything that was read is closed: nothing of it is left. */
static inline void fuzz_close(fuzz_room *room)
{
    FUZZ_CHECK(fuzz_held(room->ctx) == room->held);
    stk_store_close(&room->store);
    stk_context_destroy(&room->ctx);
}

/* Keep an object under a name of the store. */
static inline void fuzz_put(stk_store *store, const char *key, const uint8_t *data, size_t size)
{
    stk_error err;

    FUZZ_CHECK(stk_store_put(store, key, data, size, NULL, &err) == STK_OK);
}

/*
 * Cut the first part from an input: its length is the two bytes in front, or all where less is
 * left.
 */
static inline const uint8_t *fuzz_take(const uint8_t **data, size_t *size, size_t *length)
{
    size_t wanted = *size >= 2 ? (size_t)((*data)[0] | (*data)[1] << 8) : 0;
    size_t skip = *size >= 2 ? 2 : *size;
    const uint8_t *part = *data + skip;

    *size -= skip;
    *length = wanted < *size ? wanted : *size;
    *data = part + *length;
    *size -= *length;
    return part;
}

typedef struct fuzz_batch {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice needs[FUZZ_SAMPLES][FUZZ_NEEDS];
    uint32_t num_needs[FUZZ_SAMPLES];
    stk_status status[FUZZ_SAMPLES];
} fuzz_batch;

static inline stk_status fuzz_add(stk_locator *self, size_t i, const stk_need *need)
{
    fuzz_batch *b = (fuzz_batch *)self;
    char key[4096];
    stk_store *store = NULL;
    stk_error err;

    FUZZ_CHECK(i < FUZZ_SAMPLES && b->num_needs[i] < FUZZ_NEEDS);
    FUZZ_CHECK(need->length <= FUZZ_MEMORY);
    size_t length = b->dataset->ops->object(b->dataset, need->object, &store, key, sizeof key);
    FUZZ_CHECK(length == strlen(key));
    /* Of just this size, so that a sanitizer sees what is read beyond. */
    void *memory = calloc(1, need->length + FUZZ_TAIL);
    FUZZ_CHECK(memory != NULL);
    b->needs[i][b->num_needs[i]++] = (stk_slice){memory, need->length};
    stk_status status = stk_store_read(store, key, need->offset, need->length, memory, &err);
    if (status != STK_OK)
        b->status[i] = status;
    return STK_OK;
}

static inline void fuzz_cost(stk_locator *self, size_t i, double nanoseconds)
{
    (void)self, (void)i;
    FUZZ_CHECK(nanoseconds >= 0);
}

static inline void fuzz_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    (void)i, (void)bytes;
    FUZZ_CHECK(field < ((fuzz_batch *)self)->dataset->num_fields);
}

/* Every byte of a value, so that a sanitizer looks at it. */
static inline unsigned fuzz_sum(const void *data, uint64_t size)
{
    unsigned sum = 0;

    for (uint64_t i = 0; i < size; i++)
        sum += ((const uint8_t *)data)[i];
    return sum;
}

static inline unsigned fuzz_prepare(fuzz_batch *b, uint64_t first, size_t n)
{
    stk_dataset *d = b->dataset;
    stk_sample samples[FUZZ_SAMPLES];
    stk_value values[FUZZ_SAMPLES][FUZZ_FIELDS];
    unsigned sum = 0;
    size_t good = 0;

    memset(samples, 0, sizeof samples);
    for (size_t i = 0; i < n; i++) {
        if (b->status[i] != STK_OK)
            continue;
        stk_sample *s = &samples[good];
        s->index = first + i;
        s->needs = b->needs[i];
        s->values = values[good++];
        for (uint32_t f = 0; f < d->num_fields; f++) {
            uint64_t bytes = stk_field_bytes(&d->fields[f]);
            void *out =
                bytes ? malloc(bytes) : NULL; /* of what varies: it lies where it was read */
            FUZZ_CHECK(out || (!bytes && d->fields[f].layout == STK_BYTES));
            s->values[f] = (stk_value){out, bytes, NULL, bytes};
        }
    }
    if (good)
        d->ops->prepare(d, samples, good);
    for (size_t i = 0; i < good; i++)
        for (uint32_t f = 0; f < d->num_fields; f++) {
            stk_value *v = &values[i][f];
            if (samples[i].status == STK_OK) {
                FUZZ_CHECK(v->data && (!v->capacity || v->size == v->capacity));
                sum += fuzz_sum(v->data, v->size);
            } else {
                FUZZ_CHECK(stk_status_fault(samples[i].status) == STK_FAULT_SAMPLE);
            }
            free(v->out);
        }
    return sum;
}

/* Open, read, describe, close. */
static inline void fuzz_line(void *user, const char *name, const char *value)
{
    FUZZ_CHECK(user && name[0] && value);
}

/* Read samples of a dataset that was opened, or look at why it was not. */
static inline void fuzz_opened(stk_status status, stk_dataset *d, const stk_error *why)
{
    stk_error err;

    if (status != STK_OK) {
        FUZZ_CHECK(!d && why->status != STK_OK && why->text[0] && why->status != STK_EINTERNAL);
        return;
    }
    stk_error_init(&err);
    FUZZ_CHECK(d->num_fields <= FUZZ_FIELDS && d->size > 0);
    uint64_t n = d->size < FUZZ_SAMPLES ? d->size : FUZZ_SAMPLES;
    /* The first and the last ones. */
    for (uint64_t call = 0; call < FUZZ_CALLS && call * n < d->size; call++) {
        static fuzz_batch batch;
        uint64_t indices[FUZZ_SAMPLES];
        uint64_t first = call % 2 ? d->size - (call / 2 + 1) * n : call / 2 * n;
        memset(&batch, 0, sizeof batch);
        batch.base = (stk_locator){.struct_size = sizeof(stk_locator),
                                   .add = fuzz_add,
                                   .cost = fuzz_cost,
                                   .bytes = fuzz_bytes};
        batch.dataset = d;
        for (uint64_t i = 0; i < n; i++)
            indices[i] = first + i;
        if (d->ops->locate)
            FUZZ_CHECK(d->ops->locate(d, indices, n, &batch.base, &err) == STK_OK);
        (void)fuzz_prepare(&batch, first, n);
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < batch.num_needs[i]; k++)
                free((void *)batch.needs[i][k].data);
    }
    FUZZ_CHECK(stk_dataset_describe(d, fuzz_line, &err, &err) == STK_OK);
    stk_dataset_close(&d);
}

static inline void fuzz_dataset(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    const stk_status status = stk_dataset_open(ctx, spec, &d, &err);
    fuzz_opened(status, d, &err);
}

#endif
