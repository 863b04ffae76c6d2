/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of samples of like length: exactly once, the same for any ranks and after any stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/support.h"
#include "support/tars.h"

enum { SAMPLES = 403, GLOBAL = 12, WINDOW = 5 };

static char folder[256], spec[400];

/* Length of the text of a sample: of no order, some of them equal. */
static uint64_t length_of(uint64_t index)
{
    return 1 + index * index * 7919 % 211;
}

static void write_shards(void)
{
    char name[128], text[256];

    memset(text, 'x', sizeof text);
    for (int shard = 0; shard < 3; shard++) {
        tar_bytes t = {NULL, 0};
        for (uint64_t i = (uint64_t)shard * 140; i < SAMPLES && i < (uint64_t)(shard + 1) * 140;
             i++) {
            snprintf(name, sizeof name, "%06d.txt", (int)i);
            tar_file(&t, name, text, length_of(i));
        }
        tar_end(&t);
        snprintf(name, sizeof name, "%d.tar", shard);
        test_write(folder, name, t.data, t.size);
        free(t.data);
    }
}

static stk_loader_options options(int shuffle, uint64_t window)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.global_batch_size = GLOBAL;
    o.shuffle = shuffle;
    o.block_size = 10;
    o.streams = 3;
    o.seed = 5;
    o.num_workers = 1;
    o.memory_budget = 64 << 20;
    o.bucket_window = window;
    return o;
}

static stk_dataset *open_shards(stk_context *ctx)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    assert_int_equal(d ? 1 : 0, 1);
    return d;
}

static stk_loader *open_one(stk_dataset *d, const stk_loader_options *o)
{
    stk_loader *loader;
    stk_error err;

    assert_ok(stk_loader_create(d, o, &loader, &err), &err);
    return loader;
}

/* Take up to `steps` steps of a rank; `order` gets the index at each position. Returns the steps.
 */
static uint64_t take(stk_loader *loader, uint64_t steps, uint64_t *order, stk_loader_state *state)
{
    stk_batch *batch;
    stk_error err;
    uint64_t n = 0;

    while (n < steps) {
        const stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            break;
        assert_ok(status, &err);
        stk_tensor index = {.struct_size = sizeof index}, text = index;
        assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
        assert_int_equal(stk_batch_find(batch, "txt", &text), STK_OK);
        for (uint64_t r = 0; r < stk_batch_count(batch); r++) {
            const uint64_t i = ((uint64_t *)index.data)[r], p = stk_batch_positions(batch)[r];
            assert_int_equal(text.offsets[r + 1] - text.offsets[r], length_of(i));
            assert_int_equal(order[p], UINT64_MAX);
            order[p] = i;
        }
        if (state)
            stk_batch_get_state(batch, state);
        stk_batch_release(&batch);
        n++;
    }
    return n;
}

/* The order of an epoch, of one rank after the other. */
static void take_epoch(stk_context *ctx, stk_loader_options o, uint64_t epoch, uint64_t world,
                       uint64_t *order)
{
    stk_dataset *d = open_shards(ctx);
    stk_error err;

    memset(order, 0xff, SAMPLES * sizeof *order);
    o.world_size = world;
    for (o.rank = 0; o.rank < world; o.rank++) {
        stk_loader *loader = open_one(d, &o);
        assert_ok(stk_loader_set_epoch(loader, epoch, &err), &err);
        take(loader, UINT64_MAX, order, NULL);
        stk_loader_destroy(&loader);
    }
    stk_dataset_close(&d);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The samples of some positions, sorted by length, then by where they stood. */
static void sort_by_length(const uint64_t *from, uint64_t *to, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = i;
        for (; k && length_of(to[k - 1]) > length_of(from[i]); k--)
            to[k] = to[k - 1];
        to[k] = from[i];
    }
}

/* Each window has the samples of the order without; sorted and cut, each piece is one batch. */
static void check_windows(const uint64_t *plain, const uint64_t *got, uint64_t n, bool shuffled)
{
    uint64_t moved = 0;

    for (uint64_t first = 0; first < n; first += WINDOW * GLOBAL) {
        const uint64_t count = STK_MIN(n - first, (uint64_t)WINDOW * GLOBAL),
                       whole = count / GLOBAL;
        uint64_t sorted[WINDOW * GLOBAL];
        bool used[WINDOW + 1] = {false};
        sort_by_length(plain + first, sorted, count);
        for (uint64_t b = 0; b < whole; b++) {
            uint64_t k = 0;
            while (k < whole &&
                   memcmp(sorted + k * GLOBAL, got + first + b * GLOBAL, GLOBAL * sizeof *got) != 0)
                k++;
            assert_in_range(k, 0, whole - 1);
            assert_false(used[k]);
            used[k] = true;
            moved += k != b;
        }
        assert_memory_equal(sorted + whole * GLOBAL, got + first + whole * GLOBAL,
                            (count - whole * GLOBAL) * sizeof *got);
    }
    assert_int_equal(moved > 0, shuffled);
}

static void test_windows(void **state)
{
    static uint64_t plain[SAMPLES], got[SAMPLES], before[SAMPLES];

    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            take_epoch(*state, options(shuffle, 0), epoch, 1, plain);
            take_epoch(*state, options(shuffle, WINDOW), epoch, 1, got);
            check_windows(plain, got, SAMPLES, shuffle != STK_SHUFFLE_NONE);
            if (epoch)
                assert_int_equal(memcmp(before, got, sizeof got) == 0, shuffle == STK_SHUFFLE_NONE);
            memcpy(before, got, sizeof got);
        }
}

/* What drop_last leaves out is what it leaves out anyway, and not the longest. */
static void test_drop_last(void **state)
{
    static uint64_t plain[SAMPLES], got[SAMPLES];
    stk_loader_options o = options(STK_SHUFFLE_FULL, 0);

    o.drop_last = true;
    take_epoch(*state, o, 1, 1, plain);
    o.bucket_window = WINDOW;
    take_epoch(*state, o, 1, 1, got);
    check_windows(plain, got, SAMPLES / GLOBAL * GLOBAL, true);
    for (uint64_t p = SAMPLES / GLOBAL * GLOBAL; p < SAMPLES; p++)
        assert_int_equal(got[p], UINT64_MAX);
}

static void test_once(void **state)
{
    static uint64_t one[SAMPLES], got[SAMPLES];

    for (int shuffle = STK_SHUFFLE_FULL; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        take_epoch(*state, options(shuffle, WINDOW), 2, 1, one);
        for (uint64_t world = 1; world <= 8; world++) {
            take_epoch(*state, options(shuffle, WINDOW), 2, world, got);
            assert_memory_equal(one, got, sizeof got);
        }
        qsort(got, SAMPLES, sizeof *got, by_number);
        for (uint64_t i = 0; i < SAMPLES; i++)
            assert_int_equal(got[i], i);
    }
}

/* Stopped behind any step and gone on with by other ranks and workers. */
static void test_resumed(void **state)
{
    static uint64_t one[SAMPLES], got[SAMPLES];
    stk_loader_options o = options(STK_SHUFFLE_FULL, WINDOW);
    stk_dataset *d = open_shards(*state);
    stk_error err;

    take_epoch(*state, o, 0, 1, one);
    for (uint64_t stop = 1; stop < SAMPLES / GLOBAL; stop += 4) {
        stk_loader_state saved;
        memset(got, 0xff, sizeof got);
        o.rank = 0;
        o.world_size = 1;
        stk_loader *loader = open_one(d, &o);
        assert_int_equal(take(loader, stop, got, &saved), stop);
        stk_loader_destroy(&loader);
        o.world_size = 1 + stop % 8;
        for (o.rank = 0; o.rank < o.world_size; o.rank++) {
            o.num_workers = (int64_t)(stop % 3);
            loader = open_one(d, &o);
            assert_ok(stk_loader_restore(loader, &saved, &err), &err);
            take(loader, UINT64_MAX, got, NULL);
            stk_loader_destroy(&loader);
        }
        assert_memory_equal(one, got, sizeof got);
    }
    stk_dataset_close(&d);
}

static double padding_of(const uint64_t *order, uint64_t n)
{
    double room = 0, bytes = 0;

    for (uint64_t first = 0; first < n; first += GLOBAL) {
        uint64_t most = 0, count = STK_MIN(n - first, (uint64_t)GLOBAL);
        for (uint64_t i = 0; i < count; i++) {
            most = STK_MAX(most, length_of(order[first + i]));
            bytes += (double)length_of(order[first + i]);
        }
        room += (double)(most * count);
    }
    return 1 - bytes / room;
}

/* What is said of the first window is so, and sorting helps. */
static void test_padding(void **state)
{
    static uint64_t plain[SAMPLES], got[SAMPLES];
    stk_loader_options o = options(STK_SHUFFLE_FULL, WINDOW);
    stk_loader_description about = {.struct_size = sizeof about};
    stk_dataset *d = open_shards(*state);
    stk_error err;

    take_epoch(*state, options(STK_SHUFFLE_FULL, 0), 0, 1, plain);
    take_epoch(*state, o, 0, 1, got);
    assert_ok(stk_loader_describe(d, &o, &about, NULL, 0, &err), &err);
    assert_float_equal(about.padding, padding_of(got, WINDOW * GLOBAL), 1e-9);
    assert_float_equal(about.padding_without, padding_of(plain, WINDOW * GLOBAL), 1e-9);
    assert_true(padding_of(plain, SAMPLES) > 0.4);
    assert_true(padding_of(got, SAMPLES) < 0.2);
    o.bucket_window = 1000; /* all of the epoch: the lengths of a batch are neighbours */
    take_epoch(*state, o, 0, 1, got);
    assert_true(padding_of(got, SAMPLES) < 0.05);
    o.bucket_window = 0;
    assert_ok(stk_loader_describe(d, &o, &about, NULL, 0, &err), &err);
    assert_true(about.padding == 0 && about.padding_without == 0);
    stk_dataset_close(&d);
}

static void test_refused(void **state)
{
    stk_loader_options o = options(STK_SHUFFLE_FULL, WINDOW);
    stk_loader_state saved;
    stk_dataset *d = NULL;
    stk_loader *loader;
    stk_error err;

    assert_ok(stk_dataset_open(*state, "digits:?size=100", &d, &err), &err);
    assert_fails(stk_loader_create(d, &o, &loader, &err), STK_EINVAL, &err, "bucket_window=5");
    stk_dataset_close(&d);
    d = open_shards(*state);
    loader = open_one(d, &o);
    stk_loader_get_state(loader, &saved);
    stk_loader_destroy(&loader);
    o.bucket_window = 6;
    loader = open_one(d, &o);
    assert_fails(stk_loader_restore(loader, &saved, &err), STK_EMISMATCH, &err,
                 "bucket_window 5, the loader has 6");
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
}

static int open_folder(void **state)
{
    snprintf(spec, sizeof spec, "webdataset:%s/{0..2}.tar?index=none", test_folder(folder));
    write_shards();
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
        cmocka_unit_test(test_windows), cmocka_unit_test(test_drop_last),
        cmocka_unit_test(test_once),    cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_padding), cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
