/* SPDX-License-Identifier: Apache-2.0 */
/* Many requests while a server refuses, and after that: how often it is asked, and how soon all is
 * as it was. */
#include "world.h"

#include <limits.h>

#define AT_ONCE 16
#define SECOND  UINT64_C(1000000000)

/* Reads in a circle: each that ends is asked for again, until `left` are used up. */
typedef struct circle {
    stk_store *store;
    atomic_int left, ended, good, under_way;
    unsigned char got[AT_ONCE];
    stk_read reads[AT_ONCE];
} circle;

static void go_on(stk_read *read, stk_status status);

static void ask(circle *c, stk_read *read)
{
    *read = (stk_read){.struct_size = sizeof *read,
                       .key = "x",
                       .length = 1,
                       .data = &c->got[read - c->reads],
                       .done = go_on,
                       .user = c};
    atomic_fetch_add(&c->under_way, 1);
    if (c->store->ops->submit(c->store, read) != STK_OK)
        atomic_fetch_sub(&c->under_way, 1);
}

static void go_on(stk_read *read, stk_status status)
{
    circle *c = read->user;

    atomic_fetch_add(&c->ended, 1);
    atomic_fetch_add(&c->good, status == STK_OK);
    if (atomic_fetch_sub(&c->left, 1) > 0)
        ask(c, read);
    atomic_fetch_sub(&c->under_way, 1);
}

static void begin(circle *c, stk_store *store, int reads)
{
    *c = (circle){.store = store};
    atomic_store(&c->left, reads - AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++)
        ask(c, &c->reads[i]);
}

static void pause_ms(uint64_t ms)
{
    stk__sleep_until(stk__now_ns() + ms * 1000000, NULL);
}

static void await(circle *c)
{
    while (atomic_load(&c->under_way) > 0)
        pause_ms(1);
}

/* So many reads, and how many were under way at the server at most. */
static uint64_t most_at_once(fixture *f, stk_store *store, int reads)
{
    circle c;

    http_server_reset_counters(f->server);
    begin(&c, store, reads);
    await(&c);
    assert_int_equal(atomic_load(&c.good), reads);
    return http_server_counters(f->server).most_requests;
}

/* A store of 16 requests at once whose server takes 10 ms for each: http:, or s3:. */
static stk_store *open_slow(fixture *f, stk_context **context, bool s3)
{
    stk_context_options options;
    stk_store *store = NULL;
    char stores[300], url[300];
    stk_error err;

    http_server_put(f->server, "/bucket/d/x", "x", 1);
    http_server_shape(f->server, 10, 0, 0);
    snprintf(stores, sizeof stores, "s3(endpoint='%s', anonymous=true)",
             http_server_url(f->server));
    stk_context_options_init(&options);
    options.stores = stores;
    assert_ok(stk_context_create(&options, context, &err), &err);
    snprintf(url, sizeof url, "%s%s/d/?connections=%d&retries=3",
             s3 ? "s3:" : http_server_url(f->server), s3 ? "//bucket" : "", AT_ONCE);
    assert_ok(stk_store_open(*context, url, &store, NULL, 0, &err), &err);
    return store;
}

static int set_up(void **state)
{
    return world_open(state, NULL);
}

/* Fewer requests at once while the server refuses; as many as before when it takes them. */
static void test_fewer_at_once(void **state)
{
    fixture *f = *state;

    for (int s3 = 0; s3 < 2; s3++) {
        stk_context *context;
        stk_store *store = open_slow(f, &context, s3);
        int rounds = 0;

        assert_int_equal(most_at_once(f, store, AT_ONCE * 4), AT_ONCE);
        http_server_fault(f->server, &(http_fault){.status = 503, .count = AT_ONCE});
        most_at_once(f, store, AT_ONCE);
        assert_in_range(most_at_once(f, store, AT_ONCE), 2, AT_ONCE - 2);
        for (; most_at_once(f, store, AT_ONCE) < AT_ONCE; rounds++)
            assert_true(rounds < 50);
        stk_store_close(&store);
        stk_context_destroy(&context);
        http_server_mend(f->server);
    }
}

/* What waits lest it ask in vain goes on as soon as others are answered: by itself each would wait
 * for up to a second. */
static void test_waiting_go_on(void **state)
{
    fixture *f = *state;
    uint64_t took = UINT64_MAX;

    for (int tries = 0; tries < 5 && took > SECOND / 2; tries++) {
        stk_context *context;
        stk_store *store = open_slow(f, &context, false);
        char byte;
        circle c;
        stk_error err;

        const int fault =
            http_server_fault(f->server, &(http_fault){.status = 503, .count = AT_ONCE});
        begin(&c, store, AT_ONCE);
        while (http_server_struck(f->server, fault) < AT_ONCE)
            pause_ms(1);
        const uint64_t start = stk__now_ns();
        assert_ok(stk_store_read(store, "x", 0, 1, &byte, &err), &err);
        await(&c);
        took = stk__now_ns() - start;
        assert_int_equal(atomic_load(&c.good), AT_ONCE);
        stk_store_close(&store);
        stk_context_destroy(&context);
        http_server_mend(f->server);
    }
    assert_true(took <= SECOND / 2);
}

/* Whoever goes on asking gets nine tenths of what he got before within 10 s of a storm; and within
 * it the server is asked little more often than he asks. */
static void test_throughput_returns(void **state)
{
    fixture *f = *state;
    stk_context *context;
    stk_store *store = open_slow(f, &context, false);
    circle c;

    begin(&c, store, INT_MAX);
    pause_ms(300); /* for what is measured, not for something to happen */
    int before = atomic_load(&c.good), again = 0;
    pause_ms(300);
    before = atomic_load(&c.good) - before;
    http_server_fault(f->server, &(http_fault){.status = 503});
    pause_ms(300);
    const int asked = atomic_load(&c.ended);
    http_server_reset_counters(f->server);
    pause_ms(300);
    const uint64_t requests = http_server_counters(f->server).requests;
    const int ended = atomic_load(&c.ended) - asked;
    assert_true(requests <= (uint64_t)(ended * 12 / 10 + AT_ONCE));
    http_server_mend(f->server);
    const uint64_t end = stk__now_ns();
    while (again * 10 < before * 9 && stk__now_ns() - end < 10 * SECOND) {
        again = atomic_load(&c.good);
        pause_ms(300);
        again = atomic_load(&c.good) - again;
    }
    atomic_store(&c.left, 0);
    await(&c);
    assert_true(again * 10 >= before * 9);
    stk_store_close(&store);
    stk_context_destroy(&context);
}

/* An outage of whatever kind, once the tokens are used up: little more than what is asked for. */
static void test_amplification(void **state)
{
    static const http_fault outages[] = {{.status = 500},
                                         {.cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD},
                                         {.cut = HTTP_CLOSE, .at = HTTP_WITHIN_HEAD},
                                         {.range = ""}};
    fixture *f = *state;

    for (size_t i = 0; i < sizeof outages / sizeof *outages; i++) {
        stk_context *context;
        stk_store *store = open_slow(f, &context, false);
        circle c;

        http_server_shape(f->server, 0, 0, 0);
        most_at_once(f, store, AT_ONCE);
        http_server_fault(f->server, &outages[i]);
        begin(&c, store, 200); /* they use up the tokens */
        await(&c);
        http_server_reset_counters(f->server);
        begin(&c, store, 1000);
        await(&c);
        assert_int_equal(atomic_load(&c.good), 0);
        assert_in_range(http_server_counters(f->server).requests, 900, 1200);
        http_server_mend(f->server);
        stk_store_close(&store);
        stk_context_destroy(&context);
    }
}

/* Requests that are never answered, and bodies that never end: nobody waits for them. All timeouts
 * are an hour. */
static void test_stalls(void **state)
{
    static const http_fault stalls[] = {
        {.count = 1, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD},
        {.count = 1, .cut = HTTP_STALL, .at = HTTP_WITHIN_HEAD},
        {.count = 1, .cut = HTTP_STALL, .at = 0},
        {.count = 1, .cut = HTTP_STALL, .at = 70000},
        /* And the second, too. */
        {.count = 2, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD},
        {.count = 2, .cut = HTTP_STALL, .at = 70000},
    };
    fixture *f = *state;
    stk_store *store = open_store(f, "/d/?first_byte_timeout=1h&stall_timeout=1h&retries=0");
    stk_error err;
    circle c;

    for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++) {
        begin(&c, store, 200); /* what is late, and leave to ask twice */
        await(&c);
        const int fault = http_server_fault(f->server, &stalls[i]);
        memset(f->got, 0, sizeof f->got);
        assert_ok(stk_store_read(store, "x", 5, 200000, f->got, &err), &err);
        assert_memory_equal(f->got, f->bytes + 5, 200000);
        assert_int_equal(http_server_struck(f->server, fault), stalls[i].count);
        http_server_mend(f->server);
    }
    stk_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stalls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fewer_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_go_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_throughput_returns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_amplification, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
