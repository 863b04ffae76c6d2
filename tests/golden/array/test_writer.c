/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written reads back equal here, and, where python3 has the packages, in zarr-python,
 * tensorstore and xarray (scripts/check_array_writer.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <stoker/array.h>

#include "support/support.h"

#define SCRIPT    TESTS_DIR "/../scripts/check_array_writer.py"
#define MAX_BYTES 40000

typedef struct written {
    const char *name;
    stk_dtype dtype;
    const char *type_name;
    uint32_t rank;
    int64_t shape[4], chunk[4], shard[4]; /* shard[0] 0: none */
    const char *codec;
    bool checksum;
    const char *names[4];
    const char *attributes;
} written;

static const written arrays[] = {
    {"plain",
     STK_FLOAT32,
     NULL,
     3,
     {7, 9, 11},
     {3, 4, 5},
     {0},
     "zstd",
     false,
     {"time", "y", "x"},
     "{\"units\":\"K\",\"scale\":0.5}"},
    {"sharded",
     STK_INT16,
     NULL,
     3,
     {7, 9, 11},
     {2, 2, 4},
     {4, 4, 8},
     "zstd",
     true,
     {"time", "y", "x"},
     NULL},
    {"blosc", STK_FLOAT64, NULL, 2, {20, 33}, {8, 8}, {16, 32}, "blosc", false, {"a", "b"}, NULL},
    {"gzip", STK_UINT8, NULL, 2, {20, 33}, {8, 8}, {0}, "gzip", true, {"a", "b"}, NULL},
    {"none", STK_UINT64, NULL, 1, {100}, {7}, {0}, "none", false, {"n"}, NULL},
    {"none_sharded", STK_COMPLEX64, NULL, 1, {100}, {7}, {21}, "none", false, {"n"}, NULL},
    {"scalar", STK_FLOAT32, NULL, 0, {0}, {0}, {0}, "zstd", false, {0}, NULL},
    {"boolean", STK_BOOL, NULL, 1, {40}, {16}, {32}, "zstd", false, {"m"}, NULL},
    {"half", STK_FLOAT16, NULL, 1, {40}, {16}, {0}, "zstd", false, {"m"}, NULL},
    {"deep/er/inner", STK_INT64, NULL, 2, {5, 6}, {2, 3}, {4, 6}, "zstd", false, {"p", "q"}, NULL},
    {"when", STK_INT64, "datetime64[ns]", 1, {12}, {5}, {0}, "zstd", false, {"w"}, NULL},
};

static uint64_t make_values(const written *w, unsigned char *out)
{
    uint64_t count = 1, seed = 7 + (uint64_t)w->dtype;
    size_t size = stk_dtype_size(w->dtype);

    for (uint32_t d = 0; d < w->rank; d++)
        count *= (uint64_t)w->shape[d];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = i < count / 3 ? 0 : test_random(&seed) % 50; /* the first chunks are fill */
        if (w->dtype == STK_BOOL)
            n &= 1;
        float f = (float)n / 4;
        double g = (double)n / 3;
        memset(out, 0, size);
        if (w->dtype == STK_FLOAT32 || w->dtype == STK_COMPLEX64)
            memcpy(out, &f, sizeof f);
        else if (w->dtype == STK_FLOAT64)
            memcpy(out, &g, sizeof g);
        else
            memcpy(out, &n, size < 8 ? size : 8);
        out += size;
    }
    return count * size;
}

static void write_one(stk_context *ctx, const char *folder, const written *w)
{
    static unsigned char values[MAX_BYTES], back[MAX_BYTES];
    uint64_t bytes = make_values(w, values);
    char url[400], raw[400];
    stk_array_writer_options o;
    stk_array_writer *writer = NULL;
    stk_array *a = NULL;
    stk_error err;

    assert_true(bytes <= MAX_BYTES);
    stk_array_writer_options_init(&o);
    o.dtype = w->dtype;
    o.type_name = w->type_name;
    o.rank = w->rank;
    o.shape = w->shape;
    o.chunk_shape = w->chunk;
    o.shard_shape = w->shard[0] ? w->shard : NULL;
    o.codec = w->codec;
    o.checksum = w->checksum;
    o.dimension_names = w->rank ? w->names : NULL;
    o.attributes = w->attributes;
    snprintf(url, sizeof url, "%s/%s", folder, w->name);
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    /* In two boxes, cut at an object. */
    int64_t cut = w->rank ? (w->shard[0] ? w->shard[0] : w->chunk[0]) : 0;
    if (w->rank && cut < w->shape[0]) {
        int64_t start[4] = {0}, shape[4];
        memcpy(shape, w->shape, sizeof shape);
        shape[0] = cut;
        assert_ok(stk_array_writer_write(writer, start, shape, values, &err), &err);
        uint64_t first = bytes / (uint64_t)w->shape[0] * (uint64_t)cut;
        start[0] = cut;
        shape[0] = w->shape[0] - cut;
        assert_ok(stk_array_writer_write(writer, start, shape, values + first, &err), &err);
    } else {
        assert_ok(stk_array_writer_write(writer, NULL, NULL, values, &err), &err);
    }
    /* Without its metadata it is no array. */
    assert_int_not_equal(stk_array_open(ctx, url, NULL, &a, NULL), STK_OK);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    assert_null(writer);
    assert_fails(stk_array_writer_create(ctx, url, &o, &writer, &err), STK_EINVAL, &err, "already");
    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    assert_ok(stk_array_read(a, NULL, back, bytes, NULL, -1, &err), &err);
    assert_memory_equal(back, values, bytes);
    if (w->attributes) {
        double scale = 0;
        assert_string_equal(stk_array_text(a, "units"), "K");
        assert_true(stk_array_number(a, "scale", &scale) && scale == 0.5);
        assert_false(stk_array_number(a, "units", &scale));
        assert_null(stk_array_text(a, "scale"));
        assert_string_equal(stk_array_get_info(a)->dimension_names[2], "x");
    }
    stk_array_close(&a);
    snprintf(raw, sizeof raw, "%s.raw", w->name);
    test_write(folder, raw, values, bytes);
}

/* Every type with every codec, with shards and without. */
static size_t write_matrix(stk_context *ctx, const char *group)
{
    static const char *const codecs[] = {"none", "zstd", "gzip", "blosc"};
    char name[64], rows[16], columns[16];
    size_t n = 0;

    for (stk_dtype dtype = STK_BOOL; dtype < STK_DTYPE_COUNT; dtype++)
        for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
            written w = {
                .name = name, .dtype = dtype, .rank = 2, .shape = {11, 13}, .chunk = {3, 5}};
            if (dtype == STK_BFLOAT16) /* zarr-python has it not */
                continue;
            snprintf(name, sizeof name, "all/%s_%s", stk_dtype_name(dtype), codecs[c]);
            snprintf(rows, sizeof rows, "row%zu", n);
            snprintf(columns, sizeof columns, "column%zu", n);
            w.names[0] = rows;
            w.names[1] = columns;
            w.codec = codecs[c];
            w.checksum = n % 3 == 0;
            w.shard[0] = n % 2 ? 6 : 0;
            w.shard[1] = 5;
            write_one(ctx, group, &w);
            n++;
        }
    return n + 1; /* and their group */
}

static void test_round_trip(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], group[300], command[600];
    stk_group *g = NULL;
    stk_error err;

    test_folder(folder);
    snprintf(group, sizeof group, "%s/new/group.zarr", folder);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        write_one(ctx, group, &arrays[i]);
    size_t others = write_matrix(ctx, group);
    assert_ok(stk_group_consolidate(ctx, group, "{\"title\":\"written\"}", &err), &err);
    assert_ok(stk_group_open(ctx, group, &g, &err), &err);
    assert_true(stk_group_is_consolidated(g));
    assert_string_equal(stk_group_attributes(g), "{\"title\": \"written\"}");
    size_t count = 0;
    while (stk_group_node(g, count))
        count++;
    assert_int_equal(count, sizeof arrays / sizeof arrays[0] + 2 + others); /* deep, deep/er */
    stk_group_close(&g);
    /* Once more: what it knows it keeps. */
    assert_ok(stk_group_consolidate(ctx, group, NULL, &err), &err);
    assert_ok(stk_group_open(ctx, group, &g, &err), &err);
    assert_string_equal(stk_group_attributes(g), "{\"title\": \"written\"}");
    stk_group_close(&g);
    if (system("python3 -c 'import zarr, tensorstore, xarray; assert int(zarr.__version__[0]) > 2' "
               ">/dev/null 2>&1") == 0) {
        snprintf(command, sizeof command, "python3 '%s' '%s'", SCRIPT, group);
        int status = system(command);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    } else {
        test_skipped();
        print_message("skipped: python3 has no zarr >= 3, tensorstore and xarray\n");
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_refusals(void **state)
{
    stk_context *ctx = test_context();
    int64_t shape[2] = {10, 10}, chunk[2] = {4, 4}, shard[2] = {6, 8}, start[2] = {2, 0},
            part[2] = {4, 4};
    static float values[100];
    stk_array_writer_options o;
    stk_array_writer *w = NULL;
    stk_error err;

    stk_array_writer_options_init(&o);
    o.dtype = STK_FLOAT32;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.shard_shape = shard;
    assert_fails(stk_array_writer_create(ctx, "mem://w/a", &o, &w, &err), STK_EINVAL, &err,
                 "no multiple");
    o.shard_shape = NULL;
    o.codec = "rar";
    assert_fails(stk_array_writer_create(ctx, "mem://w/a", &o, &w, &err), STK_EINVAL, &err,
                 "one of none");
    o.codec = "zstd";
    o.attributes = "[1]";
    assert_fails(stk_array_writer_create(ctx, "mem://w/a", &o, &w, &err), STK_EINVAL, &err,
                 "no JSON object");
    o.attributes = NULL;
    o.type_name = "datetime64[s]";
    assert_fails(stk_array_writer_create(ctx, "mem://w/a", &o, &w, &err), STK_EINVAL, &err,
                 "another type");
    o.type_name = NULL;
    assert_ok(stk_array_writer_create(ctx, "mem://w/a", &o, &w, &err), &err);
    assert_fails(stk_array_writer_write(w, start, part, values, &err), STK_EINVAL, &err,
                 "begin and end at");
    start[0] = 8;
    assert_fails(stk_array_writer_write(w, start, part, values, &err), STK_EINVAL, &err,
                 "at most 2 are left");
    stk_array_writer_abandon(&w);
    assert_null(w);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
