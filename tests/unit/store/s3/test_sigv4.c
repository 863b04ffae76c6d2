/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures against the examples of AWS: Amazon S3 API Reference, "Authenticating Requests: Using
 * the Authorization Header" and "Using Query Parameters". */
#include "store/s3/sigv4.h"
#include "support/support.h"

#define ID      "AKIAIOSFODNN7EXAMPLE"
#define SECRET  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define HOST    "examplebucket.s3.amazonaws.com"
#define MOMENT  INT64_C(1369353600) /* 2013-05-24T00:00:00Z */
#define EMPTY   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define WELCOME "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"

static const struct {
    const char *method, *target, *payload;
    stk__sigv4_header headers[6];
    const char *names, *signature;
} examples[] = {
    {"GET",
     "/test.txt",
     EMPTY,
     {{"x-amz-date", "20130524T000000Z"},
      {"host", HOST},
      {"range", "bytes=0-9"},
      {"x-amz-content-sha256", EMPTY}},
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"PUT",
     "/test%24file.text",
     WELCOME,
     {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"host", HOST},
      {"x-amz-content-sha256", WELCOME},
      {"x-amz-date", "20130524T000000Z"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"GET",
     "/?lifecycle",
     EMPTY,
     {{"host", HOST}, {"x-amz-content-sha256", EMPTY}, {"x-amz-date", "20130524T000000Z"}},
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"GET",
     "/?prefix=J&max-keys=2", /* sorted where it is signed */
     EMPTY,
     {{"host", HOST}, {"x-amz-content-sha256", EMPTY}, {"x-amz-date", "20130524T000000Z"}},
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static stk__sigv4_key key_for(int64_t seconds)
{
    stk__sigv4_key key = {0};

    assert_true(stk__sigv4_key_for(&key, SECRET, seconds, "us-east-1", "s3"));
    return key;
}

static size_t count(const stk__sigv4_header *headers)
{
    size_t n = 0;

    while (headers[n].name)
        n++;
    return n;
}

static void test_headers(void **state)
{
    const stk__sigv4_key key = key_for(MOMENT);

    for (size_t i = 0; i < STK_COUNT(examples); i++) {
        const stk__sigv4_request request = {examples[i].method, examples[i].target,
                                            examples[i].headers, count(examples[i].headers),
                                            examples[i].payload};
        char header[STK__SIGV4_HEADER], expected[STK__SIGV4_HEADER];
        snprintf(expected, sizeof expected,
                 "AWS4-HMAC-SHA256 Credential=" ID "/20130524/us-east-1/s3/aws4_request,"
                 "SignedHeaders=%s,Signature=%s",
                 examples[i].names, examples[i].signature);
        assert_true(stk__sigv4_sign(&key, ID, &request, header));
        assert_string_equal(header, expected);
    }
}

static void test_presigned(void **state)
{
    static const stk__sigv4_header host = {"host", HOST};
    const stk__sigv4_request request = {"GET", "/test.txt", &host, 1, STK__SIGV4_UNSIGNED};
    const stk__sigv4_key key = key_for(MOMENT);
    char target[1024];
    stk__text out = {.bytes = target, .room = sizeof target};

    assert_true(stk__sigv4_presign(&key, ID, NULL, 86400, &request, &out));
    assert_string_equal(target,
                        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" ID
                        "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z"
                        "&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
                        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");

    /* A token and a query of its own are signed as well: neither can be changed. */
    out.length = 0;
    const stk__sigv4_request other = {"GET", "/t?versionId=a%2Fb", &host, 1, STK__SIGV4_UNSIGNED};
    assert_true(stk__sigv4_presign(&key, ID, "to+ken/=", 5, &other, &out));
    assert_non_null(strstr(target, "?versionId=a%2Fb&X-Amz-Algorithm="));
    assert_non_null(strstr(target, "&X-Amz-Security-Token=to%2Bken%2F%3D&"));
}

/* "Deriving the signing key" of the IAM User Guide: 20150830, us-east-1, iam. */
static void test_key(void **state)
{
    static const char secret[] = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    char text[STK__SHA256_TEXT], before[STK__SHA256_TEXT], long_name[200];
    stk__sigv4_key key = {0};

    assert_true(stk__sigv4_key_for(&key, secret, INT64_C(1440938160), "us-east-1", "iam"));
    assert_string_equal(key.date, "20150830T123600Z");
    stk__sha256_text(key.bytes, text);
    assert_string_equal(text, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");

    /* Later that day it is the same one, and is not made again. */
    assert_true(stk__sigv4_key_for(&key, "unused", INT64_C(1440938161), "us-east-1", "iam"));
    assert_string_equal(key.date, "20150830T123601Z");
    stk__sha256_text(key.bytes, before);
    assert_string_equal(before, text);
    /* The next day, in another region, for another service: another one. */
    const struct {
        int64_t seconds;
        const char *region, *service;
    } others[] = {{INT64_C(1440979200), "us-east-1", "iam"},
                  {INT64_C(1440979200), "us-east-2", "iam"},
                  {INT64_C(1440979200), "us-east-2", "s3"}};
    for (size_t i = 0; i < STK_COUNT(others); i++) {
        assert_true(stk__sigv4_key_for(&key, secret, others[i].seconds, others[i].region,
                                       others[i].service));
        stk__sha256_text(key.bytes, text);
        assert_string_not_equal(text, before);
        memcpy(before, text, sizeof text);
    }
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    assert_false(stk__sigv4_key_for(&key, secret, MOMENT, long_name, "s3"));
}

/* What does not fit is said, and nothing is signed by halves. */
static void test_limits(void **state)
{
    static const stk__sigv4_header host = {"host", HOST};
    const stk__sigv4_key key = key_for(MOMENT);
    char target[256] = "/?", header[STK__SIGV4_HEADER], id[STK__SIGV4_HEADER];
    stk__sigv4_header many[STK__SIGV4_PARTS + 1];
    stk__sigv4_request request = {"GET", target, &host, 1, EMPTY};

    for (size_t i = 0; i < STK__SIGV4_PARTS; i++)
        strcat(target, "a&");
    assert_true(stk__sigv4_sign(&key, ID, &request, header));
    strcat(target, "a");
    assert_false(stk__sigv4_sign(&key, ID, &request, header));
    strcpy(target, "/");
    memset(id, 'A', sizeof id - 1);
    id[sizeof id - 1] = 0;
    assert_false(stk__sigv4_sign(&key, id, &request, header));
    for (size_t i = 0; i < STK_COUNT(many); i++)
        many[i] = (stk__sigv4_header){"x", "y"};
    request.headers = many;
    request.num_headers = STK_COUNT(many);
    assert_false(stk__sigv4_sign(&key, ID, &request, header));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_presigned),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
