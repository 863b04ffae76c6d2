/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/endpoint.h"
#include "support/support.h"

static void test_hosts(void **state)
{
    static const struct {
        stk__s3_where where;
        const char *bucket, *url, *host;
        bool in_path;
    } cases[] = {
        {{.region = "us-east-1"},
         "examplebucket",
         "https://examplebucket.s3.us-east-1.amazonaws.com",
         "examplebucket.s3.us-east-1.amazonaws.com",
         false},
        {{.region = "cn-north-1"},
         "b-1",
         "https://b-1.s3.cn-north-1.amazonaws.com.cn",
         "b-1.s3.cn-north-1.amazonaws.com.cn",
         false},
        /* No certificate holds for two labels in front of the host. */
        {{.region = "eu-west-1"},
         "a.b",
         "https://s3.eu-west-1.amazonaws.com",
         "s3.eu-west-1.amazonaws.com",
         true},
        {{.region = "eu-west-1", .style = STK__S3_PATH},
         "abc",
         "https://s3.eu-west-1.amazonaws.com",
         "s3.eu-west-1.amazonaws.com",
         true},
        {{.region = "auto", .google = true},
         "my_bucket",
         "https://storage.googleapis.com",
         "storage.googleapis.com",
         true},
        {{.region = "us-east-1", .endpoint = "http://127.0.0.1:9000/"},
         "abc",
         "http://127.0.0.1:9000",
         "127.0.0.1:9000",
         true},
        {{.region = "us-east-1", .endpoint = "https://minio.lab:443", .style = STK__S3_VIRTUAL},
         "abc",
         "https://abc.minio.lab",
         "abc.minio.lab",
         false},
        {{.region = "us-east-1", .endpoint = "http://[::1]:80"},
         "abc",
         "http://[::1]",
         "[::1]",
         true},
        {{.region = "us-east-1", .endpoint = "http://store.lab", .allow_http = true},
         "abc",
         "http://store.lab",
         "store.lab",
         true},
        {{.region = "us-east-1", .endpoint = "http://store.lab", .anonymous = true},
         "abc",
         "http://store.lab",
         "store.lab",
         true},
    };
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__s3_endpoint out;
        assert_ok(stk__s3_endpoint_make(&cases[i].where, cases[i].bucket, &out, &err), &err);
        assert_string_equal(out.url, cases[i].url);
        assert_string_equal(out.host, cases[i].host);
        assert_int_equal(out.in_path, cases[i].in_path);
    }
}

static void test_refused(void **state)
{
    static const struct {
        stk__s3_where where;
        const char *bucket, *part;
    } cases[] = {
        {{.region = "us-east-1"}, "ab", "no name of a bucket"},
        {{.region = "us-east-1"}, "a..b", "no name of a bucket"},
        {{.region = "us-east-1"}, "a/b", "no name of a bucket"},
        {{.region = "us-east-1"}, "user@host", "no name of a bucket"},
        {{.region = "us-east-1"}, "-abc", "no name of a bucket"},
        {{.region = "evil.com/"}, "abc", "no name of a region"},
        {{.region = ""}, "abc", "no name of a region"},
        {{.region = "r", .style = STK__S3_VIRTUAL}, "a.b", "cannot be part of a host's name"},
        {{.region = "r", .endpoint = "store.lab"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "ftp://store.lab"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://store.lab/path"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://u@store.lab"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://store.lab:"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://store.lab:123456"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://[::1"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://[]"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "https://a\r\nb"}, "abc", "no address of a server"},
        {{.region = "r", .endpoint = "http://store.lab"}, "abc", "over plain http"},
        {{.region = "r", .endpoint = "http://127.0.0.1.evil.com"}, "abc", "over plain http"},
        {{.region = "r", .endpoint = "http://127.1"}, "abc", "over plain http"},
        {{.region = "r", .endpoint = "http://localhost.evil.com"}, "abc", "over plain http"},
        {{.region = "r", .endpoint = "http://10.0.0.1:9000"}, "abc", "over plain http"},
    };
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__s3_endpoint out;
        assert_fails(stk__s3_endpoint_make(&cases[i].where, cases[i].bucket, &out, &err),
                     STK_EINVAL, &err, cases[i].part);
    }
}

static void test_paths(void **state)
{
    stk__s3_endpoint endpoint = {.bucket = "abc", .in_path = true};
    char out[256];
    stk__text text = {.bytes = out, .room = sizeof out};

    stk__s3_endpoint_path(&endpoint, "a b/c+d", &text);
    assert_string_equal(out, "/abc/a%20b/c%2Bd");
    endpoint.in_path = false;
    text.length = 0;
    stk__s3_endpoint_path(&endpoint, "", &text);
    assert_string_equal(out, "/");
}

static void test_url(void **state)
{
    static const struct {
        const char *path, *bucket, *prefix;
    } good[] = {{"//b", "b", ""},
                {"//bucket/", "bucket", ""},
                {"//bucket/a", "bucket", "a/"},
                {"//bucket/a%20b/c/", "bucket", "a b/c/"}};
    char bucket[STK__S3_BUCKET], prefix[STK_MAX_OBJECT_KEY], path[128];
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(good); i++) {
        assert_ok(stk__s3_url_take(good[i].path, strlen(good[i].path), bucket, prefix, &err), &err);
        assert_string_equal(bucket, good[i].bucket);
        assert_string_equal(prefix, good[i].prefix);
    }
    assert_fails(stk__s3_url_take("bucket/a", 8, bucket, prefix, &err), STK_EINVAL, &err,
                 "names no bucket");
    assert_fails(stk__s3_url_take("///a", 4, bucket, prefix, &err), STK_EINVAL, &err,
                 "names no bucket");
    assert_fails(stk__s3_url_take("//b/%zz", 7, bucket, prefix, &err), STK_EINVAL, &err, "%");
    memset(path, 'a', sizeof path);
    memcpy(path, "//", 2);
    assert_fails(stk__s3_url_take(path, sizeof path, bucket, prefix, &err), STK_EINVAL, &err,
                 "longer than 63 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_paths), cmocka_unit_test(test_url)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
