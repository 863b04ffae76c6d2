/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of varying length filled up in each batch: values, lengths and filling, nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/support.h"
#include "support/tars.h"

enum { SAMPLES = 61, BATCH = 8 };

static char folder[256];

static uint64_t length_of(uint64_t index)
{
    return index * 37 % 23; /* some have none */
}

static unsigned char value_of(uint64_t index, uint64_t place)
{
    return (unsigned char)(index * 5 + place + 1);
}

static void put16(unsigned char *to, unsigned value)
{
    to[0] = (unsigned char)value;
    to[1] = (unsigned char)(value >> 8);
}

/* An array of int16 [n, 2]: value k is 100 index + k. */
static size_t make_array(unsigned char *to, uint64_t index, uint64_t n)
{
    const int length =
        snprintf((char *)to + 10, 118,
                 "{'descr': '<i2', 'fortran_order': False, 'shape': (%d, 2), }", (int)n);

    memcpy(to, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(to + 10 + length, ' ', (size_t)(118 - length));
    to[127] = '\n';
    for (uint64_t k = 0; k < 2 * n; k++)
        put16(to + 128 + 2 * k, (unsigned)(100 * index + k));
    return 128 + 4 * n;
}

static void write_shard(void)
{
    tar_bytes t = {NULL, 0};
    unsigned char bytes[400];
    char name[128];

    for (uint64_t i = 0; i < SAMPLES; i++) {
        for (uint64_t k = 0; k < length_of(i); k++)
            bytes[k] = value_of(i, k);
        snprintf(name, sizeof name, "%06d.txt", (int)i);
        tar_file(&t, name, (char *)bytes, length_of(i));
        snprintf(name, sizeof name, "%06d.y.npy", (int)i);
        tar_file(&t, name, (char *)bytes, make_array(bytes, i, 1 + length_of(i) % 9));
    }
    tar_end(&t);
    test_write(folder, "a.tar", t.data, t.size);
    free(t.data);
}

static stk_dataset *open_shard(stk_context *ctx, const char *options)
{
    char spec[500];
    stk_dataset *d = NULL;
    stk_error err;

    snprintf(spec, sizeof spec, "webdataset:%s/a.tar?index=none&%s", folder, options);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

static stk_tensor find(const stk_batch *batch, const char *name)
{
    stk_tensor t = {.struct_size = sizeof t};

    assert_int_equal(stk_batch_find(batch, name, &t), STK_OK);
    return t;
}

/* The text [N, L]: of each row its bytes, then nothing but the filling. */
static void check_text(const stk_batch *batch, uint64_t multiple, unsigned char filling)
{
    const stk_tensor t = find(batch, "txt"), length = find(batch, "txt_length"),
                     index = find(batch, "index");
    uint64_t most = 0, n = stk_batch_count(batch);

    assert_int_equal(t.layout, STK_FIXED);
    assert_null(t.offsets);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], n);
    assert_int_equal(length.dtype, STK_INT64);
    assert_int_equal(length.rank, 1);
    for (uint64_t r = 0; r < n; r++)
        most = STK_MAX(most, length_of(((uint64_t *)index.data)[r]));
    assert_int_equal(t.shape[1], (most + multiple - 1) / multiple * multiple);
    for (uint64_t r = 0; r < n; r++) {
        const uint64_t i = ((uint64_t *)index.data)[r];
        assert_int_equal(((int64_t *)length.data)[r], length_of(i));
        for (uint64_t k = 0; k < (uint64_t)t.shape[1]; k++)
            assert_int_equal(((unsigned char *)t.data)[r * (uint64_t)t.shape[1] + k],
                             k < length_of(i) ? value_of(i, k) : filling);
    }
}

/* The array [N, L, 2]. */
static void check_array(const stk_batch *batch, uint64_t multiple, int filling)
{
    const stk_tensor t = find(batch, "y"), length = find(batch, "y_length"),
                     index = find(batch, "index");
    const uint64_t n = stk_batch_count(batch), row = (uint64_t)t.shape[1] * 2;

    assert_int_equal(t.rank, 3);
    assert_int_equal(t.shape[2], 2);
    assert_int_equal((uint64_t)t.shape[1] % multiple, 0);
    for (uint64_t r = 0; r < n; r++) {
        const uint64_t i = ((uint64_t *)index.data)[r], own = 1 + length_of(i) % 9;
        assert_int_equal(((int64_t *)length.data)[r], own);
        assert_in_range(own, 1, (uint64_t)t.shape[1]);
        for (uint64_t k = 0; k < row; k++)
            assert_int_equal(((int16_t *)t.data)[r * row + k],
                             k < 2 * own ? (int)(100 * i + k) : filling);
    }
}

static void walk(stk_dataset *d, int workers, int cache, uint64_t multiple, unsigned char filling,
                 bool array)
{
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    uint64_t rows = 0;

    stk_loader_options_init(&o);
    o.batch_size = BATCH;
    o.shuffle = STK_SHUFFLE_FULL;
    o.num_workers = workers;
    o.cache = cache;
    o.epochs = 2;
    o.memory_budget = 32 << 20;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    for (stk_status status = STK_OK; rows < 2 * SAMPLES;) {
        status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        check_text(batch, multiple, filling);
        if (array)
            check_array(batch, 4, -7);
        rows += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    assert_int_equal(rows, 2 * SAMPLES);
    stk_loader_destroy(&loader);
}

static void test_values(void **state)
{
    for (int workers = 0; workers < 3; workers++)
        for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_DECODED; cache++) {
            stk_dataset *d = open_shard(*state, "padding=txt:8:32,y:4:-7");
            walk(d, workers, cache, 8, 32, true);
            stk_dataset_close(&d);
        }
    stk_dataset *d = open_shard(*state, "padding=txt:1");
    walk(d, 1, STK_CACHE_NONE, 1, 0, false);
    stk_dataset_close(&d);
    d = open_shard(*state, "padding=txt:1&subset=1:60");
    assert_int_equal(d->size, 59);
    stk_dataset_close(&d);
}

/* Bad samples leave no row; a batch of none of any length is empty. */
static void test_holes(void **state)
{
    tar_bytes t = {NULL, 0};
    stk_loader_options o;
    stk_dataset *d = NULL;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    char name[128], spec[400];

    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "%d.txt", i);
        tar_file(&t, name, "abcdefgh", i < 8 ? (size_t)i : 0);
        snprintf(name, sizeof name, "%d.cls", i);
        tar_file(&t, name, i % 3 == 1 ? "no" : "1", i % 3 == 1 ? 2 : 1);
    }
    tar_end(&t);
    test_write(folder, "holes.tar", t.data, t.size);
    free(t.data);
    snprintf(spec, sizeof spec, "webdataset:%s/holes.tar?index=none&padding=txt:2:46", folder);
    assert_ok(stk_dataset_open(*state, spec, &d, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = 4;
    o.on_error = STK_ON_ERROR_SKIP;
    o.max_errors = "100%";
    o.num_workers = 1;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    for (uint64_t step = 0; step < 3; step++) {
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        const stk_tensor txt = find(batch, "txt"), length = find(batch, "txt_length"),
                         index = find(batch, "index");
        assert_int_equal(txt.shape[0], step == 1 ? 2 : 3);
        assert_int_equal(txt.shape[1], step == 0 ? 4 : step == 1 ? 6 : 0);
        for (int64_t r = 0; r < txt.shape[0]; r++) {
            const uint64_t i = ((uint64_t *)index.data)[r], own = i < 8 ? i : 0;
            assert_int_not_equal(i % 3, 1);
            assert_int_equal(((int64_t *)length.data)[r], own);
            for (uint64_t k = 0; k < (uint64_t)txt.shape[1]; k++)
                assert_int_equal(((char *)txt.data)[r * txt.shape[1] + (int64_t)k],
                                 k < own ? "abcdefgh"[k] : '.');
        }
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
}

/* What a budget has no room for is bad by its own length, and never written beyond its room. */
static void test_budget(void **state)
{
    enum { LONG = 3000000 };
    char *text = malloc(LONG), name[128], spec[400];
    tar_bytes t = {NULL, 0};
    stk_loader_options o;
    stk_dataset *d = NULL;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    uint64_t rows = 0, longest = 0;

    memset(text, 'z', LONG);
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "%03d.txt", i);
        tar_file(&t, name, text, i == 20 ? LONG : 100);
    }
    tar_end(&t);
    test_write(folder, "long.tar", t.data, t.size);
    free(t.data);
    free(text);
    snprintf(spec, sizeof spec, "webdataset:%s/long.tar?index=none&padding=txt:64", folder);
    assert_ok(stk_dataset_open(*state, spec, &d, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = 16;
    o.on_error = STK_ON_ERROR_SKIP;
    o.max_errors = "100%";
    o.num_workers = 1;
    o.memory_budget = 100 << 20;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    for (int step = 0; step < 4; step++) {
        stk_loader_stats stats = {.struct_size = sizeof stats};
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        const stk_tensor txt = find(batch, "txt");
        rows += stk_batch_count(batch);
        longest = STK_MAX(longest, (uint64_t)txt.shape[1]);
        stk_loader_get_stats(loader, &stats);
        assert_true(stats.memory_peak <= stats.memory_budget);
        stk_batch_release(&batch);
    }
    /* 16 rows of 3 MB are more than a batch may take. */
    assert_int_equal(rows, 63);
    assert_int_equal(longest, 128);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
}

static void check_refused(stk_context *ctx, const char *options, const char *says)
{
    char spec[600];
    stk_dataset *d = NULL;
    stk_error err;

    snprintf(spec, sizeof spec, options, folder, folder);
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_EINVAL, &err, says);
}

static void test_refused(void **state)
{
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=text:8", "names no field");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=txt", "names no field");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=txt:0", "no multiple");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=txt:2.5", "no multiple");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=txt:8:256", "does not hold");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=txt:8:-1", "does not hold");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=y:8:40000", "does not hold");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=txt:x", "is no field and its");
    check_refused(*state, "webdataset:%s/a.tar?index=none&padding=txt:8,txt:8",
                  "filled up already");
    check_refused(*state, "webdataset:%s/a.tar?index=none&rename=y:txt_length&padding=txt:8",
                  "a field 'txt_length' already");
    check_refused(*state, "digits:?size=3&padding=label:8", "do not vary in length");
    check_refused(*state,
                  "concat:(webdataset:%s/a.tar?index=none&padding=txt:8),(webdataset:%s/a.tar?"
                  "index=none&padding=txt:8)",
                  "padding is an option of the whole");
}

static int open_folder(void **state)
{
    test_folder(folder);
    write_shard();
    return test_context_open(state);
}

static int close_folder(void **state)
{
    test_folder_remove(folder);
    return test_context_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
