/* SPDX-License-Identifier: Apache-2.0 */
/* The web server of the tests: heads, bodies and answers that are other than they should be, as a
 * client sees them on the wire. */
#include "unit/cloud/http_fixture.h"

/* ---- Heads and bodies ---- */

static void heads_lie(void **state)
{
    http_server *server = *state;
    static const char *const range = "Range: bytes=10-19\r\n";
    char before[512], value[512];
    http_got got;

    http_once(server, "GET", "/x", NULL, &got);
    http_line(&got, "ETag", before);
    under(server, (http_fault){.length_off = -5}, NULL, &got);
    assert_line(&got, "Content-Length", "19995");
    under(server, (http_fault){.length_off = 5}, NULL, &got);
    assert_line(&got, "Content-Length", "20005");
    assert_int_equal(got.length, SIZE);
    assert_int_equal(got.ending, HTTP_ENDED);
    under(server, (http_fault){.range_off = 1}, range, &got);
    assert_line(&got, "Content-Range", "bytes 11-20/20000");
    assert_memory_equal(got.body, pattern + 10, 10);
    under(server, (http_fault){.range = "bytes 10-19/30000"}, range, &got);
    assert_line(&got, "Content-Range", "bytes 10-19/30000");
    under(server, (http_fault){.range = ""}, range, &got);
    assert_int_equal(got.status, 206);
    assert_line(&got, "Content-Range", NULL);
    under(server, (http_fault){.whole = true}, range, &got);
    assert_int_equal(got.status, 200);
    assert_int_equal(got.length, SIZE);
    under(server, (http_fault){.etag = "\"wrong\""}, NULL, &got);
    assert_line(&got, "ETag", "\"wrong\"");
    under(server, (http_fault){.etag = ""}, NULL, &got);
    assert_line(&got, "ETag", NULL);
    under(server, (http_fault){.etag_changes = true}, NULL, &got);
    http_line(&got, "ETag", before);
    http_once(server, "GET", "/x", NULL, &got);
    assert_string_not_equal(http_line(&got, "ETag", value), before);
    under(server, (http_fault){.encoding = "gzip"}, NULL, &got);
    assert_line(&got, "Content-Encoding", "gzip");
    assert_memory_equal(got.body, pattern, SIZE);
    under(server, (http_fault){.header = "X-A: 1\r\nX-B: 2\r\n"}, NULL, &got);
    assert_line(&got, "X-A", "1");
    assert_line(&got, "X-B", "2");
}

static void bodies_are_other_than_they_should_be(void **state)
{
    http_server *server = *state;
    http_got got;

    under(server, (http_fault){.flip = 3}, "Range: bytes=5-9\r\n", &got);
    assert_int_equal(got.length, 5);
    assert_int_equal(got.body[2], pattern[7] ^ 1);
    got.body[2] ^= 1;
    assert_memory_equal(got.body, pattern + 5, 5);

    http_server_mend(server);
    http_server_fault(server, &(http_fault){.extra = 100});
    const int fd = http_connect(server);
    http_ask(fd, "GET", "/x", NULL, &got);
    assert_memory_equal(got.body, pattern, SIZE);
    assert_line(&got, "Content-Length", "20000");
    http_more(fd, &got, SIZE + 200);
    assert_int_equal(got.length, SIZE + 100);
    assert_int_equal(got.ending, HTTP_ENDED);
    close(fd);

    http_server_mend(server);
    http_server_fault(server, &(http_fault){.no_length = true});
    const int again = http_connect(server);
    http_ask(again, "GET", "/x", NULL, &got);
    assert_line(&got, "Content-Length", NULL);
    http_more(again, &got, SIZE + 200);
    assert_int_equal(got.length, SIZE);
    assert_int_equal(got.ending, HTTP_ENDED);
    close(again);
}

static void chunks_are_good_or_bad(void **state)
{
    http_server *server = *state;
    static const struct {
        http_chunks chunks;
        const char *body;
        http_ending ending;
    } cases[] = {
        {HTTP_CHUNKED, "3\r\noth\r\n2\r\ner\r\n0\r\n\r\n", HTTP_OPEN},
        {HTTP_CHUNKED_BADLY, "3\r\noth\r\nzz\r\ner\r\n0\r\n\r\n", HTTP_ENDED},
        {HTTP_CHUNKED_ENDLESS, "3\r\noth\r\n2\r\ner\r\n", HTTP_ENDED},
    };

    for (size_t i = 0; i < 3; i++) {
        http_got got;

        http_server_mend(server);
        http_server_fault(server, &(http_fault){.chunks = cases[i].chunks, .count = 1});
        const int fd = http_connect(server);
        http_ask(fd, "GET", "/other", NULL, &got);
        assert_line(&got, "Transfer-Encoding", "chunked");
        assert_line(&got, "Content-Length", NULL);
        http_more(fd, &got, strlen(cases[i].body));
        assert_string_equal(got.body, cases[i].body);
        if (cases[i].ending == HTTP_OPEN)
            http_ask(fd, "GET", "/other", NULL, &got);
        else
            assert_int_equal(http_ends(fd), cases[i].ending);
        close(fd);
    }
}

static void heads_without_end(void **state)
{
    http_server *server = *state;
    http_got got;

    under(server, (http_fault){.endless_head = true}, NULL, &got);
    assert_int_equal(got.status, 0);
    assert_int_equal(strlen(got.head), sizeof got.head - 1);
}

/* ---- Other answers ---- */

static void errors_have_their_bodies(void **state)
{
    http_server *server = *state;
    static const struct {
        int status;
        const char *code;
        int wanted;
        const char *said;
    } cases[] = {
        {500, NULL, 500, "<Code>InternalError</Code>"},
        {503, NULL, 503, "<Code>SlowDown</Code>"},
        {429, NULL, 429, "<Code>TooManyRequests</Code>"},
        {401, NULL, 401, "<Code>Unauthorized</Code>"},
        {403, NULL, 403, "<Code>AccessDenied</Code>"},
        {404, NULL, 404, "<Code>NoSuchKey</Code>"},
        {412, NULL, 412, "<Code>PreconditionFailed</Code>"},
        {416, NULL, 416, "<Code>InvalidRange</Code>"},
        {0, "ExpiredToken", 400, "<Code>ExpiredToken</Code>"},
        {200, "InternalError", 200, "<Code>InternalError</Code>"},
    };
    http_got got;
    char value[512];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        under(server, (http_fault){.status = cases[i].status, .code = cases[i].code}, NULL, &got);
        assert_int_equal(got.status, cases[i].wanted);
        assert_non_null(strstr(got.body, cases[i].said));
    }
    under(server, (http_fault){.status = 503, .retry_after = 2}, NULL, &got);
    assert_line(&got, "Retry-After", "2");
    under(server, (http_fault){.status = 503, .retry_after = 60, .retry_after_date = true}, NULL,
          &got);
    assert_non_null(strstr(http_line(&got, "Retry-After", value), " GMT"));
    under(server, (http_fault){.body = "{}", .header = "Content-Type: application/json\r\n"}, NULL,
          &got);
    assert_int_equal(got.status, 200);
    assert_string_equal(got.body, "{}");
    under(server, (http_fault){.location = "/other"}, NULL, &got);
    assert_int_equal(got.status, 302);
    assert_line(&got, "Location", "/other");
    under(server, (http_fault){.location = "https://127.0.0.1:1/x", .status = 307}, NULL, &got);
    assert_int_equal(got.status, 307);
    assert_line(&got, "Location", "https://127.0.0.1:1/x");
}

static void what_fails_is_not_done(void **state)
{
    http_server *server = *state;
    static const char put[] = "PUT /new HTTP/1.1\r\nContent-Length: 1\r\n\r\nx";
    const int fd = http_connect(server);
    size_t length;
    http_got got;

    http_server_fault(server, &(http_fault){.method = "PUT", .count = 1, .status = 503});
    http_send(fd, put, sizeof put - 1);
    http_take(fd, &got, SIZE_MAX);
    assert_int_equal(got.status, 503);
    assert_null(http_server_get(server, "/new", &length));
    http_send(fd, put, sizeof put - 1);
    http_take(fd, &got, SIZE_MAX);
    assert_int_equal(got.status, 200);
    char *data = http_server_get(server, "/new", &length);
    assert_string_equal(data, "x");
    free(data);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVER(heads_lie),
        WITH_SERVER(bodies_are_other_than_they_should_be),
        WITH_SERVER(chunks_are_good_or_bad),
        WITH_SERVER(heads_without_end),
        WITH_SERVER(errors_have_their_bodies),
        WITH_SERVER(what_fails_is_not_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
