/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as texts, statistics of arrays, and what lies in the store for them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "array/room.h"
#include "support/support.h"

static void put(stk_context *ctx, const char *key, const void *data, size_t size)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://values", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
    stk_store_close(&store);
}

/* An array of version 2 in chunks of one dimension. */
static stk_array *make(stk_context *ctx, const char *name, const char *dtype, const char *shape,
                       const char *chunks, const char *attributes)
{
    char key[64], text[512];
    stk_array *a = NULL;
    stk_error err;

    snprintf(key, sizeof key, "%s/.zarray", name);
    snprintf(
        text, sizeof text,
        "{\"zarr_format\":2,\"shape\":[%s],\"chunks\":[%s],\"dtype\":\"%s\",\"compressor\":null,"
        "\"fill_value\":null,\"order\":\"C\",\"filters\":null}",
        shape, chunks, dtype);
    put(ctx, key, text, strlen(text));
    if (attributes) {
        snprintf(key, sizeof key, "%s/.zattrs", name);
        put(ctx, key, attributes, strlen(attributes));
    }
    snprintf(text, sizeof text, "mem://values/%s", name);
    assert_ok(stk_array_open(ctx, text, NULL, &a, &err), &err);
    return a;
}

static void test_texts(void **state)
{
    static const struct {
        const char *dtype, *bytes, *text;
    } cases[] = {
        {"|b1", "\1", "true"},
        {"|b1", "\0", "false"},
        {"|i1", "\x80", "-128"},
        {"|u1", "\x80", "128"},
        {"<i2", "\xff\xff", "-1"},
        {"<u4", "\xff\xff\xff\xff", "4294967295"},
        {"<i8", "\0\0\0\0\0\0\0\x80", "-9223372036854775808"},
        {"<u8", "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"},
        {"<f2", "\x66\x2e", "0.1"},
        {"<f2", "\xff\x7b", "65500.0"},
        {"<f2", "\1\0", "6e-08"},
        {"<f4", "\xcd\xcc\xcc\x3d", "0.1"},
        {"<f4", "\0\0\x80\x3f", "1.0"},
        {"<f4", "\1\0\0\0", "1e-45"},
        {"<f4", "\xff\xff\x7f\x7f", "3.4028235e+38"},
        {"<f4", "\0\0\0\x80", "-0.0"},
        {"<f4", "\xbd\x37\x86\x35", "1e-06"},
        {"<f4", "\x17\xb7\xd1\x38", "0.0001"},
        {"<f4", "\0\x24\x74\x49", "1000000.0"},
        {"<f4", "\xca\x1b\x0e\x5a", "1e+16"},
        {"<f4", "\x79\xe9\xf6\x42", "123.456"},
        {"<f4", "\0\0\xc0\x7f", "\"NaN\""},
        {"<f4", "\0\0\x80\xff", "\"-Infinity\""},
        {"<f8", "\x9a\x99\x99\x99\x99\x99\xb9\x3f", "0.1"},
        {"<f8", "\x33\x33\x33\x33\x33\x33\xd3\x3f", "0.3"},
        {"<f8", "\x34\x33\x33\x33\x33\x33\xd3\x3f", "0.30000000000000004"},
        {"<c8", "\0\0\x80\x3f\0\0\xc0\x7f", "[1.0, \"NaN\"]"},
        {"<M8[ns]", "\0\0\0\0\0\0\0\x80", "\"NaT\""},
        {"<m8[s]", "\5\0\0\0\0\0\0\0", "5"},
        {"|S4", "a\"\n\0", "\"a\\\"\\u000a\""},
        {"|S2", "\xe9\0", "\"\xc3\xa9\""},
        {"<U2", "\xac\x20\0\0\0\xd8\0\0", "\"\xe2\x82\xac\xef\xbf\xbd\""},
        {"<U1", "\x48\xf6\1\0", "\"\xf0\x9f\x99\x88\""},
        {"|V3", "\1\2\xff", "[1, 2, 255]"},
    };
    stk_context *ctx = test_context();
    char name[32], text[128];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(name, sizeof name, "text%zu", i);
        stk_array *a = make(ctx, name, cases[i].dtype, "1", "1", NULL);
        size_t length = stk_array_value_text(a, cases[i].bytes, text, sizeof text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(length, strlen(cases[i].text));
        /* What does not fit is cut, and the length says so. */
        memset(text, 'x', sizeof text);
        assert_int_equal(stk_array_value_text(a, cases[i].bytes, text, 3), length);
        size_t kept = length < 2 ? length : 2;
        assert_memory_equal(text, cases[i].text, kept);
        assert_int_equal(text[kept], 0);
        assert_int_equal(text[kept + 1], 'x');
        stk_array_close(&a);
    }
    stk_context_destroy(&ctx);
}

/* Fill values that plain JSON has no type for. */
static void test_fills(void **state)
{
    static const struct {
        const char *dtype, *json;
        double value;
    } cases[] = {{"float64", "{\"v\": 18446744073709551616}", 0x1p64},
                 {"float32", "{\"v\": -36893488147419103232}", -0x1p65},
                 {"float16", "{\"v\": 1e-7}", 0x1p-23},
                 {"bfloat16", "{\"v\": 0.00390625}", 0x1p-8}};
    static const unsigned char raw[3] = {1, 2, 255};
    stk_context *ctx = test_context();
    unsigned char out[8];
    stk_error err;
    stk__json json;
    stk__type type;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        json_t *name = json_string(cases[i].dtype);
        assert_ok(stk__type_v3(name, "k", &type, &err), &err);
        assert_ok(stk__json_parse(ctx, cases[i].json, strlen(cases[i].json), "k", &json, &err),
                  &err);
        assert_ok(stk__fill_parse(&type, json_object_get(json.value, "v"), 3, "k", out, &err),
                  &err);
        assert_true(stk__element_as_double(out, type.dtype) == cases[i].value);
        stk__json_drop(ctx, &json);
        json_decref(name);
    }
    /* Bytes without a type, there and back. */
    json_t *name = json_string("r24");
    assert_ok(stk__type_v3(name, "k", &type, &err), &err);
    json_t *list = stk__fill_to_json(&type, raw);
    char *text = json_dumps(list, JSON_COMPACT);
    assert_string_equal(text, "[1,2,255]");
    assert_ok(stk__fill_parse(&type, list, 3, "k", out, &err), &err);
    assert_memory_equal(out, raw, sizeof raw);
    free(text);
    json_decref(list);
    json_decref(name);
    stk_context_destroy(&ctx);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12 * fabs(expected) + 1e-15))
        fail_msg("%.17g is not %.17g", found, expected);
}

static void test_stats(void **state)
{
    static const float values[8] = {1, 2, 4, 9, NAN, 9, 8, 5}; /* the last chunk reaches beyond */
    const float edge[4] = {3, 7, 100, 100};
    stk_context *ctx = test_context();
    stk_array_stats stats = {.struct_size = sizeof stats}, kept = stats;
    stk_array_stored stored = {.struct_size = sizeof stored};
    double missing;
    stk_error err;

    put(ctx, "s/0", values, 16);
    put(ctx, "s/1", values + 4, 16);
    put(ctx, "s/2", edge, 16);
    put(ctx, "s/notes.txt", "text", 4);
    put(ctx, "s/3", "beyond the array", 4);
    put(ctx, "s/0.0", "of another rank", 4);
    stk_array *a = make(ctx, "s", "<f4", "10", "4", "{\"_FillValue\":9}");
    assert_true(stk__array_missing(a, &missing));
    near(missing, 9);
    assert_ok(stk_array_stored_count(a, &stored, &err), &err);
    assert_int_equal(stored.objects, 3);
    assert_int_equal(stored.bytes, 48);
    assert_int_equal(stored.values, 40);
    assert_fails(stk_array_stats_load(a, NULL, &kept, &err), STK_ENOENT, &err, "");
    assert_ok(stk_array_stats_compute(a, NULL, NULL, &stats, &err), &err);
    assert_int_equal(stats.values, 7); /* 1 2 4 8 5 3 7 */
    assert_int_equal(stats.nan, 1);
    assert_int_equal(stats.missing, 2);
    near(stats.mean, 30.0 / 7);
    near(stats.std, sqrt(168.0 / 7 - 900.0 / 49));
    near(stats.min, 1);
    near(stats.max, 8);
    assert_fails(stk_array_stats_compute(a, always, NULL, &stats, &err), STK_ECANCELED, &err, "");
    stk_array_close(&a);
    /* Integers, and those of a type that has no mean. */
    const int8_t small[4] = {-128, 127, 0, 1};
    put(ctx, "i/0", small, 4);
    a = make(ctx, "i", "|i1", "4", "4", NULL);
    assert_false(stk__array_missing(a, &missing));
    assert_ok(stk_array_stats_compute(a, NULL, NULL, &stats, &err), &err);
    near(stats.mean, 0);
    near(stats.min, -128);
    near(stats.max, 127);
    stk_array_close(&a);
    a = make(ctx, "t", "<U3", "4", "4", NULL);
    assert_fails(stk_array_stats_compute(a, NULL, NULL, &stats, &err), STK_EKIND, &err,
                 "have no mean");
    stk_array_close(&a);
    /* Nothing but missing values; xarray's way to write a fill value; more boxes than one. */
    a = make(ctx, "n", "<f4", "9", "2", "{\"_FillValue\":\"AAAAAAAAAAA=\"}");
    assert_true(stk__array_missing(a, &missing));
    near(missing, 0);
    assert_ok(stk_array_stats_compute(a, NULL, NULL, &stats, &err), &err);
    assert_int_equal(stats.values, 0);
    assert_int_equal(stats.missing, 9);
    assert_true(isnan(stats.mean) && isnan(stats.min));
    stk_array_close(&a);
    stk_context_destroy(&ctx);
}

/* Kept beside the array, and in another folder; other metadata makes them void. */
static void test_keeping(void **state)
{
    stk_context *ctx = test_context();
    stk_array_stats stats = {.struct_size = sizeof stats,
                             .values = 3,
                             .nan = 1,
                             .mean = 0.1,
                             .std = 2.5,
                             .min = -1e300,
                             .max = NAN};
    stk_array_stats kept = {.struct_size = sizeof kept};
    const int64_t shape[1] = {4};
    stk_array_writer_options o;
    stk_array_writer *w = NULL;
    char folder[256], url[300], cache[300], path[340];
    stk_array *a = NULL;
    stk_error err;

    test_folder(folder);
    snprintf(url, sizeof url, "%s/a.zarr", folder);
    snprintf(cache, sizeof cache, "%s/made/cache", folder);
    stk_array_writer_options_init(&o);
    o.dtype = STK_FLOAT64;
    o.rank = 1;
    o.shape = o.chunk_shape = shape;
    assert_ok(stk_array_writer_create(ctx, url, &o, &w, &err), &err);
    assert_ok(stk_array_writer_finish(&w, &err), &err);
    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    for (int i = 0; i < 2; i++) {
        const char *where = i ? cache : NULL;
        assert_fails(stk_array_stats_load(a, where, &kept, &err), STK_ENOENT, &err, "");
        assert_ok(stk_array_stats_save(a, where, &stats, &err), &err);
        assert_ok(stk_array_stats_load(a, where, &kept, &err), &err);
        assert_int_equal(kept.values, 3);
        assert_int_equal(kept.nan, 1);
        assert_true(kept.mean == 0.1 && kept.std == 2.5 && kept.min == -1e300 && isnan(kept.max));
    }
    stk_array_close(&a);
    snprintf(path, sizeof path, "%s/zarr.json", url);
    assert_int_equal(remove(path), 0);
    o.attributes = "{\"scale_factor\":2}";
    assert_ok(stk_array_writer_create(ctx, url, &o, &w, &err), &err);
    assert_ok(stk_array_writer_finish(&w, &err), &err);
    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    assert_fails(stk_array_stats_load(a, NULL, &kept, &err), STK_ENOENT, &err, "no statistics");
    assert_fails(stk_array_stats_load(a, cache, &kept, &err), STK_ENOENT, &err, "");
    stk_array_close(&a);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_fills),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_keeping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
