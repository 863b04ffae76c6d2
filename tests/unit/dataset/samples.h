/* SPDX-License-Identifier: Apache-2.0 */
/* Takes samples through locate, read and prepare by hand, as the loader does, one call for many. */
#ifndef STK_TESTS_SAMPLES_H
#define STK_TESTS_SAMPLES_H

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "support/support.h"

#define SAMPLES_MAX 4096 /* of one call */
#define TAIL        64   /* readable bytes beyond a need */

/* The samples of one call. Each has at most one need; values are copied out. */
typedef struct samples {
    size_t n;
    size_t located;
    void *need[SAMPLES_MAX];
    stk_slice slice[SAMPLES_MAX];
    stk_value values[SAMPLES_MAX * 2];
    stk_sample sample[SAMPLES_MAX];
    unsigned char *data[SAMPLES_MAX]; /* the first field */
    int64_t label[SAMPLES_MAX];       /* the second, if there is one */
} samples;

typedef struct test_locator {
    stk_locator base;
    stk_dataset *dataset;
    samples *to;
} test_locator;

static inline stk_status test_add(stk_locator *self, size_t i, const stk_need *need)
{
    test_locator *l = (test_locator *)self;
    char key[4096];
    stk_store *store = NULL;
    stk_error err;

    assert_null(l->to->need[i]);
    size_t length = l->dataset->ops->object(l->dataset, need->object, &store, key, sizeof key);
    assert_int_equal(length, strlen(key));
    l->to->need[i] = calloc(1, need->length + TAIL);
    assert_non_null(l->to->need[i]);
    stk_error_init(&err);
    stk_status status =
        need->length ? stk_store_read(store, key, need->offset, need->length, l->to->need[i], &err)
                     : STK_OK;
    l->to->sample[i].status = status;
    l->to->slice[i] = (stk_slice){l->to->need[i], need->length};
    l->to->located++;
    return STK_OK;
}

static inline void test_cost(stk_locator *self, size_t i, double nanoseconds)
{
}

static inline void test_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
}

/* Prepare the samples `indices`; to be freed with samples_free(). */
static inline samples *samples_read(stk_dataset *d, const uint64_t *indices, size_t n)
{
    samples *s = calloc(1, sizeof *s);
    test_locator locator = {{.struct_size = sizeof(stk_locator),
                             .add = test_add,
                             .cost = test_cost,
                             .bytes = test_bytes},
                            d,
                            s};
    uint64_t bytes = stk_field_bytes(&d->fields[0]);
    stk_error err;

    assert_non_null(s);
    assert_true(n <= SAMPLES_MAX && d->num_fields <= 2);
    stk_error_init(&err);
    s->n = n;
    if (d->ops->locate)
        assert_ok(d->ops->locate(d, indices, n, &locator.base, &err), &err);
    for (size_t i = 0; i < n; i++) {
        stk_sample *one = &s->sample[i];
        one->index = indices[i];
        one->needs = &s->slice[i];
        one->values = &s->values[2 * i];
        s->data[i] = malloc(bytes);
        assert_non_null(s->data[i]);
        one->values[0] = (stk_value){s->data[i], bytes, s->data[i], bytes};
        one->values[1] = (stk_value){&s->label[i], 8, &s->label[i], 8};
    }
    /* One that could not be read is not prepared: split the call there. */
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && s->sample[end].status == STK_OK)
            end++;
        if (end > i)
            d->ops->prepare(d, &s->sample[i], end - i);
        i = end + 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (s->sample[i].status != STK_OK)
            continue;
        assert_int_equal(s->values[2 * i].size, bytes);
        if (s->values[2 * i].data != s->data[i])
            memcpy(s->data[i], s->values[2 * i].data, bytes);
        if (d->num_fields > 1 && s->values[2 * i + 1].data != &s->label[i])
            memcpy(&s->label[i], s->values[2 * i + 1].data,
                   STK_MIN(s->values[2 * i + 1].size, sizeof s->label[i]));
    }
    return s;
}

static inline void samples_free(samples *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->need[i]);
        free(s->data[i]);
    }
    free(s);
}

/* The samples from `first` on. */
static inline samples *samples_range(stk_dataset *d, uint64_t first, size_t n)
{
    uint64_t *indices = malloc(n * sizeof *indices);

    assert_non_null(indices);
    for (size_t i = 0; i < n; i++)
        indices[i] = first + i;
    samples *s = samples_read(d, indices, n);
    free(indices);
    return s;
}

#endif
