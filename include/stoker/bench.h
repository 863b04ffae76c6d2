/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring loaders: what one that runs is limited by, and runs made to find that out. */
#ifndef STOKER_BENCH_H
#define STOKER_BENCH_H

#include <stoker/array.h>
#include <stoker/chunks.h>
#include <stoker/loader.h>
#include <stoker/measure.h>
#include <stoker/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A loader at work ----------------------------------------------------------------------- */

/**
 * A meter on the loader of one's own training loop: what happened since it was opened, as figures
 * for stk_judge(). What the loop does between two calls of stk_loader_next() is taken for its step.
 */
typedef struct stk_meter stk_meter;

/**
 * Begin to measure `loader`, which was made with `options`.
 *
 * Ownership: *out is the caller's, ended with stk_meter_close() before the loader is destroyed.
 * Thread: any. Errors: STK_ENOMEM, STK_EINVAL (options of no known size), STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_meter_open(stk_context *context, const stk_loader *loader,
                                                const stk_loader_options *options, stk_meter **out,
                                                stk_error *err);
/** Figures since the meter was opened; `samples` takes every batch for a full one. In a child:
 * zeros. Any thread. */
STK_API void stk_meter_get(const stk_meter *meter, stk_figures *out);
/** The loop has ended: figures stay those of now, but for what the machine does, which is unknown
 * once they are asked for much later. Costs next to nothing. One thread at a time. */
STK_API void stk_meter_stop(stk_meter *meter);
/** Another loop begins and counts, with what was between the two. */
STK_API void stk_meter_go_on(stk_meter *meter);
/** End it and set *meter to NULL. Accepts NULL. */
STK_API void stk_meter_close(stk_meter **meter);

/* ---- What a run is -------------------------------------------------------------------------- */

#define STK_BENCH_MAX_RANKS 256

/** The table of stk_bench_options: names, defaults and ranges are written there
 * (src/bench/options.c). Times in seconds. `repeat`, `step` and `hash` say what is asked of the
 * program that makes the runs; `ceiling`, `published` and `ladder` are a plan's. */
typedef struct stk_bench_options {
    uint32_t struct_size;
    uint64_t num_epochs;    /**< 0: as many as the time asks for */
    uint64_t num_batches;   /**< of an epoch; 0: all */
    const char *step;       /**< name of a real step or of a training; NULL: simulated */
    double train_step_time; /**< of the simulated step */
    bool spin;              /**< it computes instead of sleeping */
    bool ceiling;           /**< a plan adds settings whose data are free */
    uint64_t repeat;        /**< runs of each setting */
    uint64_t warmup;        /**< batches before the measured window */
    uint64_t ranks;         /**< processes that share each global batch */
    const char *hash;       /**< where hashes of all rows go; NULL: nowhere */
    bool published;         /**< defaults of the published benchmark */
    bool drop_cache;        /**< ask the kernel to forget the files before */
    bool ladder;            /**< a plan goes one measure after the other, not all combinations */
    const char *trace;      /**< file, or NULL */
    uint64_t trace_every;
    double min_seconds;
    uint64_t min_batches;
    double max_seconds;  /**< 0: no limit */
    uint64_t all_reduce; /**< bytes that `strategy` of the setting combines in each step; 0: none */
} stk_bench_options;

static inline void stk_bench_options_init(stk_bench_options *options)
{
    stk_options_init(stk_option_table_find("bench"), options, sizeof *options);
}

/** The caller's own training step. */
typedef struct stk_bench_step {
    uint32_t struct_size;
    uint32_t threads; /**< that compute in it; 0: one */
    /** One step on a batch, which is given back afterwards. A failure ends the run with it. */
    stk_status (*run)(void *user, const stk_batch *batch, stk_error *err);
    /** (optional) The same without data, to find out how long it takes while no loader is at work.
     * NULL: that is not known, and `step_stretch` is 1. Not beside a feed. */
    stk_status (*run_alone)(void *user, stk_error *err);
    void *user;
} stk_bench_step;

/** What a feed tells of itself. */
typedef struct stk_bench_feed_stats {
    uint32_t struct_size;
    uint64_t steps; /**< batches of an epoch; 0: not known */
    int64_t num_workers, prefetch;
    bool pin_memory, persistent_workers;
    double busy;           /**< seconds that its workers have worked until now; 0: not known */
    uint64_t budget_bytes; /**< memory_budget of a loader of the library's; 0: it is another */
} stk_bench_feed_stats;

/** Somebody else's loader, which a run measures in place of one of the library. Its workers may be
 * processes: what this process and all below it take is counted. All is called by the thread of
 * stk_bench_run(). */
typedef struct stk_bench_feed {
    uint32_t struct_size;
    stk_status (*open)(void *user, stk_error *err); /**< the data; once, and first */
    /** Begin epoch `epoch` from its start; what is left of another is thrown away. */
    stk_status (*begin)(void *user, uint64_t epoch, stk_error *err);
    /** The next batch, of so many samples, in place of the one before; STK_EOS: the epoch is over.
     */
    stk_status (*next)(void *user, uint64_t *samples, stk_error *err);
    /** No other batch is asked for, but steps go on with the one of now: what makes them ends. */
    stk_status (*end)(void *user, stk_error *err);
    void (*look)(void *user, stk_bench_feed_stats *out);
    void *user;
} stk_bench_feed;

/** The table "python": a dataset of Python (python:MODULE:NAME), and how loaders of Python take it.
 * An interpreter measures it: stk_bench_exec(). */
typedef struct stk_bench_python_options {
    uint32_t struct_size;
    int32_t loader; /**< 0: stoker.torch's, 1: PyTorch's */
    const char *dataset_args, *python;
    int32_t multiprocessing_context; /**< 0: the interpreter's default; fork, forkserver, spawn */
    bool in_order;
    int32_t native, rng; /**< of stoker.torch: auto, true, false; torch, stoker */
    const char *dask;
    bool dask_shared;
    uint64_t dask_threads, dask_workers, dask_dashboard_port;
    const char *dask_memory_limit;
} stk_bench_python_options;

/** The bytes of one row of a batch, as XXH3_64bits of all its fields in their order. */
typedef struct stk_bench_hash {
    uint64_t epoch, step, position, index, hash;
} stk_bench_hash;

/** One setting, and how one run of it goes. What is not set is left out. */
typedef struct stk_bench_setting {
    uint32_t struct_size;
    const char *dataset;              /**< spec; opened unless there are `data` */
    stk_dataset *data;                /**< the caller's own, open */
    const stk_loader_options *loader; /**< NULL: the defaults */
    const stk_bench_options *bench;   /**< NULL: the defaults */
    const stk_bench_step *step;       /**< NULL: simulated */
    const stk_bench_feed *feed; /**< in place of data and loader; steps get no batch. NULL: none */
    const stk_bench_python_options *python; /**< of stk_bench_exec(); NULL: none is needed */
    bool free_data;    /**< one batch is served again and again: what if data were free */
    bool log_summary;  /**< the log takes no events of samples and steps */
    const char *log;   /**< event log to append to */
    const char *about; /**< members of its event "run start", in JSON without braces */
    const char *label; /**< for the progress; never longer than STK_BENCH_LABEL */
    uint64_t number;   /**< among several, from 1 */
    uint64_t repeat;   /**< from 1 */
    uint64_t rank; /**< of `bench->ranks`; each has a process, and calls stk_bench_run() there */
    /** With several ranks: wait until all of them have come to place 0, 1, 2, 3. */
    void (*meet)(void *user, int place);
    void *meet_user;
    /** Read the same batches once more, untimed, and tell the hash of each row. False: stop, with
     * STK_EIO. */
    bool (*hash)(void *user, const stk_bench_hash *row);
    void *hash_user;
    /* Of a setting of a plan; a run does not look at them. */
    uint64_t which;                   /**< combination of the configuration */
    uint64_t rung;                    /**< of a ladder, from 1; 0: of none */
    const char *measure;              /**< what the rung adds to the one before: "io_depth=32" */
    const char *options_json;         /**< all options, as a JSON object */
    const stk_prediction *prediction; /**< what is expected of it, for the log; NULL: nothing */
    /** Ranks whose all-reduce of `bench->all_reduce` bytes ends each step, as that of gradients
     * does. They have equally many steps, until all have enough. It is called by the thread of
     * stk_bench_run(), and lives as long as the run. NULL: none. */
    const stk_strategy *strategy;
} stk_bench_setting;

#define STK_BENCH_LABEL 256 /* bytes of a label with its end */

/* ---- One run -------------------------------------------------------------------------------- */

#define STK_BENCH_EPOCHS 128 /* of a training, whose figures are kept: the first ones */

/** What a whole training took and came to. Numbers that are not known are NaN. */
typedef struct stk_bench_training {
    double seconds;  /**< from its begin to its end, with validation and checkpoints; the making of
                        data and model before it and the test after it are left out. 0: the run was
                        no training */
    uint64_t epochs; /**< that were begun */
    double epoch_mean; /**< mean seconds of an epoch, with what follows its last step */
    double last_loss;  /**< mean loss of the samples of the last epoch */
    /** The same of each epoch, of the first STK_BENCH_EPOCHS ones. */
    double epoch_seconds[STK_BENCH_EPOCHS], loss[STK_BENCH_EPOCHS];
    double accuracy, evaluated_loss; /**< of what it came to: on test data, or where there are none
                                        on validation data */
    bool tested;                     /**< on test data */
    uint64_t peak_bytes;             /**< most memory that the process had resident */
} stk_bench_training;

/** What came of a run in addition to its figures. Plain memory without pointers, so that it can be
 * sent from a process to another of the same program. */
typedef struct stk_bench_result {
    uint32_t struct_size;
    stk_status status; /**< STK_OK; STK_ECANCELED; or why it failed, */
    stk_error error;   /**< in words */
    uint64_t epochs;   /**< ended in the measured window */
    double setup;      /**< seconds from the start to the first measured step */
    uint64_t events;   /**< samples that were prepared; a check of the figures: they are */
    uint64_t delivered, discarded_most, bad_samples; /**< at most the sum of these */
    double other_cores; /**< kept busy by other programs in the window */
    uint32_t cores_online, cores_preparation;
    uint64_t stoker_peak_bytes; /**< of Stoker's own allocations */
    bool undecoded;             /**< batches hold pictures as they are stored */
    bool interrupted, check_failed, log_failed, log_written;
    stk_bench_training training; /**< what was measured, where its `seconds` are not 0 */
    char bad[1024];              /**< "12 bad samples: ..."; empty: none */
    char environment[64]; /**< "OMP_WAIT_POLICY=passive": to be set before a process starts whose
                             step computes on several threads, else they keep their cores busy
                             between steps and take them from the workers; empty: nothing */
    /** Mean seconds of the all-reduce of a step, with the wait for ranks that come later; 0: there
     * was none. Of several ranks: of the one that came last, and of the one that waited most.
     */
    double all_reduce, all_reduce_most;
} stk_bench_result;

typedef struct stk_bench stk_bench;

/**
 * Prepare a run of `setting` in this process. The struct is copied, what it points to must outlive
 * the run. To be measured by itself a setting needs a process by itself: memory that an earlier one
 * has touched does not grow again. `stoker bench` forks one for each run, while it has neither
 * threads nor contexts.
 *
 * Ownership: *out is the caller's, ended with stk_bench_destroy(). Thread: any. Errors: STK_EINVAL
 * (no dataset; rank and world_size set next to ranks; a step that is named and not given),
 * STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_bench_create(stk_context *context,
                                                  const stk_bench_setting *setting, stk_bench **out,
                                                  stk_error *err);

/**
 * Set up, warm up, and measure: next batch, step, next batch, step ...
 *
 * @return the status of the result, which with the figures holds what was measured until the run
 * ended, also where it failed or was cancelled. figures->steps is 0 where nothing was.
 *
 * Thread: one caller at a time, once for each stk_bench. Blocks: as long as the options ask for.
 * Errors: those of the dataset, the loader, the log, the step; STK_ECANCELED.
 */
STK_API stk_status stk_bench_run(stk_bench *bench, stk_bench_result *result, stk_figures *figures,
                                 stk_error *err);

/** End a run soon, with what was measured until then. Async-signal-safe. Any thread. */
STK_API void stk_bench_cancel(stk_bench *bench);
/** Free it and set *bench to NULL. Accepts NULL. */
STK_API void stk_bench_destroy(stk_bench **bench);

/**
 * Become the interpreter that measures a setting with `python`: its package stoker, of this
 * version, writes stk_bench_result and stk_figures to `fd`. The process has no threads and no
 * context. Returns only where that fails. Errors: STK_ENOENT (no such interpreter), STK_ESYSTEM.
 */
STK_API stk_status stk_bench_exec(const stk_bench_setting *setting, int fd, stk_error *err);

/* ---- Plans: many settings, and what came of them ----------------------------------------------
 */

#define STK_BENCH_MAX_SETTINGS 1000
#define STK_BENCH_NONE         SIZE_MAX /* in the place of a setting: there is none */

/** What is at the top of a configuration. */
typedef struct stk_bench_source {
    uint32_t struct_size;
    const char *dataset; /**< spec */
} stk_bench_source;

typedef struct stk_bench_plan_options {
    uint32_t struct_size;
    /** (optional) Called with each setting, in its order, once its options are read, to change
     * them. A failure ends stk_bench_plan_create() with it. */
    stk_status (*adjust)(void *user, stk_bench_setting *setting, stk_loader_options *loader,
                         stk_bench_options *bench, stk_error *err);
    void *user;
    const char *python; /**< interpreter where python.python is not given; NULL: python3 */
} stk_bench_plan_options;

typedef struct stk_bench_plan stk_bench_plan;

/**
 * All settings of a configuration (the sections context, loader and bench, and dataset): of keys
 * with several values every combination, or with bench.ladder one after the other; with
 * bench.ceiling one more for each batch size.
 *
 * `options` may be NULL. Ownership: *out is the caller's, ended with stk_bench_plan_destroy(); the
 * configuration outlives it. Thread: one at a time. In a child of fork() a plan of the parent can
 * be read. Errors: STK_EINVAL names the key; more than STK_BENCH_MAX_SETTINGS; STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_bench_plan_create(stk_context *context, stk_config *config,
                                                       const stk_bench_plan_options *options,
                                                       stk_bench_plan **out, stk_error *err);
/** Sets *plan to NULL. Accepts NULL. */
STK_API void stk_bench_plan_destroy(stk_bench_plan **plan);
/** Number of settings. */
STK_API size_t stk_bench_plan_count(const stk_bench_plan *plan);
/** Setting `i`, ready for stk_bench_create() once what the run alone knows is set; empty past the
 * last. What it points to lives as long as the plan. */
STK_API void stk_bench_plan_get(const stk_bench_plan *plan, size_t i, stk_bench_setting *out);

/**
 * Add what came of one rank of one run of setting `i`: rank 0 begins a run, the others of it follow
 * before the next.
 */
STK_API STK_NODISCARD stk_status stk_bench_plan_add(stk_bench_plan *plan, size_t i, uint64_t rank,
                                                    const stk_bench_result *result,
                                                    const stk_figures *figures, stk_error *err);

/**
 * Predict what the settings without a run will come to, from the first run of the first setting
 * that has one: those that differ from it in nothing but what stk_what_if has. `log` is the log of
 * that run with all its events; NULL: its figures have to do. From then on stk_bench_plan_get()
 * gives the predictions. Where none can be made there is none, and that is no failure.
 *
 * Blocks: reads the log. Errors: STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_bench_plan_predict(stk_bench_plan *plan, const char *log,
                                                        stk_error *err);

/** What came of a setting, over its ranks and runs. */
typedef struct stk_bench_row {
    uint32_t struct_size;
    bool ended;                     /**< there are figures to show */
    uint64_t runs;                  /**< that ended well */
    const stk_bench_result *result; /**< of all ranks of the run with the median rate; NULL: none */
    const stk_figures *figures;     /**< likewise: rates summed, waits of the slowest */
    const stk_figures *judged;      /**< of its slowest rank, with the rate of all */
    double least, most;             /**< samples/s over the runs; of trainings, those a second */
    double factor, share; /**< of a ladder: the rate over that of the rung before (of trainings the
                             speed-up over that one's), and which share of the whole speed-up that
                             is; NaN: there is none */
    /** As fast as the baseline: the median, the least and the most over pairs of runs, the n-th of
     * this setting with the n-th of the baseline, which ran next to each other. NaN: none. */
    double speed_up, speed_up_least, speed_up_most;
    uint64_t pairs;
    double sureness;   /**< probability that the true median of such ratios is between the least and
                          the most: of n pairs 1 - 2 / 2^n; 0 of less than 2 */
    bool other_losses; /**< a training: a run of it had losses that differ from those of the first
                          run of the baseline, of a ladder of the rung before, in any bit of any
                          epoch that both have */
    bool uneven;       /**< a training: its own runs had different losses */
} stk_bench_row;

/** Row of setting `i`; it lives until the next stk_bench_plan_add(). */
STK_API void stk_bench_plan_row(const stk_bench_plan *plan, size_t i, stk_bench_row *out);
/** The verdict of setting `i` next to the others, where they differ from it in one option alone. */
STK_API void stk_bench_plan_judge(const stk_bench_plan *plan, size_t i, stk_verdict *out);

/** What the rows say together. */
typedef struct stk_bench_summary {
    uint32_t struct_size;
    bool alike;         /**< the best and the worst are as fast as each other, as far as measured */
    bool faster;        /**< the best is faster than the baseline, and not alike */
    size_t best, worst; /**< settings by rate, or STK_BENCH_NONE */
    size_t baseline;    /**< the first without workers, else the first */
    double speed_up;    /**< rate of the best over that of the baseline */
    double ladder;      /**< of the last rung over that of the first; NaN: no ladder */
    double other_cores; /**< most that other programs kept busy, where that is known */
    uint32_t num_broken; /**< settings whose self-check failed */
    bool trainings; /**< runs were trainings: rates are of trainings a second, not of samples */
} stk_bench_summary;

STK_API void stk_bench_plan_summary(const stk_bench_plan *plan, stk_bench_summary *out);

/**
 * Option `k`, from 0, of those of which more gives no more: the points of its values next to the
 * best setting, in their order.
 *
 * @return their number, of which `room` at most are written; from points[*from] on there is no gain
 * (*from is the number where there is still one); 0 past the last option.
 */
STK_API size_t stk_bench_plan_saturation(const stk_bench_plan *plan, size_t k,
                                         stk_sweep_point *points, size_t room, size_t *from);

/* ---- What storage gives --------------------------------------------------------------------- */

/** What came of reading a store in one way for a while. */
typedef struct stk_storage_test {
    uint32_t struct_size;
    const char *name;            /**< "random 4 KiB, 1 at a time"; static */
    uint64_t length;             /**< bytes of a read */
    uint32_t depth;              /**< reads under way */
    bool random;                 /**< else in order */
    double latency, latency_p95; /**< seconds of a read: the median, the 95th percentile */
    double reads_per_s, bytes_per_s;
    uint64_t failures; /**< reads that failed */
} stk_storage_test;

typedef struct stk_storage_measure_options {
    uint32_t struct_size;
    void (*test)(void *user, const stk_storage_test *test); /**< (optional) called after each */
    bool (*stop)(void *user); /**< (optional) asked between reads; true: STK_ECANCELED */
    void *user;
} stk_storage_measure_options;

/**
 * Measure what the store of a URL or path gives: small reads at random, alone and many at a time,
 * and large ones in order and at random, of the first objects in it and in its folders. Files in
 * the page cache are read from there.
 *
 * `options` may be NULL. *figures is for stk_storage_judge(). Blocks: some seconds. Thread: any.
 * Errors: those of the store; STK_ENOENT (nothing to read), STK_ENOMEM, STK_ECANCELED.
 */
STK_API STK_NODISCARD stk_status stk_storage_measure(stk_context *context, const char *url,
                                                     const stk_storage_measure_options *options,
                                                     stk_storage_figures *figures, stk_error *err);

/** What windows of one chunk shape took. */
typedef struct stk_chunks_measured {
    uint32_t struct_size;
    double windows;   /**< that were read */
    double seconds;   /**< of each; NaN: not measured, see `note` */
    double ratio;     /**< decoded bytes / stored bytes; NaN: not known */
    const char *note; /**< why it was not measured; NULL: it was. Static */
} stk_chunks_measured;

/** Chunk shapes to be tried on a sample of an array. */
typedef struct stk_chunks_trial {
    uint32_t struct_size;
    uint64_t sample;       /**< bytes of the array to write again, at most */
    size_t count;          /**< shapes */
    const int64_t *chunks; /**< `count` rows of the question's `rank` sides */
    /** Called after each shape with its number, from 0. */
    void (*measured)(void *user, size_t i, const stk_chunks_measured *measured);
    bool (*stop)(void *user); /**< (optional) asked between reads; true: STK_ECANCELED */
    void *user;
} stk_chunks_trial;

/** What the shapes were tried on. */
typedef struct stk_chunks_sample {
    uint32_t struct_size;
    int64_t shape[STK_MAX_RANK];
    uint64_t bytes;
    const char *codec; /**< that it was written with, the one most like the array's own; static */
} stk_chunks_sample;

/**
 * Write a sample of an array again in memory with each of the chunk shapes, and time how long
 * windows of it take behind a store as late and as wide as the one of the question.
 *
 * The sample is the middle of the array. Blocks: a second for each shape. Thread: any. Errors:
 * STK_EINVAL (windows in sequence, no numbers, a sample smaller than a window), STK_ENOMEM, those
 * of the array, STK_ECANCELED.
 */
STK_API STK_NODISCARD stk_status stk_chunks_measure(stk_context *context, stk_array *array,
                                                    const stk_chunks_question *question,
                                                    const stk_chunks_trial *trial,
                                                    stk_chunks_sample *out, stk_error *err);

/** Measured times that differ by less than this share are not told apart. */
#define STK_CHUNKS_APART 0.1

/**
 * The shape to take of those that were measured: the one of the least seconds, or of those that are
 * less than STK_CHUNKS_APART slower the one that the model says is fastest. Both arrays have
 * `count` values, seconds of a window; NaN: not measured. `count` where none was. Pure.
 */
STK_API size_t stk_chunks_choose(const double *measured, const double *model, size_t count);

#ifdef __cplusplus
}
#endif
#endif
