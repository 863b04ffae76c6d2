/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References: where they may lead, templates and what is generated, what is missing, what is
 * refused. That values of a document read equal is golden/array/packs.
 */
#include <stdlib.h>
#include <string.h>

#include "array/kerchunk/kerchunk.h"
#include "base/text.h"
#include "unit/array/packed.h"

#define ZARRAY                                                                                     \
    "\"a/.zarray\": {\"zarr_format\": 2, \"shape\": [4], \"chunks\": [2], \"dtype\": \"<i4\", "    \
    "\"compressor\": null, \"filters\": null, \"order\": \"C\", \"fill_value\": 9}"

static int set_up(void **state)
{
    return open_pack("netcdf3");
}

static stk_status open_text(const char *text, const char *query, stk_array **out, stk_error *err)
{
    char url[128];

    stk_error_init(err);
    test_put(store, "sub/r.json", text, strlen(text));
    snprintf(url, sizeof url, "mem://pack/sub/r.json/a?%s", query);
    return stk_array_open(context, url, NULL, out, err);
}

/* The array of a document with one reference. */
static stk_status open_one(const char *reference, const char *query, stk_array **out,
                           stk_error *err)
{
    char text[1024];

    snprintf(text, sizeof text, "{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": %s}}", reference);
    return open_text(text, query, out, err);
}

static void assert_values(stk_array *a, int32_t v0, int32_t v1, int32_t v2, int32_t v3)
{
    const int32_t wanted[4] = {v0, v1, v2, v3};
    int32_t out[4];
    stk_error err;

    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    assert_memory_equal(out, wanted, sizeof out);
}

static void test_nodes(void **state)
{
    stk_group *g = NULL;
    stk_array *a = NULL;
    stk_error err;
    char found[256] = "";
    const stk_node *node;

    assert_ok(stk_group_open(context, "mem://pack/files/refs.json", &g, &err), &err);
    for (size_t i = 0; (node = stk_group_node(g, i)); i++) {
        strcat(found, node->path);
        strcat(found, node->is_array ? " " : "/ ");
    }
    assert_string_equal(found, "a rows sub/ sub/b whole ");
    assert_string_equal(stk_group_attributes(g), "{\"title\": \"refs\"}");
    assert_ok(stk_group_array(g, "a", NULL, &a, &err), &err);
    assert_string_equal(stk_array_get_info(a)->dimension_names[1], "x");
    assert_string_equal(stk_array_get_info(a)->format, "kerchunk, zarr v2");
    stk_array_close(&a);
    stk_group_close(&g);
    assert_ok(stk_group_open(context, "mem://pack/files/refs.json/sub", &g, &err), &err);
    assert_string_equal(stk_group_node(g, 0)->path, "b");
    stk_group_close(&g);
    assert_fails(stk_array_open(context, "mem://pack/files/refs.json/sub", NULL, &a, &err),
                 STK_EMISMATCH, &err, "is a group");
    assert_fails(stk_array_open(context, "mem://pack/files/refs.json/no", NULL, &a, &err),
                 STK_ENOENT, &err, "no array 'no'");
}

/* Nothing outside of the document's folder is read unless it is allowed. */
static void test_foreign(void **state)
{
    static const char *const urls[] = {"/etc/passwd",   "file:///etc/passwd",
                                       "http://host/x", "mem://pack/x.bin",
                                       "s3://bucket/x", "slow+mem://pack/x"};
    static const char *const outside[] = {"../secret", "b/../../secret", ""};
    const int32_t values[2] = {4, 5};
    char one[128];
    stk_array *a = NULL;
    stk_error err;

    test_put(store, "secret", values, sizeof values);
    test_put(store, "sub/x.bin", values, sizeof values);
    for (size_t i = 0; i < STK_COUNT(urls); i++) {
        snprintf(one, sizeof one, "[\"%s\", 0, 8]", urls[i]);
        assert_fails(open_one(one, "", &a, &err), STK_EACCES, &err, "allow_foreign=true");
        assert_null(a);
    }
    for (size_t i = 0; i < STK_COUNT(outside); i++) {
        snprintf(one, sizeof one, "[\"%s\", 0, 8]", outside[i]);
        for (int allowed = 0; allowed < 2; allowed++)
            assert_fails(open_one(one, allowed ? "allow_foreign=true" : "", &a, &err), STK_EACCES,
                         &err, "no path below");
    }
    assert_ok(open_one("[\"./x.bin\", 0, 8]", "", &a, &err), &err);
    assert_values(a, 4, 5, 9, 9);
    stk_array_close(&a);
    assert_ok(open_one("[\"mem://pack/secret\", 0, 8]", "allow_foreign=true", &a, &err), &err);
    assert_values(a, 4, 5, 9, 9);
    stk_array_close(&a);
    assert_fails(open_text("{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": [\"x.bin\", 0, 8], "
                           "\"a/1\": [\"mem://pack/secret\", 0, 8]}}",
                           "allow_foreign=true", &a, &err),
                 STK_EACCES, &err, "split the references");
}

static void test_missing(void **state)
{
    stk_array *a = NULL;
    int32_t out[4];
    stk_error err;

    assert_ok(open_one("\"base64:AQAAAAIAAAA=\"", "", &a, &err), &err);
    assert_values(a, 1, 2, 9, 9);
    stk_array_close(&a);
    assert_ok(open_one("\"base64:AQAAAAIAAAA=\"", "missing=error", &a, &err), &err);
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_ENOENT, &err,
                 "missing");
    stk_array_close(&a);
    /* An object that is not there is no missing chunk, nor is one that is too short. */
    assert_ok(open_one("[\"nowhere.bin\", 0, 8]", "", &a, &err), &err);
    assert_int_not_equal(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_OK);
    stk_array_close(&a);
    assert_fails(open_one("[\"nowhere.bin\"]", "", &a, &err), STK_ENOENT, &err, "nowhere");
    assert_ok(open_one("[\"x.bin\", 4, 8]", "", &a, &err), &err);
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_ETRUNCATED, &err,
                 "x.bin");
    stk_array_close(&a);
    assert_ok(open_one("[\"x.bin\", 0, 4]", "", &a, &err), &err);
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_EFORMAT, &err,
                 "4 bytes");
    stk_array_close(&a);
}

static void test_templates(void **state)
{
    static const struct {
        const char *offset;
        stk_status status;
        const char *says;
    } cases[] = {
        {"{{ (i + 1) * 8 - 8 }}", STK_OK, ""},
        {"{{ 17 // 2 - 8 + 8 * i }}", STK_OK, ""},
        {"{{ -7 // 2 + 4 + 8 * i % 16 }}", STK_OK, ""},
        {"{{ i | int }}", STK_EKIND, "is not computed"},
        {"{{ f(c='x') }}", STK_EKIND, "is not computed"},
        {"{{ i / 2 }}", STK_EKIND, "is not computed"},
        {"{{ i // 0 }}", STK_EKIND, "is not computed"},
        {"{{ 9223372036854775807 + 1 + i }}", STK_EKIND, "is not computed"},
        {"{{ j }}", STK_EKIND, "is not computed"},
        {"{{ i ", STK_EKIND, "is not computed"},
        {"{{ i - 9 }}", STK_EFORMAT, "no size"},
        {"x", STK_EFORMAT, "no size"},
    };
    const int32_t values[4] = {11, 12, 13, 14};
    char text[1024];
    stk_array *a = NULL;
    stk_error err;

    test_put(store, "sub/y.bin", values, sizeof values);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        snprintf(
            text, sizeof text,
            "{\"version\": 1, \"templates\": {\"u\": \"y\"}, \"refs\": {" ZARRAY "}, \"gen\": "
            "[{\"key\": \"a/{{i}}\", \"url\": \"{{ u }}.bin\", \"offset\": \"%s\", \"length\": "
            "8, \"dimensions\": {\"i\": {\"stop\": 2}}}]}",
            cases[i].offset);
        const stk_status status = open_text(text, "", &a, &err);
        if (cases[i].status != STK_OK) {
            assert_fails(status, cases[i].status, &err, cases[i].says);
            continue;
        }
        assert_ok(status, &err);
        assert_values(a, 11, 12, 13, 14);
        stk_array_close(&a);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        stk_status status;
        const char *says;
    } cases[] = {
        {"{\"version\": 2, \"refs\": {" ZARRAY "}}", STK_EKIND, "version"},
        {"{\"version\": 1, \"refs\": []}", STK_EFORMAT, "no objects"},
        {"{\"version\": 1, \"refs\": {\"a/.zarray\": [\"x.bin\"]}}", STK_EKIND, "another object"},
        {"{\"version\": 1, \"refs\": {\"a/.zarray\": \"[1]\"}}", STK_EFORMAT, "no object"},
        {"{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": [\"x.bin\", 0]}}", STK_EFORMAT,
         "neither [url]"},
        {"{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": [\"x.bin\", -1, 8]}}", STK_EFORMAT,
         "no size"},
        {"{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": [\"x.bin\", 0, 0]}}", STK_EFORMAT,
         "no size"},
        {"{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": 7}}", STK_EFORMAT, "neither a text"},
        {"{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": \"base64:!\"}}", STK_EFORMAT, "base64"},
        {"{\"version\": 1, \"refs\": {" ZARRAY ", \"a/0\": \"ab\", \"a/00\": \"cd\"}}", STK_EFORMAT,
         "two references"},
        {"{\"version\": 1, \"refs\": {" ZARRAY
         "}, \"gen\": [{\"key\": \"a/{{i}}\", \"url\": \"u\", "
         "\"dimensions\": {\"i\": {\"stop\": 1000000000}, \"j\": {\"stop\": 1000000000}}}]}",
         STK_ELIMIT, "STK__KERCHUNK_MAX_GENERATED"},
        {"{\"version\": 1, \"refs\": {" ZARRAY
         "}, \"gen\": [{\"key\": \"a/{{i}}\", \"url\": \"u\", "
         "\"dimensions\": {\"i\": {\"stop\": 3, \"step\": 0}}}]}",
         STK_EFORMAT, "no values"},
    };
    stk_array *a = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++)
        assert_fails(open_text(cases[i].text, "", &a, &err), cases[i].status, &err, cases[i].says);
}

/* Few references that are long are as much as many: templates and the names that come of them. */
static void test_long_templates(void **state)
{
    enum { LONG = 60000 };
    static const char *const keys[] = {"\"b/", "\"a/{{i}}\", \"url\": \""};
    char *text = malloc(LONG + 1024);
    stk_array *a = NULL;
    stk_error err;

    assert_non_null(text);
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        int n = snprintf(text, LONG + 1024,
                         "{\"version\": 1, \"refs\": {" ZARRAY
                         "}, \"gen\": [{\"dimensions\": {\"i\": {\"stop\": "
                         "1000000}}, \"key\": %s",
                         keys[i]);
        memset(text + n, 'x', LONG);
        snprintf(text + n + LONG, 64, "%s\"}]}", i ? "" : "\", \"url\": \"u");
        assert_fails(open_text(text, "", &a, &err), STK_ELIMIT, &err,
                     "STK__KERCHUNK_MAX_GENERATED");
    }
    free(text);
}

/* References that were written to a file, followed by the reader of references. */
static void test_written(void **state)
{
    static const char *const names[] = {"classic", "cdf5", "alone_i1", "scipy2", "join_3"};
    static char wanted[4096], out[4096];
    char url[128], key[128];
    const stk_node *node;
    stk_error err;

    for (size_t k = 0; k < STK_COUNT(names); k++) {
        stk_group *g = NULL;
        stk__text text = {0};
        stk__kerchunk_written written;
        snprintf(url, sizeof url, "mem://pack/files/%s.nc", names[k]);
        assert_ok(stk_group_open(context, url, &g, &err), &err);
        snprintf(key, sizeof key, "%s.nc", names[k]);
        assert_ok(stk__kerchunk_write(context, g, key, &text, &written, &err), &err);
        test_put(store, "files/w.json", text.bytes, text.length);
        stk__text_release(&text);
        stk_group_close(&g);
        size_t compared = 0;
        assert_ok(stk_group_open(context, "mem://pack/files/w.json", &g, &err), &err);
        for (size_t i = 0; (node = stk_group_node(g, i)); i++) {
            stk_object_info info = {.struct_size = sizeof info};
            stk_array *a = NULL;
            snprintf(key, sizeof key, "%s.nc.%s/expected", names[k], node->path);
            if (stk_store_stat(store, key, NULL, &info, NULL) != STK_OK)
                continue;
            assert_true(info.size <= sizeof wanted);
            assert_ok(stk_store_read(store, key, 0, info.size, wanted, &err), &err);
            assert_ok(stk_group_array(g, node->path, NULL, &a, &err), &err);
            assert_ok(stk_array_read(a, NULL, out, info.size, NULL, -1, &err), &err);
            assert_memory_equal(out, wanted, info.size);
            stk_array_close(&a);
            compared++;
        }
        assert_true(compared > 0 || k == 4);
        stk_group_close(&g);
    }
}

/* To xarray what has no list of dimensions is no variable, and a fill value is a missing value: it
 * is said where the file says it, or where a chunk is missing. */
static void test_written_for_xarray(void **state)
{
    static const char *const said[] = {
        "\"one_i1/.zattrs\": \"{\\\"units\\\": \\\"K\\\", \\\"scale_factor\\\": "
        "0.10000000149011612, \\\"_ARRAY_DIMENSIONS\\\": []}\"",
        "\\\">i4\\\", \\\"compressor\\\": null, \\\"filters\\\": null, \\\"order\\\": \\\"C\\\", "
        "\\\"fill_value\\\": null}\"",
        "\\\">i2\\\", \\\"compressor\\\": null, \\\"filters\\\": null, \\\"order\\\": \\\"C\\\", "
        "\\\"fill_value\\\": 7}\"",
    };
    stk__kerchunk_written written;
    stk__text text = {0};
    stk_group *g = NULL;
    stk_error err;

    assert_ok(stk_group_open(context, "mem://pack/files/classic.nc", &g, &err), &err);
    assert_ok(stk__kerchunk_write(context, g, "classic.nc", &text, &written, &err), &err);
    for (size_t i = 0; i < STK_COUNT(said); i++)
        assert_non_null(strstr(text.bytes, said[i]));
    stk__text_release(&text);
    stk_group_close(&g);
}

/* Bytes that a document holds as a text are at no place of its file. */
static void test_written_inline(void **state)
{
    stk__kerchunk_written written;
    stk__text text = {0};
    stk_group *g = NULL;
    char document[512];
    stk_error err;

    for (int i = 0; i < 2; i++) {
        snprintf(document, sizeof document, "{\"version\": 1, \"refs\": {" ZARRAY "%s}}",
                 i ? ", \"a/0\": \"base64:AQAAAAIAAAA=\"" : "");
        test_put(store, "sub/i.json", document, strlen(document));
        assert_ok(stk_group_open(context, "mem://pack/sub/i.json", &g, &err), &err);
        const stk_status status = stk__kerchunk_write(context, g, "i.json", &text, &written, &err);
        if (i)
            assert_fails(status, STK_ENOTSUP, &err, "lies in no chunks of one file");
        else
            assert_ok(status, &err);
        stk__text_release(&text);
        stk_group_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),          cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_missing),        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_long_templates), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_written),        cmocka_unit_test(test_written_for_xarray),
        cmocka_unit_test(test_written_inline),
    };

    return cmocka_run_group_tests(tests, set_up, close_packs);
}
