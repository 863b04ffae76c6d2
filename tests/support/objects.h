/* Objects of a store, put and loaded whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_OBJECTS_H
#define STK_TESTS_SUPPORT_OBJECTS_H

#include <stdlib.h>

#include "support/support.h"

static inline void test_put(stk_store *store, const char *key, const void *data, size_t size)
{
    stk_error err;

    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
}

/* All of an object, for the caller to free; a zero is behind it. */
static inline void *test_get(stk_store *store, const char *key, uint64_t *size)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    char *data = malloc(info.size + 1);
    assert_non_null(data);
    assert_ok(stk_store_read(store, key, 0, info.size, data, &err), &err);
    data[info.size] = 0;
    *size = info.size;
    return data;
}

/* A context, and a store in its memory. */
typedef struct test_room {
    stk_context *ctx;
    stk_store *store;
} test_room;

static inline test_room test_room_open(const char *url)
{
    test_room r = {.ctx = test_context()};
    stk_error err;

    assert_ok(stk_store_open(r.ctx, url, &r.store, NULL, 0, &err), &err);
    return r;
}

static inline void test_room_close(test_room *r)
{
    stk_store_close(&r->store);
    stk_context_destroy(&r->ctx);
}

#endif
