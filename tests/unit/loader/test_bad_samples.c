/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of bad samples and of reads that fail. */
#include <stdio.h>
#include <unistd.h>

#include "unit/loader/run.h"

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
        stk_loader_stats stats = {.struct_size = sizeof stats};
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
        o.max_errors = "5";
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
    stk_loader_stats stats = {.struct_size = sizeof stats};
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

/* Ragged values, a tight budget, a cache: substitutes find room, and nothing waits for ever. */
static void replace_under_a_tight_budget(void **state)
{
    stk_context *ctx = test_context();

    for (int i = 0; i < 12; i++) {
        counting_options c = {.size = 400,
                              .lost_every = i % 2 ? 5 : 0,
                              .fail_every = i % 2 ? 0 : 5,
                              .fail_with = STK_EFORMAT,
                              .ragged = i % 3 != 0,
                              .url = "slow+mem://counting?latency=100us&order=random"};
        stk_dataset *dataset = counting_open(ctx, &c);
        stk_loader_options o = base_options();
        run r = {0};
        o.on_error = STK_ON_ERROR_REPLACE;
        o.epochs = 2;
        o.num_workers = i % 4;
        o.cache = i % 5 == 4 ? STK_CACHE_DECODED : STK_CACHE_NONE;
        o.memory_budget = o.cache ? 16 << 20 : 700 << 10;
        o.timeout = 30;
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 2, c.ragged, &r);
        assert_int_equal(r.n, 800);
        for (size_t k = 0; k < r.n; k++)
            assert_int_not_equal(r.rows[k].index % 5, 0);
        free(r.rows);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_sample_fails_its_batch_only),
        cmocka_unit_test(skip_leaves_holes),
        cmocka_unit_test(joined_reads_fail_alone),
        cmocka_unit_test(replace_draws_the_same_substitutes),
        cmocka_unit_test(replace_under_a_tight_budget),
        cmocka_unit_test(max_errors_is_exact),
        cmocka_unit_test(transient_failures_are_retried_then_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
