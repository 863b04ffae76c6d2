/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of S3: lists, errors, and the XML that both are written in. */
#include "store/s3/errors.h"
#include "store/s3/list.h"
#include "store/s3/xml.h"
#include "support/support.h"

/* ---- XML ------------------------------------------------------------------------------------- */

/* The events of a document, as "<a><b>text</b></a>". */
static const char *events(const char *text, char *out)
{
    stk__xml_event event;
    char leaf[256];
    stk__xml xml;

    *out = 0;
    stk__xml_init(&xml, text, strlen(text));
    while ((event = stk__xml_next(&xml)) < STK__XML_DONE) {
        if (event == STK__XML_END && xml.leaf && !stk__xml_text(&xml, leaf, sizeof leaf))
            strcpy(leaf, "(broken)");
        sprintf(out + strlen(out), "%s<%s%.*s>", event == STK__XML_END && xml.leaf ? leaf : "",
                event == STK__XML_END ? "/" : "", (int)xml.name.length, xml.name.text);
    }
    if (event == STK__XML_BAD) {
        assert_int_equal(stk__xml_next(&xml), STK__XML_BAD);
        sprintf(out + strlen(out), "!%s", xml.why);
    }
    return out;
}

static void test_xml(void **state)
{
    static const struct {
        const char *text, *events;
    } cases[] = {
        {"<?xml version=\"1.0\"?>\n<a x='1>2' y=\"/\">\n <b>t</b>\n <c/><d></d>\n</a>\n",
         "<a><b>t</b><c></c><d></d></a>"},
        {"\xef\xbb\xbf<n:a xmlns:n=\"u\"><n:b>1</n:b></n:a>", "<a><b>1</b></a>"},
        {"<a>&lt;&amp;&gt;&quot;&apos;&#65;&#xe9;</a>", "<a><&>\"'A\xc3\xa9</a>"},
        {"<a>x<![CDATA[<&>]]>y<!-- no -->z<?p q?></a>", "<a>x<&>yz</a>"},
        {"<a><!-- c --><b>1</b><!-- d --></a>", "<a><b>1</b></a>"},
        {"<a>&lt;b</a >", "<a><b</a>"},
        {"<a>&nbsp;</a>", "<a>(broken)</a>"},
        {"<a>&#0;</a>", "<a>(broken)</a>"},
        {"<a>&#xd800;</a>", "<a>(broken)</a>"},
        {"<a>&#x110000;</a>", "<a>(broken)</a>"},
        {"<a>&#;</a>", "<a>(broken)</a>"},
        {"<a>& b</a>", "<a>(broken)</a>"},
        {"<a>\xff</a>", "<a>(broken)</a>"},
        {"", "!it ends too early"},
        {"<a>", "<a>!it ends too early"},
        {"<a", "!a broken tag"},
        {"<a b='>", "!a broken tag"},
        {"<1/>", "!a broken tag"},
        {"<a></b>", "<a>!the end of an element that is not the open one"},
        {"<a><b></a></b>", "<a><b>!the end of an element that is not the open one"},
        {"</a>", "!a broken end of an element"},
        {"<a/><b/>", "<a></a>!a second outermost element"},
        {"<a/>x", "<a></a>!text beside elements"},
        {"<a>x<b/></a>", "<a>!text beside elements"},
        {"<a><b/>x</a>", "<a><b></b>!text beside elements"},
        {"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", "!a declaration, which answers do not have"},
        {"<a><!-- ", "<a>!a comment without an end"},
        {"<a><![CDATA[ ", "<a>!a CDATA section without an end, or in a wrong place"},
        {"<?xml ", "!an instruction without an end"},
    };
    char out[1024], deep[STK__XML_DEPTH * 3 + 4] = "";

    for (size_t i = 0; i < STK_COUNT(cases); i++)
        assert_string_equal(events(cases[i].text, out), cases[i].events);
    for (int i = 0; i < STK__XML_DEPTH; i++)
        strcat(deep, "<a>");
    assert_non_null(strstr(events(deep, out), "!it ends too early"));
    strcat(deep, "<a>");
    assert_non_null(strstr(events(deep, out), "!elements too deep"));
}

static void test_xml_room(void **state)
{
    char text[8];
    stk__xml xml;

    stk__xml_init(&xml, "<a>1234567</a>", 14);
    assert_int_equal(stk__xml_next(&xml), STK__XML_BEGIN);
    assert_int_equal(stk__xml_next(&xml), STK__XML_END);
    assert_true(stk__xml_text(&xml, text, 8));
    assert_string_equal(text, "1234567");
    assert_false(stk__xml_text(&xml, text, 7));
}

/* ---- Lists ----------------------------------------------------------------------------------- */

#define LIST(inner)                                                                                \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"                                                   \
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" inner                   \
    "</ListBucketResult>"

typedef struct seen {
    char text[1024];
    stk_status status;
} seen;

static stk_status each(void *user, const stk__s3_entry *entry, stk_error *err)
{
    seen *s = user;

    sprintf(s->text + strlen(s->text), "%s%s %llu %lld %s;", entry->key,
            entry->is_folder ? " folder" : "", (unsigned long long)entry->size,
            (long long)entry->mtime_ns, entry->etag);
    return s->status == STK_OK ? STK_OK : stk__fail(err, s->status, STK_STAGE_STORE, "enough");
}

/* "Sample Request: Listing keys" and "delimiter" of the API Reference, joined. */
static void test_list(void **state)
{
    static const char text[] = LIST(
        "<Name>bucket</Name><Prefix/><NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm3"
        "6Hy4vbOwM=</NextContinuationToken><KeyCount>205</KeyCount><MaxKeys>1000</MaxKeys>"
        "<IsTruncated>true</IsTruncated><Contents><Key>my-image.jpg</Key>"
        "<LastModified>2009-10-12T17:50:30.000Z</LastModified>"
        "<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size>"
        "<StorageClass>STANDARD</StorageClass><Owner><ID>1</ID><DisplayName>n</DisplayName>"
        "</Owner></Contents><Contents><Key>a &amp; b</Key><Size>0</Size></Contents>"
        "<CommonPrefixes><Prefix>photos/</Prefix></CommonPrefixes>");
    char next[STK__S3_TOKEN];
    seen s = {.text = ""};
    stk_error err;

    assert_ok(stk__s3_list_read(text, strlen(text), "b", each, &s, next, &err), &err);
    assert_string_equal(next, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
    assert_string_equal(s.text,
                        "my-image.jpg 434234 1255369830000000000 "
                        "\"fba9dede5f27731c9771645a39863328\";a & b 0 0 ;photos/ folder 0 0 ;");
    /* What the caller says ends it. */
    s = (seen){.status = STK_ECANCELED};
    assert_fails(stk__s3_list_read(text, strlen(text), "b", each, &s, next, &err), STK_ECANCELED,
                 &err, "enough");
    assert_string_equal(s.text, "my-image.jpg 434234 1255369830000000000 "
                                "\"fba9dede5f27731c9771645a39863328\";");
}

/* Keys come escaped, also where that is said behind them. */
static void test_escaped(void **state)
{
    static const char *const texts[] = {
        LIST("<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated><Contents>"
             "<Key>a%2Bb+c%01%C3%A9/x</Key><Size>1</Size></Contents>"),
        LIST("<Contents><Key>a%2Bb+c%01%C3%A9/x</Key><Size>1</Size></Contents>"
             "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"),
    };
    static const char broken[] =
        LIST("<Contents><Key>good</Key><Size>1</Size></Contents><Contents><Key>%4</Key><Size>1"
             "</Size></Contents><EncodingType>url</EncodingType>");
    char next[STK__S3_TOKEN];
    stk_error err;
    seen s;

    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        s = (seen){.text = ""};
        assert_ok(stk__s3_list_read(texts[i], strlen(texts[i]), "b", each, &s, next, &err), &err);
        assert_string_equal(s.text, "a+b c\x01\xc3\xa9/x 1 0 ;");
        assert_string_equal(next, "");
    }
    s = (seen){.text = ""};
    assert_fails(stk__s3_list_read(broken, strlen(broken), "b", each, &s, next, &err), STK_EFORMAT,
                 &err, "a key that is none");
    assert_string_equal(s.text, "");
}

/* Nothing of a list that is damaged is given. */
static void test_damaged(void **state)
{
    static const char *const texts[] = {
        "",
        "<html><body>Bad Gateway</body></html>",
        "<Error><Code>InternalError</Code></Error>",
        LIST("<Contents><Key>a</Key><Size>1</Size></Contents><Contents><Key>b</Key></Contents>"),
        LIST("<Contents><Key>a</Key><Size>1</Size></Contents><Contents><Size>1</Size></Contents>"),
        LIST("<Contents><Key>a</Key><Size>1</Size></Contents><IsTruncated>maybe</IsTruncated>"),
        LIST("<Contents><Key>a</Key><Size>1</Size></Contents><IsTruncated>true</IsTruncated>"),
        LIST("<Contents><Key>a</Key><Size>1</Size></Contents>"
             "<NextContinuationToken>t</NextContinuationToken>"),
        LIST("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
        LIST("<Contents><Key>a</Key><Size>9223372036854775808</Size></Contents>"),
        LIST("<Contents><Key>a</Key><Key>b</Key><Size>1</Size></Contents>"),
        LIST("<Contents><Key></Key><Size>1</Size></Contents>"),
        LIST("<Contents><Key>a</Key><Size>1</Size><LastModified>soon</LastModified></Contents>"),
        LIST("<Contents><Key>a</Key><Size>1</Size></Contents><EncodingType>x</EncodingType>"),
        LIST("<CommonPrefixes></CommonPrefixes>"),
        LIST("<Contents><Key>a</Key><Size>1</Size></Contents>") "x",
    };
    char next[STK__S3_TOKEN];
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        seen s = {.text = ""};
        assert_fails(
            stk__s3_list_read(texts[i], strlen(texts[i]), "s3://b/p", each, &s, next, &err),
            STK_EFORMAT, &err, "the list of 's3://b/p' is no list as S3 has them: ");
        assert_string_equal(s.text, "");
    }
    /* Cut anywhere. */
    static const char whole[] = LIST("<Contents><Key>a</Key><Size>12</Size></Contents>");
    for (size_t length = 0; length + 1 < strlen(whole); length++) {
        seen s = {.text = ""};
        assert_int_equal(stk__s3_list_read(whole, length, "b", each, &s, next, NULL), STK_EFORMAT);
        assert_string_equal(s.text, "");
    }
}

static void test_time(void **state)
{
    int64_t ns;

    assert_true(stk__s3_time("2013-05-24T00:00:00.000Z", &ns));
    assert_true(ns == INT64_C(1369353600) * 1000000000);
    assert_true(stk__s3_time("2013-05-24T00:00:00Z", &ns));
    assert_true(stk__s3_time("2013-05-24T00:00:00.123456000Z", &ns));
    assert_true(ns == INT64_C(1369353600) * 1000000000 + 123456000);
    assert_false(stk__s3_time("2013-05-24T00:00:00", &ns));
    assert_false(stk__s3_time("2013-05-24", &ns));
    assert_false(stk__s3_time("2013-02-30T00:00:00Z", &ns));
    assert_false(stk__s3_time("99999-01-01T00:00:00Z", &ns));
    assert_false(stk__s3_time("", &ns));
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void test_errors(void **state)
{
    static const struct {
        const char *body;
        int32_t http;
        bool error;
        const char *code, *message, *region;
        stk_status status;
        stk__s3_cure cure;
    } cases[] = {
        {"<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>The resource you requested"
         " does not exist</Message><Resource>/b/k</Resource><RequestId>4</RequestId></Error>",
         404, true, "NoSuchKey", "The resource you requested does not exist", "", STK_ENOENT,
         STK__S3_FINAL},
        {"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>", 400,
         true, "AuthorizationHeaderMalformed", "", "eu-west-1", STK_EINVAL, STK__S3_REGION},
        /* A host is made of the region. */
        {"<Error><Code>PermanentRedirect</Code><Region>evil.com/</Region></Error>", 301, true,
         "PermanentRedirect", "", "", STK_EINVAL, STK__S3_FINAL},
        {"<Error><Code>AuthorizationHeaderMalformed</Code></Error>", 400, true,
         "AuthorizationHeaderMalformed", "", "", STK_EINVAL, STK__S3_FINAL},
        {"<Error><Code>SlowDown</Code><Message>a\x1b[31m&#7;</Message></Error>", 503, true,
         "SlowDown", "a?[31m?", "", STK_EIO, STK__S3_AGAIN},
        {"<Error><Code>InternalError</Code></Error>", 200, true, "InternalError", "", "", STK_EIO,
         STK__S3_AGAIN},
        {"<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>"
         "<Type>Sender</Type><Code>ExpiredTokenException</Code><Message>m</Message></Error>"
         "<RequestId>1</RequestId></ErrorResponse>",
         400, true, "ExpiredTokenException", "m", "", STK_EIO, STK__S3_KEYS},
        {"<Error><Code>RequestTimeTooSkewed</Code></Error>", 403, true, "RequestTimeTooSkewed", "",
         "", STK_EIO, STK__S3_CLOCK},
        {"<Error><Code>NobodyKnows</Code></Error>", 503, true, "NobodyKnows", "", "", STK_EIO,
         STK__S3_AGAIN},
        {"<Error><Message>m</Message></Error>", 403, false, "", "m", "", STK_EACCES, STK__S3_FINAL},
        {"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>", 200,
         false, "", "", "", STK_EIO, STK__S3_FINAL},
        {"", 404, false, "", "", "", STK_ENOENT, STK__S3_FINAL},
        {"<html>502 Bad Gateway</html>", 502, false, "", "", "", STK_EIO, STK__S3_AGAIN},
        {"", 401, false, "", "", "", STK_EINVAL, STK__S3_KEYS},
        {"", 412, false, "", "", "", STK_ECHANGED, STK__S3_FINAL},
        {"", 418, false, "", "", "", STK_EIO, STK__S3_FINAL},
    };

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__s3_error error;
        assert_int_equal(stk__s3_error_read(cases[i].body, strlen(cases[i].body), &error),
                         cases[i].error);
        stk__s3_error_judge(cases[i].http, &error);
        assert_string_equal(error.code, cases[i].code);
        assert_string_equal(error.message, cases[i].message);
        assert_string_equal(error.region, cases[i].region);
        assert_int_equal(error.status, cases[i].status);
        assert_int_equal(error.cure, cases[i].cure);
    }
}

static void test_region(void **state)
{
    static const char *const good[] = {"us-east-1", "eu-central-2", "cn-north-1", "auto", "r"};
    static const char *const not [] = {
        "",   "us east", "US-EAST-1", "a.b", "a/b",      "a@b",
        "-a", "a-",      "a\r\nb",    "a:1", "\xc3\xa9", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

    for (size_t i = 0; i < STK_COUNT(good); i++)
        assert_true(stk__s3_region_valid(good[i]));
    for (size_t i = 0; i < STK_COUNT(not ); i++)
        assert_false(stk__s3_region_valid(not [i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xml),     cmocka_unit_test(test_xml_room),
        cmocka_unit_test(test_list),    cmocka_unit_test(test_escaped),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_time),
        cmocka_unit_test(test_errors),  cmocka_unit_test(test_region),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
