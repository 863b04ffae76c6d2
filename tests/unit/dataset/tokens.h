/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens and Megatron indexes, and samples of `tokens:` taken by hand as int64. */
#ifndef STK_TESTS_TOKENS_H
#define STK_TESTS_TOKENS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/support.h"

#define TOKENS_LENGTH 128  /* tokens of a sample, at most */
#define TOKENS_NEEDS  128  /* of a sample, at most */
#define TOKENS_DOCS   2048 /* of a file, at most */

/* What a file of tokens holds. */
typedef struct tokens_model {
    uint32_t docs;
    uint32_t length[TOKENS_DOCS];
    uint64_t count;
} tokens_model;

typedef struct tokens_sample {
    int64_t tokens[TOKENS_LENGTH], target[TOKENS_LENGTH], positions[TOKENS_LENGTH],
        documents[TOKENS_LENGTH];
    unsigned char mask[TOKENS_LENGTH];
    uint32_t needs;
} tokens_sample;

static inline size_t tokens_number(unsigned char *to, size_t at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[at + i] = (unsigned char)(value >> 8 * i);
    return at + bytes;
}

/* The bytes of an index, every document one sequence; `to` has room for 50 + 20 a document. */
static inline size_t tokens_index(const tokens_model *m, unsigned code, unsigned size,
                                  unsigned char *to)
{
    size_t at = 9;
    uint64_t place = 0;

    memcpy(to, "MMIDIDX\0\0", 9);
    at = tokens_number(to, at, 1, 8);
    at = tokens_number(to, at, code, 1);
    at = tokens_number(to, at, m->docs, 8);
    at = tokens_number(to, at, m->docs + 1u, 8);
    for (uint32_t d = 0; d < m->docs; d++)
        at = tokens_number(to, at, m->length[d], 4);
    for (uint32_t d = 0; d < m->docs; d++) {
        at = tokens_number(to, at, place, 8);
        place += (uint64_t)m->length[d] * size;
    }
    for (uint32_t d = 0; d <= m->docs; d++)
        at = tokens_number(to, at, d, 8);
    return at;
}

static inline void tokens_put(stk_context *ctx, const char *name, const void *bytes, size_t size)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://t", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, name, bytes, size, NULL, &err), &err);
    stk_store_close(&store);
}

typedef struct tokens_locator {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice slice[TOKENS_NEEDS];
    uint32_t n;
} tokens_locator;

static inline stk_status tokens_add(stk_locator *self, size_t i, const stk_need *need)
{
    tokens_locator *l = (tokens_locator *)self;
    char key[600];
    stk_store *store = NULL;
    stk_error err;

    assert_int_equal(i, 0);
    assert_true(l->n < TOKENS_NEEDS && need->length > 0);
    (void)l->dataset->ops->object(l->dataset, need->object, &store, key, sizeof key);
    /* Of just this size, so that a sanitizer sees what is read beyond. */
    void *data = malloc(need->length);
    assert_non_null(data);
    assert_ok(stk_store_read(store, key, need->offset, need->length, data, &err), &err);
    l->slice[l->n++] = (stk_slice){data, need->length};
    return STK_OK;
}

static inline void tokens_wide(const stk_field *field, const void *from, int64_t *to)
{
    for (int64_t i = 0; i < field->shape[0]; i++)
        to[i] = field->dtype == STK_INT32 ? ((const int32_t *)from)[i] : ((const int64_t *)from)[i];
}

/* One sample; returns its status. */
static inline stk_status tokens_take(stk_dataset *d, uint64_t index, tokens_sample *to)
{
    tokens_locator l = {{.struct_size = sizeof(stk_locator), .add = tokens_add}, d, {{0}}, 0};
    stk_value values[5] = {{0}};
    stk_sample s = {.index = index, .needs = l.slice, .values = values};
    stk_error err;

    memset(to, 0x77, sizeof *to);
    assert_true(d->num_fields <= 5 && d->fields[0].shape[0] <= TOKENS_LENGTH);
    assert_ok(d->ops->locate(d, &index, 1, &l.base, &err), &err);
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const uint64_t bytes = stk_field_bytes(&d->fields[f]);
        values[f] = (stk_value){malloc(bytes), bytes, NULL, bytes};
        assert_non_null(values[f].out);
        memset(values[f].out, 0x77, bytes);
        values[f].data = values[f].out;
    }
    d->ops->prepare(d, &s, 1);
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const char *name = d->fields[f].name;
        if (!strcmp(name, "loss_mask"))
            memcpy(to->mask, values[f].data, values[f].size);
        else
            tokens_wide(&d->fields[f], values[f].data,
                        !strcmp(name, "target")      ? to->target
                        : !strcmp(name, "positions") ? to->positions
                        : !strcmp(name, "documents") ? to->documents
                                                     : to->tokens);
        free(values[f].out);
    }
    for (uint32_t k = 0; k < l.n; k++)
        free((void *)l.slice[k].data);
    to->needs = l.n;
    return s.status;
}

#endif
