/* A run while it is measured: what run.c and window.c share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BENCH_RUN_H
#define STK_SRC_BENCH_RUN_H

#include "bench/bench.h"

/* What may be asked of a run from elsewhere. */
struct stk_bench {
    stk_context *ctx;
    stk_bench_setting setting;
    stk_bench_options options;
    stk_loader_options loader_options;
    stk_bench_step step;
    stk_bench_feed feed;
    stk_strategy strategy;
    atomic_bool cancelled;
    _Atomic(stk_loader *) loader; /* that a cancel is to reach; NULL: none */
    atomic_int cancelling;        /* calls of stk_bench_cancel() at work */
};

typedef struct stk__bench_run {
    stk_bench *bench;
    const stk_bench_setting *setting;
    const stk_bench_options *options;
    stk_bench_result *result;
    stk_figures *figures;
    stk_cores cores;
    stk_loader_options loader_options;
    stk_event_log *log;
    stk__counter *counter;
    stk__event_trace *trace;
    stk_dataset *opened; /* by the run; NULL: `dataset` is the caller's */
    stk_dataset *dataset;
    stk_loader *loader;
    const stk_bench_feed *feed; /* in place of data and loader; NULL: none */
    bool feeding;               /* its epoch has begun */
    uint64_t fed;               /* batches of it */
    stk_waits fed_waits;
    bool keeps;      /* a ceiling: the one batch that is had again and again, */
    stk_batch *kept; /* where it is of a loader */
    uint64_t count;  /* samples of the batch that was taken last */
    stk__bench_step *step;
    stk__bench_all_reduce *reduce; /* of each step; NULL: none */
    stk_status reduced;            /* what became of the last one */
    bool enough;                   /* this rank need not go on */
    stk__bench_memory *memory;
    stk__bench_ledger ledger;

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
    uint64_t delivered; /* samples */
    uint64_t resets;    /* times that prefetched batches were thrown away */
    uint64_t progress_ns;
    bool new_epoch; /* the next batch is the first of a later epoch */

    /* The window: from the end of its first step. */
    bool in_window;
    uint64_t window_ns, steps, samples;
    double step_sum, reduce_sum; /* step_sum has the all-reduce in it */
    uint64_t cpu_ns, step_cpu_ns, allocations;
    stk__usage usage;
    stk__counts counts;
    stk_loader_stats stats;
    stk_bench_feed_stats feed_stats;
} stk__bench_run;

/* The loader that a cancel is to reach; NULL: none. When this returns no cancel is in the one
 * before. */
void stk__bench_publish(stk_bench *bench, stk_loader *loader);

/* ---- The log (run_log.c); without one they do nothing ---------------------------------------- */

stk_status stk__bench_run_log_open(stk__bench_run *run);
/* An epoch begins, or ends. */
void stk__bench_run_log_epoch(stk__bench_run *run, bool start);
/* A step begins (without a duration), or ends after `reduced` seconds of its all-reduce. */
void stk__bench_run_log_step(stk__bench_run *run, const char *name, uint64_t when_ns,
                             uint64_t duration_ns, double reduced);
/* The verdict, the end, and that of the trace. */
void stk__bench_run_log_end(stk__bench_run *run);

/* ---- The window (window.c) ------------------------------------------------------------------- */

/* The end of the first step: what was done so far is not part of the window. */
void stk__bench_window_begin(stk__bench_run *run, uint64_t now);
/* All figures, once the last step has ended. */
void stk__bench_window_figures(stk__bench_run *run);
/* Each sample delivered had one event; the others were prepared in advance and thrown away: no more
 * than fit the ring. */
void stk__bench_window_check(stk__bench_run *run);

#endif
