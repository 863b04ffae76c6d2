/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: the event log, counters, statistics of waits, the verdict. */
#ifndef STOKER_MEASURE_H
#define STOKER_MEASURE_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The event log -------------------------------------------------------------------------- */

/*
 * JSON lines, a superset of the published benchmark's: the same ten event names with the same
 * leading fields, then more; `time` is the wall clock (microseconds), `time_ns` the monotonic one.
 * Each line is appended whole. A "get-batch" is one sample. Samples prepared together share one
 * time and say with "task": n how many they were. Above 10,000 a second they are thinned, and a
 * "thinned" event says how many were left out.
 */
typedef struct stk_log stk_log;

/**
 * Open (append) the log at `path` and listen to the context.
 *
 * Ownership: *out is the caller's, ended with stk_log_close() before the context is destroyed.
 * Thread: any. Blocks. Errors: STK_EACCES, STK_ENOENT, STK_ENOSPC, ... of the file; STK_EBUSY with
 * too many listeners; STK_ENOMEM, STK_ETHREAD.
 */
STK_API STK_NODISCARD stk_status stk_log_open(stk_context *context, const char *path, stk_log **out,
                                              stk_error *err);

/**
 * Write what is buffered, stop listening and set *log to NULL. Accepts NULL.
 * The status is that of the first write that failed since the log was opened; after one nothing
 * more was written, and the file ends with a whole line.
 */
STK_API stk_status stk_log_close(stk_log **log, stk_error *err);

/** In the place of a duration: none. */
#define STK_NO_DURATION UINT64_MAX

/**
 * Write the line {"event": "NAME", FIRST, "time": ..., "duration": ..., MORE, "time_ns": ...,
 * "pid": ...}.
 *
 * `first` and `more` are members in JSON without braces ("\"epoch\": 0"), or NULL. `when_ns` is a
 * time of CLOCK_MONOTONIC; 0: now. `duration_ns` may be STK_NO_DURATION. `log` may be NULL. Any
 * thread.
 */
STK_API void stk_log_event(stk_log *log, const char *name, const char *first, uint64_t when_ns,
                           uint64_t duration_ns, const char *more);

/** The shortest decimal that reads back as the same double, as Python and JSON write it ("0.1",
 * "5e-05", "2.0"; "null" for what JSON cannot say). Returns its length. */
STK_API int stk_number_format(double value, char text[32]);

/* ---- Counters ------------------------------------------------------------------------------- */

/** What happened in a context while a counter listened. Times are sums over threads, in
 * nanoseconds. */
typedef struct stk_counts {
    uint32_t struct_size;
    uint64_t samples; /**< prepared; what the log calls get-batch */
    uint64_t tasks;   /**< in so many pieces of work */
    uint64_t task_ns;
    uint64_t reads, read_bytes, read_failures, read_ns;
    uint64_t batches;       /**< made ready */
    uint64_t batch_samples; /**< real rows in them */
    uint64_t bad_samples;
} stk_counts;

typedef struct stk_counter stk_counter;

/** Begin to count. *out is the caller's, ended with stk_counter_close() before the context is
 * destroyed. */
STK_API STK_NODISCARD stk_status stk_counter_open(stk_context *context, stk_counter **out,
                                                  stk_error *err);
/** What was counted so far. Any thread. */
STK_API void stk_counter_get(const stk_counter *counter, stk_counts *out);
/** Stop and set *counter to NULL. Accepts NULL. */
STK_API void stk_counter_close(stk_counter **counter);

/* ---- Statistics ----------------------------------------------------------------------------- */

/** Statistics of a list of durations in seconds. */
typedef struct stk_spread {
    uint64_t n;
    double mean, p50, p95, p99, max, min, sum;
} stk_spread;

/** Percentiles by linear interpolation, as NumPy's default. Sorts `values`. n = 0 gives zeros. */
STK_API void stk_spread_of(double *values, uint64_t n, stk_spread *out);

/**
 * The slope of memory that grows steadily over epochs, in bytes per epoch; 0 where it does not.
 *
 * `bytes[i]` was held at the end of epoch `epochs[i]`, in rising order. Steady: at least 5 values,
 * none below the one before, three quarters of the steps upwards, the later half growing at least
 * half as fast as the earlier, and a median of all pairwise slopes [Theil 1950, Sen 1968] of 64 KiB
 * or more. Memory that fills a cache and stays is none.
 */
STK_API double stk_memory_slope(const uint64_t *epochs, const uint64_t *bytes, uint64_t n);

/* ---- The verdict ---------------------------------------------------------------------------- */

/** What one setting of a bench measured; all that the verdict looks at. Seconds and bytes; 0 where
 * unknown. */
typedef struct stk_figures {
    uint32_t struct_size;
    double samples_per_s, ceiling_samples_per_s;
    stk_spread wait;     /**< of each measured step but the first */
    double first_wait;   /**< of the first batch of the run */
    double epoch_turn;   /**< mean wait of the first batch of the later epochs */
    double step_share;   /**< share of the wall time the step ran */
    double step_stretch; /**< time of the step beside the loader / alone */
    double step_time;    /**< mean duration of a step, s */
    double wall;         /**< of the measured window, s */
    double cpu_s;        /**< of the process in the window, without the step's */
    double cpu_s_per_1000;
    uint64_t peak_bytes; /**< anonymous and shared memory of the process beyond what it had before
                            the loader */
    uint64_t budget_bytes;
    double leak_bytes_per_epoch; /**< slope of the memory over the epochs; 0: no steady growth */
    uint64_t bytes_read, requests;
    uint64_t samples, steps, batch_size;
    int64_t num_workers, io_depth, prefetch;
    double prepare_busy, prepare_wait_in, prepare_wait_out; /**< worker seconds */
    double read_latency, read_seconds; /**< mean of a request, sum over requests */
    double cached_share;               /**< of the files in the page cache; < 0: unknown */
    uint32_t usable_cores, compute_cores,
        ranks;    /**< `num_workers` and the figures are of one rank */
    bool spin;    /**< the step computes; else it sleeps and its cores are free */
    bool no_step; /**< there is none: the rate is the loader's own */
    uint64_t allocations_per_step_times_1000; /**< of Stoker's own, after warm-up */
} stk_figures;

/** What limits a setting. */
typedef enum stk_limit {
    STK_LIMIT_STEP = 0,       /**< the step takes all the time: nothing to gain */
    STK_LIMIT_ONE_CORE,       /**< num_workers 0: the step and the preparation take turns */
    STK_LIMIT_CORES,          /**< all cores busy */
    STK_LIMIT_STORAGE,        /**< preparation waits for reads */
    STK_LIMIT_OVERSUBSCRIBED, /**< workers slow the step */
    STK_LIMIT_WORKERS,        /**< all workers busy and cores left over */
    STK_LIMIT_UNKNOWN
} stk_limit;

/** One word for a limit: "step", "one core", "cores", ... Never NULL. */
STK_API const char *stk_limit_name(stk_limit limit);

typedef struct stk_verdict {
    uint32_t struct_size;
    stk_limit limit;
    double lost_share;        /**< of the wall time, that the step waited */
    char knob[32], value[32]; /**< what to change, to what; empty: nothing */
    double gain;              /**< factor in samples/s to expect; 1: none */
    char text[1024];          /**< one paragraph */
} stk_verdict;

/** Thresholds of the verdict, and the rule of thumb it quotes. */
#define STK_JUDGE_WAIT    0.05 /**< below this share of the time in waits, the step is the limit */
#define STK_JUDGE_STRETCH 1.10 /**< above this stretch, the loader slows the step */
#define STK_JUDGE_BUSY                                                                             \
    0.80 /**< at or above this share of their time, workers or cores are busy                      \
          */
#define STK_JUDGE_READ                                                                             \
    0.50 /**< at or above this share of their time waiting for reads, storage is the limit */

/** Judge one setting. Pure. */
STK_API void stk_judge(const stk_figures *figures, stk_verdict *out);

#ifdef __cplusplus
}
#endif
#endif
