/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that fit the budget only alone: they are put back, or the budget is divided anew for
 * them. Whatever the budget, the workers, the cache and where a state was saved, the same samples
 * come in the same order, with the same values.
 */
#include "unit/loader/album.h"

/* The next batch, asked for in calls that wait so long each. */
static stk_batch *next_batch(stk_loader *loader, int64_t timeout_ms)
{
    stk_batch *batch = NULL;
    stk_status status;
    stk_error err;

    do
        status = stk_loader_next(loader, timeout_ms, &batch, &err);
    while (status == STK_EAGAIN && timeout_ms >= 0);
    assert_ok(status, &err);
    return batch;
}

/* Batches of one sample each, in order. */
static void check_in_order(stk_loader *loader, const album *a, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        stk_batch *batch = next_batch(loader, -1);

        assert_int_equal(stk_batch_positions(batch)[0], i);
        check_values(batch, a);
        stk_batch_release(&batch);
    }
}

static void close_world(album *a, stk_loader *loader, stk_context *ctx)
{
    stk_dataset *dataset = &a->head;

    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* ---- Moments ---- */

/* The planner lacks memory, and nothing moves but the sample that waits. */
static bool settled(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    bool is = loader->ring->full && !loader->planner.busy && loader->steps.tasks == 1 &&
              loader->planner.num_replace == 0;
    for (uint64_t serial = loader->steps.first; serial < loader->steps.slab_end; serial++)
        is = is && stk__step_at(&loader->steps, serial)->num_ready == 0;
    pthread_mutex_unlock(&loader->ring->lock);
    return is && is_read(loader);
}

/* A sample is put back that held no bytes: that is planned at once, also where later ones wait for
 * slabs, where their buffers leave no room for its reserve, and where the caller holds batches. */
static void goes_on_from(const char *folder, uint64_t slow, uint64_t apart)
{
    enum { SAMPLES = 80 };
    sample samples[SAMPLES];
    stk_context *ctx = test_context();
    album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
    stk_loader_options o = options_of(8 << 20);
    stk_batch *held[3] = {NULL}, *batch;
    stk_error err;

    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .reads = 200000};
    samples[slow] = (sample){.kind = 3 + (slow == 2)};
    a->slow = slow;
    a->apart = apart;
    o.num_workers = 2;
    o.prefetch_factor = 2;
    o.timeout = 60;
    stk_loader *loader = open_loader(&a->head, &o);
    for (uint64_t i = 0; i < slow; i++)
        assert_ok(stk_loader_next(loader, -1, &held[i], &err), &err);
    while (!settled(loader))
        assert_int_equal(stk_loader_next(loader, 1, &batch, &err), STK_EAGAIN);
    const uint64_t reserve = pictures[samples[slow].kind].memory - loader->budget.decode_most;
    assert_in_range(reserve, 1, loader->budget.most_row);
    let_go(a);
    check_in_order(loader, a, slow, SAMPLES);
    assert_true(loader->planner.late || apart < APART);
    stk_batch_release(&held[0]);
    stk_batch_release(&held[1]);
    close_world(a, loader, ctx);
}

static void a_row_put_back_wakes_the_planner(void **state)
{
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < 4; i++)
        goes_on_from(folder, i & 2, i & 1 ? APART : 64);
    test_folder_remove(folder);
}

/* A sample is put back while a round of planning is under way that then lacks room for a later one:
 * it is asked all the same. */
static void a_row_is_put_back_within_a_round(void **state)
{
    enum { SAMPLES = 80, GATE = 6 }; /* a sample that is not probed, behind all slabs */
    sample samples[SAMPLES];
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = i ? 0 : 3, .reads = i < GATE ? 0 : 200000};
    stk_context *ctx = test_context();
    album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
    stk_loader_options o = options_of(13 << 19);
    a->slow = 0;
    a->gate = GATE;
    a->apart = APART;
    o.num_workers = 2;
    o.prefetch_factor = 2;
    o.timeout = 60;
    stk_loader *loader = open_loader(&a->head, &o);
    pthread_mutex_lock(&a->lock);
    a->gated = loader;
    pthread_cond_broadcast(&a->open);
    pthread_mutex_unlock(&a->lock);
    check_in_order(loader, a, 0, SAMPLES);
    assert_true(loader->planner.late);
    close_world(a, loader, ctx);
    test_folder_remove(folder);
}

/* A sample wants what two batches take that are held: one of them is enough to go on. */
static void two_batches_that_are_held_are_too_many(void **state)
{
    enum { SAMPLES = 8 };
    sample samples[SAMPLES];
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .reads = i == 2 ? 5200000 : 1000};
    for (int64_t workers = 0; workers < 3; workers++) {
        stk_context *ctx = test_context();
        album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
        stk_loader_options o = options_of(8 << 20);
        stk_batch *held[2], *batch;
        stk_loader_stats stats = {.struct_size = sizeof stats};
        stk_error err;
        o.num_workers = workers;
        o.prefetch_factor = 3;
        o.cache = STK_CACHE_ENCODED; /* it has a part of the room */
        o.timeout = 60;
        stk_loader *loader = open_loader(&a->head, &o);
        const uint64_t limit = loader->ring->pool.limit;
        assert_true(samples[2].reads > limit);
        for (int i = 0; i < 2; i++)
            assert_ok(stk_loader_next(loader, -1, &held[i], &err), &err);
        for (int i = 0; i < 2; i++)
            assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EBUSY, &err,
                         "give back all but one with stk_batch_release()");
        assert_int_equal(loader->ring->pool.limit, limit);
        stk_batch_release(&held[1]);
        check_in_order(loader, a, 2, SAMPLES);
        assert_true(loader->ring->pool.limit > limit);
        stk_loader_get_stats(loader, &stats);
        assert_true(stats.waits.parts_ns[STK_WAIT_MEMORY_BUDGET] > 0);
        assert_int_equal(stats.waits.parts_ns[STK_WAIT_EPOCH_TURN], 0);
        stk_batch_release(&held[0]);
        close_world(a, loader, ctx);
    }
    test_folder_remove(folder);
}

static void count_divisions(void *user, stk_message_level level, const char *message)
{
    const char *asked = strstr(message, "batches ahead instead of the ");

    (void)level;
    *(int *)user += asked && strstr(asked, " the 150 of prefetch_factor");
    *(int *)user -= asked && !strstr(asked, " the 150 of prefetch_factor") ? 1000 : 0;
}

/* Each message about a divided budget names what was asked for, too. The budget is divided anew
 * while the caller waits, whether its calls have no limit, a short one, or none left. */
static void divisions_name_what_was_asked_for(void **state)
{
    enum { SAMPLES = 128 };
    static const int64_t timeouts[] = {-1, 1, 0};
    sample samples[SAMPLES];
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .reads = i == 2 ? 4400000 : i == 70 ? 5200000 : 0};
    for (size_t t = 0; t < sizeof timeouts / sizeof *timeouts; t++) {
        stk_context_options options;
        stk_context *ctx;
        stk_error err;
        int divisions = 0;

        stk_context_options_init(&options);
        options.on_message = count_divisions;
        options.on_message_user = &divisions;
        assert_ok(stk_context_create(&options, &ctx, &err), &err);
        album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
        stk_loader_options o = options_of(8 << 20);
        o.batch_size = 64;
        o.num_workers = 1;
        o.prefetch_factor = 150;
        stk_loader *loader = open_loader(&a->head, &o);
        for (int i = 0; i < 2; i++) {
            stk_batch *batch = next_batch(loader, timeouts[t]);
            stk_batch_release(&batch);
        }
        assert_int_equal(divisions, 3);
        close_world(a, loader, ctx);
    }
    test_folder_remove(folder);
}

/* The values of the batches that are held take the memory: it is that which is said, not that there
 * were no batches. */
static void held_values_are_too_many(void **state)
{
    enum { SAMPLES = 12 };
    sample samples[SAMPLES];
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .blob = 1000000};
    for (int64_t workers = 1; workers < 3; workers++) {
        stk_context *ctx = test_context();
        album *a = open_album(ctx, folder, samples, SAMPLES, true, 0);
        stk_loader_options o = options_of(8 << 20);
        stk_batch *held[SAMPLES], *batch;
        stk_status status;
        stk_error err;
        uint32_t n = 0;
        o.num_workers = workers;
        o.prefetch_factor = 10;
        o.timeout = 60;
        stk_loader *loader = open_loader(&a->head, &o);
        while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK)
            held[n++] = batch;
        assert_fails(status, STK_EBUSY, &err, "raise memory_budget");
        assert_in_range(n, 2, loader->ring->num_slabs - 1);
        stk_batch_release(&held[0]);
        assert_ok(stk_loader_next(loader, -1, &held[0], &err), &err);
        for (uint32_t i = 0; i < n; i++) {
            check_values(held[i], a);
            stk_batch_release(&held[i]);
        }
        close_world(a, loader, ctx);
    }
    test_folder_remove(folder);
}

/* What takes the place of a damaged picture that was put back wants no memory on its account: both
 * would not fit. */
static void a_substitute_has_no_reserve(void **state)
{
    enum { SAMPLES = 40 };
    sample samples[SAMPLES];
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .reads = 4 << 20};
    samples[0] = (sample){.kind = DAMAGED + 1};
    for (int64_t workers = 0; workers < 3; workers += 2) {
        stk_context *ctx = test_context();
        album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
        stk_loader_options o = options_of(8 << 20);
        o.num_workers = workers;
        o.on_error = STK_ON_ERROR_REPLACE;
        stk_loader *loader = open_loader(&a->head, &o);
        const uint64_t reserve = pictures[DAMAGED + 1].memory - loader->budget.decode_most;
        assert_in_range(reserve, 1, loader->budget.most_row);
        assert_true(reserve + (5 << 20) > loader->budget.most_row);
        stk_batch *batch = next_batch(loader, -1);
        assert_int_equal(stk_batch_count(batch), 1);
        check_values(batch, a);
        stk_batch_release(&batch);
        close_world(a, loader, ctx);
    }
    test_folder_remove(folder);
}

/* A picture that does not fit together with its own reads is bad, also while another one has a
 * reserve that would be enough for it. */
static void no_picture_has_the_reserve_of_another(void **state)
{
    static const sample samples[] = {{.kind = 5, .blob = 100, .cost = 2e6},
                                     {.kind = 4, .blob = 100, .reads = 3 << 19, .cost = 3e6},
                                     {.kind = 0, .blob = 100, .cost = 1e6}};
    char folder[256];

    (void)state;
    make_store(folder);
    for (int cost = 0; cost < 2; cost++) {
        stk_context *ctx = test_context();
        album *a = open_album(ctx, folder, samples, 3, true, 20);
        stk_loader_options o = options_of(8 << 20);
        /* Rows one by one, or all in one task. */
        a->head.cost_ns = cost ? 1e6 : 1;
        o.batch_size = 3;
        o.num_workers = 0;
        o.on_error = STK_ON_ERROR_SKIP;
        a->slow = 2;
        stk_loader *loader = a->loader = open_loader(&a->head, &o);
        const uint64_t both = loader->budget.decode_most + loader->budget.most_row;
        assert_true(pictures[5].memory < both);
        assert_true(pictures[4].memory > both - samples[1].reads / 4 * 5 - 320);
        stk_batch *batch = next_batch(loader, -1);
        check_values(batch, a);
        assert_int_equal(stk_batch_count(batch), 2);
        assert_int_equal(stk_batch_positions(batch)[1], 2);
        stk_batch_release(&batch);
        close_world(a, loader, ctx);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_put_back_wakes_the_planner),
        cmocka_unit_test(a_row_is_put_back_within_a_round),
        cmocka_unit_test(two_batches_that_are_held_are_too_many),
        cmocka_unit_test(divisions_name_what_was_asked_for),
        cmocka_unit_test(held_values_are_too_many),
        cmocka_unit_test(a_substitute_has_no_reserve),
        cmocka_unit_test(no_picture_has_the_reserve_of_another),
    };

    return cmocka_run_group_tests(tests, make_pictures, free_pictures);
}
