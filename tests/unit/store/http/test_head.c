/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "store/http/head.h"
#include "store/http/http.h"

static stk__http_head parse(const char *text)
{
    stk__http_head head;

    stk__http_head_init(&head);
    while (*text) {
        const char *end = strchr(text, '\n');
        const size_t length = end ? (size_t)(end - text) + 1 : strlen(text);
        stk__http_head_line(&head, text, length);
        text += length;
    }
    return head;
}

static void test_an_answer(void **state)
{
    const stk__http_head head = parse("HTTP/1.1 206 Partial Content\r\n"
                                      "content-RANGE: bytes 10-19/200\r\n"
                                      "Content-Length:10\r\n"
                                      "ETag: \"abc\"\r\n"
                                      "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                                      "x-amz-bucket-region: eu-west-1\r\n"
                                      "Content-Type: text/plain\r\n\r\n");

    assert_int_equal(head.code, 206);
    assert_true(head.complete && head.has_range && !head.wrong_range && !head.encoded);
    assert_int_equal(head.first, 10);
    assert_int_equal(head.last, 19);
    assert_int_equal(head.total, 200);
    assert_int_equal(head.length, 10);
    assert_int_equal(head.mtime_ns, INT64_C(784111777000000000));
    assert_string_equal(head.etag, "\"abc\"");
    assert_string_equal(head.region, "eu-west-1");
    assert_string_equal(head.content_type, "text/plain");
}

static void test_later_heads_and_trailers(void **state)
{
    const stk__http_head head = parse("HTTP/1.1 100 Continue\r\nETag: \"no\"\r\n\r\n"
                                      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
                                      "Content-Length: 4\r\nETag: \"late\"\r\n"
                                      "HTTP/1.1 206 OK\r\nContent-Length: 5\r\n\r\n");

    assert_int_equal(head.code, 200);
    assert_true(head.complete);
    assert_int_equal(head.length, 3);
    assert_string_equal(head.etag, "");
}

/* Whether the end of a body that has no length can be told from a connection that broke. */
static void test_framed(void **state)
{
    assert_false(parse("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").framed);
    assert_true(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").framed);
    assert_true(parse("HTTP/2 200\r\n\r\n").framed);
    assert_false(parse("HTTP/1.0 200 OK\r\n\r\n").framed);
}

static void test_ranges(void **state)
{
    static const char *const wrong[] = {"bytes 0-9",
                                        "bytes 9-0/20",
                                        "bytes 0-9/9",
                                        "bytes -9/10",
                                        "bytes 0-/10",
                                        "chunks 0-9/10",
                                        "bytes */*",
                                        "bytes 0-9/10 x",
                                        "bytes 0 - 9/10",
                                        "",
                                        "bytes 0-99999999999999999999/*",
                                        "bytes 0-1/99999999999999999999"};
    char text[100];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "HTTP/1.1 206 x\r\nContent-Range: %s\r\n\r\n", wrong[i]);
        const stk__http_head head = parse(text);
        assert_true(head.wrong_range && !head.has_range);
        assert_true(head.total == STK__HTTP_UNSAID && head.first == STK__HTTP_UNSAID);
    }
    stk__http_head head = parse("HTTP/1.1 206 x\r\nContent-Range: bytes 0-9/*\r\n\r\n");
    assert_true(head.has_range && head.total == STK__HTTP_UNSAID && head.last == 9);
    head = parse("HTTP/1.1 416 x\r\nContent-Range: bytes */47\r\n\r\n");
    assert_true(head.has_range && head.total == 47 && head.first == STK__HTTP_UNSAID);
}

static void test_retry_after(void **state)
{
    const int64_t wall = INT64_C(784111777000000000);
    stk__http_head head = parse("HTTP/1.1 503 x\r\nRetry-After: 7\r\n\r\n");

    assert_int_equal(stk__http_retry_after(&head, wall), UINT64_C(7000000000));
    head = parse("HTTP/1.1 503 x\r\nRetry-After: 99999999\r\n\r\n");
    assert_int_equal(stk__http_retry_after(&head, wall), UINT64_C(3600000000000));
    head = parse("HTTP/1.1 503 x\r\nRetry-After: Sun, 06 Nov 1994 08:49:47 GMT\r\n\r\n");
    assert_int_equal(stk__http_retry_after(&head, wall), UINT64_C(10000000000));
    /* By the clock of the server, where it says what that is. */
    head = parse("HTTP/1.1 503 x\r\nDate: Sun, 06 Nov 1994 08:49:44 GMT\r\n"
                 "Retry-After: Sun, 06 Nov 1994 08:49:47 GMT\r\n\r\n");
    assert_int_equal(stk__http_retry_after(&head, 0), UINT64_C(3000000000));
    head = parse("HTTP/1.1 503 x\r\nRetry-After: soon\r\n\r\n");
    assert_int_equal(stk__http_retry_after(&head, wall), 0);
    head = parse("HTTP/1.1 503 x\r\nRetry-After: -5\r\n\r\n");
    assert_int_equal(stk__http_retry_after(&head, wall), 0);
}

static void test_dates(void **state)
{
    static const char *const wrong[] = {"",
                                        "Sun, 06 Nov 1994 08:49:37 CET",
                                        "Sun, 06 Nov 1994 08:49:37",
                                        "Sun, 36 Nov 1994 08:49:37 GMT",
                                        "Sun, 06 Nox 1994 08:49:37 GMT",
                                        "Sun, 06 Nov 1994 25:49:37 GMT",
                                        "Sunday, 06-Nov-94 08:49:37 GMT",
                                        "Sun, 06 Nov 19x4 08:49:37 GMT"};
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"Thu, 01 Jan 1970 00:00:01 GMT", 1000000000},
                {"Tue, 29 Feb 2000 12:00:00 GMT", INT64_C(951825600000000000)},
                {"Sat, 31 Dec 2016 23:59:60 GMT", INT64_C(1483228799000000000)},
                {"Fri, 31 Dec 9999 23:59:59 GMT", 0}}; /* beyond 2^63 ns */
    char text[200];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "HTTP/1.1 200 x\r\nLast-Modified: %s\r\n\r\n", wrong[i]);
        assert_int_equal(parse(text).mtime_ns, 0);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "HTTP/1.1 200 x\r\nLast-Modified: %s\r\n\r\n", good[i].text);
        assert_int_equal(parse(text).mtime_ns, good[i].ns);
    }
}

static void test_identity(void **state)
{
    const uint64_t a = stk__http_identity("\"a\"", 10, 5);

    assert_true(a != 0 && a == stk__http_identity("\"a\"", 11, 6));
    assert_true(a == stk__http_identity("W/\"a\"", 10, 5));
    assert_true(a != stk__http_identity("\"b\"", 10, 5));
    assert_true(stk__http_identity("", 10, 5) != stk__http_identity("", 10, 6));
    assert_true(stk__http_identity("", 10, 5) != stk__http_identity("", 11, 5));
    assert_int_equal(stk__http_identity("", STK__HTTP_UNSAID, 5), 0);
    assert_true(stk__http_etag_strong("\"a\"") && !stk__http_etag_strong("W/\"a\"") &&
                !stk__http_etag_strong("") && !stk__http_etag_strong("\"") &&
                !stk__http_etag_strong("a"));
}

/* Half an ETag is another ETag. */
static void test_what_is_too_long_is_not_there(void **state)
{
    char text[7000], value[3000];

    memset(value, 'a', sizeof value - 1);
    value[sizeof value - 1] = 0;
    snprintf(text, sizeof text, "HTTP/1.1 200 x\r\nETag: %s\r\nLocation: %s\r\n\r\n", value, value);
    stk__http_head head = parse(text);
    assert_string_equal(head.etag, "");
    assert_string_equal(head.location, "");
    value[128] = 0;
    snprintf(text, sizeof text, "HTTP/1.1 200 x\r\nETag: %s\r\n\r\n", value);
    head = parse(text);
    assert_string_equal(head.etag, "");
    value[127] = 0;
    snprintf(text, sizeof text, "HTTP/1.1 200 x\r\nETag: %s\r\n\r\n", value);
    head = parse(text);
    assert_string_equal(head.etag, value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer),   cmocka_unit_test(test_later_heads_and_trailers),
        cmocka_unit_test(test_framed),      cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_retry_after), cmocka_unit_test(test_dates),
        cmocka_unit_test(test_identity),    cmocka_unit_test(test_what_is_too_long_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
