/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of varying length: damaged chunks, memory, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <stoker/array.h>

#include "base/base.h"
#include "support/objects.h"

#define V2                                                                                         \
    "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"|O\",\"order\":\"C\","            \
    "\"filters\":[{\"id\":\"%s\"}],\"compressor\":%s,\"fill_value\":%s}"
#define ZLIB "{\"id\":\"zlib\"}"

static void put_v2(test_room *r, const char *id, const char *compressor, const char *fill)
{
    char text[512];

    int n = snprintf(text, sizeof text, V2, id, compressor, fill);
    test_put(r->store, "a/.zarray", text, (size_t)n);
}

static stk_status read_all(test_room *r, const char *url, stk_array_texts **texts, stk_error *err)
{
    stk_array *a = NULL;

    stk_error_init(err);
    stk_status status = stk_array_open(r->ctx, url, NULL, &a, err);
    if (status == STK_OK)
        status = stk_array_read_texts(a, NULL, -1, texts, err);
    stk_array_close(&a);
    return status;
}

/* A number of elements, and "length, bytes" of each. */
static void test_damaged(void **unused)
{
    static const struct {
        const char *chunk;
        size_t size;
        const char *part;
    } wrong[] = {
        {"\3\0\0", 3, "as many elements"},
        {"\2\0\0\0\0\0\0\0\0\0\0\0", 12, "as many elements"},
        {"\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, "as many elements"},
        {"\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15, "ends before"},
        {"\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 16, "beyond its end"},
        /* Within the chunk, but over the numbers of the elements behind it. */
        {"\3\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0", 16, "beyond its end"},
        {"\3\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 16, "beyond its end"},
        {"\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0ab", 18, "behind its last"},
        {"\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\xff", 17, "not UTF-8"},
        {"\3\0\0\0\0\0\0\0\2\0\0\0\xc3\x28\0\0\0\0", 18, "not UTF-8"},
    };
    test_room r = test_room_open("mem://t");

    put_v2(&r, "vlen-utf8", "null", "null");
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        stk_array_texts *texts = (void *)1;
        stk_error err;
        test_put(r.store, "a/0", wrong[i].chunk, wrong[i].size);
        assert_int_equal(read_all(&r, "mem://t/a", &texts, &err), STK_EFORMAT);
        if (!strstr(err.text, wrong[i].part) || strcmp(err.key, "0") != 0)
            fail_msg("chunk %zu: %s", i, err.text);
        assert_null(texts);
    }
    put_v2(&r, "vlen-bytes", "null", "null"); /* which need not be UTF-8 */
    test_put(r.store, "a/0", wrong[8].chunk, wrong[8].size);
    stk_array_texts *texts = NULL;
    stk_error err;
    assert_ok(read_all(&r, "mem://t/a", &texts, &err), &err);
    assert_int_equal(texts->offsets[4], 1);
    assert_int_equal(texts->values[0], '\xff');
    stk_array_texts_destroy(&texts);
    test_room_close(&r);
}

/* What a compressed chunk holds is found out by decoding it, within the memory of the read. */
static void test_memory(void **unused)
{
    enum { LONG = 3 << 20 };
    const uint64_t size = 4 + 3 * 4 + LONG;
    unsigned char *chunk = calloc(1, size), stored[65536];
    unsigned long length = sizeof stored;
    stk_array_texts *texts = NULL;
    test_room r = test_room_open("mem://t");
    stk_error err;

    assert_non_null(chunk);
    chunk[0] = 3;
    memcpy(chunk + 4, &(uint32_t){LONG}, 4);
    memset(chunk + 8, 'x', LONG);
    assert_int_equal(compress(stored, &length, chunk, size), Z_OK);
    assert_true(length < size / 200);
    put_v2(&r, "vlen-utf8", ZLIB, "\"end\"");
    test_put(r.store, "a/0", stored, length);
    assert_ok(read_all(&r, "mem://t/a", &texts, &err), &err);
    assert_int_equal(texts->offsets[1], LONG);
    assert_int_equal(texts->offsets[3], LONG);
    assert_memory_equal(texts->values, chunk + 8, LONG);
    assert_memory_equal(texts->values + LONG, "end", 3);
    stk_array_texts_destroy(&texts);
    assert_int_equal(read_all(&r, "mem://t/a?memory=2MB", &texts, &err), STK_EBUDGET);
    assert_non_null(strstr(err.text, "memory"));
    assert_int_equal(read_all(&r, "mem://t/a?memory=100", &texts, &err), STK_EBUDGET);
    /* All of a chunk is decoded, whatever of it is asked for. */
    const stk_array_box short_one = {.start = (int64_t[]){1}, .shape = (int64_t[]){1}};
    stk_array *a = NULL;
    assert_ok(stk_array_open(r.ctx, "mem://t/a?memory=2MB", NULL, &a, &err), &err);
    assert_int_equal(stk_array_read_texts(a, &short_one, -1, &texts, &err), STK_EBUDGET);
    stk_array_close(&a);
    test_put(r.store, "a/0", stored, length / 2);
    assert_int_equal(read_all(&r, "mem://t/a", &texts, &err), STK_EFORMAT);
    free(chunk);
    test_room_close(&r);
}

/* A fill value stands for as many texts as are absent. */
static void test_memory_of_fill(void **unused)
{
    stk_array_texts *texts = NULL;
    test_room r = test_room_open("mem://t");
    char fill[203];
    stk_error err;

    snprintf(fill, sizeof fill, "\"%0200d\"", 0);
    put_v2(&r, "vlen-utf8", "null", fill);
    assert_ok(read_all(&r, "mem://t/a?memory=10kB", &texts, &err), &err);
    assert_true(texts->offsets[4] == 800);
    stk_array_texts_destroy(&texts);
    assert_int_equal(read_all(&r, "mem://t/a?memory=600", &texts, &err), STK_EBUDGET);
    assert_non_null(strstr(err.text, "memory"));
    test_room_close(&r);
}

static void test_refused(void **unused)
{
    static const struct {
        const char *key, *text;
        stk_status status;
        const char *part;
    } wrong[] = {
        {"v2/.zarray",
         "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"|O\",\"order\":\"C\","
         "\"filters\":[{\"id\":\"pickle\"}],\"compressor\":null,\"fill_value\":0}",
         STK_EKIND, "'pickle'"},
        {"v2/.zarray",
         "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"|O\",\"order\":\"C\","
         "\"filters\":null,\"compressor\":null,\"fill_value\":0}",
         STK_EKIND, "Python objects"},
        {"v2/.zarray",
         "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"<f4\",\"order\":\"C\","
         "\"filters\":[{\"id\":\"vlen-utf8\"}],\"compressor\":null,\"fill_value\":0}",
         STK_EKIND, "the type is another"},
        {"v2/.zarray",
         "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"|O\",\"order\":\"C\","
         "\"filters\":[{\"id\":\"vlen-utf8\"},{\"id\":\"delta\",\"dtype\":\"<i4\"}],"
         "\"compressor\":null,\"fill_value\":0}",
         STK_EKIND, "fixed length"},
        {"v2/.zarray",
         "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"|O\",\"order\":\"C\","
         "\"filters\":[{\"id\":\"vlen-utf8\"}],\"compressor\":null,\"fill_value\":7}",
         STK_EFORMAT, "fill value"},
        {"v2/.zarray",
         "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"|O\",\"order\":\"C\","
         "\"filters\":[{\"id\":\"vlen-bytes\"}],\"compressor\":null,\"fill_value\":\"?\"}",
         STK_EFORMAT, "fill value"},
        {"v2/.zarray",
         "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":[[\"a\",\"|O\"]],\"order\":"
         "\"C\",\"filters\":[{\"id\":\"vlen-utf8\"}],\"compressor\":null,\"fill_value\":0}",
         STK_EKIND, "Python objects"},
    };
    test_room r = test_room_open("mem://t");

    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        stk_array *a = NULL;
        stk_error err;
        test_put(r.store, wrong[i].key, wrong[i].text, strlen(wrong[i].text));
        stk_status status = stk_array_open(r.ctx, "mem://t/v2", NULL, &a, &err);
        if (status != wrong[i].status || !strstr(err.text, wrong[i].part))
            fail_msg("%s: %s", wrong[i].text, status ? err.text : "opens");
    }
    test_room_close(&r);
}

/* Each way of reading refuses the arrays of the other, and names it. */
static void test_ways(void **unused)
{
    static const char numbers[] =
        "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[3],\"dtype\":\"<f4\",\"order\":\"C\","
        "\"filters\":null,\"compressor\":null,\"fill_value\":0}";
    stk_array_texts *texts = NULL;
    stk_array *a = NULL;
    uint64_t bytes;
    test_room r = test_room_open("mem://t");
    stk_error err;
    char out[64];

    put_v2(&r, "vlen-utf8", "null", "\"ab\"");
    assert_ok(stk_array_open(r.ctx, "mem://t/a", NULL, &a, &err), &err);
    assert_int_equal(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_EKIND);
    assert_non_null(strstr(err.text, "stk_array_read_texts()"));
    assert_int_equal(stk_array_box_bytes(a, NULL, &bytes, &err), STK_EKIND);
    const stk_array_string *fill = stk_array_get_info(a)->fill_value;
    assert_int_equal(fill->length, 2);
    assert_memory_equal(fill->data, "ab", 2);
    assert_int_equal(stk_array_value_text(a, fill, out, sizeof out), 4);
    assert_string_equal(out, "\"ab\"");
    assert_int_equal(
        stk_array_value_text(a, &(stk_array_string){"a\"\xe2\x82\xac\n", 6}, out, sizeof out), 14);
    assert_string_equal(out, "\"a\\\"\xe2\x82\xac\\u000a\"");
    stk_array_close(&a);
    test_put(r.store, "n/.zarray", numbers, strlen(numbers));
    assert_ok(stk_array_open(r.ctx, "mem://t/n", NULL, &a, &err), &err);
    assert_int_equal(stk_array_read_texts(a, NULL, -1, &texts, &err), STK_EKIND);
    assert_non_null(strstr(err.text, "stk_array_read()"));
    stk_array_close(&a);
    stk_array_texts_destroy(&texts);
    stk_array_texts_destroy(NULL);
    test_room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged),        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_of_fill), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
