/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What samples share is read and decoded once: counted. And what cannot be read or decoded is a bad
 * sample named by object and offset, never fill value.
 */
#include <stdlib.h>

#include "unit/array/faulty.h"
#include "unit/dataset/windows.h"

/* Chunks that blocks of windows touch, each block's counted once: along each dimension the sum over
 * its blocks of the chunks from the first element to the last; then the product. */
static uint64_t chunks_of_blocks(const stk__window *w)
{
    uint64_t product = 1;

    for (uint32_t d = 0; d < w->num_dims; d++) {
        const stk__window_dim *dim = &w->dims[d];
        uint64_t sum = 0;
        for (uint64_t b = 0; b < dim->n; b += dim->k) {
            uint64_t end = b + dim->k < dim->n ? b + dim->k : dim->n;
            int64_t first = dim->begin + (int64_t)b * dim->stride;
            int64_t last = dim->begin + (int64_t)(end - 1) * dim->stride + dim->window - 1;
            sum += (uint64_t)(last / dim->chunk - first / dim->chunk + 1);
        }
        product *= sum;
    }
    return product;
}

static const made large = {.dtype = STK_FLOAT32, .shape = {32, 32, 32}, .chunk = {8, 8, 8}};

static void test_aligned_blocks(void **state)
{
    static const char *const specs[] = {"array:mem://a?window=2x8x8", "array:mem://a?window=4x4x4",
                                        "array:mem://a?window=8x8x8"};
    stk_context *ctx = test_context();
    uint64_t samples;

    (void)state;
    make_array(ctx, "mem://a", &large);
    for (int shuffle = 0; shuffle < 3; shuffle++)
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
            stk_dataset *d = open_windows(ctx, specs[i]);
            stk_loader_options o = window_options();
            stk_loader *loader;
            stk_error err;
            o.shuffle = STK_SHUFFLE_BLOCK;
            o.num_workers = (shuffle + 2) % 3; /* also in the thread of the caller */
            o.streams = shuffle == 0 ? 1 : 4;
            o.shuffle_buffer = shuffle == 2 ? 4 : 1;
            o.epochs = 2;
            o.persistent_workers = false; /* an epoch's figures are its own */
            assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
            for (uint64_t e = 1; e <= 2; e++) {
                stk_loader_stats s = epoch(loader, &samples);
                assert_int_equal(samples, d->size);
                assert_int_equal(s.chunks_decoded, e * 64);
                assert_int_equal(s.chunk_bytes_decoded, e * 32 * 32 * 32 * 4);
                assert_int_equal(s.requests, e * 64);
                assert_int_equal(s.chunks_needed, e * d->size);
            }
            stk_loader_destroy(&loader);
            stk_dataset_close(&d);
        }
    stk_context_destroy(&ctx);
}

static void test_overlapping_blocks(void **state)
{
    static const char *const specs[] = {
        "array:mem://a?window=4x8x8&stride=2x8x8&range=time:0:26", /* 12 along time, 4 a block */
        "array:mem://a?window=8x32x32&stride=4x32x32&range=time:0:20",
        "array:mem://a?window=3x8x8&stride=2x4x8&range=time:0:17",
        "array:mem://a?window=8x8x8&stride=4x4x4"};
    stk_context *ctx = test_context();
    uint64_t samples;

    (void)state;
    make_array(ctx, "mem://a", &large);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        stk_dataset *d = open_windows(ctx, specs[i]);
        const stk__window *w = (const stk__window *)d;
        stk_loader_options o = window_options();
        stk_loader *loader;
        stk_error err;
        o.shuffle = STK_SHUFFLE_BLOCK;
        o.streams = 1;
        o.shuffle_buffer = 1;
        o.batch_size = 4;
        for (uint32_t k = 1; k < 3; k++) /* all but the last are whole: the order's own */
            assert_int_equal(w->dims[k].n % w->dims[k].k, 0);
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        stk_loader_stats s = epoch(loader, &samples);
        assert_int_equal(samples, d->size);
        assert_true(s.chunks_decoded <= chunks_of_blocks(w));
        assert_true(s.chunks_decoded < s.chunks_needed);
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* Everything fits the horizon: whatever the order, each chunk is decoded once; requests are those
 * that neighbouring ranges have to be. */
static void test_once_per_horizon(void **state)
{
    made sharded = large;
    stk_context *ctx = test_context();
    uint64_t samples;

    (void)state;
    make_array(ctx, "mem://a", &large);
    sharded.shard[0] = sharded.shard[1] = sharded.shard[2] = 16;
    make_array(ctx, "mem://s", &sharded);
    for (int i = 0; i < 2; i++) {
        stk_dataset *d = open_windows(ctx, i ? "array:mem://s?window=8x8x8&stride=8x4x8"
                                             : "array:mem://a?window=8x8x8&stride=8x4x8");
        stk_loader_options o = window_options();
        stk_loader *loader;
        stk_error err;
        o.shuffle = STK_SHUFFLE_FULL;
        o.batch_size = 128; /* all 112 windows */
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        stk_loader_stats s = epoch(loader, &samples);
        assert_int_equal(samples, 112);
        assert_int_equal(s.chunks_decoded, 64);
        assert_true(s.requests <= (i ? 8 : 64)); /* a shard's chunks follow each other */
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

static void test_caches(void **state)
{
    static const char *const urls[] = {"mem://a", "mem://s", "mem://u", "mem://gap"};
    made other = large;
    stk_context *ctx = test_context();
    uint64_t samples;
    stk_store *store;
    stk_error err;

    (void)state;
    make_array(ctx, "mem://a", &large);
    other.codec = "none";
    make_array(ctx, "mem://u", &other);
    make_array(ctx, "mem://gap", &other);
    assert_ok(stk_store_open(ctx, "mem://gap", &store, NULL, 0, &err), &err);
    assert_ok(store->ops->remove(store, "c/1/1/1", &stk__store_call_none, &err), &err);
    stk_store_close(&store);
    other.shard[0] = other.shard[1] = other.shard[2] = 16;
    other.codec = "gzip";
    make_array(ctx, "mem://s", &other);
    for (int u = 0; u < 4; u++)
        for (int cache = STK_CACHE_ENCODED; cache <= STK_CACHE_DECODED; cache++) {
            char spec[128];
            /* Of chunks that are not encoded the very ranges are kept. */
            snprintf(spec, sizeof spec, "array:%s?window=8x8x8%s", urls[u],
                     u < 2 ? "&stride=8x4x8" : "");
            stk_dataset *d = open_windows(ctx, spec);
            stk_loader_options o = window_options();
            stk_loader *loader;
            o.shuffle = STK_SHUFFLE_FULL;
            o.cache = cache;
            o.epochs = 3;
            o.persistent_workers = false;
            o.num_workers = u % 3;
            assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
            stk_loader_stats first = epoch(loader, &samples), second = epoch(loader, &samples);
            assert_int_equal(samples, d->size);
            /* What is in memory as it is needs no reads. */
            assert_true(first.requests > 0 || u >= 2);
            assert_int_equal(second.requests, first.requests);
            if (cache == STK_CACHE_DECODED)
                assert_int_equal(second.chunks_decoded, first.chunks_decoded);
            else if (u < 2)
                assert_true(second.chunks_decoded > first.chunks_decoded);
            stk_loader_destroy(&loader);
            stk_dataset_close(&d);
        }
    stk_context_destroy(&ctx);
}

/* ---- Bad input ---- */

static void test_missing_chunks(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store;
    stk_tensor data = {.struct_size = sizeof data};
    stk_dataset *d;
    stk_error err;

    (void)state;
    make_array(ctx, "mem://a", &large);
    assert_ok(stk_store_open(ctx, "mem://a", &store, NULL, 0, &err), &err);
    assert_ok(store->ops->remove(store, "c/0/0/1", &stk__store_call_none, &err), &err);
    d = open_windows(ctx, "array:mem://a?window=8x8x8");
    delivery b = first_batch(d, NULL);
    const float *x = field_of(&b, "data", &data);
    for (int i = 0; i < 8 * 512; i++)
        assert_true((x[i] == -1) == (i / 512 == 1));
    close_batch(&b);
    /* One that goes after the array was opened is no fill value. */
    assert_ok(store->ops->remove(store, "c/0/0/2", &stk__store_call_none, &err), &err);
    stk_loader_options o = window_options();
    stk_loader *loader;
    stk_batch *batch;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    assert_fails(stk_loader_next(loader, 30000, &batch, &err), STK_ENOENT, &err, "c/0/0/2");
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    assert_fails(stk_dataset_open(ctx, "array:mem://a?window=8x8x8&missing=error", &d, &err),
                 STK_ENOENT, &err, "c/0/0/1");
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Failures of a store are failures of the samples, or of opening; none is ever fill value. */
static void test_failures_are_not_fill(void **state)
{
    static const stk_status statuses[] = {STK_EACCES, STK_EIO, STK_ETIMEDOUT, STK_ETRUNCATED};
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    (void)state;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &faulty_ops, &err), &err);
    make_array(ctx, "mem://f", &large);
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        faulty_reset();
        d = open_windows(ctx, "array:faulty://f?window=8x8x8");
        int asked = atomic_load(&faulty.asked);
        for (int mode = 0; mode < 2; mode++) {
            stk_loader_options o = window_options();
            o.retries = 0;
            o.batch_size = 64;
            o.on_error = mode ? STK_ON_ERROR_SKIP : STK_ON_ERROR_FAIL;
            faulty.fail_at = atomic_load(&faulty.asked) + 5;
            faulty.fail_with = statuses[i];
            assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
            stk_status status = stk_loader_next(loader, 30000, &batch, &err);
            if (mode && stk_status_fault(statuses[i]) == STK_FAULT_SAMPLE) {
                assert_ok(status, &err);
                assert_int_equal(stk_batch_count(batch), 63);
                stk_batch_release(&batch);
            } else {
                assert_fails(status, statuses[i], &err, "c/");
            }
            stk_loader_destroy(&loader);
        }
        stk_dataset_close(&d);
        /* The size of a chunk that cannot be asked for: */
        faulty_reset();
        faulty.fail_at = asked - 3;
        faulty.fail_with = statuses[i];
        assert_fails(stk_dataset_open(ctx, "array:faulty://f?window=8x8x8", &d, &err), statuses[i],
                     &err, "was made to fail");
    }
    faulty_reset();
    stk_context_destroy(&ctx);
}

/* Flip bits in the middle of an object of a mem: store. */
static void damage(stk_context *ctx, const char *url, const char *key, uint64_t at)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store;
    stk_error err;

    assert_ok(stk_store_open(ctx, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    unsigned char *bytes = malloc(info.size);
    assert_non_null(bytes);
    assert_ok(stk_store_read(store, key, 0, info.size, bytes, &err), &err);
    assert_true(at + 4 < info.size);
    memset(bytes + at, 0xa5, 4);
    assert_ok(stk_store_put(store, key, bytes, info.size, NULL, &err), &err);
    free(bytes);
    stk_store_close(&store);
}

/* Objects of no bytes, and of too few. */
static void test_short_chunks(void **state)
{
    static const char *const codecs[] = {"zstd", "none"};
    made a = large;
    stk_context *ctx = test_context();
    stk_loader_options o = window_options();
    stk_store *store;
    stk_error err;

    (void)state;
    o.batch_size = 64;
    for (int c = 0; c < 2; c++)
        for (size_t size = 0; size < 8; size += 7) {
            stk_loader *loader;
            stk_batch *batch;
            a.codec = codecs[c];
            char url[32], spec[80];
            snprintf(url, sizeof url, "mem://e%d%d", c, (int)size);
            snprintf(spec, sizeof spec, "array:%s?window=8x8x8", url);
            make_array(ctx, url, &a);
            assert_ok(stk_store_open(ctx, url, &store, NULL, 0, &err), &err);
            assert_ok(stk_store_put(store, "c/1/0/1", "(\xb5/\xfd`\0\5", size, NULL, &err), &err);
            stk_store_close(&store);
            stk_dataset *d = open_windows(ctx, spec);
            assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
            assert_fails(stk_loader_next(loader, 30000, &batch, &err), STK_ETRUNCATED, &err,
                         "c/1/0/1");
            stk_loader_destroy(&loader);
            stk_dataset_close(&d);
        }
    stk_context_destroy(&ctx);
}

static void test_damaged_chunks(void **state)
{
    made sharded = large;
    stk_context *ctx = test_context();
    stk_loader *loader;
    stk_batch *batch;
    stk_dataset *d;
    stk_error err;

    (void)state;
    make_array(ctx, "mem://a", &large);
    sharded.shard[0] = sharded.shard[1] = sharded.shard[2] = 16;
    make_array(ctx, "mem://s", &sharded);
    damage(ctx, "mem://a", "c/2/1/0", 0); /* no zstd frame any more */
    for (int sh = 0; sh < 2; sh++) {
        d = open_windows(ctx, sh ? "array:mem://s?window=8x8x8" : "array:mem://a?window=8x8x8");
        const stk__window *w = (const stk__window *)d;
        /* Of the shard the chunk that lies last. */
        uint64_t offset = 0, victim = 0;
        if (sh) {
            for (uint64_t i = 0; i < w->variables[0].num_chunks; i++)
                if (w->variables[0].offsets[i] > offset) {
                    offset = w->variables[0].offsets[i];
                    victim = i;
                }
            char key[64];
            snprintf(key, sizeof key, "c/%d/%d/%d", (int)(victim / 32), (int)(victim / 8 % 2),
                     (int)(victim / 2 % 2));
            damage(ctx, "mem://s", key, offset);
        }
        stk_loader_options o = window_options();
        o.batch_size = 64;
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        assert_fails(stk_loader_next(loader, 30000, &batch, &err), STK_EFORMAT, &err,
                     sh ? "zstd" : "c/2/1/0");
        assert_int_equal(err.offset, offset);
        assert_true(err.stage == STK_STAGE_CODEC);
        stk_loader_destroy(&loader);
        for (int mode = STK_ON_ERROR_SKIP; mode <= STK_ON_ERROR_REPLACE; mode++) {
            o.on_error = mode;
            delivery b = first_batch(d, &o);
            assert_int_equal(stk_batch_count(b.batch), mode == STK_ON_ERROR_SKIP ? 63 : 64);
            close_batch(&b);
        }
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* A store that gives the first `flips` reads of each chunk with a byte turned over. */
static int flips;
static atomic_int times[64];

typedef struct turned {
    stk_read inner, *outer;
} turned;

static void turn(stk_read *inner, stk_status status)
{
    turned *own = inner->user;
    stk_read *outer = own->outer;
    int t = 0, y = 0, x = 0;
    if (status == STK_OK && sscanf(outer->key, "c/%d/%d/%d", &t, &y, &x) == 3 &&
        atomic_fetch_add(&times[t * 16 + y * 4 + x], 1) < flips)
        ((unsigned char *)outer->data)[outer->length / 2] ^= 0x40;
    free(own);
    outer->done(outer, status);
}

static stk_status turning_submit(stk_store *store, stk_read *read)
{
    stk_store *inner = ((faulty_store *)store)->inner;
    turned *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->inner = *read;
    t->inner.done = turn;
    t->inner.user = t;
    t->outer = read;
    return inner->ops->submit(inner, &t->inner);
}

static const stk_store_ops turning_ops;

static stk_status turning_open(stk_context *ctx, const char *url, const void *options,
                               stk_store **out, stk_error *err)
{
    (void)url;
    stk_status status = faulty_open(ctx, "faulty://k", options, out, err);
    if (status == STK_OK)
        (*out)->ops = &turning_ops;
    return status;
}

static const stk_store_ops turning_ops = {.struct_size = sizeof turning_ops,
                                          .name = "turning",
                                          .open = turning_open,
                                          .close = faulty_close,
                                          .submit = turning_submit,
                                          .cancel = faulty_cancel,
                                          .stat = faulty_stat};

/* A checksum that does not match is read once more from the store; only then it is damage. */
static void test_checksums(void **state)
{
    const int64_t start[3] = {0};
    const stk_array_writer_options w = {.struct_size = sizeof w,
                                        .dtype = STK_FLOAT32,
                                        .rank = 3,
                                        .shape = large.shape,
                                        .chunk_shape = large.chunk,
                                        .codec = "zstd",
                                        .level = STK_AUTO,
                                        .checksum = true};
    static float values[32 * 32 * 32];
    stk_context *ctx = test_context();
    stk_array_writer *writer;
    stk_tensor data = {.struct_size = sizeof data};
    stk_error err;

    (void)state;
    faulty_reset();
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &turning_ops, &err), &err);
    for (int i = 0; i < 32 * 32 * 32; i++)
        values[i] = (float)i;
    assert_ok(stk_array_writer_create(ctx, "mem://k", &w, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, large.shape, values, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    for (int workers = 0; workers < 3; workers++) {
        stk_dataset *d = open_windows(ctx, "array:turning://k?window=8x32x32");
        stk_loader_options o = window_options();
        stk_loader *loader;
        stk_batch *batch;
        o.num_workers = workers;
        o.batch_size = 4;
        flips = 1;
        memset(times, 0, sizeof times);
        delivery b = first_batch(d, &o);
        assert_memory_equal(field_of(&b, "data", &data), values, sizeof values);
        close_batch(&b);
        flips = 1000;
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        assert_fails(stk_loader_next(loader, 30000, &batch, &err), STK_ECHECKSUM, &err, "c/");
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* Where the chunk of each window is too large nothing begins, and the budget wanted is named. */
static void test_budget(void **state)
{
    const made huge = {.dtype = STK_FLOAT32, .shape = {64, 256, 256}, .chunk = {64, 256, 256}};
    stk_context *ctx = test_context();
    stk_loader_options o = window_options();
    stk_loader *loader;
    stk_error err;

    (void)state;
    make_array(ctx, "mem://b", &huge); /* 16 MiB decoded */
    stk_dataset *d = open_windows(ctx, "array:mem://b?window=1x16x16");
    o.memory_budget = 8 << 20;
    assert_fails(stk_loader_create(d, &o, &loader, &err), STK_EBUDGET, &err, "for one sample need");
    o.memory_budget = 48 << 20;
    delivery b = first_batch(d, &o);
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_loader_get_stats(b.loader, &stats);
    assert_true(stats.memory_peak <= 48 << 20);
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* Everything that is held for windows that need many chunks, records of planning and codecs
 * included, keeps to the budget. */
static void test_memory(void **state)
{
    static const char *const specs[] = {"array:mem://a?window=12x12x12&stride=1x1x1",
                                        "array:mem://a?window=8x8x8&stride=1x1x1&nan=mask",
                                        "array:mem://a?window=32x32x32&stride=1x1x1"};
    stk_context *ctx = test_context();

    (void)state;
    make_array(ctx, "mem://a", &large);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int shuffle = 0; shuffle < 3; shuffle++) {
            stk_dataset *d = open_windows(ctx, specs[i]);
            stk_memory_stats memory = {.struct_size = sizeof memory};
            stk_loader_options o = window_options();
            stk_loader *loader;
            stk_batch *batch;
            stk_error err;
            stk_context_memory(ctx, &memory);
            const uint64_t before = memory.bytes;
            o.shuffle = shuffle;
            o.num_workers = 2;
            o.memory_budget = 12 << 20;
            assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
            for (int n = 0; n < 40; n++) {
                stk_status status = stk_loader_next(loader, 30000, &batch, &err);
                if (status == STK_EOS)
                    continue;
                assert_ok(status, &err);
                stk_batch_release(&batch);
                stk_context_memory(ctx, &memory);
                assert_true(memory.bytes - before <= o.memory_budget);
            }
            stk_loader_destroy(&loader);
            stk_dataset_close(&d);
        }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned_blocks),   cmocka_unit_test(test_overlapping_blocks),
        cmocka_unit_test(test_once_per_horizon), cmocka_unit_test(test_caches),

        cmocka_unit_test(test_missing_chunks),   cmocka_unit_test(test_failures_are_not_fill),
        cmocka_unit_test(test_damaged_chunks),   cmocka_unit_test(test_budget),
        cmocka_unit_test(test_checksums),        cmocka_unit_test(test_short_chunks),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
