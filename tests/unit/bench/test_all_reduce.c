/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of several ranks whose steps end with an all-reduce: they have equally many steps, whatever
 * each of them needs, and what comes back is looked at. */
#include "unit/dist/network.h"

#include <stoker/bench.h>

enum { RANKS = 3, BATCH = 8 };

typedef struct rank {
    network_end end;
    stk_context *ctx;
    stk_bench_options options;
    stk_bench_result result;
    stk_figures figures;
    stk_bench *bench;
    uint64_t steps, cancel_at, fail_at; /* of its own step, from 1; 0: never */
    bool spoils;                        /* what it reduces comes back otherwise */
    stk_status (*reduce)(void *state, void *buffer, uint64_t count, stk_dtype dtype, stk_combine op,
                         stk_stream *stream, stk_error *err);
    stk_strategy strategy;
    void *state;
} rank;

static stk_status run_step(void *user, const stk_batch *batch, stk_error *err)
{
    rank *r = user;

    (void)batch;
    r->steps++;
    if (r->steps == r->cancel_at)
        stk_bench_cancel(r->bench);
    if (r->steps != r->fail_at)
        return STK_OK;
    snprintf(err->text, sizeof err->text, "the model is not finite");
    return err->status = STK_EINTERNAL;
}

static stk_status spoil(void *state, void *buffer, uint64_t count, stk_dtype dtype, stk_combine op,
                        stk_stream *stream, stk_error *err)
{
    rank *r = state;

    STK_TRY(r->reduce(r->state, buffer, count, dtype, op, stream, err));
    if (r->spoils)
        *(float *)buffer = 3;
    return STK_OK;
}

static void *run_rank(void *argument)
{
    rank *r = argument;
    const stk_bench_step step = {.struct_size = sizeof step, .run = run_step, .user = r};
    stk_collectives_options o;
    stk_collectives *c;
    stk_loader_options loader;
    stk_error err;

    network_self = &r->end;
    stk_collectives_options_init(&o);
    stk_loader_options_init(&loader);
    loader.batch_size = BATCH;
    loader.num_workers = 0;
    loader.rank = r->end.rank;
    loader.world_size = RANKS;
    assert_ok(stk__collectives_join(r->ctx, &network_ops, &o, &c, &err), &err);
    r->strategy = *stk_collectives_strategy(c);
    r->reduce = r->strategy.reduce;
    r->state = r->strategy.state;
    r->strategy.reduce = spoil;
    r->strategy.state = r;
    const stk_bench_setting setting = {.struct_size = sizeof setting,
                                       .dataset = "synthetic:?size=4000",
                                       .loader = &loader,
                                       .bench = &r->options,
                                       .step = &step,
                                       .strategy = &r->strategy};
    r->result.struct_size = sizeof r->result;
    r->figures.struct_size = sizeof r->figures;
    assert_ok(stk_bench_create(r->ctx, &setting, &r->bench, &err), &err);
    (void)stk_bench_run(r->bench, &r->result, &r->figures, &err);
    stk_bench_destroy(&r->bench);
    stk_collectives_close(&c);
    return NULL;
}

static network net;
static rank ranks[RANKS];

static int setup(void **state)
{
    (void)state;
    net = (network){.world = RANKS};
    pthread_mutex_init(&net.lock, NULL);
    for (uint64_t r = 0; r < RANKS; r++) {
        ranks[r] = (rank){.end = {&net, r}, .ctx = test_context()};
        stk_bench_options_init(&ranks[r].options);
        ranks[r].options.min_seconds = 0;
        ranks[r].options.min_batches = 20;
        ranks[r].options.warmup = 3;
        ranks[r].options.all_reduce = 10001; /* no whole number of floats, nor of ranks */
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint64_t r = 0; r < RANKS; r++)
        stk_context_destroy(&ranks[r].ctx);
    pthread_mutex_destroy(&net.lock);
    return 0;
}

static void run_all(void)
{
    pthread_t threads[RANKS];

    for (uint64_t r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    for (uint64_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    assert_false(net.torn);
}

/* One needs four times as many batches as the others: all go on until it has them. */
static void test_they_end_together(void **state)
{
    (void)state;
    ranks[1].options.min_batches = 80;
    run_all();
    for (uint64_t r = 0; r < RANKS; r++) {
        assert_ok(ranks[r].result.status, &ranks[r].result.error);
        assert_int_equal(ranks[r].steps, ranks[0].steps);
        assert_true(ranks[r].figures.steps >= 80 && ranks[r].figures.steps < 100);
        assert_true(ranks[r].result.all_reduce > 0);
        assert_true(ranks[r].result.all_reduce < ranks[r].figures.step_time);
    }
}

/* One that is cancelled ends all, in good order. */
static void test_one_is_cancelled(void **state)
{
    (void)state;
    ranks[2].cancel_at = 9;
    run_all();
    for (uint64_t r = 0; r < RANKS; r++) {
        assert_int_equal(ranks[r].steps, 9);
        assert_int_equal(ranks[r].result.interrupted, r == 2);
        assert_int_equal(ranks[r].result.status, STK_OK);
    }
}

/* One that fails is named by the others. */
static void test_one_fails(void **state)
{
    (void)state;
    ranks[1].fail_at = 9;
    run_all();
    assert_int_equal(ranks[1].result.status, STK_EINTERNAL);
    for (uint64_t r = 0; r < RANKS; r += 2) {
        assert_true(ranks[r].result.status < 0);
        assert_non_null(strstr(ranks[r].result.error.text, "rank 1"));
    }
}

static void test_other_values_are_seen(void **state)
{
    (void)state;
    ranks[0].spoils = true;
    run_all();
    assert_int_equal(ranks[0].result.status, STK_EIO);
    assert_non_null(strstr(ranks[0].result.error.text, "came back with other values"));
}

static void test_refused(void **state)
{
    static const stk_strategy strategy = {.struct_size = sizeof strategy};
    stk_bench_options options;
    stk_bench_setting setting = {
        .struct_size = sizeof setting, .dataset = "synthetic:?size=8", .bench = &options};
    stk_bench *bench;
    stk_error err;

    (void)state;
    stk_bench_options_init(&options);
    options.all_reduce = 4;
    assert_int_equal(stk_bench_create(ranks[0].ctx, &setting, &bench, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "bench.all_reduce: nothing carries it"));
    options.all_reduce = 0;
    setting.strategy = &strategy;
    assert_int_equal(stk_bench_create(ranks[0].ctx, &setting, &bench, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "set bench.all_reduce"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_they_end_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_is_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_values_are_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
