/* SPDX-License-Identifier: Apache-2.0 */
/* Redirects, straight and through a proxy: how many, to where, and with what. The tests' server is
 * the proxy, and every host behind it. */
#include "world.h"

typedef struct seen {
    char targets[20][128], headers[20][512];
    unsigned n;
} seen;

static seen requests;

static void note(void *user, const http_request *request, http_fault *fault)
{
    if (requests.n == STK_COUNT(requests.targets))
        return;
    snprintf(requests.targets[requests.n], sizeof requests.targets[0], "%s", request->target);
    snprintf(requests.headers[requests.n], sizeof requests.headers[0], "%s", request->headers);
    requests.n++;
}

static int set_up(void **state)
{
    requests.n = 0;
    return world_open(state, note);
}

static stk_store *open_behind(fixture *f, const char *url)
{
    stk_store *store = NULL;
    char text[400];
    stk_error err;

    snprintf(text, sizeof text, "%s?proxy=%s", url, http_server_url(f->server));
    assert_ok(stk_store_open(f->context, text, &store, NULL, 0, &err), &err);
    requests.n = 0;
    return store;
}

static void test_followed(void **state)
{
    fixture *f = *state;
    stk_store *store = open_behind(f, "http://one.example/d/");
    stk_error err;

    http_server_fault(f->server,
                      &(http_fault){.path = "/d/moved", .location = "http://two.example/d/there"});
    http_server_fault(f->server, &(http_fault){.path = "/d/there", .location = "x"});
    assert_ok(stk_store_read(store, "moved", 10, 100, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 10, 100);
    assert_int_equal(requests.n, 3);
    assert_string_equal(requests.targets[0], "http://one.example/d/moved");
    assert_string_equal(requests.targets[1], "http://two.example/d/there");
    assert_string_equal(requests.targets[2], "http://two.example/d/x");
    for (unsigned i = 0; i < requests.n; i++)
        assert_null(strcasestr(requests.headers[i], "authorization"));
    stk_store_close(&store);
}

/* Ten are followed. */
static void test_bounded(void **state)
{
    fixture *f = *state;
    stk_store *store = open_behind(f, "http://one.example/d/");
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    http_server_fault(f->server,
                      &(http_fault){.path = "/d/loop", .location = "http://two.example/d/loop"});
    assert_fails(stk_store_stat(store, "loop", NULL, &info, &err), STK_ELIMIT, &err,
                 "more than 10 redirects");
    assert_int_equal(requests.n, 11);
    stk_store_close(&store);
}

/* A public server leads nobody to what lies behind the proxy. */
static void test_private(void **state)
{
    static const char *const private[] = {
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:9/d/x",
        "http://2130706433/d/x",
        "http://0x7f.1/d/x",
        "http://[::1]:9/d/x",
        "http://[::ffff:10.0.0.1]/d/x",
        "http://localhost/d/x",
        "http://LOCALHOST./d/x",
        "http://a.localhost/d/x",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://printer.local/d/x",
    };
    fixture *f = *state;
    stk_store *store = open_behind(f, "http://one.example/d/");
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(private); i++) {
        http_server_mend(f->server);
        http_server_fault(f->server, &(http_fault){.path = "/d/moved", .location = private[i]});
        requests.n = 0;
        assert_fails(stk_store_stat(store, "moved", NULL, &info, &err), STK_EACCES, &err,
                     "from a public to a private address");
        assert_int_equal(requests.n, 1);
    }
    stk_store_close(&store);
    /* From one of them to another. */
    http_server_mend(f->server);
    store = open_behind(f, "http://10.0.0.1/d/");
    http_server_fault(f->server,
                      &(http_fault){.path = "/d/moved", .location = "http://10.0.0.2/d/x"});
    assert_ok(stk_store_stat(store, "moved", NULL, &info, &err), &err);
    assert_int_equal(info.size, SIZE);
    stk_store_close(&store);
}

/* What changes something is led nowhere, and nothing with a user is taken. */
static void test_refused(void **state)
{
    fixture *f = *state;
    stk_store *store = open_behind(f, "http://one.example/d/");
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    http_server_fault(f->server, &(http_fault){.path = "/d/new",
                                               .method = "PUT",
                                               .status = 307,
                                               .location = "http://two.example/d/new"});
    assert_fails(stk_store_put(store, "new", "hello", 5, NULL, &err), STK_ENOTSUP, &err,
                 "follows no redirect");
    assert_int_equal(requests.n, 1);
    http_server_fault(
        f->server, &(http_fault){.path = "/d/user", .location = "http://me:hush@two.example/d/x"});
    assert_fails(stk_store_stat(store, "user", NULL, &info, &err), STK_EIO, &err, "no address");
    assert_null(strstr(err.text, "hush"));
    stk_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_private, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
