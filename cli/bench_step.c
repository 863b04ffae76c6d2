/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training step, real (bench_train.c) or simulated. The simulated one sleeps to an absolute
 * time, or it spins: a fixed amount of arithmetic on each of the cores kept for compute, found once
 * by running alone, so that what it takes longer beside the loader shows what the loader takes from
 * it.
 */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define NS               1e9
#define FIRST_ROUNDS     20000
#define CALIBRATE_RUNS   51
#define CALIBRATE_BUDGET 0.4 /* seconds for the runs that measure the time alone, */
#define CALIBRATE_SLEEP  0.1 /* and where nothing but sleeping is measured */
#define CALIBRATE_WARM   0.2 /* seconds of work before, in which cores reach their clock rate */

struct helper {
    struct bench_step *step;
    pthread_t thread;
    bool started;
};

struct bench_step {
    struct bench_train *train; /* a real step; NULL: simulated */
    stk_status failure;
    stk_error error;
    double seconds, alone;
    bool spin;
    uint32_t threads;
    uint64_t rounds;

    pthread_mutex_t lock; /* guards the next four */
    pthread_cond_t go, done;
    uint64_t turn; /* number of the step that helpers are to do */
    uint32_t working;
    bool stop;
    atomic_uint_fast64_t cpu_ns;
    atomic_uint_fast64_t sink; /* what the arithmetic came to, so that it is not left out */
    struct helper helpers[];
};

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void work(struct bench_step *step)
{
    uint64_t before = thread_cpu_ns();
    uint64_t x = before | 1;

    /* Each round depends on the one before: nothing to vectorise, the same work everywhere. */
    for (uint64_t i = 0; i < step->rounds; i++) {
        x ^= x >> 12;
        x ^= x << 25;
        x *= UINT64_C(2685821657736338717);
    }
    atomic_fetch_add_explicit(&step->sink, x, memory_order_relaxed);
    atomic_fetch_add_explicit(&step->cpu_ns, thread_cpu_ns() - before, memory_order_relaxed);
}

static void *help(void *argument)
{
    struct bench_step *step = ((struct helper *)argument)->step;
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
    return NULL;
}

static void spin(struct bench_step *step)
{
    pthread_mutex_lock(&step->lock);
    step->turn++;
    step->working = step->threads - 1;
    if (step->threads > 1)
        pthread_cond_broadcast(&step->go);
    pthread_mutex_unlock(&step->lock);
    work(step);
    pthread_mutex_lock(&step->lock);
    while (step->working)
        pthread_cond_wait(&step->done, &step->lock);
    pthread_mutex_unlock(&step->lock);
}

static void sleep_for(double seconds)
{
    uint64_t until = cli_now_ns() + (uint64_t)(seconds * NS);
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
                         .tv_nsec = (long)(until % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0 && !cli_interrupted())
        continue;
}

/* The threads of a computation work as long as the one that waits for them, or nearly so. */
static void run_train(struct bench_step *step, const stk_batch *batch)
{
    uint64_t before = thread_cpu_ns();

    if (step->failure == STK_OK)
        step->failure = bench_train_run(step->train, batch, &step->error);
    atomic_fetch_add_explicit(&step->cpu_ns, (thread_cpu_ns() - before) * step->threads,
                              memory_order_relaxed);
}

void bench_step_run(struct bench_step *step, const stk_batch *batch)
{
    if (step->train)
        run_train(step, batch);
    else if (step->seconds <= 0)
        return;
    if (step->spin)
        spin(step);
    else
        sleep_for(step->seconds);
}

static double timed(struct bench_step *step)
{
    uint64_t start = cli_now_ns();

    bench_step_run(step, NULL);
    return (double)(cli_now_ns() - start) / NS;
}

/* The same for work that is made up: what the processor takes for it, so that other programs make
 * it no longer. */
static double timed_work(struct bench_step *step)
{
    const uint64_t before = bench_step_cpu_ns(step);

    bench_step_run(step, NULL);
    return (double)(bench_step_cpu_ns(step) - before) / NS / step->threads;
}

/* The work that takes the time asked for: grow until it is long enough to measure, warm up, then
 * aim. */
static void find_rounds(struct bench_step *step)
{
    uint64_t start = cli_now_ns();
    double took;

    step->rounds = FIRST_ROUNDS;
    for (took = timed_work(step); took < step->seconds / 2 && step->rounds < UINT64_MAX / 4;
         took = timed_work(step))
        step->rounds *= 2;
    do {
        step->rounds = (uint64_t)((double)step->rounds * step->seconds / took) + 1;
        took = timed_work(step);
    } while ((double)(cli_now_ns() - start) / NS < CALIBRATE_WARM && !cli_interrupted());
}

/* Memory is allocated, kernels are made, cores reach their clock rate; what one takes is known
 * roughly. */
static void warm_train(struct bench_step *step)
{
    uint64_t start = cli_now_ns();

    do
        step->seconds = timed(step);
    while ((double)(cli_now_ns() - start) / NS < CALIBRATE_WARM && !cli_interrupted());
}

void bench_step_calibrate(struct bench_step *step)
{
    double values[CALIBRATE_RUNS];
    uint64_t n = 0;

    if (step->train)
        warm_train(step);
    if (step->seconds <= 0)
        return;
    if (step->spin && !step->train)
        find_rounds(step);
    double runs = (step->spin ? CALIBRATE_BUDGET : CALIBRATE_SLEEP) / step->seconds;
    do
        values[n++] = step->spin && !step->train ? timed_work(step) : timed(step);
    while (n < CALIBRATE_RUNS && (double)n < runs && !cli_interrupted());
    stk_spread spread;
    stk_spread_of(values, n, &spread);
    step->alone = spread.p50;
}

struct bench_step *bench_step_create(double seconds, bool spinning, uint32_t threads)
{
    if (!spinning || threads == 0)
        threads = 1;
    struct bench_step *step = calloc(1, sizeof *step + threads * sizeof *step->helpers);
    if (!step)
        return NULL;
    step->seconds = step->alone = seconds;
    step->spin = spinning;
    step->threads = threads;
    pthread_mutex_init(&step->lock, NULL);
    pthread_cond_init(&step->go, NULL);
    pthread_cond_init(&step->done, NULL);
    for (uint32_t i = 1; i < threads; i++) {
        step->helpers[i].step = step;
        step->helpers[i].started =
            pthread_create(&step->helpers[i].thread, NULL, help, &step->helpers[i]) == 0;
        if (!step->helpers[i].started) {
            bench_step_destroy(step);
            return NULL;
        }
    }
    return step;
}

stk_status bench_step_make(struct cli *cli, stk_context *context,
                           const struct bench_setting *setting, uint32_t threads,
                           struct bench_step **out, stk_error *err)
{
    struct bench_train *train = NULL;
    stk_status status = STK_OK;

    *out = NULL;
    if (setting->recipe)
        status = bench_train_create(cli, context, setting, &train, err);
    if (status != STK_OK)
        return status;
    *out =
        bench_step_create(train ? 0 : setting->bench.train_step_time, setting->bench.spin, threads);
    if (!*out) {
        bench_train_destroy(train);
        stk_error_init(err);
        err->status = STK_ETHREAD;
        snprintf(err->text, sizeof err->text, "could not start the threads of the step");
        return STK_ETHREAD;
    }
    (*out)->train = train;
    if (train) {
        (*out)->spin = true;
        (*out)->threads = bench_train_threads(train);
    }
    return STK_OK;
}

stk_status bench_step_failure(const struct bench_step *step, stk_error *err)
{
    if (step->failure != STK_OK)
        *err = step->error;
    return step->failure;
}

void bench_step_destroy(struct bench_step *step)
{
    if (!step)
        return;
    if (step->train) {
        bench_train_destroy(step->train);
        step->threads = 1; /* it has no helpers */
    }
    pthread_mutex_lock(&step->lock);
    step->stop = true;
    pthread_cond_broadcast(&step->go);
    pthread_mutex_unlock(&step->lock);
    for (uint32_t i = 1; i < step->threads; i++)
        if (step->helpers[i].started)
            pthread_join(step->helpers[i].thread, NULL);
    pthread_mutex_destroy(&step->lock);
    pthread_cond_destroy(&step->go);
    pthread_cond_destroy(&step->done);
    free(step);
}

double bench_step_alone(const struct bench_step *step)
{
    return step->alone;
}

uint64_t bench_step_cpu_ns(const struct bench_step *step)
{
    return atomic_load_explicit(&step->cpu_ns, memory_order_relaxed);
}
