/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of a store on HTTP fails once, and so does the start of its thread: what fails
 * says so, what does not is right, and nothing stays behind. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/faults.h"
#include "support/faulty_threads.h"
#include "support/http_server.h"

#define SIZE 20000u

static unsigned char bytes[SIZE], got[SIZE];

/* Whatever a store does. All that fails has a reason in its error. */
static stk_status do_all(stk_context *ctx, const char *url, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;

    stk_status status = stk_store_open(ctx, url, &store, NULL, 0, err);
    if (status == STK_OK)
        status = stk_store_stat(store, "x", NULL, &info, err);
    if (status == STK_OK)
        status = stk_store_read(store, "x", 5, SIZE - 5, got, err);
    if (status == STK_OK)
        assert_memory_equal(got, bytes + 5, SIZE - 5);
    if (status == STK_OK)
        status = stk_store_read(store, "moved", 0, 10, got, err);
    if (status == STK_OK)
        status = stk_store_put(store, "y", bytes, 100, NULL, err);
    stk_store_close(&store);
    return status;
}

static http_server *start(char url[300])
{
    http_server *server = http_server_start(&(http_server_options){.seed = 1});

    assert_non_null(server);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7);
    assert_true(http_server_put(server, "/d/x", bytes, SIZE));
    assert_true(http_server_fault(server, &(http_fault){.path = "/d/moved", .location = "x"}) > 0);
    snprintf(url, 300, "%s/d?retries=2", http_server_url(server));
    return server;
}

static void test_allocations(void **state)
{
    char url[300];
    http_server *server = start(url);
    bool struck = true;
    int64_t n;

    for (n = 0; struck; n++) {
        faults f = {.left = FAULTS_NONE};
        stk_context_options options;
        stk_context *ctx = NULL;
        stk_error err;
        stk_context_options_init(&options);
        options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
        assert_ok(stk_context_create(&options, &ctx, &err), &err);
        f.left = n;
        stk_error_init(&err);
        const stk_status status = do_all(ctx, url, &err);
        struck = fault_struck(&f);
        f.left = FAULTS_NONE;
        /* What there was no memory for may have been done without: a second request, a pin. */
        if (status != STK_OK) {
            assert_int_equal(status, STK_ENOMEM);
            assert_true(struck && err.text[0]);
        }
        stk_context_destroy(&ctx);
        assert_int_equal(f.held, 0);
    }
    assert_true(n > 15);
    http_server_stop(&server);
}

static void test_thread(void **state)
{
    char url[300];
    http_server *server = start(url);
    stk_context *ctx = test_context();
    stk_error err;

    thread_faults.left = 0;
    assert_fails(do_all(ctx, url, &err), STK_ETHREAD, &err, "thread");
    thread_faults.left = FAULTS_NONE;
    assert_ok(do_all(ctx, url, &err), &err);
    stk_context_destroy(&ctx);
    http_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_thread)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
