/* SPDX-License-Identifier: Apache-2.0 */
/* Budget, caches, time, cancel: what bounds a loader. */
#include <pthread.h>

#include "unit/loader/run.h"

static void holding_every_batch_is_busy(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 1000});

    for (int64_t workers = 0; workers < 3; workers++) {
        stk_loader_options o = base_options();
        stk_batch *held[16] = {0};
        stk_error err;
        int n = 0;
        o.num_workers = workers;
        o.prefetch_factor = 2;
        stk_loader *loader = open_loader(dataset, &o);
        stk_status status;
        while (n < 16 && (status = stk_loader_next(loader, -1, &held[n], &err)) == STK_OK)
            n++;
        assert_int_equal(status, STK_EBUSY);
        assert_int_equal(n, workers ? 2 * workers + 1 : 2);
        stk_batch_release(&held[0]);
        assert_ok(stk_loader_next(loader, -1, &held[0], &err), &err);
        /* Batches outlive the loader, and are released by whoever has them. */
        stk_loader_destroy(&loader);
        for (int i = 0; i < n; i++) {
            counting_check(held[i], false);
            stk_batch_release(&held[i]);
        }
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Who keeps every batch takes them from the loader, which goes on with new memory. */
static void detached_batches_are_kept(void **state)
{
    enum { STEPS = 1000 / 16 + 1 };
    stk_context *ctx = test_context();

    for (int64_t workers = 0; workers < 3; workers++) {
        for (int ragged = 0; ragged < 2; ragged++) {
            stk_dataset *dataset =
                counting_open(ctx, &(counting_options){.size = 1000, .ragged = ragged});
            stk_loader_options o = base_options();
            stk_batch *kept[STEPS + 1]; /* and what the end gives */
            void *data[STEPS];
            stk_tensor index = {.struct_size = sizeof index};
            stk_error err;
            int n = 0, detached = 0;
            o.num_workers = workers;
            o.epochs = 1;
            stk_loader *loader = open_loader(dataset, &o);
            for (;;) {
                stk_status status = stk_loader_next(loader, -1, &kept[n], &err);
                if (status == STK_EOS)
                    break;
                if (status == STK_EBUSY) {
                    assert_true(detached < n);
                    assert_ok(stk_batch_detach(&kept[detached++], &err), &err);
                    continue;
                }
                assert_ok(status, &err);
                assert_int_equal(stk_batch_find(kept[n], "index", &index), STK_OK);
                data[n++] = index.data;
            }
            assert_int_equal(n, STEPS);
            assert_true(detached > STEPS / 2);
            assert_ok(stk_batch_detach(&kept[0], &err), &err); /* again: nothing to do */
            stk_batch_release(&kept[STEPS / 3]);
            stk_loader_destroy(&loader);
            bool seen[1000] = {false};
            for (int i = 0; i < n; i++) {
                if (!kept[i])
                    continue;
                counting_check(kept[i], ragged);
                assert_int_equal(stk_batch_step(kept[i]), i);
                assert_int_equal(stk_batch_find(kept[i], "index", &index), STK_OK);
                assert_ptr_equal(index.data, data[i]);
                for (uint64_t k = 0; k < stk_batch_count(kept[i]); k++) {
                    uint64_t sample = ((uint64_t *)index.data)[k];
                    assert_true(sample < 1000 && !seen[sample]);
                    seen[sample] = true;
                }
                stk_batch_release(&kept[i]);
            }
            stk_dataset_close(&dataset);
        }
    }
    stk_context_destroy(&ctx);
}

/* What is detached is no longer of the budget, which would not do for the values of 20 epochs. */
static void detached_values_leave_the_budget(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 1000, .ragged = true});
    stk_loader_options o = base_options();
    stk_batch *batch;
    stk_error err;

    o.memory_budget = 640 << 10;
    o.epochs = 20;
    stk_loader *loader = open_loader(dataset, &o);
    for (uint64_t ends = 0; ends < o.epochs;) {
        const stk_status status = stk_loader_next(loader, 20000, &batch, &err);
        ends += status == STK_EOS;
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        assert_ok(stk_batch_detach(&batch, &err), &err);
        counting_check(batch, true);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void shared_ranges_are_read_once(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {
        .size = 1600, .url = "slow+mem://counting?latency=100us&bandwidth=1MB/s", .shared = 16};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_loader_stats stats = {.struct_size = sizeof stats};

    o.shuffle = STK_SHUFFLE_BLOCK;
    o.block_size = 16;
    o.streams = 2;
    o.shuffle_buffer = 4;
    o.epochs = 1;
    stk_loader *loader = open_loader(dataset, &o);
    drain(loader, 1, false, NULL);
    stk_loader_get_stats(loader, &stats);
    /* The horizon holds a shuffle buffer of every stream: each block is fetched once, and a few
     * twice at its seams. */
    assert_in_range(stats.request_bytes, 1600 * COUNTING_BYTES, 1600 * COUNTING_BYTES * 11 / 10);
    assert_int_equal(stats.needed_bytes, 1600 * 16 * COUNTING_BYTES);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void caches_spare_the_work(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 640, .url = "mem://counting", .ragged = true};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_loader_stats stats = {.struct_size = sizeof stats};

    o.epochs = 3;
    o.cache = STK_CACHE_ENCODED;
    stk_loader *loader = open_loader(dataset, &o);
    drain(loader, 3, true, NULL);
    stk_loader_get_stats(loader, &stats);
    assert_in_range(stats.needed_bytes, 640 * COUNTING_BYTES, 640 * COUNTING_BYTES * 3 / 2);
    assert_true(stats.cache_hits >= 640);
    assert_int_equal(stats.tiers.of[STK_TIER_MEMORY].reads, stats.cache_hits);
    assert_true(stats.tiers.of[STK_TIER_MEMORY].bytes >= stats.cache_hits * COUNTING_BYTES);
    assert_int_equal(stats.tiers.of[STK_TIER_DISK].reads, 0);
    stk_loader_destroy(&loader);

    uint64_t before = counting_prepared(dataset);
    o.cache = STK_CACHE_DECODED;
    loader = open_loader(dataset, &o);
    drain(loader, 3, true, NULL);
    assert_in_range(counting_prepared(dataset) - before, 640, 640 * 3 / 2);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* What was read is kept once, also where many samples need it. */
static void shared_ranges_are_kept_once(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 6400, .url = "mem://counting", .shared = 32};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_loader_stats stats = {.struct_size = sizeof stats};

    o.epochs = 3;
    o.cache = STK_CACHE_ENCODED;
    stk_loader *loader = open_loader(dataset, &o);
    drain(loader, 3, false, NULL);
    stk_loader_get_stats(loader, &stats);
    assert_true(stats.cache_hits >= 6400);
    assert_in_range(stats.cache_bytes, 6400 * COUNTING_BYTES, 4 << 20); /* not 32 times that */
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void the_budget_is_kept(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {
        .size = 4000, .url = "slow+mem://counting?latency=50us", .shared = 200, .ragged = true};
    stk_dataset *dataset = counting_open(ctx, &c);

    for (uint64_t budget = 2 << 20; budget <= 32 << 20; budget *= 4)
        for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_DECODED; cache++) {
            stk_memory_stats before = {.struct_size = sizeof before},
                             after = {.struct_size = sizeof after};
            stk_loader_options o = base_options();
            stk_loader_stats stats = {.struct_size = sizeof stats};
            o.memory_budget = budget;
            o.batch_size = 64;
            o.cache = budget > 8 << 20 ? cache : STK_CACHE_NONE;
            o.epochs = 1;
            o.io_depth = 64;
            stk_context_memory(ctx, &before);
            stk_loader *loader = open_loader(dataset, &o);
            drain(loader, 1, true, NULL);
            stk_loader_get_stats(loader, &stats);
            stk_context_memory(ctx, &after);
            assert_true(stats.memory_peak <= budget);
            assert_true(after.bytes - before.bytes <= budget);
            stk_loader_destroy(&loader);
            stk_context_memory(ctx, &after);
            /* The store keeps records of the reads it had at once. */
            assert_in_range(after.bytes - before.bytes, 0, 64 << 10);
        }
    stk_loader_options o = base_options();
    stk_loader *loader;
    stk_error err;
    o.memory_budget = 20000;
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EBUDGET, &err, "20000");
    assert_null(loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* The number in a message. */
static uint64_t number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);

    assert_non_null(at);
    return strtoull(at + strlen(words), NULL, 10);
}

/* Where no sample can fit nothing begins, and the budget that is named is enough, and the least. */
static void the_budget_that_is_named_is_enough(void **state)
{
    stk_context *ctx = test_context();
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    for (int i = 0; i < 12; i++) {
        counting_options c = {.size = 1000,
                              .url = i % 2 ? "mem://counting" : NULL,
                              .shared = i % 4 == 3 ? 1000 * 40 : 1,
                              .ragged = i % 4 != 3 && i % 3 == 1};
        c.size *= i % 4 == 3 ? 40 : 1;
        stk_dataset *dataset = counting_open(ctx, &c);
        for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_DECODED; cache++) {
            uint64_t named[3];
            for (int k = 0; k < 3; k++) {
                stk_loader_options o = base_options();
                o.num_workers = (int64_t[]){0, 1, 64}[k];
                o.cache = cache;
                o.memory_budget = 20000;
                assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EBUDGET, &err,
                             "20000");
                o.memory_budget = named[k] = number_after(err.text, "for one sample need ");
                assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
                assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
                assert_int_equal(stk_batch_count(batch), 16);
                counting_check(batch, c.ragged);
                stk_batch_release(&batch);
                stk_loader_destroy(&loader);
                o.memory_budget--;
                assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EBUDGET, &err,
                             "memory_budget");
            }
            assert_int_equal(named[0], named[1]);
            assert_int_equal(named[0], named[2]);
        }
        stk_dataset_close(&dataset);
    }
    stk_context_destroy(&ctx);
}

static void a_steady_run_allocates_nothing(void **state)
{
    static const char *const urls[] = {NULL, "mem://counting", "slow+mem://counting?latency=50us"};

    for (int i = 0; i < 3; i++) {
        stk_context *ctx = test_context();
        counting_options c = {.size = 2048, .url = urls[i]};
        stk_dataset *dataset = counting_open(ctx, &c);
        stk_memory_stats warm = {.struct_size = sizeof warm}, after = {.struct_size = sizeof after};
        stk_loader_options o = base_options();
        o.io_depth = 16;
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 4, false, NULL);
        stk_context_memory(ctx, &warm);
        drain(loader, 6, false, NULL);
        stk_context_memory(ctx, &after);
        /* Nothing from memory. Of reads, pools grow to what the horizon ever held at once, which
         * depends on timing and not on how long the run is: 12,288 samples here. */
        assert_in_range(after.allocations - warm.allocations, 0, i == 0 ? 0 : 1000);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
    }
}

static void *cancel_soon(void *argument)
{
    stk_loader *loader = argument;

    stk_loader_cancel(loader);
    return NULL;
}

/* Cancels and destroys at random moments, with reads in flight: no hang, no leak. */
static void cancel_and_destroy_at_random_moments(void **state)
{
    uint64_t random = 77;
    stk_context *ctx = test_context();

    for (int i = 0; i < 400; i++) {
        static const char *const urls[] = {NULL, "mem://counting",
                                           "slow+mem://counting?latency=300us&order=random"};
        counting_options c = {.size = 5000, .url = urls[i % 3]};
        stk_dataset *dataset = counting_open(ctx, &c);
        stk_loader_options o = base_options();
        stk_batch *batch = NULL;
        stk_status status = STK_OK;
        stk_error err;
        pthread_t thread;
        o.num_workers = (int64_t)(test_random(&random) % 4);
        stk_loader *loader = open_loader(dataset, &o);
        uint64_t steps = test_random(&random) % 12;
        for (uint64_t s = 0; s < steps && status == STK_OK; s++) {
            stk_batch_release(&batch);
            status = stk_loader_next(loader, -1, &batch, &err);
        }
        if (i % 2) {
            stk_batch_release(&batch);
            assert_int_equal(pthread_create(&thread, NULL, cancel_soon, loader), 0);
            while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK ||
                   status == STK_EOS)
                stk_batch_release(&batch);
            assert_int_equal(status, STK_ECANCELED);
            pthread_join(thread, NULL);
        }
        stk_loader_destroy(&loader);
        stk_batch_release(&batch);
        stk_dataset_close(&dataset);
    }
    stk_context_destroy(&ctx);
}

static void next_gives_up_in_time(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 100, .url = "slow+mem://counting?latency=60s"};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_batch *batch;
    stk_error err;

    for (int64_t workers = 0; workers < 2; workers++) {
        stk_loader_options o = base_options();
        o.num_workers = workers;
        stk_loader *loader = open_loader(dataset, &o);
        assert_int_equal(stk_loader_next(loader, 5, &batch, &err), STK_EAGAIN);
        assert_null(batch);
        stk_loader_destroy(&loader);
        o.timeout = 0.005;
        loader = open_loader(dataset, &o);
        assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_ETIMEDOUT, &err, "timeout");
        stk_loader_destroy(&loader);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void options_are_checked(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 100});
    stk_loader_options o = base_options();
    stk_loader *loader;
    stk_error err;

    o.num_workers = -7;
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err, "num_workers");
    o = base_options();
    o.struct_size = 0;
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err, "struct_size 0");
    o = base_options();
    o.transforms = "no_such_transform(3)";
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err,
                 "no_such_transform");
    o = base_options();
    o.quarantine = "/no/such/folder/file";
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_ENOENT, &err, "quarantine");
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void nothing_to_close(stk_dataset *dataset)
{
}

static void never_prepared(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    fail();
}

/* Batches of them have sizes beyond 64 bits. */
static void samples_without_measure_are_refused(void **state)
{
    static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                        .name = "large",
                                        .close = nothing_to_close,
                                        .prepare = never_prepared};
    static const struct {
        int64_t first, second;
        const char *transforms;
    } cases[] = {{INT64_C(1) << 62, 1, NULL},
                 {INT64_C(1) << 35, 1, "to_float"},
                 {INT64_C(1) << 35, (INT64_C(1) << 35) + 1, NULL}};
    stk_context *ctx = test_context();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_field fields[] = {{.struct_size = sizeof *fields,
                               .name = "a",
                               .dtype = STK_UINT8,
                               .rank = 1,
                               .shape = {cases[i].first}},
                              {.struct_size = sizeof *fields,
                               .name = "b",
                               .dtype = STK_UINT8,
                               .rank = 1,
                               .shape = {cases[i].second}}};
        const stk_dataset_info info = {
            .struct_size = sizeof info, .num_fields = 2, .fields = fields, .size = 4};
        stk_loader_options o = base_options();
        stk_dataset *dataset;
        stk_loader *loader;
        stk_error err;
        o.batch_size = 4;
        o.num_workers = 0;
        o.transforms = cases[i].transforms;
        assert_ok(stk_dataset_create(ctx, &ops, NULL, &info, &dataset, &err), &err);
        assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_ELIMIT, &err, "64 GiB");
        stk_dataset_close(&dataset);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holding_every_batch_is_busy),
        cmocka_unit_test(detached_batches_are_kept),
        cmocka_unit_test(detached_values_leave_the_budget),
        cmocka_unit_test(shared_ranges_are_read_once),
        cmocka_unit_test(caches_spare_the_work),
        cmocka_unit_test(shared_ranges_are_kept_once),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(the_budget_that_is_named_is_enough),
        cmocka_unit_test(a_steady_run_allocates_nothing),
        cmocka_unit_test(cancel_and_destroy_at_random_moments),
        cmocka_unit_test(next_gives_up_in_time),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(samples_without_measure_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
