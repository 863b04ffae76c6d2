/* SPDX-License-Identifier: Apache-2.0 */
/* Opening over HTTP: what could not be asked for is not asked for again, and every store that is
 * opened on the way has the options of the URL. */
#include "world.h"

#include "store/opening.h"

static int set_up(void **state)
{
    return world_open(state, NULL);
}

static uint64_t requests(fixture *f)
{
    return http_server_counters(f->server).requests;
}

/* Each kind of data looks at the object, and one look is tried. */
static void test_failure_is_remembered(void **state)
{
    enum { TRIES = 3 };
    fixture *f = *state;
    stk_dataset *dataset = NULL;
    stk_array *array = NULL;
    char url[300];
    stk_error err;

    http_server_fault(f->server, &(http_fault){.status = 500});
    snprintf(url, sizeof url, "%s/d/x?retries=%d", http_server_url(f->server), TRIES - 1);
    /* The first bytes of the object and its last ones are asked for at once. */
    assert_fails(stk_dataset_open(f->context, url, &dataset, &err), STK_EIO, &err, "answered 500");
    assert_int_equal(requests(f), 2 * TRIES);
    /* Another opening asks again. */
    assert_fails(stk_array_open(f->context, url, NULL, &array, &err), STK_EIO, &err, "500");
    assert_int_equal(requests(f), 4 * TRIES);
    http_server_mend(f->server);
    assert_fails(stk_dataset_open(f->context, url, &dataset, &err), STK_EFORMAT, &err, "x");
}

/* The same of reads, with the same words; other objects are asked for. */
static void test_reads_fail_at_once(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = open_store(f, "/d/?retries=0");
    char text[STK_ERROR_TEXT];
    stk_error err;

    assert_true(http_server_put(f->server, "/d/y", "hello", 5));
    http_server_fault(f->server, &(http_fault){.path = "/d/x", .status = 500});
    const uint64_t before = requests(f);
    stk__opening_begin(f->context);
    assert_fails(stk_store_read(store, "x", 0, 10, f->got, &err), STK_EIO, &err, "500");
    memcpy(text, err.text, sizeof text);
    for (int i = 0; i < 2; i++) {
        assert_fails(stk_store_read(store, "x", 5, 10, f->got, &err), STK_EIO, &err, "500");
        assert_string_equal(err.text, text);
        assert_fails(stk_store_stat(store, "x", NULL, &info, &err), STK_EIO, &err, "500");
    }
    assert_int_equal(requests(f) - before, 1);
    assert_ok(stk_store_read(store, "y", 0, 5, f->got, &err), &err);
    assert_memory_equal(f->got, "hello", 5);
    stk__opening_end(f->context);
    http_server_mend(f->server);
    assert_ok(stk_store_read(store, "x", 0, 10, f->got, &err), &err);
    stk_store_close(&store);
}

/* What was seen of an object serves still when more of it cannot be had. */
static void test_what_was_seen_stays(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = open_store(f, "/d/?retries=0");
    stk_error err;

    stk__opening_begin(f->context);
    assert_ok(stk_store_read(store, "x", 0, 10, f->got, &err), &err);
    http_server_fault(f->server, &(http_fault){.path = "/d/x", .status = 500});
    assert_fails(stk_store_read(store, "x", 100, 10, f->got, &err), STK_EIO, &err, "500");
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_int_equal(info.size, SIZE);
    assert_ok(stk_store_read(store, "x", 2, 8, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 2, 8);
    stk__opening_end(f->context);
    stk_store_close(&store);
}

/* An endpoint of the query is asked, and no other, whatever is looked for. */
static void test_query_reaches_every_store(void **state)
{
    stk_context_options options;
    stk_context *context = NULL;
    stk_dataset *dataset = NULL;
    stk_array *array = NULL;
    char stores[300], url[400];
    stk_error err;

    (void)state;
    http_server *other = http_server_start(&(http_server_options){.seed = 1, .s3 = true});
    http_server *server = http_server_start(&(http_server_options){.seed = 1, .s3 = true});
    assert_true(http_server_put(server, "/bucket/x", "hello", 5));
    assert_true(http_server_put(other, "/bucket/x", "hello", 5));
    stk_context_options_init(&options);
    snprintf(stores, sizeof stores, "gs(endpoint='%s', anonymous=true)", http_server_url(other));
    options.stores = stores;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    snprintf(url, sizeof url, "gs://bucket/x?endpoint=%s", http_server_url(server));
    assert_fails(stk_dataset_open(context, url, &dataset, &err), STK_EFORMAT, &err, "x");
    snprintf(url, sizeof url, "gs://bucket/x?endpoint=%s&order=c", http_server_url(server));
    assert_fails(stk_array_open(context, url, NULL, &array, &err), STK_EFORMAT, &err, "x");
    assert_true(http_server_counters(server).requests > 0);
    assert_int_equal(http_server_counters(other).requests, 0);
    /* The list of a folder is asked for once as well. */
    http_server_fault(server, &(http_fault){.status = 500});
    http_server_reset_counters(server);
    snprintf(url, sizeof url, "gs://bucket/x?endpoint=%s&retries=0", http_server_url(server));
    assert_fails(stk_dataset_open(context, url, &dataset, &err), STK_EIO, &err, "500");
    assert_int_equal(http_server_counters(server).requests, 1);
    stk_context_destroy(&context);
    http_server_stop(&server);
    http_server_stop(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_failure_is_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads_fail_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_seen_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_query_reaches_every_store, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
