/* SPDX-License-Identifier: Apache-2.0 */
/* A store that passes everything on to a mem: store, counts, and fails what it is told to. */
#ifndef STK_TESTS_UNIT_ARRAY_FAULTY_H
#define STK_TESTS_UNIT_ARRAY_FAULTY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/array.h>

#include "support/support.h"

/* What "faulty://NAME" does; one at a time. */
static struct {
    atomic_int reads, stats, asked; /* since the start; asked: both */
    atomic_ullong bytes;
    int fail_at;          /* this one of `asked` fails, counted from 0; -1: none */
    bool for_ever;        /* and all that follow */
    stk_status fail_with; /* with this */
    int damage_at;        /* this one of `reads` brings a wrong last byte; -1: none */
    bool hold;            /* reads are not answered before they are canceled */
} faulty = {.fail_at = -1, .damage_at = -1};

typedef struct faulty_store {
    stk_store base;
    stk_store *inner;
} faulty_store;

static inline void faulty_reset(void)
{
    atomic_store(&faulty.reads, 0);
    atomic_store(&faulty.stats, 0);
    atomic_store(&faulty.asked, 0);
    atomic_store(&faulty.bytes, 0);
    faulty.fail_at = faulty.damage_at = -1;
    faulty.hold = faulty.for_ever = false;
}

static inline stk_status faulty_open(stk_context *ctx, const char *url, const void *options,
                                     stk_store **out, stk_error *err)
{
    extern const stk_store_ops faulty_ops;
    char inner[300];

    snprintf(inner, sizeof inner, "mem://%s", url + strlen("faulty://"));
    faulty_store *s = calloc(1, sizeof *s);
    assert_non_null(s);
    stk_status status = stk_store_open(ctx, inner, &s->inner, NULL, 0, err);
    if (status != STK_OK) {
        free(s);
        *out = NULL;
        return status;
    }
    s->base.ops = &faulty_ops;
    s->base.context = ctx;
    *out = &s->base;
    return STK_OK;
}

static inline void faulty_close(stk_store *store)
{
    faulty_store *s = (faulty_store *)store;

    stk_store_close(&s->inner);
    free(s);
}

static inline bool faulty_fails(void)
{
    const int n = atomic_fetch_add(&faulty.asked, 1);

    return n == faulty.fail_at || (faulty.for_ever && n > faulty.fail_at);
}

static inline stk_status faulty_submit(stk_store *store, stk_read *read)
{
    faulty_store *s = (faulty_store *)store;

    bool damage = atomic_fetch_add(&faulty.reads, 1) == faulty.damage_at;
    atomic_fetch_add(&faulty.bytes, read->length);
    if (faulty_fails()) {
        read->system_error = 0;
        read->done(read, faulty.fail_with);
        return STK_OK;
    }
    if (faulty.hold)
        return STK_OK; /* until cancel() */
    if (damage) {
        stk_status status =
            stk_store_read(s->inner, read->key, read->offset, read->length, read->data, NULL);
        ((unsigned char *)read->data)[read->length - 1] ^= 1;
        read->done(read, status);
        return STK_OK;
    }
    return s->inner->ops->submit(s->inner, read);
}

static inline void faulty_cancel(stk_store *store, stk_read *read)
{
    (void)store;
    if (faulty.hold)
        read->done(read, STK_ECANCELED);
}

static inline stk_status faulty_stat(stk_store *store, const char *key, const stk_store_call *call,
                                     stk_object_info *out, stk_error *err)
{
    atomic_fetch_add(&faulty.stats, 1);
    if (faulty_fails()) {
        stk_error_init(err);
        if (err) {
            err->status = faulty.fail_with;
            snprintf(err->text, sizeof err->text, "%s was made to fail", key);
        }
        return faulty.fail_with;
    }
    return stk_store_stat(((faulty_store *)store)->inner, key, call, out, err);
}

const stk_store_ops faulty_ops = {
    .struct_size = sizeof(stk_store_ops),
    .name = "faulty",
    .open = faulty_open,
    .close = faulty_close,
    .submit = faulty_submit,
    .cancel = faulty_cancel,
    .stat = faulty_stat,
};

#endif
