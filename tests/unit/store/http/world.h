/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of http: share: a context, and a server with an object of drawn bytes. */
#ifndef STK_TESTS_UNIT_STORE_HTTP_WORLD_H
#define STK_TESTS_UNIT_STORE_HTTP_WORLD_H

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/http_server.h"

#define SIZE 300000u

typedef struct fixture {
    stk_context *context;
    http_server *server;
    unsigned char bytes[SIZE], got[SIZE]; /* `bytes` are of the object "/d/x" */
    char if_match[64], target[128];       /* of the last request that note() saw */
    void *more;                           /* a test's own */
} fixture;

static inline int world_open(void **state, http_seen *seen)
{
    fixture *f = calloc(1, sizeof *f);
    uint64_t seed = 5;

    f->context = test_context();
    for (size_t i = 0; i < SIZE; i++)
        f->bytes[i] = (unsigned char)test_random(&seed);
    f->server = http_server_start(&(http_server_options){.seed = 1, .seen = seen, .user = f});
    assert_non_null(f->server);
    assert_true(http_server_put(f->server, "/d/x", f->bytes, SIZE));
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    fixture *f = *state;

    http_server_stop(&f->server);
    stk_context_destroy(&f->context);
    free(f);
    return 0;
}

/* A store at a path of the server, with options as "/d/?retries=1". */
static inline stk_store *open_store(fixture *f, const char *path)
{
    stk_store *store = NULL;
    char url[400];
    stk_error err;

    snprintf(url, sizeof url, "%s%s", http_server_url(f->server), path);
    assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
    return store;
}

#endif
