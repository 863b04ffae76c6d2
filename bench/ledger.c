/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger of waits and the probes cost: `tiny`'s digits beside a step of `--step_us` that
 * computes, `--batches` of them. Built twice: `ledger` with the loader as it is, `ledger_without`
 * with one that takes no stamps. bench/ledger.py runs them in turn.
 */
#include "stream.h"

/* Computes for so many seconds. What other programs take of them is in `wall` and not in `cpu`. */
static void step(double seconds, double *wall, double *cpu)
{
    const double from = bench_now();
    struct timespec began, ended;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
    while (bench_now() < from + seconds)
        continue;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    *cpu += (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
    *wall += bench_now() - from;
}

int main(int argc, char **argv)
{
    struct bench_stream s = {0};
    stk_context_options context;
    stk_loader_options options;
    char spec[4096];
    stk_error err;

    bench_known(argc, argv, "dataset batches warm step_us batch_size num_workers prefetch_factor");
    snprintf(spec, sizeof spec, "mnist:%s/mnist", bench_data());
    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.num_workers = 2;
    options.shuffle = STK_SHUFFLE_FULL;
    options.epochs = 0;
    options.transforms = "normalize(mnist)";
    bench_loader_options(argc, argv, &options);
    const uint64_t batches = (uint64_t)bench_number(argc, argv, "batches", 1000);
    const uint64_t warm = (uint64_t)bench_number(argc, argv, "warm", 100);
    const double length = 1e-6 * bench_number(argc, argv, "step_us", 1000);

    /* Threads, as the emulators that count instructions know too little of io_uring. */
    stk_context_options_init(&context);
    context.io_engine = STK_IO_THREADS;
    bench_check(stk_context_create(&context, &s.context, &err), &err);
    bench_check(
        stk_dataset_open(s.context, bench_text(argc, argv, "dataset", spec), &s.dataset, &err),
        &err);
    bench_check(stk_loader_create(s.dataset, &options, &s.loader, &err), &err);
    for (uint64_t i = 0; i < warm; i++)
        bench_stream_skip(&s);

    double *outside = calloc(batches, sizeof *outside), computed = 0;
    if (!outside)
        bench_die("batches", "no memory");
    const double cpu = bench_cpu();
    for (uint64_t i = 0; i < batches; i++) {
        const double began = bench_now();
        double stepped = 0;
        stk_batch *batch = bench_stream_next(&s);
        if (length > 0)
            step(length, &stepped, &computed);
        stk_batch_release(&batch);
        outside[i] = 1e6 * (bench_now() - began - stepped);
    }
    const double used = bench_cpu() - cpu;
    printf("{\"workload\": \"ledger\", \"batches\": %llu, \"outside_us\": %.4f, "
           "\"cpu_us\": %.4f}\n",
           (unsigned long long)batches, bench_percentile(outside, batches, 50),
           1e6 * (used - computed) / (double)batches);
    free(outside);
    bench_stream_close(&s);
    return 0;
}
