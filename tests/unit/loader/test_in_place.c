/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk that is one run of its only window is decoded in the batch: counted by what prepare() is
 * given, and the values are those of the array, whoever else asks for the same sample.
 */
#include <stdatomic.h>

#include "unit/dataset/windows.h"

static const made cube = {.dtype = STK_FLOAT32, .shape = {32, 32, 32}, .chunk = {8, 8, 8}};

/* Chunks handed to prepare(), and those that lay in the batch. */
static atomic_int chunks, placed;
static const stk_dataset_ops *own;

static void counting_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const uint64_t bytes = stk_field_bytes(&dataset->fields[0]);
    const uint64_t each = bytes < 2048 ? bytes : 2048; /* of a chunk */

    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < bytes / each; k++) {
            const char *data = samples[i].needs[k].data;
            chunks++;
            placed += data == (const char *)samples[i].values[0].out + k * each;
        }
    own->prepare(dataset, samples, n);
}

/* Element (z, y, x) of window `index`: the array holds the numbers of its places. */
static float element(const stk_dataset *d, uint64_t index, int z, int y, int x)
{
    int64_t start[STK__WINDOW_DIMS];

    stk__window_start((const stk__window *)d, index, start);
    return (float)(((start[0] + z) * 32 + start[1] + y) * 32 + start[2] + x);
}

static void check_batch(const stk_dataset *d, const stk_batch *batch, const int *w)
{
    stk_tensor data = {.struct_size = sizeof data}, index = {.struct_size = sizeof index};

    assert_int_equal(stk_batch_find(batch, "data", &data), STK_OK);
    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    const float *at = data.data;
    for (uint64_t i = 0; i < stk_batch_count(batch); i++)
        for (int z = 0; z < w[0]; z++)
            for (int y = 0; y < w[1]; y++)
                for (int x = 0; x < w[2]; x++, at++)
                    assert_true(*at == element(d, ((const uint64_t *)index.data)[i], z, y, x));
}

/* Two epochs, all values checked. */
static void run(stk_dataset *d, const int *w, const stk_loader_options *options)
{
    stk_loader_options o = *options;
    stk_loader *loader;
    stk_batch *batch;
    stk_status status;
    stk_error err;

    chunks = placed = 0;
    o.epochs = 2;
    o.persistent_workers = false; /* else an epoch's windows meet those of the next */
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    for (int epoch = 0; epoch < 2; epoch++) {
        while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
            check_batch(d, batch, w);
            stk_batch_release(&batch);
        }
        assert_ok(status == STK_EOS ? STK_OK : status, &err);
    }
    stk_loader_destroy(&loader);
}

static stk_dataset *counted(stk_context *ctx, const char *spec, stk_dataset_ops *ops)
{
    stk_dataset *d = open_windows(ctx, spec);

    own = d->ops;
    *ops = *own;
    ops->prepare = counting_prepare;
    d->ops = ops;
    return d;
}

static void test_windows(void **state)
{
    static const struct {
        const char *spec;
        int window[3];
        bool place; /* whether chunks are runs of windows */
    } cases[] = {{"array:mem://a?window=8x8x8", {8, 8, 8}, true},
                 {"array:mem://a?window=16x8x8", {16, 8, 8}, true},
                 {"array:mem://a?window=8x16x8", {8, 16, 8}, false},
                 {"array:mem://a?window=4x8x8", {4, 8, 8}, false}};
    stk_context *ctx = test_context();
    stk_dataset_ops ops;

    (void)state;
    make_array(ctx, "mem://a", &cube);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int threads = 0; threads < 3; threads++)
            for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_DECODED; cache++) {
                stk_dataset *d = counted(ctx, cases[i].spec, &ops);
                stk_loader_options o = window_options();
                o.shuffle = STK_SHUFFLE_FULL;
                o.num_workers = threads;
                o.cache = cache;
                run(d, cases[i].window, &o);
                /* A cache of what was decoded has the second epoch. */
                assert_int_equal(placed, !cases[i].place              ? 0
                                         : cache == STK_CACHE_DECODED ? chunks / 2
                                                                      : chunks);
                stk_dataset_close(&d);
            }
    stk_context_destroy(&ctx);
}

/* The same sample several times, in one batch and in neighbours. */
static void test_repeated(void **state)
{
    stk_context *ctx = test_context();
    uint64_t list[96];

    (void)state;
    make_array(ctx, "mem://a", &cube);
    for (uint64_t i = 0; i < 96; i++)
        list[i] = i * i % 7 + i / 32;
    for (int threads = 0; threads < 3; threads++) {
        stk_dataset *d = open_windows(ctx, "array:mem://a?window=8x8x8");
        stk_loader_options o = window_options();
        stk_loader *loader;
        stk_batch *batch;
        stk_tensor data = {.struct_size = sizeof data};
        stk_error err;
        uint64_t at = 0;
        o.num_workers = threads;
        o.batch_size = 6;
        const stk_dataset *windows = d;
        assert_ok(stk_dataset_subset(&d, list, 96, &err), &err);
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        while (stk_loader_next(loader, 30000, &batch, &err) == STK_OK) {
            assert_int_equal(stk_batch_find(batch, "data", &data), STK_OK);
            for (uint64_t i = 0; i < stk_batch_count(batch); i++, at++)
                for (int e = 0; e < 512; e++)
                    assert_true(((const float *)data.data)[i * 512 + (uint64_t)e] ==
                                element(windows, list[at], e / 64, e / 8 % 8, e % 8));
            stk_batch_release(&batch);
        }
        assert_int_equal(at, 96);
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* What a transform moves is decoded beside the batch. */
static void test_transform(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset_ops ops;

    (void)state;
    make_array(ctx, "mem://a", &cube);
    stk_dataset *d = counted(ctx, "array:mem://a?window=8x8x8", &ops);
    stk_loader_options o = window_options();
    o.transforms = "normalize(mean=1, std=2)";
    placed = 0;
    delivery b = first_batch(d, &o);
    stk_tensor data = {.struct_size = sizeof data};
    const float *x = field_of(&b, "data", &data);
    for (int e = 0; e < 512; e++)
        assert_true(x[e] == (float)((e / 64 * 32 + e / 8 % 8) * 32 + e % 8 - 1) / 2);
    assert_int_equal(placed, 0);
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_transform),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
