/* SPDX-License-Identifier: Apache-2.0 */
/* Reads: how many requests they take, what is missing, deadlines, cancellation, memory. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/fetch.h"
#include "store/store.h"
#include "unit/array/faulty.h"

static stk_context *make_context(void)
{
    stk_context *ctx = test_context();
    stk_error err;

    faulty_reset();
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &faulty_ops, &err), &err);
    return ctx;
}

/* An array of 32 x 32 uint16, value = place, in chunks of 8 x 8. */
static void write_checked(stk_context *ctx, const char *url, const int64_t *shard,
                          const char *codec, bool checksum)
{
    static uint16_t values[32 * 32];
    int64_t shape[2] = {32, 32}, chunk[2] = {8, 8};
    stk_array_writer_options o;
    stk_array_writer *w = NULL;
    uint16_t fill = 9999;
    stk_error err;

    for (int i = 0; i < 32 * 32; i++)
        values[i] = (uint16_t)i;
    stk_array_writer_options_init(&o);
    o.dtype = STK_UINT16;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.shard_shape = shard;
    o.codec = codec;
    o.checksum = checksum;
    o.fill_value = &fill;
    assert_ok(stk_array_writer_create(ctx, url, &o, &w, &err), &err);
    assert_ok(stk_array_writer_write(w, NULL, NULL, values, &err), &err);
    assert_ok(stk_array_writer_finish(&w, &err), &err);
}

static void write_array(stk_context *ctx, const char *url, const int64_t *shard, const char *codec)
{
    write_checked(ctx, url, shard, codec, false);
}

static stk_array *open_array(stk_context *ctx, const char *url)
{
    stk_array *a = NULL;
    stk_error err;

    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    return a;
}

static void read_box(stk_array *a, int64_t y, int64_t x, int64_t h, int64_t w)
{
    static uint16_t out[32 * 32];
    int64_t start[2] = {y, x}, shape[2] = {h, w};
    stk_array_box box = {.start = start, .shape = shape};
    stk_error err;

    assert_ok(stk_array_read(a, &box, out, (uint64_t)(2 * h * w), NULL, -1, &err), &err);
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++)
            assert_int_equal(out[i * w + j], (y + i) * 32 + x + j);
}

static void expect(int reads, int stats)
{
    if (faulty.reads != reads || faulty.stats != stats)
        fail_msg("%d reads and %d stats instead of %d and %d", faulty.reads, faulty.stats, reads,
                 stats);
    faulty_reset();
}

static void test_requests(void **state)
{
    static const int64_t shard[2] = {16, 32};
    stk_context *ctx = make_context();

    write_array(ctx, "mem://r/plain", NULL, "zstd");
    write_array(ctx, "mem://r/none", NULL, "none");
    write_array(ctx, "mem://r/sharded", shard, "zstd");
    stk_array *a = open_array(ctx, "faulty://r/plain");
    faulty_reset();
    read_box(a, 0, 0, 32, 32); /* each chunk once */
    expect(16, 16);
    read_box(a, 7, 7, 2, 2); /* the corners of four */
    expect(4, 4);
    read_box(a, 8, 8, 8, 8);
    expect(1, 1);
    stk_array_close(&a);
    a = open_array(ctx, "faulty://r/none"); /* its sizes are known */
    faulty_reset();
    read_box(a, 0, 0, 32, 32);
    expect(16, 0);
    read_box(a, 9, 9, 2, 2);
    assert_int_equal(faulty.bytes,
                     2 * (8 + 2)); /* no more than from the first to the last element */
    expect(1, 0);
    stk_array_close(&a);
    a = open_array(ctx, "faulty://r/sharded");
    faulty_reset();
    read_box(a, 0, 0, 32, 32); /* two indexes, and the chunks of a shard together */
    expect(4, 2);
    read_box(a, 0, 0, 16, 32); /* the index is known */
    expect(1, 0);
    read_box(a, 0, 0, 8, 8);
    expect(1, 0);
    stk_array_close(&a);
    stk_context_destroy(&ctx);
}

static void test_missing(void **state)
{
    static const int64_t shard[2] = {16, 16};
    static const stk_status others[] = {STK_EACCES,     STK_ETIMEDOUT, STK_EIO,
                                        STK_ETRUNCATED, STK_ECANCELED, STK_ESYSTEM};
    static uint16_t out[32 * 32];
    stk_context *ctx = make_context();
    stk_store *store = NULL;
    stk_error err;

    write_array(ctx, "mem://m/plain", NULL, "zstd");
    write_array(ctx, "mem://m/none", NULL, "none");
    write_array(ctx, "mem://m/sharded", shard, "zstd");
    assert_ok(stk_store_open(ctx, "mem://m", &store, NULL, 0, &err), &err);
    assert_ok(store->ops->remove(store, "plain/c/1/1", &stk__store_call_none, &err), &err);
    assert_ok(store->ops->remove(store, "none/c/1/1", &stk__store_call_none, &err), &err);
    assert_ok(store->ops->remove(store, "sharded/c/0/0", &stk__store_call_none, &err), &err);
    static const char *const names[] = {"plain", "none", "sharded"};
    for (int i = 0; i < 3; i++) {
        char url[100];
        snprintf(url, sizeof url, "faulty://m/%s", names[i]);
        stk_array *a = open_array(ctx, url);
        assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
        assert_int_equal(out[8 * 32 + 8], 9999);
        assert_int_equal(out[31], 31);
        stk_array_close(&a);
        /* Whatever else goes wrong with any request is no fill value. */
        for (size_t s = 0; s < sizeof others / sizeof others[0]; s++)
            for (int n = 0;; n++) {
                a = open_array(ctx, url);
                faulty_reset();
                faulty.fail_at = n;
                faulty.for_ever = n == 0;
                faulty.fail_with = others[s];
                stk_status status = stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err);
                bool failed = atomic_load(&faulty.asked) > n;
                faulty_reset();
                stk_array_close(&a);
                if (!failed)
                    break;
                /* A read that failed once for a reason that may pass was tried again. */
                if (status == STK_OK && stk_status_fault(others[s]) == STK_FAULT_MACHINE)
                    continue;
                assert_int_equal(status, others[s]);
                assert_non_null(strstr(err.text, "c/"));
            }
        snprintf(url, sizeof url, "mem://m/%s?missing=error", names[i]);
        a = open_array(ctx, url);
        assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_ENOENT, &err,
                     "is missing");
        stk_array_close(&a);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* A read that fails in passing is tried again, one that fails for good is not. */
static void test_tried_again(void **state)
{
    static const stk_status statuses[] = {STK_EIO, STK_ETIMEDOUT, STK_EACCES, STK_ETRUNCATED};
    stk_context *ctx = make_context();
    stk_error err;

    write_array(ctx, "mem://again/plain", NULL, "none");
    for (size_t s = 0; s < sizeof statuses / sizeof *statuses; s++) {
        const bool passes = stk_status_fault(statuses[s]) == STK_FAULT_MACHINE;
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            stk_array *a = open_array(ctx, "faulty://again/plain");
            int64_t start[2] = {0, 0}, shape[2] = {8, 8};
            const stk_array_box box = {.start = start, .shape = shape};
            uint16_t out[64] = {0};
            faulty_reset();
            faulty.fail_at = 0;
            faulty.for_ever = for_ever;
            faulty.fail_with = statuses[s];
            const stk_status status = stk_array_read(a, &box, out, sizeof out, NULL, -1, &err);
            assert_int_equal(status, passes && !for_ever ? STK_OK : statuses[s]);
            assert_int_equal(atomic_load(&faulty.reads), !passes    ? 1
                                                         : for_ever ? 1 + STK__FETCH_RETRIES
                                                                    : 2);
            faulty_reset();
            stk_array_close(&a);
        }
    }
    stk_context_destroy(&ctx);
}

/* Shard indexes are kept as far as their memory goes, the last used ones. */
static void test_indexes_evicted(void **state)
{
    static const int64_t shard[2] = {16, 16};
    stk_context *ctx = make_context();

    write_array(ctx, "mem://e/sharded", shard, "zstd");
    stk_array *a = open_array(ctx, "faulty://e/sharded?index_cache=160");
    faulty_reset();
    read_box(a, 0, 0, 8, 8); /* the size of the shard, its index, a chunk */
    expect(2, 1);
    read_box(a, 0, 8, 8, 8);
    expect(1, 0);
    read_box(a, 16, 0, 8, 8);
    expect(2, 1);
    read_box(a, 16, 8, 8, 8); /* the one used last is kept */
    expect(1, 0);
    read_box(a, 0, 0, 8, 8); /* the other made room */
    expect(2, 1);
    stk_array_close(&a);
    stk_context_destroy(&ctx);
}

/* A shard that goes away after its index was read is an error, never fill values; also where the
 * whole of the array was read before, and with chunks that lie in one request. */
static void test_vanished(void **state)
{
    static const int64_t shard[2] = {16, 16};
    static uint16_t out[32 * 32];
    stk_context *ctx = make_context();
    stk_store *store = NULL;
    stk_error err;

    write_array(ctx, "mem://v/zstd", shard, "zstd");
    write_array(ctx, "mem://v/none", shard, "none");
    assert_ok(stk_store_open(ctx, "mem://v", &store, NULL, 0, &err), &err);
    for (int i = 0; i < 4; i++) {
        const char *name = i < 2 ? "zstd" : "none";
        char url[64], key[64];
        snprintf(url, sizeof url, "mem://v/%s", name);
        snprintf(key, sizeof key, "%s/c/%d/0", name, i % 2);
        stk_array *a = open_array(ctx, url);
        read_box(a, 16 * (i % 2), 0, 8, 8);
        assert_ok(store->ops->remove(store, key, &stk__store_call_none, &err), &err);
        int64_t start[2] = {16 * (i % 2), 0}, shape[2] = {16, 16};
        stk_array_box box = {.start = start, .shape = shape};
        assert_fails(stk_array_read(a, &box, out, 512, NULL, -1, &err), STK_ENOENT, &err, key + 5);
        stk_array_close(&a);
        a = open_array(ctx, url); /* who never saw it reads the fill value */
        assert_ok(stk_array_read(a, &box, out, 512, NULL, -1, &err), &err);
        assert_int_equal(out[0], 9999);
        stk_array_close(&a);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* What was damaged on the way is read once more: chunks and shard indexes. */
static void test_again(void **state)
{
    static const int64_t shard[2] = {16, 16};
    static uint16_t out[32 * 32];
    stk_context *ctx = make_context();
    stk_error err;

    write_checked(ctx, "mem://again/plain", NULL, "zstd", true);
    write_checked(ctx, "mem://again/sharded", shard, "zstd", true);
    static const char *const urls[] = {"faulty://again/plain", "faulty://again/sharded"};
    for (int i = 0; i < 2; i++) {
        int damaged = 0;
        for (int n = 0;; n++) {
            stk_array *a = open_array(ctx, urls[i]);
            faulty_reset();
            faulty.damage_at = n;
            assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
            bool was = atomic_load(&faulty.reads) > n;
            faulty_reset();
            for (int k = 0; k < 32 * 32; k++)
                assert_int_equal(out[k], k);
            stk_array_close(&a);
            if (!was)
                break;
            damaged++;
        }
        assert_true(damaged > (i ? 7 : 15)); /* 16 chunks; 4 indexes, and chunks */
    }
    stk_context_destroy(&ctx);
}

static void *cancel_soon(void *argument)
{
    while (atomic_load(&faulty.reads) == 0)
        sched_yield();
    stk_array_cancel(argument);
    return NULL;
}

static void test_waiting(void **state)
{
    static uint16_t out[32 * 32];
    stk_context *ctx = make_context();
    pthread_t thread;
    stk_error err;

    write_array(ctx, "mem://w/none", NULL, "none");
    stk_array *a = open_array(ctx, "faulty://w/none?num_threads=2");
    faulty_reset();
    faulty.hold = true;
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, 20, &err), STK_ETIMEDOUT, &err,
                 "longer");
    faulty_reset();
    faulty.hold = true;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, a), 0);
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_ECANCELED, &err,
                 "canceled");
    pthread_join(thread, NULL);
    faulty_reset();
    read_box(a, 0, 0, 32, 32); /* and it can be read again */
    stk_array_close(&a);
    stk_context_destroy(&ctx);
}

static void test_limits(void **state)
{
    static uint16_t out[32 * 32];
    int64_t start[2] = {0, 30}, shape[2] = {32, 3}, step[2] = {1, 0}, strides[2] = {64, 2};
    stk_context *ctx = make_context();
    stk_error err;

    write_array(ctx, "mem://l/a", NULL, "zstd");
    stk_array *a = open_array(ctx, "mem://l/a?memory=100");
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_EBUDGET, &err,
                 "128 bytes");
    stk_array_close(&a);
    /* What it takes to check a shard index counts: of 4 chunks in one, each of 128 bytes. */
    static const int64_t shard[2] = {16, 16};
    write_array(ctx, "mem://l/s", shard, "zstd");
    a = open_array(ctx, "mem://l/s?memory=500");
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_EBUDGET, &err,
                 "does not fit the memory of 500");
    stk_array_close(&a);
    a = open_array(ctx, "mem://l/a?memory=300");
    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    stk_array_box box = {.start = start, .shape = shape};
    assert_fails(stk_array_read(a, &box, out, 192, NULL, -1, &err), STK_EINVAL, &err,
                 "at most 2 are left");
    box = (stk_array_box){.step = step};
    assert_fails(stk_array_read(a, &box, out, 2048, NULL, -1, &err), STK_EINVAL, &err,
                 "steps of 0");
    assert_fails(stk_array_read(a, NULL, out, 2046, NULL, -1, &err), STK_EINVAL, &err,
                 "2048 bytes");
    assert_fails(stk_array_read(a, NULL, out, 2046, strides, -1, &err), STK_EINVAL, &err,
                 "reach beyond");
    strides[0] = -64;
    assert_fails(stk_array_read(a, NULL, out, 2048, strides, -1, &err), STK_EINVAL, &err,
                 "reach beyond");
    stk_array_close(&a);
    assert_fails(stk_array_open(ctx, "mem://l/a?dtype=uint8", NULL, &a, &err), STK_EINVAL, &err,
                 "format=raw");
    assert_fails(stk_array_open(ctx, "mem://l", NULL, &a, &err), STK_EFORMAT, &err,
                 "holds no array");
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_vanished),        cmocka_unit_test(test_tried_again),
        cmocka_unit_test(test_indexes_evicted), cmocka_unit_test(test_again),
        cmocka_unit_test(test_waiting),         cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
