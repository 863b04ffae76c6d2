/* SPDX-License-Identifier: Apache-2.0 */
/* The web server of the tests: lists, uploads in parts, checksums; objects as files; TLS. */
#include <openssl/ssl.h>

#include "support/certificates.h"
#include "support/http_client.h"
#include "support/http_server.h"
#include "support/support.h"

static http_server *start(const http_server_options *options)
{
    http_server *server = http_server_start(options);

    assert_non_null(server);
    return server;
}

static http_got ask(http_server *server, const char *method, const char *target,
                    const char *headers, const char *body)
{
    char text[4096];
    const int fd = http_connect(server);
    const int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s",
                           method, target, headers, strlen(body), body);
    http_got got;

    http_send(fd, text, (size_t)n);
    http_take(fd, &got, strcmp(method, "HEAD") == 0 ? 0 : SIZE_MAX);
    close(fd);
    return got;
}

/* The text of the n-th element of this name. */
static char *element(const http_got *got, const char *name, int n, char value[512])
{
    char open[64];
    const char *at = got->body;

    snprintf(open, sizeof open, "<%s>", name);
    for (int i = 0; i <= n; i++) {
        if (!(at = strstr(at, open)))
            return NULL;
        at += strlen(open);
    }
    snprintf(value, 512, "%.*s", (int)strcspn(at, "<"), at);
    return value;
}

static void assert_element(const http_got *got, const char *name, int n, const char *wanted)
{
    char value[512];
    const char *found = element(got, name, n, value);

    if (wanted)
        assert_string_equal(found ? found : "none", wanted);
    else
        assert_null(found);
}

static void check_lists(http_server *server)
{
    static const char *const keys[] = {"a/1", "a/2", "a/b/1", "a/b/2", "a/c", "b&", "c d"};
    http_got got;
    char path[64], token[512], target[1024];

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(path, sizeof path, "/box/%s", keys[i]);
        assert_true(http_server_put(server, path, keys[i], strlen(keys[i])));
    }
    assert_true(http_server_put(server, "/other/a/3", "3", 1));
    got = ask(server, "GET", "/box?list-type=2", "", "");
    assert_int_equal(got.status, 200);
    assert_element(&got, "Name", 0, "box");
    assert_element(&got, "KeyCount", 0, "7");
    assert_element(&got, "Key", 5, "b&#38;");
    assert_element(&got, "Key", 6, "c d");
    assert_element(&got, "Size", 2, "5");
    assert_element(&got, "IsTruncated", 0, "false");
    got =
        ask(server, "GET", "/box/?list-type=2&prefix=a%2F&delimiter=%2f&encoding-type=url", "", "");
    assert_element(&got, "Key", 0, "a/1");
    assert_element(&got, "Key", 1, "a/2");
    assert_element(&got, "Key", 2, "a/c");
    assert_element(&got, "Key", 3, NULL);
    assert_element(&got, "Prefix", 1, "a/b/");
    assert_element(&got, "KeyCount", 0, "4");
    got = ask(server, "GET", "/box?list-type=2&start-after=b%26&encoding-type=url", "", "");
    assert_element(&got, "Key", 0, "c%20d");
    assert_element(&got, "Key", 1, NULL);
    /* In pages of one: a folder is passed over as a whole. */
    static const char *const pages[] = {"a/1", "a/2", "a/b/", "a/c"};
    snprintf(target, sizeof target, "/box?list-type=2&prefix=a/&delimiter=/&max-keys=1");
    for (size_t i = 0; i < 4; i++) {
        got = ask(server, "GET", target, "", "");
        assert_element(&got, i == 2 ? "Prefix" : "Key", i == 2, pages[i]);
        assert_element(&got, "IsTruncated", 0, i < 3 ? "true" : "false");
        if (i == 3)
            break;
        assert_non_null(element(&got, "NextContinuationToken", 0, token));
        snprintf(target, sizeof target,
                 "/box?list-type=2&prefix=a/&delimiter=/&max-keys=1&continuation-token=%s", token);
    }
    got = ask(server, "GET", "/box?list-type=2&prefix=z", "", "");
    assert_element(&got, "KeyCount", 0, "0");
    assert_int_equal(http_server_counters(server).lists, 8);
}

static void lists_are_in_pages_and_by_folders(void **state)
{
    http_server *server = start(&(http_server_options){.s3 = true});
    char folder[256];

    check_lists(server);
    http_server_stop(&server);
    test_folder(folder);
    server = start(&(http_server_options){.s3 = true, .root = folder});
    check_lists(server);
    http_server_stop(&server);
    test_folder_remove(folder);
}

static void assert_code(const http_got *got, int status, const char *code)
{
    assert_int_equal(got->status, status);
    assert_element(got, "Code", 0, code);
}

/* Of "123456789", as the catalogues of checksums have them. */
static void sums_are_looked_at(void **state)
{
    static const struct {
        const char *header;
        const char *sum;
    } sums[] = {
        {"x-amz-checksum-crc32", "y/Q5Jg=="},
        {"x-amz-checksum-crc32c", "4waSgw=="},
        {"x-amz-checksum-crc64nvme", "rosUhgp5mIg="},
        {"x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="},
        {"x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="},
        {"Content-MD5", "JfnnlDI7RTiF9RgfG2JNCw=="},
    };
    http_server *server = start(&(http_server_options){.s3 = true});
    http_got got;
    char line[256];
    size_t length;

    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        snprintf(line, sizeof line, "%s: %s\r\n", sums[i].header, sums[i].sum);
        got = ask(server, "PUT", "/box/x", line, "123456788");
        assert_code(&got, 400, "BadDigest");
        assert_null(http_server_get(server, "/box/x", &length));
        got = ask(server, "PUT", "/box/x", line, "123456789");
        assert_int_equal(got.status, 200);
        got = ask(server, "DELETE", "/box/x", "", "");
        assert_int_equal(got.status, 204);
    }
    got = ask(server, "PUT", "/box/x",
              "x-amz-content-sha256: "
              "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225\r\n",
              "123456789");
    assert_int_equal(got.status, 200);
    got = ask(server, "PUT", "/box/x",
              "x-amz-content-sha256: "
              "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb226\r\n",
              "123456789");
    assert_code(&got, 400, "XAmzContentSHA256Mismatch");
    /* That of a whole object goes with it, also where a byte of it was turned. */
    http_server_fault(server, &(http_fault){.flip = 1, .count = 1});
    for (int i = 0; i < 2; i++) {
        char value[512];

        got = ask(server, "GET", "/box/x", "x-amz-checksum-mode: ENABLED\r\n", "");
        assert_string_equal(got.body, i == 0 ? "023456789" : "123456789");
        assert_string_equal(http_line(&got, "x-amz-checksum-crc32c", value), sums[1].sum);
    }
    http_server_stop(&server);
}

static void uploads_are_in_parts(void **state)
{
    http_server *server = start(&(http_server_options){.s3 = true});
    char id[512], first[512], second[512], target[1024], xml[2048];
    size_t length;

    http_got got = ask(server, "POST", "/box/big?uploads", "", "");
    assert_non_null(element(&got, "UploadId", 0, id));
    got = ask(server, "GET", "/box?uploads", "", "");
    assert_element(&got, "Key", 0, "big");
    snprintf(target, sizeof target, "/box/big?partNumber=2&uploadId=%s", id);
    got = ask(server, "PUT", target, "", "second");
    assert_non_null(http_line(&got, "ETag", second));
    snprintf(target, sizeof target, "/box/big?partNumber=1&uploadId=%s", id);
    ask(server, "PUT", target, "", "else");
    got = ask(server, "PUT", target, "x-amz-checksum-crc32: 7qk3Ew==\r\n", "wrong");
    assert_code(&got, 400, "BadDigest");
    got = ask(server, "PUT", target, "", "first");
    assert_non_null(http_line(&got, "ETag", first));
    snprintf(target, sizeof target, "/box/big?uploadId=%s", id);
    got = ask(server, "GET", target, "", "");
    assert_element(&got, "Size", 1, "6");
    assert_null(http_server_get(server, "/box/big", &length));

    snprintf(xml, sizeof xml, "<C><Part><ETag>%s</ETag><PartNumber>2</PartNumber></Part></C>",
             first);
    got = ask(server, "POST", target, "", xml);
    assert_code(&got, 400, "InvalidPart");
    snprintf(xml, sizeof xml,
             "<C><Part><PartNumber>2</PartNumber><ETag>%s</ETag></Part>"
             "<Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></C>",
             second, first);
    got = ask(server, "POST", target, "", xml);
    assert_code(&got, 400, "InvalidPartOrder");
    snprintf(xml, sizeof xml,
             "<C><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part>"
             "<Part><PartNumber>2</PartNumber><ETag>%s</ETag></Part></C>",
             first, second);
    assert_true(http_server_put(server, "/box/big", "", 0));
    got = ask(server, "POST", target, "If-None-Match: *\r\n", xml);
    assert_code(&got, 412, "PreconditionFailed");
    got = ask(server, "POST", target, "", xml);
    assert_int_equal(got.status, 200);
    char *data = http_server_get(server, "/box/big", &length);
    assert_string_equal(data, "firstsecond");
    free(data);
    got = ask(server, "HEAD", "/box/big", "", "");
    assert_non_null(strstr(http_line(&got, "ETag", first), "-2\""));
    got = ask(server, "POST", target, "", xml);
    assert_code(&got, 404, "NoSuchUpload");
    http_server_stop(&server);
}

static void uploads_are_given_up(void **state)
{
    http_server *server = start(&(http_server_options){.s3 = true});
    char id[512], target[1024];

    http_got got = ask(server, "POST", "/box/big?uploads", "", "");
    snprintf(target, sizeof target, "/box/big?uploadId=%s", element(&got, "UploadId", 0, id));
    got = ask(server, "DELETE", target, "", "");
    assert_int_equal(got.status, 204);
    got = ask(server, "DELETE", target, "", "");
    assert_code(&got, 404, "NoSuchUpload");
    got = ask(server, "GET", "/box?uploads", "", "");
    assert_element(&got, "Upload", 0, NULL);
    http_server_stop(&server);
}

static void objects_are_files(void **state)
{
    char folder[256], outside[300];
    size_t length;

    test_folder(folder);
    test_write(folder, "root/a/x", "0123456789", 10);
    test_write(folder, "secret", "secret", 6);
    snprintf(outside, sizeof outside, "%s/root", folder);
    http_server *server = start(&(http_server_options){.root = outside, .threads = 2});
    http_got got = ask(server, "GET", "/a/x", "Range: bytes=3-5\r\n", "");
    assert_int_equal(got.status, 206);
    assert_string_equal(got.body, "345");
    assert_int_equal(ask(server, "GET", "/../secret", "", "").status, 404);
    assert_int_equal(ask(server, "GET", "/a/%2e%2e/%2e%2e/secret", "", "").status, 404);
    assert_int_equal(ask(server, "GET", "/a", "", "").status, 404);
    got = ask(server, "PUT", "/b/c/y", "", "hello");
    assert_int_equal(got.status, 200);
    char *data = http_server_get(server, "/b/c/y", &length);
    assert_string_equal(data, "hello");
    free(data);
    assert_int_equal(ask(server, "DELETE", "/b/c/y", "", "").status, 204);
    assert_null(http_server_get(server, "/b/c/y", &length));
    http_server_fault(server, &(http_fault){.cut = HTTP_CLOSE, .at = 4});
    got = ask(server, "GET", "/a/x", "", "");
    assert_string_equal(got.body, "0123");
    http_server_stop(&server);
    test_folder_remove(folder);
}

static void the_server_is_asked_by_requests(void **state)
{
    http_server *server = start(&(http_server_options){.control = true});

    assert_true(http_server_put(server, "/x", "x", 1));
    assert_string_equal(ask(server, "POST", "/-/fault", "", "path=*,status=503,count=1").body,
                        "1\n");
    assert_int_equal(ask(server, "POST", "/-/fault", "", "colour=red").status, 400);
    assert_int_equal(ask(server, "GET", "/x", "", "").status, 503);
    assert_int_equal(ask(server, "GET", "/x", "", "").status, 200);
    const http_got got = ask(server, "GET", "/-/counters", "", "");
    assert_non_null(strstr(got.body, "requests 2\n"));
    assert_non_null(strstr(got.body, "connections 2\n"));
    assert_non_null(strstr(got.body, "struck 1\n"));
    assert_string_equal(ask(server, "POST", "/-/struck", "", "1").body, "1\n");
    assert_int_equal(ask(server, "POST", "/-/token", "", "right").status, 200);
    assert_int_equal(ask(server, "GET", "/x", "", "").status, 401);
    assert_int_equal(ask(server, "POST", "/-/reset", "", "").status, 200);
    assert_int_equal(http_server_counters(server).requests, 0);
    assert_int_equal(ask(server, "GET", "/-/other", "", "").status, 400);
    http_server_stop(&server);
}

/* ---- TLS ---- */

/* The status of an answer by TLS; 0: the certificate is no good. */
static int status_by_tls(const http_server *server, const char *ca, char *body, size_t size)
{
    static const char get[] = "GET /x HTTP/1.1\r\nConnection: close\r\n\r\n";
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    const int fd = http_connect(server);
    int status = 0, n;
    char text[8192];
    size_t length = 0;

    assert_non_null(tls);
    assert_int_equal(SSL_CTX_load_verify_locations(tls, ca, NULL), 1);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    SSL *session = SSL_new(tls);
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), "127.0.0.1");
    SSL_set_fd(session, fd);
    if (SSL_connect(session) == 1) {
        assert_int_equal(SSL_write(session, get, sizeof get - 1), sizeof get - 1);
        while ((n = SSL_read(session, text + length, (int)(sizeof text - 1 - length))) > 0)
            length += (size_t)n;
        text[length] = 0;
        status = (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
        snprintf(body, size, "%s", strstr(text, "\r\n\r\n") + 4);
    }
    SSL_free(session);
    SSL_CTX_free(tls);
    close(fd);
    return status;
}

static void certificates_are_good_or_bad(void **state)
{
    static const struct {
        const char *name;
        int status;
    } cases[] = {{"server", 200}, {"expired", 0}, {"other", 0}, {"self", 0}};
    char folder[256], ca[300], certificate[300], key[300], body[64];

    test_folder(folder);
    if (!test_certificates(folder)) {
        test_folder_remove(folder);
        skip();
    }
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(certificate, sizeof certificate, "%s/%s.pem", folder, cases[i].name);
        snprintf(key, sizeof key, "%s/%s.key", folder, cases[i].name);
        http_server *server = start(&(http_server_options){.certificate = certificate, .key = key});
        assert_int_equal(strncmp(http_server_url(server), "https://", 8), 0);
        assert_true(http_server_put(server, "/x", "hello", 5));
        assert_int_equal(status_by_tls(server, ca, body, sizeof body), cases[i].status);
        if (cases[i].status)
            assert_string_equal(body, "hello");
        http_server_fault(server, &(http_fault){.at_accept = true, .cut = HTTP_RESET, .at = 1});
        assert_int_equal(status_by_tls(server, ca, body, sizeof body), 0);
        http_server_stop(&server);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_in_pages_and_by_folders),
        cmocka_unit_test(sums_are_looked_at),
        cmocka_unit_test(uploads_are_in_parts),
        cmocka_unit_test(uploads_are_given_up),
        cmocka_unit_test(objects_are_files),
        cmocka_unit_test(the_server_is_asked_by_requests),
        cmocka_unit_test(certificates_are_good_or_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
