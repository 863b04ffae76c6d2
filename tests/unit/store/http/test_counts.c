/* SPDX-License-Identifier: Apache-2.0 */
/* What the client counts of its reads, and to what it attributes their time. */
#include "world.h"

#include "measure/measure.h"
#include "store/store.h"

#define READS  6
#define LENGTH 1000u
#define MS     UINT64_C(1000000)

static int set_up(void **state)
{
    return world_open(state, NULL);
}

typedef struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int left;
} waiting;

static void on_done(stk_read *read, stk_status status)
{
    waiting *w = read->user;

    assert_int_equal(status, STK_OK);
    pthread_mutex_lock(&w->lock);
    w->left--;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
}

/* READS ranges at once, of a store with these options; what they counted. */
static stk_network read_all(fixture *f, const char *path)
{
    waiting w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, READS};
    stk_read reads[READS];
    stk_store *store = open_store(f, path);
    stk_network before, n;

    stk__network_get(f->context, &before);
    for (int i = 0; i < READS; i++) {
        reads[i] = (stk_read){.struct_size = sizeof *reads,
                              .key = "x",
                              .offset = LENGTH * (unsigned)i,
                              .length = LENGTH,
                              .data = f->got + LENGTH * (unsigned)i,
                              .done = on_done,
                              .user = &w};
        assert_int_equal(store->ops->submit(store, &reads[i]), STK_OK);
    }
    pthread_mutex_lock(&w.lock);
    while (w.left)
        pthread_cond_wait(&w.ended, &w.lock);
    pthread_mutex_unlock(&w.lock);
    stk__network_get(f->context, &n);
    stk__network_subtract(&n, &before);
    stk_store_close(&store);
    assert_memory_equal(f->got, f->bytes, READS * LENGTH);
    assert_int_equal(n.reads, READS);
    assert_int_equal(n.bytes, READS * LENGTH);
    assert_int_equal(n.requests, READS + n.retries + n.twice);
    return n;
}

static void test_late_server(void **state)
{
    fixture *f = *state;

    http_server_shape(f->server, 30, 0, 0);
    const stk_network n = read_all(f, "/d/");
    assert_true(n.first_ns >= READS * 30 * MS);
    assert_int_equal(n.retries + n.throttled + n.late, 0);
    assert_int_equal(n.connections, 64);
    assert_int_equal(n.window, 64);
    assert_true(n.connects >= 1 && n.connects <= READS);
}

/* By one connection the second waits for the first, and the last for all. */
static void test_turns(void **state)
{
    fixture *f = *state;

    http_server_shape(f->server, 20, 0, 0);
    const stk_network n = read_all(f, "/d/?connections=1");
    assert_int_equal(n.connections, 1);
    assert_true(n.turn_ns >= (uint64_t)(READS * (READS - 1) / 2) * 20 * MS);
    assert_true(n.first_ns >= READS * 20 * MS);
    assert_true(n.first_ns < n.turn_ns);
}

static void test_throttled(void **state)
{
    fixture *f = *state;

    http_server_fault(f->server, &(http_fault){.method = "GET", .count = 2, .status = 429});
    http_server_fault(f->server, &(http_fault){.method = "GET", .count = 1, .status = 503});
    const stk_network n = read_all(f, "/d/");
    assert_int_equal(n.throttled, 3);
    assert_int_equal(n.retries, 3);
    assert_true(n.throttled_ns > 0);
    assert_true(n.window < n.connections);
}

/* Where no more than two at once are served, that is what comes of it. */
static void test_window(void **state)
{
    fixture *f = *state;

    http_server_shape(f->server, 10, 0, 0);
    http_server_fault(f->server, &(http_fault){.method = "GET", .above = 2, .status = 503});
    const stk_network n = read_all(f, "/d/");
    assert_true(n.throttled >= 1);
    assert_in_range(n.window, 2, 3);
}

static void test_failures(void **state)
{
    fixture *f = *state;

    http_server_fault(f->server, &(http_fault){.method = "GET", .count = 2, .status = 500});
    const stk_network n = read_all(f, "/d/");
    assert_int_equal(n.retries, 2);
    assert_int_equal(n.throttled + n.late, 0);
    assert_int_equal(n.throttled_ns, 0);
    assert_true(n.again_ns > 0);
}

static void test_mute(void **state)
{
    fixture *f = *state;

    http_server_fault(
        f->server,
        &(http_fault){.method = "GET", .count = 2, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD});
    const stk_network n = read_all(f, "/d/?first_byte_timeout=0.2");
    assert_int_equal(n.late, 2);
    assert_int_equal(n.retries, 2);
    assert_true(n.again_ns >= 2 * 200 * MS);
}

/* What is given up before its time is counted as what is late, and every connection as one. */
static void test_given_up(void **state)
{
    static const http_fault cases[] = {
        /* A body that goes quiet is left for another connection. */
        {.method = "GET", .count = 1, .cut = HTTP_STALL, .at = 50},
        /* The second is late as well, and a third takes the place of the first. */
        {.method = "GET", .count = 2, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD},
    };
    fixture *f = *state;
    stk_network before, n;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_store *store = open_store(f, "/d/?first_byte_timeout=1h&stall_timeout=1h");
        for (int k = 0; k < 60; k++)
            assert_ok(stk_store_read(store, "x", 0, 100, f->got, &err), &err);
        /* The next is of a connection of its own. */
        http_server_drop(f->server);
        const int stall = http_server_fault(f->server, &cases[i]);
        stk__network_get(f->context, &before);
        http_server_reset_counters(f->server);
        assert_ok(stk_store_read(store, "x", 50, 100, f->got, &err), &err);
        stk__network_get(f->context, &n);
        stk__network_subtract(&n, &before);
        assert_int_equal(http_server_struck(f->server, stall), cases[i].count);
        assert_memory_equal(f->got, f->bytes + 50, 100);
        /* On a busy machine more may be late than is meant to be. */
        assert_true(n.retries + n.twice >= 1);
        /* A try whose connection was dropped is no late one. */
        assert_true(n.late <= n.retries + n.twice);
        assert_true(n.late >= 1 || n.twice >= 1);
        assert_int_equal(n.connects, http_server_counters(f->server).connections);
        assert_true(n.connects >= 2);
        http_server_mend(f->server);
        stk_store_close(&store);
    }
}

/* The bytes that come later are those of the way from the first byte on. */
static void test_slow_body(void **state)
{
    fixture *f = *state;

    http_server_shape(f->server, 0, 10000, 0);
    const stk_network n = read_all(f, "/d/");
    assert_true(n.body_ns > n.first_ns + n.turn_ns + n.again_ns + n.connect_ns);
}

/* Nothing over the network was opened, or all of it was closed: nothing is said, and a difference
 * is no less than nothing. */
static void test_closed(void **state)
{
    fixture *f = *state;
    stk_network n, before;

    stk__network_get(f->context, &before);
    assert_int_equal(before.requests, 0);
    before = read_all(f, "/d/");
    stk__network_get(f->context, &n);
    assert_int_equal(n.requests, 0);
    stk__network_subtract(&n, &before);
    assert_int_equal(n.requests + n.first_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_late_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_throttled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mute, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closed, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
