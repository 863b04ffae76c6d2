/* SPDX-License-Identifier: Apache-2.0 */
/* What is delivered: order, epochs, ranks, state. */
#include "unit/loader/run.h"

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
    stk_loader_state states[21];
    run whole = {0};
    stk_error err;
    stk_batch *batch;
    int n = 0;

    o.epochs = 2;
    stk_loader *loader = open_loader(dataset, &o);
    stk_loader_get_state(loader, &states[n++]);
    while (n < 21) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        keep(&whole, batch);
        stk_batch_get_state(batch, &states[n++]);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    for (int i = 0; i < 21; i++) {
        char text[500];
        stk_loader_state back;
        run rest = {0};
        int length = stk_loader_state_format(&states[i], text, sizeof text - 3);
        assert_in_range(length, 1, sizeof text - 4);
        strcpy(text + length, i % 3 == 0 ? "" : i % 3 == 1 ? "\n" : "\r\n");
        assert_ok(stk_loader_state_parse(text, &back, &err), &err);
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
            stk_loader_stats stats = {.struct_size = sizeof stats};
            stk_batch *batch;
            stk_loader_state at;
            stk_error err;
            o.num_workers = 0;
            o.shuffle = shuffle;
            o.block_size = 100;
            stk_loader *loader = open_loader(dataset, &o);
            stk_loader_get_state(loader, &at);
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
    stk_loader_state saved;
    stk_error err;

    stk_loader *loader = open_loader(dataset, &o);
    stk_loader_get_state(loader, &saved);
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
    assert_fails(stk_loader_state_parse("rubbish", &saved, &err), STK_EFORMAT, &err, "rubbish");
    assert_fails(stk_loader_state_parse("stoker-state 9 epoch=1", &saved, &err), STK_EKIND, &err,
                 "9");
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

/* Threads that rest at the end of an epoch plan again, whichever way the next one is reached. */
static void set_epoch_without_the_end_being_told(void **state)
{
    stk_context *ctx = test_context();
    counting_options c = {.size = 64, .url = "slow+mem://counting?latency=200us"};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_batch *batch;
    stk_error err;
    stk_loader_state end;

    o.persistent_workers = false;
    o.timeout = 20;
    for (int way = 0; way < 3; way++) {
        stk_loader *loader = open_loader(dataset, &o);
        for (int i = 0; i < 4; i++) {
            assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
            stk_batch_get_state(batch, &end);
            stk_batch_release(&batch);
        }
        if (way == 0)
            assert_ok(stk_loader_set_epoch(loader, 1, &err), &err);
        else
            assert_ok(stk_loader_restore(loader, &end, &err), &err);
        if (way)
            assert_int_equal(stk_loader_next(loader, -1, &batch, &err), STK_EOS);
        for (int i = 0; i < 4; i++) {
            assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
            assert_int_equal(stk_batch_epoch(batch), 1);
            counting_check(batch, false);
            stk_batch_release(&batch);
        }
        stk_loader_destroy(&loader);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void an_empty_batch_has_empty_ragged_fields(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 1, .ragged = true});
    stk_loader_options o = base_options();
    stk_tensor words = {.struct_size = sizeof words};
    stk_batch *batch;
    stk_error err;

    o.world_size = 2;
    o.rank = 1;
    stk_loader *loader = open_loader(dataset, &o);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_find(batch, "words", &words), STK_OK);
    assert_int_equal(stk_batch_count(batch), 0);
    assert_int_equal(words.offsets[0], 0);
    assert_non_null(words.data);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* The dataset's fields, and the index that the loader adds. */
static void fields_are_told(void **state)
{
    static const char *const names[] = {"data", "label", "words", "blob", "index"};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 100, .ragged = true});
    stk_loader_options o = base_options();
    uint32_t n = 0;

    stk_loader *loader = open_loader(dataset, &o);
    const stk_field *fields = stk_loader_fields(loader, &n);
    assert_int_equal(n, STK_COUNT(names));
    for (uint32_t i = 0; i < n; i++)
        assert_string_equal(fields[i].name, names[i]);
    assert_int_equal(fields[2].layout, STK_RAGGED);
    assert_int_equal(fields[4].dtype, STK_UINT64);
    stk_loader_destroy(&loader);
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
        cmocka_unit_test(set_epoch_without_the_end_being_told),
        cmocka_unit_test(an_empty_batch_has_empty_ragged_fields),
        cmocka_unit_test(fields_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
