/* A server with the objects "/x" and "/other", and its answers under one fault. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_CLOUD_HTTP_FIXTURE_H
#define STK_TESTS_UNIT_CLOUD_HTTP_FIXTURE_H

#include "support/http_client.h"
#include "support/http_server.h"
#include "support/support.h"

#define SIZE 20000

static char pattern[SIZE];

static inline http_server *start(const http_server_options *options)
{
    http_server *server = http_server_start(options);

    assert_non_null(server);
    for (size_t i = 0; i < SIZE; i++)
        pattern[i] = (char)('a' + i % 26);
    assert_true(http_server_put(server, "/x", pattern, SIZE));
    assert_true(http_server_put(server, "/other", "other", 5));
    return server;
}

static inline int open_server(void **state)
{
    *state = start(&(http_server_options){.seed = 7});
    return 0;
}

static inline int close_server(void **state)
{
    http_server *server = *state;

    http_server_stop(&server);
    return 0;
}

/* One answer for "/x" under this fault alone; `headers` of the request. */
static inline void under(http_server *server, http_fault fault, const char *headers, http_got *got)
{
    http_server_mend(server);
    assert_true(http_server_fault(server, &fault) > 0);
    http_once(server, "GET", "/x", headers, got);
}

static inline void assert_line(const http_got *got, const char *name, const char *wanted)
{
    char value[512];
    const char *found = http_line(got, name, value);

    if (!wanted)
        assert_null(found);
    else
        assert_string_equal(found ? found : "none", wanted);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, open_server, close_server)

#endif
