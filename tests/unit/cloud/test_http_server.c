/* SPDX-License-Identifier: Apache-2.0 */
/* The web server of the tests: requests that nothing goes wrong with. */
#include "support/http_client.h"
#include "support/http_server.h"
#include "support/support.h"

#define TEXT "0123456789"

/* *state: a server with the object "/a/text". */
static int open_server(void **state)
{
    http_server *server = http_server_start(&(http_server_options){0});

    assert_non_null(server);
    assert_true(http_server_put(server, "/a/text", TEXT, strlen(TEXT)));
    *state = server;
    return 0;
}

static int close_server(void **state)
{
    http_server *server = *state;

    http_server_stop(&server);
    assert_null(server);
    return 0;
}

static void get_has_the_bytes_and_what_they_are(void **state)
{
    http_server *server = *state;
    http_got got;
    char value[512];

    http_once(server, "GET", "/a/te%78t?x=1", NULL, &got);
    assert_int_equal(got.status, 200);
    assert_string_equal(got.body, TEXT);
    assert_non_null(http_line(&got, "etag", value));
    assert_int_equal(value[0], '"');
    assert_non_null(http_line(&got, "last-modified", value));
    assert_null(http_line(&got, "content-range", value));
    http_once(server, "GET", "/a/other", NULL, &got);
    assert_int_equal(got.status, 404);
    http_once(server, "GET", "/../a/text", NULL, &got);
    assert_int_equal(got.status, 404);
}

static void check_range(http_server *server, const char *range, int status, const char *body,
                        const char *said)
{
    http_got got;
    char line[128], value[512];

    snprintf(line, sizeof line, "Range: %s\r\n", range);
    http_once(server, "GET", "/a/text", line, &got);
    assert_int_equal(got.status, status);
    if (body)
        assert_string_equal(got.body, body);
    if (said)
        assert_string_equal(http_line(&got, "Content-Range", value), said);
    else
        assert_null(http_line(&got, "Content-Range", value));
}

static void ranges_are_those_of_the_standard(void **state)
{
    check_range(*state, "bytes=2-4", 206, "234", "bytes 2-4/10");
    check_range(*state, "bytes=0-0", 206, "0", "bytes 0-0/10");
    check_range(*state, "bytes=7-", 206, "789", "bytes 7-9/10");
    check_range(*state, "bytes=7-99", 206, "789", "bytes 7-9/10");
    check_range(*state, "bytes=-3", 206, "789", "bytes 7-9/10");
    check_range(*state, "bytes=-99", 206, TEXT, "bytes 0-9/10");
    check_range(*state, "bytes=10-", 416, NULL, "bytes */10");
    check_range(*state, "bytes=-0", 416, NULL, "bytes */10");
    check_range(*state, "bytes=4-2", 200, TEXT, NULL);
    check_range(*state, "bytes=1-2,4-5", 200, TEXT, NULL);
    check_range(*state, "lines=1-2", 200, TEXT, NULL);
}

static void one_connection_serves_many_requests(void **state)
{
    http_server *server = *state;
    const int fd = http_connect(server);
    http_got got;
    char value[512];

    for (int i = 0; i < 5; i++) {
        http_ask(fd, "HEAD", "/a/text", NULL, &got);
        assert_int_equal(got.status, 200);
        assert_string_equal(http_line(&got, "Content-Length", value), "10");
        http_ask(fd, "GET", "/a/text", "Range: bytes=1-1\r\n", &got);
        assert_string_equal(got.body, "1");
    }
    /* Two at once are answered in their order. */
    static const char both[] = "GET /a/text HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\n";
    http_send(fd, both, sizeof both - 1);
    http_take(fd, &got, SIZE_MAX);
    assert_int_equal(got.status, 200);
    http_take(fd, &got, SIZE_MAX);
    assert_int_equal(got.status, 404);
    assert_int_equal(http_server_counters(server).connections, 1);
    http_ask(fd, "GET", "/a/text", "Connection: close\r\n", &got);
    assert_string_equal(got.body, TEXT);
    assert_int_equal(http_ends(fd), HTTP_ENDED);
    close(fd);
}

static void conditions_are_looked_at(void **state)
{
    http_server *server = *state;
    http_got got;
    char etag[512], line[600];

    http_once(server, "HEAD", "/a/text", NULL, &got);
    assert_non_null(http_line(&got, "ETag", etag));
    snprintf(line, sizeof line, "If-Match: %s\r\nRange: bytes=1-2\r\n", etag);
    http_once(server, "GET", "/a/text", line, &got);
    assert_int_equal(got.status, 206);
    assert_true(http_server_put(server, "/a/text", "another", 7));
    http_once(server, "GET", "/a/text", line, &got);
    assert_int_equal(got.status, 412);
    snprintf(line, sizeof line, "If-None-Match: %s\r\n", etag);
    http_once(server, "GET", "/a/text", line, &got);
    assert_int_equal(got.status, 200);
    http_line(&got, "ETag", etag);
    snprintf(line, sizeof line, "If-None-Match: %s\r\n", etag);
    http_once(server, "GET", "/a/text", line, &got);
    assert_int_equal(got.status, 304);
    assert_int_equal(got.length, 0);
}

static void put_and_delete_change_objects(void **state)
{
    http_server *server = *state;
    http_got got;
    size_t length;

    static const char put[] =
        "PUT /new%20one HTTP/1.1\r\nContent-Length: 5\r\nIf-None-Match: *\r\n\r\nhello";
    const int fd = http_connect(server);
    http_send(fd, put, sizeof put - 1);
    http_take(fd, &got, SIZE_MAX);
    assert_int_equal(got.status, 200);
    http_send(fd, put, sizeof put - 1);
    http_take(fd, &got, SIZE_MAX);
    assert_int_equal(got.status, 412);
    char *data = http_server_get(server, "/new one", &length);
    assert_string_equal(data, "hello");
    assert_int_equal(length, 5);
    free(data);
    http_ask(fd, "DELETE", "/new%20one", NULL, &got);
    assert_int_equal(got.status, 204);
    http_ask(fd, "DELETE", "/new%20one", NULL, &got);
    assert_int_equal(got.status, 404);
    assert_null(http_server_get(server, "/new one", &length));
    close(fd);
}

static void counters_count(void **state)
{
    http_server *server = *state;
    const int one = http_connect(server), other = http_connect(server);
    http_got got;

    http_ask(one, "GET", "/a/text", NULL, &got);
    http_ask(other, "GET", "/a/text", "Range: bytes=1-4\r\n", &got);
    http_ask(other, "HEAD", "/none", NULL, &got);
    close(one);
    close(other);
    const http_counters c = http_server_counters(server);
    assert_int_equal(c.requests, 3);
    assert_int_equal(c.ranges, 1);
    assert_int_equal(c.heads, 1);
    assert_int_equal(c.failed, 1);
    assert_int_equal(c.connections, 2);
    assert_int_equal(c.most_connections, 2);
    assert_int_equal(c.most_requests, 1);
    assert_int_equal(c.bytes_sent, 14);
    http_server_reset_counters(server);
    assert_int_equal(http_server_counters(server).requests, 0);
}

static void a_proxy_is_asked_for_other_hosts(void **state)
{
    http_server *server = *state;
    http_got got;

    http_once(server, "GET", "http://elsewhere.example/a/text?x=1", NULL, &got);
    assert_int_equal(got.status, 200);
    assert_string_equal(got.body, TEXT);
    http_once(server, "CONNECT", "elsewhere.example:443", NULL, &got);
    assert_int_equal(got.status, 405);
}

static void what_is_no_request_is_refused(void **state)
{
    http_server *server = *state;
    static char head[70000];
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET\r\n\r\n", 400},
        {"GET /a/text\r\n\r\n", 400},
        {"GET /a/text FTP/1.1\r\n\r\n", 400},
        {"PUT /x HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", 400},
        {"PUT /x HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413},
        {"PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
        {head, 431},
    };
    http_got got;

    memset(head, 'x', sizeof head - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int fd = http_connect(server);

        http_send(fd, cases[i].text, strlen(cases[i].text));
        http_take(fd, &got, SIZE_MAX);
        assert_int_equal(got.status, cases[i].status);
        assert_int_not_equal(http_ends(fd), HTTP_OPEN);
        close(fd);
    }
    assert_int_equal(http_server_counters(server).requests, 0);
}

#define MANY 300

/* More than one thread has events for at a time; all of them wait together. */
static void many_requests_are_in_flight(void **state)
{
    for (int threads = 1; threads <= 2; threads++) {
        http_server *server = http_server_start(&(http_server_options){.threads = threads});
        static const char get[] = "GET /x HTTP/1.1\r\nRange: bytes=1-\r\n\r\n";
        static int fds[MANY];
        http_got got;

        assert_non_null(server);
        assert_true(http_server_put(server, "/x", TEXT, strlen(TEXT)));
        /* Until all have asked, none is answered. */
        const int fault = http_server_fault(server, &(http_fault){.cut = HTTP_STALL});
        for (int i = 0; i < MANY; i++) {
            fds[i] = http_connect(server);
            http_send(fds[i], get, sizeof get - 1);
            http_take(fds[i], &got, 0);
            assert_int_equal(got.status, 206);
        }
        assert_int_equal(http_server_struck(server, fault), MANY);
        assert_int_equal(http_server_counters(server).most_requests, MANY);
        assert_int_equal(http_server_counters(server).open, MANY);
        for (int i = 0; i < MANY; i++)
            close(fds[i]);
        http_server_mend(server);
        http_server_shape(server, 1, 0, 10000000);
        for (int i = 0; i < MANY; i++) {
            fds[i] = http_connect(server);
            http_send(fds[i], get, sizeof get - 1);
        }
        for (int i = 0; i < MANY; i++) {
            http_take(fds[i], &got, SIZE_MAX);
            assert_string_equal(got.body, &TEXT[1]);
            close(fds[i]);
        }
        http_server_stop(&server);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(get_has_the_bytes_and_what_they_are, open_server,
                                        close_server),
        cmocka_unit_test_setup_teardown(ranges_are_those_of_the_standard, open_server,
                                        close_server),
        cmocka_unit_test_setup_teardown(one_connection_serves_many_requests, open_server,
                                        close_server),
        cmocka_unit_test_setup_teardown(conditions_are_looked_at, open_server, close_server),
        cmocka_unit_test_setup_teardown(put_and_delete_change_objects, open_server, close_server),
        cmocka_unit_test_setup_teardown(counters_count, open_server, close_server),
        cmocka_unit_test_setup_teardown(a_proxy_is_asked_for_other_hosts, open_server,
                                        close_server),
        cmocka_unit_test_setup_teardown(what_is_no_request_is_refused, open_server, close_server),
        cmocka_unit_test(many_requests_are_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
