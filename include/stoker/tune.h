/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the settings of a loader: measure a little, predict the rest, run the best. */
#ifndef STOKER_TUNE_H
#define STOKER_TUNE_H

#include <stoker/bench.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 *   stk_tune_grid(config, &options, &err);                  // the values to look among
 *   stk_bench_plan_create(context, config, NULL, &plan, &err);
 *   stk_tune_create(context, plan, &options, &tune, &err);
 *   while ((status = stk_tune_next(tune, log, &run, &err)) == STK_OK)
 *       ... measure setting run.setting of the plan, stk_bench_plan_add(plan, run.setting, ...)
 *   stk_tune_answer_get(tune, &answer);
 *
 * Whoever has the tuner makes the runs, as with any plan: each in a process by itself, or not.
 */

/** What is best. Positions in "wait|speed|cost". */
enum { STK_TUNE_WAIT, STK_TUNE_SPEED, STK_TUNE_COST };

/** The table "tune": names, defaults and ranges are written there (src/bench/tune_grid.c). */
typedef struct stk_tune_options {
    uint32_t struct_size;
    int32_t objective;   /**< STK_TUNE_WAIT, ... */
    double max_wait;     /**< share of the time that the step may wait */
    uint64_t max_memory; /**< bytes of memory beyond what the process has without a loader; 0: no
                            limit */
    int64_t max_cores;   /**< workers at most; STK_AUTO: no limit */
    double core_price;   /**< of an hour of a core */
    double gpu_price;    /**< of an hour of what the step runs on */
    uint64_t verify;     /**< predicted settings that are run at most */
    uint64_t rounds;     /**< further runs of each of the last ones at most, in turn */
    double max_time;     /**< s that all runs may take; NaN: a share of what a grid would take */
} stk_tune_options;

static inline void stk_tune_options_init(stk_tune_options *options)
{
    stk_options_init(stk_option_table_find("tune"), options, sizeof *options);
}

/**
 * Give num_workers, io_depth and prefetch_factor of a configuration the values to look among. One
 * value that a file has of them comes first: that is the setting "as given". Several values are the
 * caller's own grid, whose first is the one as given, and stay; so does one that was set by
 * stk_config_set(). Runs become short where the configuration does not say how long they are, and
 * memory_budget is kept so far below `max_memory` that what it does not count has room: stacks, the
 * store's own memory, what the allocator keeps for each thread.
 *
 * Errors: STK_EINVAL (another option has several values; a whole training as bench.step; repeat,
 * ceiling, ladder or hash of a bench), those of stk_config_set(). Thread: one at a time.
 */
STK_API STK_NODISCARD stk_status stk_tune_grid(stk_config *config, const stk_tune_options *options,
                                               stk_error *err);

/** The table "bench" as stk_tune_grid() takes it, for a help text: without the options that it
 * refuses, with the defaults of its short runs. It lives as long as the library. Any thread. */
STK_API const stk_option_table *stk_tune_bench_table(void);

typedef struct stk_tune stk_tune;

/**
 * Begin to look among the settings of a plan, the first of which is the one as given.
 *
 * `options` may be NULL. Ownership: *out is the caller's, ended with stk_tune_destroy(); the plan
 * outlives it. Thread: one at a time. Errors: STK_EINVAL (no setting; options out of their range),
 * STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_tune_create(stk_context *context, stk_bench_plan *plan,
                                                 const stk_tune_options *options, stk_tune **out,
                                                 stk_error *err);
/** Sets *tune to NULL. Accepts NULL. */
STK_API void stk_tune_destroy(stk_tune **tune);

/** Why a setting is run. */
typedef enum stk_tune_phase {
    STK_TUNE_MEASURE = 0, /**< to know the load: as given, by default, without workers */
    STK_TUNE_VERIFY,      /**< it is predicted to be good */
    STK_TUNE_COMPARE      /**< once more, in turn with the other best ones */
} stk_tune_phase;

typedef struct stk_tune_run {
    uint32_t struct_size;
    size_t setting; /**< of the plan */
    stk_tune_phase phase;
    uint64_t number; /**< which run this is, from 1 */
    /** What is enough of min_seconds, min_batches and max_seconds: the first run is recorded, and
     * takes all of it; of others a part will do. A longer run does no harm but for the time. */
    double length;
} stk_tune_run;

/**
 * What to run next. What came of the run before was added to the plan with stk_bench_plan_add().
 * `log` is the log of all runs with all events, from which the first of them is taken for the
 * predictions; NULL: its figures have to do, and predictions know no spread.
 *
 * A run takes the time from one call to the next, or what its result says where that is more.
 *
 * @return STK_OK and *out; STK_EOS once the answer is known, or the time is over; a run that failed
 * ends it with the failure where it is the one as given, any other is left out.
 *
 * Blocks: simulates the whole grid once, some seconds. Errors: STK_EINVAL (no run was added),
 * STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_tune_next(stk_tune *tune, const char *log, stk_tune_run *out,
                                               stk_error *err);

/** A setting of the grid. What is not known is NaN. */
typedef struct stk_tune_point {
    uint32_t struct_size;
    size_t setting;
    int64_t num_workers, io_depth; /**< what auto came to; -1: that is not known */
    int64_t prefetch_factor;
    bool auto_workers, auto_depth; /**< the option is auto */
    uint64_t runs; /**< that ended well; 0: what follows is predicted, and corrected by what
                      its neighbours were off */
    bool allowed;  /**< within the limits, and the first of those that come to the same */
    bool front;    /**< no other allowed one is faster with as little memory */
    double samples_per_s, least, most; /**< least, most: of the runs; or of the prediction */
    double wait_share;                 /**< of the time that the step waits */
    double wait;                       /**< mean of a step, s */
    double cpu_cores;                  /**< that the loader keeps busy */
    double peak_bytes;                 /**< the most of all runs */
    double cost;                       /**< of a million samples */
    double predicted; /**< samples_per_s as it was predicted before any run of it */
} stk_tune_point;

/** Points of the grid, in the order of the plan. */
STK_API size_t stk_tune_count(const stk_tune *tune);
/** Point `i`; empty past the last. */
STK_API void stk_tune_point_get(const stk_tune *tune, size_t i, stk_tune_point *out);
/** Number `i` of those that are known of a point, by the name that it has in JSON, CSV and logs;
 * NaN: it is not known. False past the last. Any thread. */
STK_API bool stk_tune_point_number(const stk_tune_point *point, size_t i, const char **name,
                                   double *value);

/**
 * Append all points as they are known now to a log, an event "grid setting" for each: the
 * predictions before any run that checks them, where it is called once the first run was added and
 * stk_tune_next() has told the second; what came of them, at the end. stk_report_grid_settings()
 * reads them.
 *
 * `path` is that of the log of all runs, between two of them. Blocks. Errors: those of
 * stk_event_log_open() and stk_event_log_close().
 */
STK_API STK_NODISCARD stk_status stk_tune_log(const stk_tune *tune, const char *path,
                                              stk_error *err);

/** What it comes to. Points are numbers for stk_tune_point_get(), or STK_BENCH_NONE. */
typedef struct stk_tune_answer {
    uint32_t struct_size;
    size_t best, given, defaults, baseline; /**< defaults: of the library; baseline: no workers */
    bool ended;      /**< all runs were made; else the best of those that were */
    bool timed_out;  /**< more runs would have been, had there been time */
    double took;     /**< s of all runs, and of what was between them */
    bool reached;    /**< the wait is within max_wait */
    bool gain;       /**< the best is better than the one as given, beyond what runs differ */
    double speed_up; /**< of the best over the one as given; NaN: unknown */
    int64_t saturated_workers, saturated_depth; /**< from here on more give no more; -1: unknown */
    bool more_workers, more_depth;      /**< the grid ends before more of them give no more */
    uint64_t predicted, measured, runs; /**< settings predicted and run; runs of all */
    double model_error; /**< mean of |predicted / measured - 1| of what was run; NaN: unknown */
    char text[1024];    /**< the same in words */
} stk_tune_answer;

STK_API void stk_tune_answer_get(const stk_tune *tune, stk_tune_answer *out);

/** Why the best has this value of "num_workers", "io_depth" or "prefetch_factor", in words; the
 * length as of snprintf(). 0: it is none of these, or there is no best. */
STK_API int stk_tune_reason(const stk_tune *tune, const char *option, char *text, size_t size);

/**
 * The configuration with the best setting as YAML, a reason above each value that was found, and
 * what was not tried. A real step (bench.step train:CONFIG) has its data in its own file: then the
 * loader is all there is, to be given beside that file.
 *
 * Errors: STK_EINVAL (there is no best), those of stk_config_write(). Thread: one at a time.
 */
STK_API STK_NODISCARD stk_status stk_tune_write(const stk_tune *tune, stk_config_line *line,
                                                void *user, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
