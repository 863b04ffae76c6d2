/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, reading, listing and writing arrays while the n-th allocation fails, for every n until
 * all succeed: STK_ENOMEM or success, the right values, nothing left behind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <stoker/array.h>

#include "support/faults.h"
#include "support/support.h"

#define N 24

static uint16_t values[N * N];
static const int64_t shape[2] = {N, N}, chunk[2] = {5, 5}, shard[2] = {10, 10};

static stk_status write_array(stk_context *ctx, const char *url, bool sharded, const char *codec,
                              stk_error *err)
{
    static const char *const names[2] = {"y", "x"};
    stk_array_writer_options o;
    stk_array_writer *w = NULL;

    stk_array_writer_options_init(&o);
    o.dtype = STK_UINT16;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.shard_shape = sharded ? shard : NULL;
    o.codec = codec;
    o.checksum = true;
    o.dimension_names = names;
    o.attributes = "{\"a\":NaN}";
    stk_status status = stk_array_writer_create(ctx, url, &o, &w, err);
    if (status == STK_OK)
        status = stk_array_writer_write(w, NULL, NULL, values, err);
    if (status == STK_OK)
        return stk_array_writer_finish(&w, err);
    stk_array_writer_abandon(&w);
    return status;
}

static stk_status read_array(stk_context *ctx, const char *url, stk_error *err)
{
    static uint16_t out[N * N];
    stk_array *a = NULL;

    memset(out, 0, sizeof out);
    stk_status status = stk_array_open(ctx, url, NULL, &a, err);
    if (status == STK_OK)
        status = stk_array_read(a, NULL, out, sizeof out, NULL, -1, err);
    if (status == STK_OK)
        assert_memory_equal(out, values, sizeof out);
    stk_array_close(&a);
    return status;
}

/* Six texts in a chunk of five, compressed, and one that is fill value. */
#define TEXTS                                                                                      \
    "{\"zarr_format\":2,\"shape\":[6],\"chunks\":[5],\"dtype\":\"|O\",\"fill_value\":\"none\","    \
    "\"order\":\"C\",\"filters\":[{\"id\":\"vlen-utf8\"}],\"compressor\":{\"id\":\"zlib\"}}"

static void write_texts(stk_store *store)
{
    unsigned char chunk[4 + 5 * 14] = {5}, stored[200];
    unsigned long length = sizeof stored;
    stk_error err;

    for (int i = 0; i < 5; i++) {
        chunk[4 + 14 * i] = 10;
        memset(chunk + 8 + 14 * i, 'a' + i, 10);
    }
    assert_int_equal(compress(stored, &length, chunk, sizeof chunk), Z_OK);
    assert_ok(stk_store_put(store, "texts/.zarray", TEXTS, strlen(TEXTS), NULL, &err), &err);
    assert_ok(stk_store_put(store, "texts/0", stored, length, NULL, &err), &err);
}

static stk_status read_texts(stk_context *ctx, const char *url, stk_error *err)
{
    stk_array_texts *texts = NULL;
    stk_array *a = NULL;

    stk_status status = stk_array_open(ctx, url, NULL, &a, err);
    if (status == STK_OK)
        status = stk_array_read_texts(a, NULL, -1, &texts, err);
    if (status == STK_OK) {
        assert_int_equal(texts->offsets[6], 54);
        assert_memory_equal(texts->values + 40, "eeeeeeeeeenone", 14);
    }
    assert_true((status == STK_OK) == (texts != NULL));
    stk_array_texts_destroy(&texts);
    stk_array_close(&a);
    return status;
}

/* Two of four elements are there. */
static void write_optional(stk_store *store)
{
    static const char metadata[] =
        "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[4],\"data_type\":{\"name\":"
        "\"optional\","
        "\"configuration\":{\"name\":\"int8\"}},\"fill_value\":null,\"chunk_grid\":{\"name\":"
        "\"regular\","
        "\"configuration\":{\"chunk_shape\":[4]}},\"chunk_key_encoding\":\"default\",\"codecs\":["
        "{\"name\":\"optional\",\"configuration\":{\"mask_codecs\":[\"packbits\"],\"data_codecs\":["
        "\"bytes\"]}}]}";
    static const char chunk[] = {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 3, 5};
    stk_error err;

    assert_ok(stk_store_put(store, "opt/zarr.json", metadata, strlen(metadata), NULL, &err), &err);
    assert_ok(stk_store_put(store, "opt/c/0", chunk, sizeof chunk, NULL, &err), &err);
}

static stk_status read_optional(stk_context *ctx, const char *url, stk_error *err)
{
    stk_array *a = NULL;
    double out[4];

    stk_status status = stk_array_open(ctx, url, NULL, &a, err);
    if (status == STK_OK)
        status = stk_array_read(a, NULL, out, sizeof out, NULL, -1, err);
    if (status == STK_OK)
        assert_true(out[0] == 3 && out[1] != out[1] && out[3] == 5);
    stk_array_close(&a);
    return status;
}

static stk_status read_group(stk_context *ctx, const char *url, stk_error *err)
{
    stk_group *g = NULL;
    stk_array *a = NULL;

    stk_status status = stk_group_open(ctx, url, &g, err);
    if (status == STK_OK)
        status = stk_group_array(g, "sharded", NULL, &a, err);
    stk_array_close(&a);
    stk_group_close(&g);
    return status;
}

/* Count, compute, keep and load. */
static stk_status survey_array(stk_context *ctx, const char *url, stk_error *err)
{
    stk_array_stored stored = {.struct_size = sizeof stored};
    stk_array_stats stats = {.struct_size = sizeof stats}, kept = stats;
    stk_array *a = NULL;

    stk_status status = stk_array_open(ctx, url, NULL, &a, err);
    if (status == STK_OK)
        status = stk_array_stored_count(a, &stored, err);
    if (status == STK_OK)
        status = stk_array_stats_compute(a, NULL, NULL, &stats, err);
    if (status == STK_OK)
        status = stk_array_stats_save(a, NULL, &stats, err);
    if (status == STK_OK)
        status = stk_array_stats_load(a, NULL, &kept, err);
    if (status == STK_OK) {
        assert_int_equal(stored.values, sizeof values);
        assert_true(kept.values == N * N && kept.mean == stats.mean);
        assert_true(kept.num_bins == stats.num_bins && kept.num_bins > 0);
    }
    stk_array_close(&a);
    return status;
}

/* What is tortured: all need what the ones before have made. */
static stk_status program(stk_context *ctx, int which, stk_error *err)
{
    switch (which) {
    case 0:
        return read_array(ctx, "mem://t/plain?num_threads=1", err);
    case 1:
        return read_array(ctx, "mem://t/sharded?num_threads=1", err);
    case 2:
        return read_array(ctx, "slow+mem://t/sharded?num_threads=2", err);
    case 3:
        return read_group(ctx, "mem://t", err);
    case 4:
        return stk_group_consolidate(ctx, "mem://t", "{\"b\":1}", err);
    case 5:
        return read_group(ctx, "mem://t", err);
    case 6:
        return write_array(ctx, "mem://t/new/inner", true, "zstd", err);
    case 7:
        return survey_array(ctx, "mem://t/plain?num_threads=1", err);
    case 8:
        return read_texts(ctx, "mem://t/texts", err);
    case 9:
        return read_optional(ctx, "mem://t/opt", err);
    default:
        return read_array(ctx, "mem://t/raw?format=raw&dtype=u2&shape=24x24", err);
    }
}

/* True when no allocation failed. */
static bool run(int which, int64_t n, bool for_good)
{
    faults f = {.left = FAULTS_NONE, .for_good = for_good};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_store *store = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://t", &store, NULL, 0, &err), &err);
    assert_ok(write_array(ctx, "mem://t/plain", false, "gzip", &err), &err);
    assert_ok(write_array(ctx, "mem://t/sharded", true, "zstd", &err), &err);
    assert_ok(stk_store_put(store, "raw", values, sizeof values, NULL, &err), &err);
    write_texts(store);
    write_optional(store);
    if (which == 5)
        assert_ok(stk_group_consolidate(ctx, "mem://t", NULL, &err), &err);
    else
        assert_ok(stk_store_put(store, "zarr.json", "{\"zarr_format\":3,\"node_type\":\"group\"}",
                                37, NULL, &err),
                  &err);
    f.left = n;
    stk_status status = program(ctx, which, &err);
    bool all = !fault_struck(&f);
    f.left = FAULTS_NONE;
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("program %d, allocation %lld: %s: %s", which, (long long)n,
                 stk_status_name(status), err.text);
    if (all)
        assert_int_equal(status, STK_OK);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return all;
}

static void test_allocations(void **state)
{
    for (int i = 0; i < N * N; i++)
        values[i] = (uint16_t)(i * 7 + 1);
    for (int which = 0; which < 11; which++)
        for (int for_good = 0; for_good < 2; for_good++) {
            int64_t n = 0;
            while (!run(which, n, for_good)) {
                n++;
                assert_true(n < 20000);
            }
            assert_true(n > 2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
