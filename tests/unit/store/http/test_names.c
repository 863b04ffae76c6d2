/* SPDX-License-Identifier: Apache-2.0 */
/* Names of hosts, by a resolver of the test's own: it has several addresses, or fails. */
#include "world.h"

#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <stdatomic.h>

#include "store/http/room.h"

#define NAME "data.example"

typedef int look_up(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static atomic_int asked;
static atomic_bool broken, several;

/* In place of the C library's, for libcurl as well. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    look_up *const real = (look_up *)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo *first = NULL;

    if (!name || strcmp(name, NAME) != 0)
        return real(name, service, hints, out);
    atomic_fetch_add(&asked, 1);
    if (atomic_load(&broken))
        return EAI_AGAIN;
    /* Nobody is at 127.0.0.2. */
    if (atomic_load(&several) && real("127.0.0.2", service, hints, &first) != 0)
        return EAI_AGAIN;
    const int code = real("127.0.0.1", service, hints, out);
    if (!first || code != 0)
        return code;
    struct addrinfo *last = first;
    while (last->ai_next)
        last = last->ai_next;
    last->ai_next = *out;
    *out = first;
    return 0;
}

static int set_up(void **state)
{
    atomic_store(&asked, 0);
    atomic_store(&broken, false);
    atomic_store(&several, false);
    return world_open(state, NULL);
}

static stk__http_client *open_client(fixture *f)
{
    const stk__http_options options = {.connect_timeout = 3,
                                       .first_byte_timeout = 5,
                                       .stall_timeout = 10,
                                       .connections = 4,
                                       .retries = 3};
    stk__http_client *client = NULL;
    char endpoint[64];
    stk_error err;

    snprintf(endpoint, sizeof endpoint, "http://" NAME ":%d", http_server_port(f->server));
    assert_ok(stk__http_client_open(f->context, endpoint, &options, NULL, NULL, &client, &err),
              &err);
    client->names_kept = 0; /* each connection looks it up */
    return client;
}

static stk_status get(stk__http_client *client, fixture *f, stk_error *err)
{
    stk__http_exchange x = {.method = "GET", .target = "/d/x", .length = SIZE, .data = f->got};

    return stk__http_call(client, &x, NULL, err);
}

/* End all connections; the next request makes another. */
static void drop(fixture *f)
{
    http_server_drop(f->server);
    while (http_server_counters(f->server).open > 0)
        sched_yield();
}

static void test_resolver_fails(void **state)
{
    fixture *f = *state;
    stk__http_client *client = open_client(f);
    stk_error err;

    assert_ok(get(client, f, &err), &err);
    assert_true(atomic_load(&asked) > 0);
    drop(f);
    atomic_store(&broken, true);
    memset(f->got, 0, SIZE);
    assert_ok(get(client, f, &err), &err);
    assert_memory_equal(f->got, f->bytes, SIZE);
    /* The resolver is left alone for a while. */
    const int before = atomic_load(&asked);
    drop(f);
    assert_ok(get(client, f, &err), &err);
    assert_int_equal(atomic_load(&asked), before);
    /* Then it is asked again. */
    client->host->names.until_ns = 1;
    atomic_store(&broken, false);
    drop(f);
    assert_ok(get(client, f, &err), &err);
    assert_true(atomic_load(&asked) > before);
    stk__http_client_close(&client);
}

/* One that never led anywhere is an error in words. */
static void test_never_known(void **state)
{
    fixture *f = *state;
    stk__http_client *client = open_client(f);
    stk_error err;

    atomic_store(&broken, true);
    assert_fails(get(client, f, &err), STK_EIO, &err, NAME);
    stk__http_client_close(&client);
}

/* The first address has no server: the next is tried, and remembered. */
static void test_several(void **state)
{
    fixture *f = *state;
    stk__http_client *client = open_client(f);
    stk_error err;

    atomic_store(&several, true);
    assert_ok(get(client, f, &err), &err);
    assert_memory_equal(f->got, f->bytes, SIZE);
    assert_string_equal(client->host->names.addresses[0], "127.0.0.1");
    stk__http_client_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resolver_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_never_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
