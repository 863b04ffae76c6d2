/* A run while it is measured: what bench_run.c and bench_window.c share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_BENCH_RUN_H
#define STK_CLI_BENCH_RUN_H

#include "bench.h"

struct bench_run {
    const struct bench_task *task;
    struct bench_result *result;
    const struct bench_options *bench;
    stk_loader_options loader_options;
    stk_context *context;
    stk_log *log;
    stk_counter *counter;
    stk_trace *trace;
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *kept; /* of a ceiling */
    struct bench_step *step;
    struct bench_memory *memory;
    struct bench_ledger ledger;

    double *waits; /* of each step of the window but the first */
    uint64_t waits_room, num_waits;
    double turns; /* sum of the waits of first batches of later epochs */
    uint64_t num_turns;

    uint64_t start_ns; /* of the run */
    uint64_t setup_ns; /* of setup: what the step needs alone is found before */
    uint64_t asked_ns; /* when the first batch was first asked for */
    uint64_t end_ns;   /* of the last step; 0: none yet */
    uint64_t epoch_ns; /* start of the epoch in the log */
    uint64_t epoch;
    uint64_t batch;     /* of the epoch */
    uint64_t taken;     /* batches from the loader */
    uint64_t delivered; /* samples */
    uint64_t resets;    /* times that prefetched batches were thrown away */
    uint64_t progress_ns;
    bool new_epoch; /* the next batch is the first of a later epoch */

    /* The window: from the end of its first step. */
    bool in_window;
    uint64_t window_ns, steps, samples;
    double step_sum;
    uint64_t cpu_ns, runnable_ns, machine_ns, step_cpu_ns, allocations;
    stk_counts counts;
    stk_loader_stats stats;
};

static inline double bench_seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static inline double bench_over(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* The end of the first step: what was done so far is not part of the window. */
void bench_window_begin(struct bench_run *run, uint64_t now);
/* All figures, once the last step has ended. */
void bench_window_figures(struct bench_run *run);
/* Each sample delivered had one event; the others were prepared in advance and thrown away: no more
 * than fit the ring. */
void bench_window_check(struct bench_run *run);

#endif
