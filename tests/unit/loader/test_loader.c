/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's promises: order, exactness, state, bad samples, cancel, budget. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "support/counting.h"

/* All a run delivers, row by row. */
typedef struct row {
    uint64_t epoch, step, position, index;
} row;

typedef struct run {
    row *rows;
    size_t n, room;
} run;

static void keep(run *r, const stk_batch *batch)
{
    stk_tensor index;

    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
        if (r->n == r->room) {
            r->room = r->room * 2 + 256;
            r->rows = realloc(r->rows, r->room * sizeof *r->rows);
        }
        r->rows[r->n++] = (row){stk_batch_epoch(batch), stk_batch_step(batch),
                                stk_batch_positions(batch)[i], ((uint64_t *)index.data)[i]};
    }
}

static stk_loader *open_loader(stk_dataset *dataset, const stk_loader_options *o)
{
    stk_loader *loader;
    stk_error err;

    assert_ok(stk_loader_create(dataset, o, &loader, &err), &err);
    return loader;
}

/* Take everything up to the end of `epochs` epochs. */
static void drain(stk_loader *loader, uint64_t epochs, bool ragged, run *out)
{
    stk_batch *batch;
    stk_error err;

    for (uint64_t ends = 0; ends < epochs;) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS) {
            ends++;
            continue;
        }
        assert_ok(status, &err);
        counting_check(batch, ragged);
        if (out)
            keep(out, batch);
        stk_batch_release(&batch);
    }
}

static stk_loader_options base_options(void)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = 16;
    o.shuffle = STK_SHUFFLE_FULL;
    o.seed = 11;
    o.memory_budget = 32 << 20;
    o.num_workers = 2;
    return o;
}

static void one_epoch_is_whole(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 1003});
    stk_loader_options o = base_options();
    run r = {0};

    o.epochs = 2;
    stk_loader *loader = open_loader(dataset, &o);
    assert_int_equal(stk_loader_steps(loader), 63);
    drain(loader, 2, false, &r);
    assert_int_equal(r.n, 2 * 1003);
    uint8_t seen[2][1003] = {0};
    for (size_t i = 0; i < r.n; i++) {
        assert_int_equal(r.rows[i].position, i % 1003);
        assert_false(seen[i / 1003][r.rows[i].index]++);
    }
    stk_batch *batch;
    assert_int_equal(stk_loader_next(loader, -1, &batch, NULL), STK_EOS);
    assert_int_equal(stk_loader_next(loader, -1, &batch, NULL), STK_EOS);
    assert_null(batch);
    free(r.rows);
    stk_loader_destroy(&loader);
    assert_null(loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Nothing that is for speed may change what is delivered. */
static void speed_options_change_nothing(void **state)
{
    static const char *const urls[] = {NULL, "mem://counting",
                                       "slow+mem://counting?latency=200us&order=random"};
    static const int64_t workers[] = {0, 1, 2, 5}, factors[] = {1, 2, 7}, depths[] = {1, 8, 64};
    uint64_t random = 3;
    run first[3] = {0};

    for (int i = 0; i < 72; i++) {
        const int shuffle = i % 3;
        stk_context *ctx = test_context();
        counting_options c = {
            .size = 700, .url = urls[i / 3 % 3], .ragged = i % 2, .shared = i % 4 ? 1 : 5};
        stk_dataset *dataset = counting_open(ctx, &c);
        stk_loader_options o = base_options();
        run r = {0};
        o.shuffle = shuffle;
        o.block_size = 20;
        o.streams = 3;
        o.shuffle_buffer = 2;
        o.epochs = 2;
        o.num_workers = workers[test_random(&random) % 4];
        o.prefetch_factor = factors[test_random(&random) % 3];
        o.io_depth = depths[test_random(&random) % 3];
        o.cache = (int)(test_random(&random) % 3);
        o.persistent_workers = test_random(&random) % 2;
        o.memory_budget = UINT64_C(8) << (20 + test_random(&random) % 4);
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 2, c.ragged, &r);
        if (i < 3) {
            first[shuffle] = r;
        } else {
            assert_int_equal(r.n, first[shuffle].n);
            assert_memory_equal(r.rows, first[shuffle].rows, r.n * sizeof *r.rows);
            free(r.rows);
        }
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
    }
    for (int i = 0; i < 3; i++)
        free(first[i].rows);
}

/* For an equal global batch, the ranks together deliver what one rank does, step by step. */
static void world_size_changes_nothing(void **state)
{
    const uint64_t worlds[] = {1, 2, 3, 4, 6, 7};
    uint64_t expected[300];
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 300});

    for (size_t w = 0; w < 6; w++) {
        uint64_t indices[300], count = 0;
        for (uint64_t rank = 0; rank < worlds[w]; rank++) {
            stk_loader_options o = base_options();
            run r = {0};
            o.global_batch_size = 24;
            o.world_size = worlds[w];
            o.rank = rank;
            o.num_workers = 1;
            o.epochs = 1;
            stk_loader *loader = open_loader(dataset, &o);
            /* Every rank takes every step, though it may have no row in the last. */
            assert_int_equal(stk_loader_steps(loader), 13);
            drain(loader, 1, false, &r);
            for (size_t i = 0; i < r.n; i++, count++)
                indices[r.rows[i].position] = r.rows[i].index;
            free(r.rows);
            stk_loader_destroy(&loader);
        }
        assert_int_equal(count, 300);
        if (w == 0)
            memcpy(expected, indices, sizeof indices);
        assert_memory_equal(indices, expected, sizeof indices);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void ranks_without_rows_get_empty_batches(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 10});
    stk_loader_options o = base_options();
    stk_batch *batch;
    stk_error err;

    o.global_batch_size = 8;
    o.world_size = 8;
    o.rank = 5;
    stk_loader *loader = open_loader(dataset, &o);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_count(batch), 1);
    stk_batch_release(&batch);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_count(batch), 0);
    stk_batch_release(&batch);
    assert_int_equal(stk_loader_next(loader, -1, &batch, &err), STK_EOS);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Save at every batch, restore in another loader of other workers: the rest is the same. */
static void restore_at_every_batch(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset =
        counting_open(ctx, &(counting_options){.size = 160, .url = "mem://counting"});
    stk_loader_options o = base_options();
    stk_state states[21];
    run whole = {0};
    stk_error err;
    stk_batch *batch;
    int n = 0;

    o.epochs = 2;
    stk_loader *loader = open_loader(dataset, &o);
    stk_loader_state(loader, &states[n++]);
    while (n < 21) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        keep(&whole, batch);
        stk_batch_state(batch, &states[n++]);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    for (int i = 0; i < 21; i++) {
        char text[400];
        stk_state back;
        run rest = {0};
        assert_in_range(stk_state_format(&states[i], text, sizeof text), 1, sizeof text - 1);
        assert_ok(stk_state_parse(text, &back, &err), &err);
        assert_memory_equal(&back, &states[i], sizeof back);
        o.num_workers = i % 4;
        loader = open_loader(dataset, &o);
        assert_ok(stk_loader_restore(loader, &back, &err), &err);
        drain(loader, i <= 10 ? 2 : 1, false, &rest);
        assert_int_equal(rest.n, whole.n - (size_t)i * 16);
        assert_memory_equal(rest.rows, whole.rows + (size_t)i * 16, rest.n * sizeof *rest.rows);
        free(rest.rows);
        stk_loader_destroy(&loader);
    }
    free(whole.rows);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* O(1): the number of places computed does not grow with the step. */
static void restore_evaluates_the_same_everywhere(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 100000000});
    uint64_t evaluated[2];

    for (int shuffle = STK_SHUFFLE_FULL; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        for (int i = 0; i < 2; i++) {
            stk_loader_options o = base_options();
            stk_loader_stats stats;
            stk_batch *batch;
            stk_state at;
            stk_error err;
            o.num_workers = 0;
            o.shuffle = shuffle;
            o.block_size = 100;
            stk_loader *loader = open_loader(dataset, &o);
            stk_loader_state(loader, &at);
            at.step = i ? 1000000 : 10;
            assert_ok(stk_loader_restore(loader, &at, &err), &err);
            assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
            assert_int_equal(stk_batch_step(batch), at.step);
            stk_batch_release(&batch);
            stk_loader_get_stats(loader, &stats);
            evaluated[i] = stats.positions_evaluated;
            stk_loader_destroy(&loader);
        }
        assert_int_equal(evaluated[0], evaluated[1]);
        assert_int_equal(evaluated[0], 16);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void state_of_something_else_is_refused(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 160});
    stk_dataset *other = counting_open(ctx, &(counting_options){.size = 161});
    stk_loader_options o = base_options();
    stk_state saved;
    stk_error err;

    stk_loader *loader = open_loader(dataset, &o);
    stk_loader_state(loader, &saved);
    stk_loader_destroy(&loader);
    loader = open_loader(other, &o);
    assert_fails(stk_loader_restore(loader, &saved, &err), STK_EMISMATCH, &err, "160");
    stk_loader_destroy(&loader);
    o.seed = 12;
    loader = open_loader(dataset, &o);
    assert_fails(stk_loader_restore(loader, &saved, &err), STK_EMISMATCH, &err, "seed 11");
    stk_loader_destroy(&loader);
    o.seed = 11;
    o.batch_size = 17;
    loader = open_loader(dataset, &o);
    assert_fails(stk_loader_restore(loader, &saved, &err), STK_EMISMATCH, &err,
                 "global_batch_size 16");
    stk_loader_destroy(&loader);
    o.batch_size = 16;
    o.shuffle = STK_SHUFFLE_NONE;
    loader = open_loader(dataset, &o);
    assert_fails(stk_loader_restore(loader, &saved, &err), STK_EMISMATCH, &err, "shuffle");
    saved.step = 1000;
    saved.shuffle = 0;
    assert_fails(stk_loader_restore(loader, &saved, &err), STK_EMISMATCH, &err, "1000");
    stk_loader_destroy(&loader);
    assert_fails(stk_state_parse("rubbish", &saved, &err), STK_EFORMAT, &err, "rubbish");
    assert_fails(stk_state_parse("stoker-state 9 epoch=1", &saved, &err), STK_ENOTSUP, &err, "9");
    stk_dataset_close(&other);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void set_epoch_goes_there(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset =
        counting_open(ctx, &(counting_options){.size = 100, .url = "mem://counting"});
    stk_loader_options o = base_options();
    stk_batch *batch;
    stk_error err;

    stk_loader *loader = open_loader(dataset, &o);
    for (uint64_t epoch = 0; epoch < 30; epoch++) {
        uint64_t to = epoch * 7 % 5;
        assert_ok(stk_loader_set_epoch(loader, to, &err), &err);
        for (uint64_t step = 0; step < epoch % 8; step++) {
            stk_status status = stk_loader_next(loader, -1, &batch, &err);
            if (status == STK_EOS)
                break;
            assert_ok(status, &err);
            assert_int_equal(stk_batch_epoch(batch), to);
            assert_int_equal(stk_batch_step(batch), step);
            counting_check(batch, false);
            stk_batch_release(&batch);
        }
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void a_bad_sample_fails_its_batch_only(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 64, .fail_every = 63, .fail_with = STK_EFORMAT};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_batch *batch;
    stk_error err;
    int failed = 0, good = 0;

    o.shuffle = STK_SHUFFLE_NONE;
    for (o.num_workers = 0; o.num_workers < 3; o.num_workers++) {
        stk_loader *loader = open_loader(dataset, &o);
        for (int i = 0; i < 4; i++) {
            stk_status status = stk_loader_next(loader, -1, &batch, &err);
            if (status == STK_OK) {
                good++;
                counting_check(batch, false);
                stk_batch_release(&batch);
                continue;
            }
            failed++;
            assert_int_equal(status, STK_EFORMAT);
            assert_int_equal(err.sample, i == 0 ? 0 : 63);
            assert_non_null(strstr(err.text, "planted"));
            assert_non_null(strstr(err.text, "on_error"));
        }
        assert_int_equal(stk_loader_next(loader, -1, &batch, &err), STK_EOS);
        stk_loader_destroy(&loader);
    }
    assert_int_equal(failed, 6);
    assert_int_equal(good, 6);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Skipped samples are holes: all others stand where they would, and the log names each. */
static void skip_leaves_holes(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 200, .fail_every = 9, .fail_with = STK_EFORMAT, .ragged = true};
    char folder[256], path[300], line[1000];

    test_folder(folder);
    snprintf(path, sizeof path, "%s/quarantine.jsonl", folder);
    for (int64_t workers = 0; workers < 3; workers++) {
        stk_dataset *dataset = counting_open(ctx, &c);
        stk_loader_options o = base_options();
        run r = {0};
        o.on_error = STK_ON_ERROR_SKIP;
        o.epochs = 1;
        o.num_workers = workers;
        o.quarantine = path;
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 1, true, &r);
        assert_int_equal(r.n, 200 - 23);
        for (size_t i = 0; i < r.n; i++) {
            assert_true(r.rows[i].index % 9 != 0);
            assert_int_equal(r.rows[i].position / 16, r.rows[i].step);
        }
        stk_loader_stats stats;
        stk_loader_get_stats(loader, &stats);
        assert_int_equal(stats.bad_samples, 23);
        free(r.rows);
        stk_loader_destroy(&loader);
        FILE *f = fopen(path, "r");
        int lines = 0;
        long last = -1, position;
        while (fgets(line, sizeof line, f)) {
            lines++;
            assert_int_equal(sscanf(strstr(line, "\"position\": "), "\"position\": %ld", &position),
                             1);
            assert_true(position > last);
            last = position;
            assert_non_null(strstr(line, "\"reason\": \"planted\""));
        }
        fclose(f);
        unlink(path);
        assert_int_equal(lines, 23);
        stk_dataset_close(&dataset);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A range that is not there spoils no other that was read with it. */
static void joined_reads_fail_alone(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 300, .lost_every = 7, .url = "slow+mem://counting?latency=1ms"};
    stk_dataset *dataset = counting_open(ctx, &c);

    for (int64_t workers = 0; workers < 3; workers++) {
        stk_loader_options o = base_options();
        run r = {0};
        o.on_error = STK_ON_ERROR_SKIP;
        o.shuffle = (int)workers % 2;
        o.epochs = 1;
        o.num_workers = workers;
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 1, false, &r);
        assert_int_equal(r.n, 300 - 43);
        for (size_t i = 0; i < r.n; i++)
            assert_int_not_equal(r.rows[i].index % 7, 0);
        free(r.rows);
        stk_loader_destroy(&loader);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Substitutes depend on seed, epoch and position alone. */
static void replace_draws_the_same_substitutes(void **state)
{
    run first = {0};

    for (int i = 0; i < 8; i++) {
        stk_context *ctx = test_context();
        counting_options c = {.size = 200,
                              .fail_every = i % 2 ? 0 : 3,
                              .lost_every = i % 2 ? 3 : 0,
                              .fail_with = STK_EFORMAT,
                              .url = i % 2 || i > 4 ? "mem://counting" : NULL};
        stk_dataset *dataset = counting_open(ctx, &c);
        stk_loader_options o = base_options();
        run r = {0};
        o.on_error = STK_ON_ERROR_REPLACE;
        o.epochs = 2;
        o.num_workers = i % 4;
        o.io_depth = 1 + i;
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 2, false, &r);
        assert_int_equal(r.n, 400);
        for (size_t k = 0; k < r.n; k++) {
            assert_true(r.rows[k].index % 3 != 0);
            assert_int_equal(r.rows[k].position, k % 200);
        }
        stk_loader_destroy(&loader);
        if (i == 0) {
            first = r;
        } else {
            assert_memory_equal(r.rows, first.rows, r.n * sizeof *r.rows);
            free(r.rows);
        }
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
    }
    free(first.rows);
}

static void max_errors_is_exact(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 160, .fail_every = 10, .fail_with = STK_EFORMAT};
    stk_dataset *dataset = counting_open(ctx, &c);

    for (int64_t workers = 0; workers < 4; workers++) {
        stk_loader_options o = base_options();
        stk_batch *batch;
        stk_error err;
        int good = 0;
        o.shuffle = STK_SHUFFLE_NONE;
        o.on_error = STK_ON_ERROR_SKIP;
        o.max_errors = 5;
        o.num_workers = workers;
        stk_loader *loader = open_loader(dataset, &o);
        stk_status status;
        while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
            good++;
            stk_batch_release(&batch);
        }
        /* Samples 0, 10, 20, 30, 40 are allowed; 50 lies in the fourth batch. */
        assert_int_equal(status, STK_EBADSAMPLES);
        assert_int_equal(good, 3);
        assert_non_null(strstr(err.text, "max_errors"));
        stk_loader_destroy(&loader);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* What may pass is retried, and never skipped. */
static void transient_failures_are_retried_then_fail(void **state)
{
    stk_context *ctx = test_context();
    stk_loader_options o = base_options();
    stk_batch *batch;
    stk_error err;

    o.on_error = STK_ON_ERROR_SKIP;
    o.epochs = 1;
    o.retries = 60;
    counting_options c = {.size = 500, .url = "slow+mem://counting?fail=0.5&seed=3"};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader *loader = open_loader(dataset, &o);
    run r = {0};
    drain(loader, 1, false, &r);
    assert_int_equal(r.n, 500);
    free(r.rows);
    stk_loader_stats stats;
    stk_loader_get_stats(loader, &stats);
    assert_true(stats.stages[1].failures > 0);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);

    c.url = "slow+mem://counting?fail=1";
    dataset = counting_open(ctx, &c);
    o.retries = 2;
    loader = open_loader(dataset, &o);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EIO, &err, "retries");
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

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

static void shared_ranges_are_read_once(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 1600, .url = "slow+mem://counting?latency=100us&bandwidth=1MB/s", .shared = 16};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_loader_stats stats;

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
    stk_loader_stats stats;

    o.epochs = 3;
    o.cache = STK_CACHE_ENCODED;
    stk_loader *loader = open_loader(dataset, &o);
    drain(loader, 3, true, NULL);
    stk_loader_get_stats(loader, &stats);
    assert_in_range(stats.needed_bytes, 640 * COUNTING_BYTES, 640 * COUNTING_BYTES * 3 / 2);
    assert_true(stats.cache_hits >= 640);
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

static void the_budget_is_kept(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {
        .size = 4000, .url = "slow+mem://counting?latency=50us", .shared = 200, .ragged = true};
    stk_dataset *dataset = counting_open(ctx, &c);

    for (uint64_t budget = 2 << 20; budget <= 32 << 20; budget *= 4)
        for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_DECODED; cache++) {
            stk_memory_stats before, after;
            stk_loader_options o = base_options();
            stk_loader_stats stats;
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

static void a_sample_that_never_fits_is_bad(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 100000, .url = "mem://counting", .shared = 100000};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_batch *batch;
    stk_error err;

    o.memory_budget = 1 << 20;
    stk_loader *loader = open_loader(dataset, &o);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EBUDGET, &err, "memory_budget");
    assert_non_null(strstr(err.text, "bytes wanted"));
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void a_steady_run_allocates_nothing(void **state)
{
    static const char *const urls[] = {NULL, "mem://counting", "slow+mem://counting?latency=50us"};

    for (int i = 0; i < 3; i++) {
        stk_context *ctx = test_context();
        counting_options c = {.size = 2048, .url = urls[i]};
        stk_dataset *dataset = counting_open(ctx, &c);
        stk_memory_stats warm, after;
        stk_loader_options o = base_options();
        o.io_depth = 16;
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 4, false, NULL);
        stk_context_memory(ctx, &warm);
        drain(loader, 3, false, NULL);
        stk_context_memory(ctx, &after);
        /* Nothing from memory; of reads, pools may meet a size or a number in flight that no epoch
         * had before. */
        assert_in_range(after.allocations - warm.allocations, 0, i == 0 ? 0 : 20);
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
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err, "options_init");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_epoch_is_whole),
        cmocka_unit_test(speed_options_change_nothing),
        cmocka_unit_test(world_size_changes_nothing),
        cmocka_unit_test(ranks_without_rows_get_empty_batches),
        cmocka_unit_test(restore_at_every_batch),
        cmocka_unit_test(restore_evaluates_the_same_everywhere),
        cmocka_unit_test(state_of_something_else_is_refused),
        cmocka_unit_test(set_epoch_goes_there),
        cmocka_unit_test(a_bad_sample_fails_its_batch_only),
        cmocka_unit_test(skip_leaves_holes),
        cmocka_unit_test(joined_reads_fail_alone),
        cmocka_unit_test(replace_draws_the_same_substitutes),
        cmocka_unit_test(max_errors_is_exact),
        cmocka_unit_test(transient_failures_are_retried_then_fail),
        cmocka_unit_test(holding_every_batch_is_busy),
        cmocka_unit_test(shared_ranges_are_read_once),
        cmocka_unit_test(caches_spare_the_work),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(a_sample_that_never_fits_is_bad),
        cmocka_unit_test(a_steady_run_allocates_nothing),
        cmocka_unit_test(cancel_and_destroy_at_random_moments),
        cmocka_unit_test(next_gives_up_in_time),
        cmocka_unit_test(options_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
