/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training step, the caller's own or simulated. The simulated one sleeps to an absolute time,
 * or it spins: a fixed amount of arithmetic on each of the cores kept for compute, found once by
 * running alone, so that what it takes longer while the loader runs shows what the loader takes
 * from it.
 */
#include "bench/bench.h"

#define FIRST_ROUNDS     20000
#define CALIBRATE_RUNS   51
#define CALIBRATE_BUDGET 0.4 /* seconds for the runs that measure the time alone, */
#define CALIBRATE_SLEEP  0.1 /* and where nothing but sleeping is measured */
#define CALIBRATE_WARM   0.2 /* seconds of work before, in which cores reach their clock rate */

typedef struct helper {
    stk__bench_step *step;
    stk__thread thread;
} helper;

struct stk__bench_step {
    stk_context *ctx;
    const stk_bench_step *own; /* NULL: simulated */
    const atomic_bool *cancelled;
    stk_status failure;
    stk_error error;
    double seconds, alone;
    bool spin;
    uint32_t threads; /* that compute in it */
    uint32_t helpers; /* of them, started here */
    uint64_t rounds;

    pthread_mutex_t lock; /* guards the next three */
    uint64_t turn;        /* number of the step that helpers are to do */
    uint32_t working;
    bool stop;
    pthread_cond_t go, done;
    atomic_uint_fast64_t cpu_ns;
    atomic_uint_fast64_t sink; /* what the arithmetic came to, so that it is not left out */
    helper each[];
};

static bool cancelled(const stk__bench_step *step)
{
    return atomic_load_explicit(step->cancelled, memory_order_relaxed);
}

static void work(stk__bench_step *step)
{
    uint64_t before = stk__thread_cpu_ns();
    uint64_t x = before | 1;

    /* Each round depends on the one before: nothing to vectorise, the same work everywhere. */
    for (uint64_t i = 0; i < step->rounds; i++) {
        x ^= x >> 12;
        x ^= x << 25;
        x *= UINT64_C(2685821657736338717);
    }
    atomic_fetch_add_explicit(&step->sink, x, memory_order_relaxed);
    atomic_fetch_add_explicit(&step->cpu_ns, stk__thread_cpu_ns() - before, memory_order_relaxed);
}

static void help(void *argument)
{
    stk__bench_step *step = ((helper *)argument)->step;
    uint64_t seen = 0;

    pthread_mutex_lock(&step->lock);
    for (;;) {
        while (step->turn == seen && !step->stop)
            pthread_cond_wait(&step->go, &step->lock);
        if (step->stop)
            break;
        seen = step->turn;
        pthread_mutex_unlock(&step->lock);
        work(step);
        pthread_mutex_lock(&step->lock);
        if (--step->working == 0)
            pthread_cond_signal(&step->done);
    }
    pthread_mutex_unlock(&step->lock);
}

static void spin(stk__bench_step *step)
{
    pthread_mutex_lock(&step->lock);
    step->turn++;
    step->working = step->helpers;
    if (step->helpers)
        pthread_cond_broadcast(&step->go);
    pthread_mutex_unlock(&step->lock);
    work(step);
    pthread_mutex_lock(&step->lock);
    while (step->working)
        pthread_cond_wait(&step->done, &step->lock);
    pthread_mutex_unlock(&step->lock);
}

/* The threads of a computation work as long as the one that waits for them, or nearly so. */
static void run_own(stk__bench_step *step, const stk_batch *batch)
{
    uint64_t before = stk__thread_cpu_ns();

    /* The first failure is what is told. */
    if (step->failure == STK_OK) {
        stk_error_init(&step->error);
        step->failure = batch || !step->own->run_alone
                            ? step->own->run(step->own->user, batch, &step->error)
                            : step->own->run_alone(step->own->user, &step->error);
    }
    atomic_fetch_add_explicit(&step->cpu_ns, (stk__thread_cpu_ns() - before) * step->threads,
                              memory_order_relaxed);
}

void stk__bench_step_run(stk__bench_step *step, const stk_batch *batch)
{
    if (step->own)
        run_own(step, batch);
    else if (step->seconds <= 0)
        return;
    else if (step->spin)
        spin(step);
    else
        stk__sleep_until(stk__now_ns() + (uint64_t)(step->seconds * 1e9), step->cancelled);
}

/* The time of one step; of work that is made up what the processor takes for it, so that other
 * programs make it no longer. */
static double timed(stk__bench_step *step)
{
    const bool made_up = step->spin && !step->own;
    const uint64_t cpu = stk__bench_step_cpu_ns(step), start = stk__now_ns();

    stk__bench_step_run(step, NULL);
    if (made_up)
        return stk__seconds(stk__bench_step_cpu_ns(step) - cpu) / step->threads;
    return stk__seconds(stk__now_ns() - start);
}

/* The work that takes the time asked for: grow until it is long enough to measure, warm up, then
 * aim. */
static void find_rounds(stk__bench_step *step)
{
    uint64_t start = stk__now_ns();
    double took;

    step->rounds = FIRST_ROUNDS;
    for (took = timed(step); took < step->seconds / 2 && step->rounds < UINT64_MAX / 4;
         took = timed(step))
        step->rounds *= 2;
    do {
        step->rounds = (uint64_t)((double)step->rounds * step->seconds / took) + 1;
        took = timed(step);
    } while (stk__seconds(stk__now_ns() - start) < CALIBRATE_WARM && !cancelled(step));
}

/* Memory is allocated, kernels are made, cores reach their clock rate; what one takes is known
 * roughly. */
static void warm_own(stk__bench_step *step)
{
    uint64_t start = stk__now_ns();

    do
        step->seconds = timed(step);
    while (stk__seconds(stk__now_ns() - start) < CALIBRATE_WARM && !cancelled(step) &&
           step->failure == STK_OK);
}

void stk__bench_step_calibrate(stk__bench_step *step)
{
    double values[CALIBRATE_RUNS];
    uint64_t n = 0;

    if (step->own && !step->own->run_alone)
        return;
    if (step->own)
        warm_own(step);
    if (step->seconds <= 0)
        return;
    if (step->spin && !step->own)
        find_rounds(step);
    double runs = (step->spin ? CALIBRATE_BUDGET : CALIBRATE_SLEEP) / step->seconds;
    do
        values[n++] = timed(step);
    while (n < CALIBRATE_RUNS && (double)n < runs && !cancelled(step));
    stk_spread spread;
    stk_spread_of(values, n, &spread);
    step->alone = spread.p50;
}

static stk_status start_helpers(stk__bench_step *step, stk_error *err)
{
    for (uint32_t i = 0; step->spin && !step->own && i + 1 < step->threads; i++) {
        step->each[i].step = step;
        STK_TRY(stk__thread_start(step->ctx, &step->each[i].thread, "stk-step", help,
                                  &step->each[i], err));
        step->helpers++;
    }
    return STK_OK;
}

stk_status stk__bench_step_create(stk_context *ctx, const stk_bench_step *own, double seconds,
                                  bool spinning, uint32_t threads, const atomic_bool *cancelled,
                                  stk__bench_step **out, stk_error *err)
{
    *out = NULL;
    if (own)
        threads = own->threads;
    else if (!spinning)
        threads = 1;
    threads = STK_MAX(threads, 1);
    stk__bench_step *step = stk__calloc(ctx, 1, sizeof *step + threads * sizeof *step->each);
    if (!step)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the step");
    step->ctx = ctx;
    step->own = own;
    step->cancelled = cancelled;
    step->seconds = step->alone = own ? 0 : seconds;
    step->spin = spinning || own;
    step->threads = threads;
    pthread_mutex_init(&step->lock, NULL);
    pthread_cond_init(&step->go, NULL);
    pthread_cond_init(&step->done, NULL);
    stk_status status = start_helpers(step, err);
    if (status != STK_OK)
        stk__bench_step_destroy(step);
    else
        *out = step;
    return status;
}

stk_status stk__bench_step_failure(const stk__bench_step *step, stk_error *err)
{
    if (step->failure != STK_OK)
        *err = step->error;
    return step->failure;
}

void stk__bench_step_destroy(stk__bench_step *step)
{
    if (!step)
        return;
    pthread_mutex_lock(&step->lock);
    step->stop = true;
    pthread_cond_broadcast(&step->go);
    pthread_mutex_unlock(&step->lock);
    for (uint32_t i = 0; i < step->helpers; i++)
        stk__thread_join(&step->each[i].thread);
    pthread_mutex_destroy(&step->lock);
    pthread_cond_destroy(&step->go);
    pthread_cond_destroy(&step->done);
    stk__free(step->ctx, step);
}

double stk__bench_step_alone(const stk__bench_step *step)
{
    return step->alone;
}

uint64_t stk__bench_step_cpu_ns(const stk__bench_step *step)
{
    return atomic_load_explicit(&step->cpu_ns, memory_order_relaxed);
}
