/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of arrays: options, numbers, fields, values, and what is refused. */
#include "unit/dataset/windows.h"

#include <math.h>

static const made field = {.dtype = STK_FLOAT32, .shape = {12, 8, 8}, .chunk = {4, 4, 4}};

static float element(int64_t t, int64_t y, int64_t x)
{
    return (float)((t * 8 + y) * 8 + x);
}

static void test_numbers(void **state)
{
    static const struct {
        const char *options;
        uint64_t size, block;
    } cases[] = {
        {"", 12, 4},                                 /* one step each */
        {"?window=4x4x4", 12, 1},                    /* the chunks */
        {"?window=time:2,y:4,x:4", 24, 2},           /* half a chunk */
        {"?window=2x4x4&stride=time:1", 11 * 4, 11}, /* stride of the others: theirs */
        {"?window=2x4x4&overlap=time:1", 11 * 4, 11},
        {"?window=0:3,1:8&range=time:1:11", 3, 1},
        {"?window=4x4x4&range=x:4:,time::8", 4, 1},
        {"?input=2&target=1&lead=1&stride=time:1", 9, 4},
        {"?window=y:4,x:4", 4, 1}, /* all of time */
    };
    stk_context *ctx = test_context();
    char spec[256];

    (void)state;
    make_array(ctx, "mem://w", &field);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(spec, sizeof spec, "array:mem://w%s", cases[i].options);
        stk_dataset *d = open_windows(ctx, spec);
        assert_int_equal(d->size, cases[i].size);
        assert_int_equal(d->block_size, cases[i].block);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    static const refused cases[] = {
        {"window=4x9x4", STK_EINVAL, "do not fit the 8"},
        {"window=time:13", STK_EINVAL, "do not fit the 12"},
        {"window=time:5&range=time:2:6", STK_EINVAL, "do not fit the 4"},
        {"window=z:4", STK_EINVAL, "there are 'time', 'y', 'x'"},
        {"window=3:4", STK_EINVAL, "no dimension '3'"},
        {"window=4x4", STK_EINVAL, "3 dimensions"},
        {"window=4x4x4x4", STK_EINVAL, "write it as"},
        {"window=4xax4", STK_EINVAL, "write it as"},
        {"window=time:0", STK_EINVAL, "write it as"},
        {"window=time", STK_EINVAL, "write it as"},
        {"window=time:99999999999999999999", STK_EINVAL, "do not fit"},
        {"range=time:5:5", STK_EINVAL, "holds nothing"},
        {"range=time:50:60", STK_EINVAL, "holds nothing"},
        {"range=time:-1:5", STK_EINVAL, "write it as"},
        {"window=2x2x2&overlap=2x0x0", STK_EINVAL, "cannot overlap"},
        {"window=2x2x2&overlap=1x1x1&stride=1x1x1", STK_EINVAL, "give one of them"},
        {"input=2&window=time:3", STK_EINVAL, "follows from input"},
        {"target=2", STK_EINVAL, "needs an input"},
        {"input=2&time=z", STK_EINVAL, "no dimension 'z'"},
        {"convert=int8", STK_EINVAL, "float32 or float64"},
        {"convert=nonsense", STK_EINVAL, "float32 or float64"},
        {"std=0", STK_EINVAL, "divided by it"},
        {"mean=1,2", STK_EINVAL, "one for each of the 1"},
        {"mean=x", STK_EINVAL, "write one number"},
        {"nan=often", STK_EINVAL, "nan"},
        {"windows=4", STK_EINVAL, "windows"},
    };
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;

    (void)state;
    make_array(ctx, "mem://w", &field);
    assert_refused(ctx, cases, STK_COUNT(cases));
    assert_fails(stk_dataset_open(ctx, "array:/nowhere/at/all", &d, &err), STK_ENOENT, &err,
                 "nowhere");
    stk_context_destroy(&ctx);
}

static void test_time_steps(void **state)
{
    stk_context *ctx = test_context();
    stk_tensor input = {.struct_size = sizeof input}, target = {.struct_size = sizeof target};

    (void)state;
    make_array(ctx, "mem://w", &field);
    stk_dataset *d = open_windows(
        ctx, "array:mem://w?input=3&lead=2&target=2&stride=time:1&window=y:2,x:4&range=time:1:");
    assert_int_equal(d->size, 5 * 4 * 2);
    delivery b = first_batch(d, NULL);
    const float *in = field_of(&b, "input", &input), *out = field_of(&b, "target", &target);
    assert_int_equal(input.rank, 4);
    assert_int_equal(input.shape[1], 3);
    assert_int_equal(target.shape[1], 2);
    for (int64_t i = 0; i < 8; i++) {
        int64_t start[STK__WINDOW_DIMS];
        stk__window_start((stk__window *)d, (uint64_t)i, start);
        for (int64_t t = 0; t < 3; t++)
            for (int64_t y = 0; y < 2; y++)
                for (int64_t x = 0; x < 4; x++)
                    assert_true(*in++ == element(start[0] + t, start[1] + y, start[2] + x));
        for (int64_t t = 5; t < 7; t++)
            for (int64_t y = 0; y < 2; y++)
                for (int64_t x = 0; x < 4; x++)
                    assert_true(*out++ == element(start[0] + t, start[1] + y, start[2] + x));
    }
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* ---- Several variables ---- */

static double tenfold(int64_t place)
{
    return (double)(place % 100) * 10;
}

static void make_group(stk_context *ctx)
{
    made other = field;
    stk_error err;

    make_array(ctx, "mem://g/t2m", &field);
    other.value = tenfold;
    other.chunk[0] = 3;
    other.shard[0] = 6, other.shard[1] = other.shard[2] = 8;
    make_array(ctx, "mem://g/u10", &other);
    assert_ok(stk_group_consolidate(ctx, "mem://g", NULL, &err), &err);
}

static void test_variables(void **state)
{
    stk_context *ctx = test_context();
    stk_tensor t2m = {.struct_size = sizeof t2m}, u10 = {.struct_size = sizeof u10},
               both = {.struct_size = sizeof both};
    stk_dataset *d;
    stk_error err;

    (void)state;
    make_group(ctx);
    d = open_windows(ctx, "array:mem://g?window=2x8x8");
    delivery b = first_batch(d, NULL);
    const float *t = field_of(&b, "t2m", &t2m), *u = field_of(&b, "u10", &u10);
    for (int i = 0; i < 6 * 128; i++) {
        assert_true(t[i] == (float)i);
        assert_true(u[i] == (float)tenfold(i));
    }
    close_batch(&b);
    stk_dataset_close(&d);

    d = open_windows(ctx,
                     "array:mem://g?window=2x8x8&stack=true&variables=u10,t2m&mean=5,1&std=10,2");
    b = first_batch(d, NULL);
    const float *s = field_of(&b, "data", &both);
    assert_int_equal(both.rank, 5);
    assert_int_equal(both.shape[1], 2);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 128; k++) {
            assert_true(fabs(s[i * 256 + k] - (tenfold(i * 128 + k) - 5) / 10) < 1e-4);
            assert_true(fabs(s[i * 256 + 128 + k] - (i * 128 + k - 1) / 2.0) < 1e-4);
        }
    close_batch(&b);
    stk_dataset_close(&d);
    make_array(ctx, "mem://h/a/t", &field);
    make_array(ctx, "mem://h/b/t", &field);
    assert_ok(stk_group_consolidate(ctx, "mem://h", NULL, &err), &err);
    assert_fails(stk_dataset_open(ctx, "array:mem://h", &d, &err), STK_EINVAL, &err, "two fields");
    assert_fails(stk_dataset_open(ctx, "array:mem://g?variables=nothing", &d, &err), STK_ENOENT,
                 &err, "nothing");
    assert_fails(stk_dataset_open(ctx, "array:mem://g?variables=,t2m", &d, &err), STK_EINVAL, &err,
                 "variables");
    stk_context_destroy(&ctx);
}

/* However "found by content" is written, the folder is a group. */
static void test_group_by_content(void **state)
{
    static const char group[] = "{\"zarr_format\": 2}";
    static const char array[] = "{\"zarr_format\": 2, \"shape\": [4], \"chunks\": [4], \"dtype\": "
                                "\"<f4\", \"compressor\": null, \"fill_value\": 3, \"order\": "
                                "\"C\", \"filters\": null}";
    static const char *const found[] = {"", "&format", "&format=", "&format=AUTO", "&format=auto"};
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_error err;

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://v2", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, ".zgroup", group, sizeof group - 1, NULL, &err), &err);
    assert_ok(stk_store_put(store, "t/.zarray", array, sizeof array - 1, NULL, &err), &err);
    stk_store_close(&store);
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        stk_dataset *d = NULL;
        char url[100];
        snprintf(url, sizeof url, "array:mem://v2?window=2%s", found[i]);
        if (strcmp(found[i], "&format") == 0) {
            assert_fails(stk_dataset_open(ctx, url, &d, &err), STK_EINVAL, &err, "format");
            continue;
        }
        assert_ok(stk_dataset_open(ctx, url, &d, &err), &err);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* ---- Values ---- */

static double some_missing(int64_t place)
{
    return place % 7 == 3 ? -999 : (double)(place % 100);
}

static double some_nan(int64_t place)
{
    return place == 5 || place == 200 ? (double)NAN : (double)place;
}

static void test_packed_values(void **state)
{
    const made packed = {.dtype = STK_INT16,
                         .shape = {4, 4, 4},
                         .chunk = {2, 4, 4},
                         .value = some_missing,
                         .attributes = "{\"scale_factor\": 0.5, \"add_offset\": 10, "
                                       "\"missing_value\": -999}"};
    stk_context *ctx = test_context();
    stk_tensor data = {.struct_size = sizeof data}, mask = {.struct_size = sizeof mask};
    stk_dataset *d;

    (void)state;
    make_array(ctx, "mem://p", &packed);
    d = open_windows(ctx, "array:mem://p");
    delivery b = first_batch(d, NULL);
    const float *x = field_of(&b, "data", &data);
    assert_int_equal(data.dtype, STK_FLOAT32);
    for (int i = 0; i < 64; i++)
        assert_true(i % 7 == 3 ? isnan(x[i]) : x[i] == (float)(i * 0.5 + 10));
    close_batch(&b);
    stk_dataset_close(&d);

    d = open_windows(ctx, "array:mem://p?nan=mask&fill=-3&convert=float64");
    b = first_batch(d, NULL);
    const double *y = field_of(&b, "data", &data);
    const uint8_t *m = field_of(&b, "mask", &mask);
    assert_int_equal(data.dtype, STK_FLOAT64);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(m[i], i % 7 != 3);
        assert_true(y[i] == (i % 7 == 3 ? -3 : i * 0.5 + 10));
    }
    close_batch(&b);
    stk_dataset_close(&d);

    d = open_windows(ctx, "array:mem://p?scale=false");
    b = first_batch(d, NULL);
    const int16_t *z = field_of(&b, "data", &data);
    assert_int_equal(data.dtype, STK_INT16);
    for (int i = 0; i < 64; i++)
        assert_int_equal(z[i], (int16_t)some_missing(i));
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* Statistics that were kept are used; they are those of the values stored. */
static void test_normalized(void **state)
{
    const made packed = {.dtype = STK_INT16,
                         .shape = {4, 4, 4},
                         .chunk = {2, 4, 4},
                         .attributes = "{\"scale_factor\": -2, \"add_offset\": 10}"};
    stk_array_stats stats = {.struct_size = sizeof stats};
    stk_context *ctx = test_context();
    stk_array *array;
    stk_tensor data = {.struct_size = sizeof data};
    stk_dataset *d;
    stk_error err;

    (void)state;
    make_array(ctx, "mem://p", &packed);
    assert_fails(stk_dataset_open(ctx, "array:mem://p?normalize=true", &d, &err), STK_ENOENT, &err,
                 "stats");
    assert_ok(stk_array_open(ctx, "mem://p", NULL, &array, &err), &err);
    assert_ok(stk_array_stats_compute(array, NULL, NULL, &stats, &err), &err);
    assert_ok(stk_array_stats_save(array, NULL, &stats, &err), &err);
    stk_array_close(&array);
    assert_fails(stk_dataset_open(ctx, "array:mem://p?normalize=true&mean=1", &d, &err), STK_EINVAL,
                 &err, "leave those two out");
    d = open_windows(ctx, "array:mem://p?normalize=true");
    delivery b = first_batch(d, NULL);
    const float *x = field_of(&b, "data", &data);
    /* Of 0 to 63: mean 31.5, variance (64^2 - 1) / 12. */
    for (int i = 0; i < 64; i++)
        assert_true(fabs(x[i] + (i - 31.5) / sqrt(4095.0 / 12)) < 1e-5);
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

static void test_dropped_windows(void **state)
{
    made a = field;
    stk_context *ctx = test_context();
    stk_loader_options o = window_options();
    stk_loader *loader;
    stk_batch *batch = NULL;
    stk_tensor index = {.struct_size = sizeof index};
    stk_error err;

    (void)state;
    a.value = some_nan;
    make_array(ctx, "mem://n", &a);
    stk_dataset *d = open_windows(ctx, "array:mem://n?nan=drop");
    o.batch_size = 12;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    assert_fails(stk_loader_next(loader, 30000, &batch, &err), STK_EFORMAT, &err, "holds NaN");
    stk_loader_destroy(&loader);
    o.on_error = STK_ON_ERROR_SKIP;
    delivery b = first_batch(d, &o);
    const uint64_t *numbers = field_of(&b, "index", &index);
    assert_int_equal(stk_batch_count(b.batch), 10);
    for (int i = 0; i < 10; i++)
        assert_true(numbers[i] != 0 && numbers[i] != 3);
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* A chunk or shard that was there when the dataset was opened, and is gone when it is read, is an
 * error and no fill value; one that never was is the fill value. */
static void test_vanished_chunks(void **state)
{
    stk_context *ctx = test_context();
    stk_loader_options o = window_options();
    stk_store *store = NULL;
    stk_error err;

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        made a = field;
        a.shard[0] = kind ? 4 : 0;
        a.shard[1] = a.shard[2] = 8;
        const char *key = kind ? "c/1/0/0" : "c/1/1/0";
        char url[32], spec[64];
        snprintf(url, sizeof url, "mem://gone%d", kind);
        snprintf(spec, sizeof spec, "array:mem://gone%d", kind);
        make_array(ctx, url, &a);
        assert_ok(stk_store_open(ctx, url, &store, NULL, 0, &err), &err);
        stk_dataset *d = open_windows(ctx, spec);
        assert_ok(store->ops->remove(store, key, &stk__store_call_none, &err), &err);
        stk_loader *loader;
        stk_batch *batch = NULL;
        o.batch_size = 12;
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        assert_fails(stk_loader_next(loader, 30000, &batch, &err), STK_ENOENT, &err, key);
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
        d = open_windows(ctx, spec);
        delivery b = first_batch(d, &o);
        stk_tensor data = {.struct_size = sizeof data};
        const float *values = field_of(&b, "data", &data);
        assert_true(values[4 * 64 + 4 * 8] == -1 && values[0] == 0);
        close_batch(&b);
        stk_dataset_close(&d);
        stk_store_close(&store);
    }
    stk_context_destroy(&ctx);
}

/* Halves, of every kind of value. */
static void test_halves(void **state)
{
    static const struct {
        uint16_t half;
        double value;
    } known[] = {{0x3c00, 1},    {0xc000, -2},      {0x7bff, 65504},    {0x0001, 0x1p-24},
                 {0x8000, -0.0}, {0x0400, 0x1p-14}, {0x7c00, INFINITY}, {0xfc00, -INFINITY}};
    stk_context *ctx = test_context();
    uint16_t bytes[8];
    stk_store *store;
    stk_tensor data = {.struct_size = sizeof data};
    stk_error err;

    (void)state;
    for (int i = 0; i < 8; i++)
        bytes[i] = known[i].half;
    assert_ok(stk_store_open(ctx, "mem://h", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "h.bin", bytes, sizeof bytes, NULL, &err), &err);
    stk_store_close(&store);
    stk_dataset *d = open_windows(ctx, "array:mem://h/h.bin?format=raw&dtype=f2&convert=float64");
    delivery b = first_batch(d, NULL);
    const double *x = field_of(&b, "data", &data);
    for (int i = 0; i < 8; i++)
        assert_true(x[i] == known[i].value);
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* Metadata that claims chunks without end: refused by the work that opening would take, before any
 * of it is done. */
static void test_claims(void **state)
{
    static const char *const codecs[] = {
        "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}},{\"name\":\"gzip\","
        "\"configuration\":{\"level\":1}}",
        "{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[1,1],\"codecs\":["
        "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}],\"index_codecs\":[{"
        "\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}]}}"};
    stk_context *ctx = test_context();
    stk_store *store;
    stk_dataset *d = NULL;
    stk_error err;
    char text[1024];

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://claims", &store, NULL, 0, &err), &err);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[100000000,2],"
                 "\"data_type\":\"float32\",\"chunk_grid\":{\"name\":\"regular\","
                 "\"configuration\":{\"chunk_shape\":[%d,2]}},\"chunk_key_encoding\":{\"name\":"
                 "\"default\"},\"fill_value\":0,\"codecs\":[%s]}",
                 1 + i, codecs[i]);
        assert_ok(stk_store_put(store, "zarr.json", text, strlen(text), NULL, &err), &err);
        assert_fails(stk_dataset_open(ctx, "array:mem://claims", &d, &err), STK_ELIMIT, &err,
                     "max_requests");
        assert_string_equal(err.key, "max_requests");
        /* A part of it is no burden, and the limit counts requests to the last one. */
        snprintf(text, sizeof text, "array:mem://claims?range=0:%d:%d&max_requests=10", 0,
                 10 + 10 * i);
        assert_ok(stk_dataset_open(ctx, text, &d, &err), &err);
        stk_dataset_close(&d);
        snprintf(text, sizeof text, "array:mem://claims?range=0:%d:%d&max_requests=10", 0,
                 11 + 10 * i);
        assert_fails(stk_dataset_open(ctx, text, &d, &err), STK_ELIMIT, &err, "takes 11 requests");
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* A size that the store refuses to tell is neither a missing chunk nor an empty one. */
static void test_refused_size(void **state)
{
    made a = {.dtype = STK_FLOAT32, .shape = {8, 8, 8}, .chunk = {4, 8, 8}};
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    char folder[256], chunks[300], spec[320];
    stk_error err;

    (void)state;
    test_folder(folder);
    make_array(ctx, folder, &a);
    snprintf(chunks, sizeof chunks, "%s/c/1", folder);
    snprintf(spec, sizeof spec, "array:%s?window=2x8x8", folder);
    assert_int_equal(chmod(chunks, 0), 0);
    test_bind_by_permissions(true);
    stk_status status = stk_dataset_open(ctx, spec, &d, &err);
    test_bind_by_permissions(false);
    assert_int_equal(chmod(chunks, 0755), 0);
    assert_fails(status, STK_EACCES, &err, "c/1");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_time_steps),      cmocka_unit_test(test_variables),
        cmocka_unit_test(test_packed_values),   cmocka_unit_test(test_dropped_windows),
        cmocka_unit_test(test_vanished_chunks), cmocka_unit_test(test_claims),
        cmocka_unit_test(test_refused_size),    cmocka_unit_test(test_group_by_content),
        cmocka_unit_test(test_normalized),      cmocka_unit_test(test_halves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
