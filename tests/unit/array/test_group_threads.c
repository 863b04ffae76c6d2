/* SPDX-License-Identifier: Apache-2.0 */
/* A group is listed by as many threads as find something to do. */
#include <stdio.h>

#include <stoker/array.h>
#include <stoker/store.h>

#include "support/faulty_threads.h"
#include "support/objects.h"
#include "support/support.h"

#define MANY (INT64_C(1) << 30)
#define MOST 15 /* beside the one that asks */

static const char root[] = "{\"zarr_format\": 3, \"node_type\": \"group\"}";
static const char array[] =
    "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [1], \"data_type\": \"uint8\", "
    "\"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [1]}}, "
    "\"chunk_key_encoding\": {\"name\": \"default\"}, \"fill_value\": 0, "
    "\"codecs\": [{\"name\": \"bytes\"}]}";

/* Threads that were started to open a group of `n` arrays in memory. */
static int64_t started(uint32_t n)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_group *group = NULL;
    char key[64];
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_store_open(ctx, "mem://group", &store, key, sizeof key, &err), &err);
    test_put(store, "zarr.json", root, sizeof root - 1);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "a%u/zarr.json", i);
        test_put(store, key, array, sizeof array - 1);
    }
    thread_faults.left = MANY;
    assert_ok(stk_group_open(ctx, "mem://group", &group, &err), &err);
    const int64_t count = MANY - thread_faults.left;
    thread_faults.left = FAULTS_NONE;
    assert_non_null(stk_group_node(group, n - 1));
    assert_null(stk_group_node(group, n));
    stk_group_close(&group);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return count;
}

static void test_threads(void **state)
{
    (void)state;
    assert_int_equal(started(1), 0);
    assert_int_equal(started(3), 2);
    assert_int_equal(started(100), MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
