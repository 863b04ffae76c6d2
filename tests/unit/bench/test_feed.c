/* SPDX-License-Identifier: Apache-2.0 */
/* A run measures somebody else's loader: what it is asked for, and what comes of it. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <stoker/bench.h>

#include "base/base.h"
#include "bench/bench.h"

enum { BATCHES = 10, ROWS = 4, LAST = 3 };

typedef struct own_feed {
    uint64_t opened, begun, epochs[16], at, asked, ended, steps;
    uint64_t fail_step, fail_at, fail_end; /* these calls; 0: none */
    double busy;
} own_feed;

static stk_context *ctx;
static own_feed own;
static stk_bench_options options;
static stk_loader_options loader;
static stk_bench_result result;
static stk_figures figures;
static stk_error err;

static stk_status open_data(void *user, stk_error *e)
{
    own_feed *f = user;

    (void)e;
    assert_int_equal(f->begun, 0);
    f->opened++;
    return STK_OK;
}

static stk_status begin(void *user, uint64_t epoch, stk_error *e)
{
    own_feed *f = user;

    (void)e;
    assert_int_equal(f->opened, 1);
    assert_true(f->begun < 16);
    f->epochs[f->begun++] = epoch;
    f->at = 0;
    return STK_OK;
}

static stk_status say(stk_error *e, const char *text)
{
    snprintf(e->text, sizeof e->text, "%s", text);
    return e->status = STK_EKIND;
}

static stk_status next(void *user, uint64_t *samples, stk_error *e)
{
    own_feed *f = user;

    assert_true(f->begun && !f->ended);
    if (f->at == BATCHES)
        return STK_EOS;
    if (++f->asked == f->fail_at)
        return say(e, "sample 7 is bad");
    f->busy += 0.5;
    *samples = ++f->at == BATCHES ? LAST : ROWS;
    return STK_OK;
}

static stk_status end(void *user, stk_error *e)
{
    own_feed *f = user;

    assert_int_equal(f->asked, 1);
    return ++f->ended == f->fail_end ? say(e, "a worker stays") : STK_OK;
}

static void look(void *user, stk_bench_feed_stats *out)
{
    const own_feed *f = user;

    *out = (stk_bench_feed_stats){.struct_size = sizeof *out,
                                  .steps = BATCHES,
                                  .num_workers = 2,
                                  .prefetch = 5,
                                  .persistent_workers = true,
                                  .busy = f->busy,
                                  .budget_bytes = 4096};
}

static stk_status step(void *user, const stk_batch *batch, stk_error *e)
{
    own_feed *f = user;

    assert_null(batch);
    return ++f->steps == f->fail_step ? say(e, "the model is not finite") : STK_OK;
}

static const stk_bench_feed feed = {.struct_size = sizeof feed,
                                    .open = open_data,
                                    .begin = begin,
                                    .next = next,
                                    .end = end,
                                    .look = look,
                                    .user = &own};
static const stk_bench_step own_step = {.struct_size = sizeof own_step, .run = step, .user = &own};

static int set_up(void **state)
{
    (void)state;
    assert_ok(stk_context_create(NULL, &ctx, &err), &err);
    stk_bench_options_init(&options);
    stk_loader_options_init(&loader);
    loader.batch_size = ROWS;
    options.num_epochs = 3;
    options.train_step_time = 0;
    memset(&own, 0, sizeof own);
    result = (stk_bench_result){.struct_size = sizeof result};
    figures = (stk_figures){.struct_size = sizeof figures};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stk_context_destroy(&ctx);
    return 0;
}

static stk_status measure(bool free_data)
{
    const stk_bench_setting setting = {.struct_size = sizeof setting,
                                       .dataset = "python:no:file",
                                       .feed = &feed,
                                       .step = &own_step,
                                       .loader = &loader,
                                       .bench = &options,
                                       .free_data = free_data};
    stk_bench *bench = NULL;

    stk_status status = stk_bench_create(ctx, &setting, &bench, &err);
    if (status == STK_OK)
        status = stk_bench_run(bench, &result, &figures, &err);
    stk_bench_destroy(&bench);
    return status;
}

static void test_epochs(void **state)
{
    static const uint64_t epochs[] = {0, 0, 1, 2};

    (void)state;
    assert_ok(measure(false), &err);
    /* Epoch 0 once for the batches that warm up. */
    assert_int_equal(own.begun, STK_COUNT(epochs));
    assert_memory_equal(own.epochs, epochs, sizeof epochs);
    assert_int_equal(own.steps, 3 * BATCHES);
    assert_int_equal(figures.steps, 3 * BATCHES - 1);
    assert_int_equal(figures.samples, 3 * ((BATCHES - 1) * ROWS + LAST) - ROWS);
    assert_int_equal(figures.wait.n, 3 * BATCHES - 1);
    assert_true(figures.num_workers == 2 && figures.prefetch == 5 && figures.persistent_workers);
    assert_int_equal(figures.budget_bytes, 4096);
    /* Half a second of work for each batch of the window. */
    assert_true(figures.prepare_busy == 0.5 * (3 * BATCHES - 1));
    assert_true(figures.cached_share < 0 && figures.spin && !result.check_failed);
    assert_int_equal(result.delivered, (3 * BATCHES + 5) * ROWS - 3);
    assert_int_equal(own.ended, 0);
}

/* What is left of an epoch after num_batches is thrown away. */
static void test_parts_of_epochs(void **state)
{
    (void)state;
    options.num_batches = 4;
    assert_ok(measure(false), &err);
    assert_int_equal(own.begun, 4);
    assert_int_equal(own.epochs[3], 2);
    assert_int_equal(own.steps, 12);
}

/* Without a number of epochs they follow one another until there are batches enough. */
static void test_as_many_as_asked_for(void **state)
{
    (void)state;
    options.num_epochs = 0;
    options.min_seconds = 0;
    options.min_batches = 45;
    options.warmup = BATCHES; /* its epoch ends in the warm-up */
    assert_ok(measure(false), &err);
    assert_int_equal(own.epochs[0], 0);
    assert_int_equal(own.epochs[1], 1);
    assert_int_equal(figures.steps, 45);
    assert_true(figures.epoch_turn > 0);
}

static void test_free_data(void **state)
{
    (void)state;
    options.num_epochs = 0;
    options.min_seconds = 0;
    options.min_batches = 50;
    options.warmup = 0;
    assert_ok(measure(true), &err);
    assert_int_equal(own.asked, 1);
    assert_int_equal(own.ended, 1);
    assert_int_equal(figures.samples, 50 * ROWS);
    assert_true(figures.num_workers == 0 && figures.prepare_busy == 0);
    memset(&own, 0, sizeof own);
    own.fail_end = 1;
    assert_int_equal(measure(true), STK_EKIND);
    assert_string_equal(err.text, "a worker stays");
    assert_int_equal(own.steps, 0);
}

static void test_failures(void **state)
{
    (void)state;
    own.fail_at = 20;
    assert_int_equal(measure(false), STK_EKIND);
    assert_string_equal(err.text, "sample 7 is bad");
    assert_true(figures.steps > 0);
    tear_down(state);
    set_up(state);
    /* In the warm-up, whose steps go on: the first failure is told. */
    options.num_epochs = 0;
    own.fail_step = 2;
    assert_int_equal(measure(false), STK_EKIND);
    assert_string_equal(err.text, "the model is not finite");
    assert_int_equal(own.steps, 2);
}

static void test_refused(void **state)
{
    (void)state;
    options.ranks = 2;
    assert_int_equal(measure(false), STK_EINVAL);
    assert_non_null(strstr(err.text, "ranks, hashes and traces"));
    assert_int_equal(own.opened, 0);
}

/* CPU time of a child counts while it lives, and once it has ended. */
static void test_processes(void **state)
{
    int up[2], down[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    const uint64_t before = stk__bench_tree_cpu_ns();
    const pid_t child = fork();
    if (child == 0) {
        volatile char *const page = malloc(8 << 20);
        struct timespec used;
        close(down[1]); /* who is not answered ends with the parent */
        for (size_t i = 0; page && i < 8 << 20; i += 1024)
            page[i] = 1;
        do
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        while (used.tv_sec == 0 && used.tv_nsec < 200000000);
        _exit(write(up[1], "x", 1) != 1 || read(down[0], &byte, 1) != 1);
    }
    assert_int_equal(read(up[0], &byte, 1), 1);
    assert_true(stk__bench_tree_cpu_ns() >= before + 150000000);
    const uint64_t bytes = stk__bench_tree_bytes();
    assert_int_equal(write(down[1], "x", 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(stk__bench_tree_cpu_ns() >= before + 150000000);
    const uint64_t left = stk__bench_tree_bytes();
    assert_true(left > 0);
    assert_true(bytes >= left + (7 << 20));
    for (int i = 0; i < 2; i++) {
        close(up[i]);
        close(down[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_epochs),    TEST(test_parts_of_epochs), TEST(test_as_many_as_asked_for),
        TEST(test_free_data), TEST(test_failures),        TEST(test_refused),
        TEST(test_processes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
