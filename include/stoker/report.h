/* SPDX-License-Identifier: Apache-2.0 */
/* Reading event logs: figures of every run in them, what the charts are drawn from, comparison. */
#ifndef STOKER_REPORT_H
#define STOKER_REPORT_H

#include <stoker/base.h>
#include <stoker/measure.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A log is a stream of JSON objects with a member "event": those of stk_event_log_open(), and those
 * of the published Python benchmark, whose lines may hold several objects, be empty, or be out of
 * the order of time. What cannot be read is counted in bytes and left out. Memory is bounded
 * whatever the length: beyond what is kept exactly, percentiles are within 2 %, and bars that are
 * close together become one that says of how many it is.
 *
 * Events whose name is not known are counted; with a "duration" they are bars of their own name,
 * otherwise their numbers are series over time, so that new events need no new reader.
 */
typedef struct stk_report stk_report;

#define STK_REPORT_NAME 48 /* bytes of the name of an event or series, with its end */
#define STK_REPORT_BINS 99 /* of the histogram, as the published notebook draws it */
#define STK_REPORT_TAIL 24 /* bins of what is beyond */

/** Make an empty report. *out is the caller's, ended with stk_report_destroy() before the context.
 */
STK_API STK_NODISCARD stk_status stk_report_create(stk_context *context, stk_report **out,
                                                   stk_error *err);
/** Free it and set *report to NULL. Accepts NULL. */
STK_API void stk_report_destroy(stk_report **report);

/**
 * Read one log, a file ("-": standard input) or the object of a URL, behind those read before.
 * Reports progress in bytes.
 *
 * Thread: one caller at a time. Blocks. Errors: those of the file or store; STK_EFORMAT when it is
 * empty or holds no event; STK_ECANCELED after stk_report_cancel(). A failed file adds nothing.
 */
STK_API STK_NODISCARD stk_status stk_report_read(stk_report *report, const char *path,
                                                 stk_error *err);

/** Make a read that runs, and later ones, end early. Async-signal-safe; any thread. */
STK_API void stk_report_cancel(stk_report *report);

/** One log that was read. */
typedef struct stk_report_file {
    uint32_t struct_size;
    const char *name;
    uint64_t bytes, objects;  /**< objects: JSON objects with an event */
    uint64_t foreign;         /**< JSON objects without one */
    uint64_t dropped_bytes;   /**< that are no part of a JSON object */
    uint64_t dropped_pieces;  /**< in so many places */
    uint64_t notebook_lost;   /**< events that a reader of one object a line does not see */
    uint64_t unordered;       /**< events before the one in front of them by the clock */
    uint64_t clock_steps;     /**< how often the wall clock was set back */
    double clock_back;        /**< by how many seconds in all */
    uint64_t bad_times;       /**< events without a usable time */
    uint64_t runs_left_out;   /**< beyond the most that are kept */
    bool truncated;           /**< the last object is not complete */
    uint64_t first_run, runs; /**< the runs of this log */
    uint64_t grid_left_out;   /**< settings of its grid beyond the most that are kept */
} stk_report_file;

STK_API uint64_t stk_report_files(const stk_report *report);
/** File `i`; NULL past the end. Lives as long as the report. */
STK_API const stk_report_file *stk_report_file_at(const stk_report *report, uint64_t i);

/**
 * Tell `each` what to know of log `i` itself, a line each, which lives during the call: what of it
 * could not be read, a clock that was set back, runs that lack their begin or end. Runs have the
 * names of stk_report_compare(), where that was called before. Thread: one at a time.
 */
STK_API void stk_report_notes(const stk_report *report, uint64_t i,
                              void (*each)(void *user, const char *line), void *user);

typedef struct stk_report_setting {
    const char *key, *value; /**< as text; UTF-8 is not checked */
} stk_report_setting;

typedef struct stk_report_epoch {
    int64_t number;
    double start, duration; /**< s from the start of the run; duration < 0: it did not end */
    uint64_t steps;
    double wait, step; /**< sums over its steps, s */
    double first_wait; /**< of its first batch; < 0: unknown */
    double loss;       /**< of a whole training: the mean of its samples; NaN: unknown */
} stk_report_epoch;

typedef struct stk_report_count {
    char name[STK_REPORT_NAME];
    uint64_t count;
    bool known;
} stk_report_count;

/** Values over time, or over epochs (a ledger): `n` places of `width` from 0 on. */
typedef struct stk_report_series {
    char group[STK_REPORT_NAME]; /**< event, and the member that holds it: "ledger.wait" */
    char name[STK_REPORT_NAME];
    bool ledger; /**< places are epochs and sum[i] is what counts; else the mean is */
    bool whole;  /**< every value was a whole number */
    double width;
    uint32_t n;
    const double *sum;
    const uint32_t *count;
} stk_report_series;

#define STK_REPORT_METRIC 128 /* bytes of the name of a metric, with its end */

/** A value of a metric of a training, or several neighbours of long ones. */
typedef struct stk_report_point {
    double step;  /**< of the last of them, what the trainer's loggers count; NaN: unknown */
    double epoch; /**< epochs done then, with the part of the one at work; NaN: unknown */
    double time;  /**< s from the start of the run */
    double mean, least, most; /**< of those that are numbers; NaN: none is */
    uint32_t values, gaps;    /**< how many are numbers, and how many are not */
} stk_report_point;

/** A metric over the steps, in the order of the log. */
typedef struct stk_report_curve {
    uint32_t struct_size;
    char name[STK_REPORT_METRIC]; /**< "train_loss"; UTF-8 is not checked */
    const stk_report_point *points;
    uint64_t num_points;
    uint64_t values, gaps;    /**< of all points */
    double last, least, most; /**< NaN: no number; `last`: the last is none */
    double least_step, most_step;
} stk_report_curve;

/** One bar of the Gantt chart, or several close ones. Seconds from the start of the run. */
typedef struct stk_report_bar {
    double start;
    float length, busy; /**< busy: without the gaps inside */
    uint32_t count;
    uint16_t row, lane; /**< lane: a worker */
    uint32_t run;
} stk_report_bar;

/** Waits as the published notebook bins them: 99 bins on [0, mean + 3 standard deviations]; and
 * beyond, up to the longest. */
typedef struct stk_report_histogram {
    double edge, most;
    uint64_t bins[STK_REPORT_BINS];
    uint64_t beyond, tail[STK_REPORT_TAIL];
    bool exact;
} stk_report_histogram;

#define STK_REPORT_ROWS   16 /* of the Gantt chart: setup, get-batch, train, epoch, then others */
#define STK_REPORT_BLOCKS 32

/** What one run of a log amounts to. Seconds; counts below 0, and NaN, where unknown. */
typedef struct stk_report_run {
    uint32_t struct_size;
    uint64_t file;
    const char *label;       /**< of the setting; never NULL, may be empty */
    const char *data_params; /**< or NULL */
    int64_t rank, world_size, setting, repeat, pid;
    bool published;   /**< no monotonic clock: a log of the Python benchmark */
    bool ended;       /**< has its "run end" */
    bool headless;    /**< has no "run start": time begins with its first event */
    double unix_time; /**< of the start */

    const stk_report_setting *settings;
    uint64_t num_settings;
    double batch_size, num_workers; /**< of the settings */

    double total, setup;
    const stk_report_epoch *epochs;
    uint64_t num_epochs;
    uint64_t epochs_left_out; /**< beyond the most that are kept */
    double epochs_total;      /**< sum of their durations; of all steps where there are none */

    stk_spread wait_notebook; /**< as the published notebook computes it from the lines it reads */
    stk_spread wait;          /**< likewise from all events, in the order of time */
    bool exact;               /**< percentiles are exact */
    double wait_deviation;    /**< standard deviation of a population */
    double first_wait;        /**< of the run's first batch, from the start of its epoch */
    double epoch_turn;        /**< mean wait of the first batch of the later epochs */
    stk_report_histogram histogram;

    uint64_t steps;
    double step_mean, step_sum, busy_share; /**< share of the epochs in which the step ran */
    double wait_share;                      /**< wait / (wait + step) */
    double seconds_per_step, steps_per_s, samples_per_s; /**< over the epochs, setup left out */

    uint64_t get_batches; /**< ended */
    uint64_t get_starts;
    uint64_t get_dropped;   /**< thinned by the writer */
    stk_spread get_batch;   /**< durations; percentiles within 2 % */
    double get_busy;        /**< seconds of workers; samples of one task counted once */
    double get_per_step;    /**< get-batch events a step: about batch_size when one is a sample */
    double expected_starts; /**< of the published identity; NaN where it does not apply */

    uint64_t reads, read_bytes, read_failures, bad_samples;
    double read_seconds;

    const stk_report_count *counts; /**< of events, by name */
    uint64_t num_counts, other_events;
    const char *rows[STK_REPORT_ROWS]; /**< names of the Gantt chart's rows; NULL: none */
    /** Over time, s: of the steps that ended there, of the waits that did, of the samples. */
    stk_report_series step_places, wait_places, get_places;
    const stk_report_series *series;
    uint64_t num_series, series_left_out;
    const stk_report_curve *curves;       /**< of a training, in the order of their first values */
    uint64_t num_curves, curves_left_out; /**< left out: values beyond the most that are kept */

    double blocks[STK_REPORT_BLOCKS]; /**< mean seconds of a step with its wait, in blocks of */
    uint64_t num_blocks, block_steps; /**< neighbouring steps: what varies within a run */

    const stk_verdict *verdict;
    bool verdict_logged; /**< the program that wrote the log gave it, or its figures */

    double training_seconds, training_loss; /**< of a whole training (stk_recipe_measure()), and the
                                               mean loss of its last epoch */
    double accuracy, evaluated_loss; /**< that it came to, of test data, or of validation data */
    bool tested;                     /**< of test data */
    double peak_bytes;               /**< most resident memory of its process */

    int64_t rung;                /**< of a ladder, from 1 */
    const char *measure;         /**< what it adds to the rung before; never NULL, may be empty */
    double steady_samples_per_s; /**< as the writer measured it, without what went before the end of
                                    the first step */
    const char *tiers; /**< where bytes were found, stk_tiers_format(); never NULL, may be empty */
    /** Facts of its machine, as the log has them of stk_machine_format(): "cpu.model", of lists
     * "networks.0.name"; and all in one line, never NULL, may be empty. */
    const stk_report_setting *machine;
    uint64_t num_machine;
    const char *machine_summary;
    const stk_prediction *predicted; /**< what was expected of it before it began; NULL: nothing */
} stk_report_run;

STK_API uint64_t stk_report_runs(const stk_report *report);
/** Run `i` in the order of the logs; NULL past the end. Lives until the next log is read. */
STK_API const stk_report_run *stk_report_run_at(const stk_report *report, uint64_t i);
/** All bars, by run, row, lane and start. Lives until the next log is read. */
STK_API const stk_report_bar *stk_report_bars(stk_report *report, uint64_t *n);

/** A setting of the grid of a tuning, as its log says last (stk_tune_log()): what a
 * stk_tune_point is. Counts below 0, and NaN, where unknown. */
typedef struct stk_report_grid_setting {
    uint32_t struct_size;
    uint64_t file;
    uint64_t setting; /**< its number, as that of runs */
    int64_t num_workers, io_depth, prefetch_factor;
    bool auto_workers, auto_depth;
    bool allowed, front;
    bool best;     /**< the one that was chosen of those that were run */
    uint64_t runs; /**< 0: what follows is predicted */
    double samples_per_s, least, most;
    double predicted; /**< samples_per_s as it was predicted before any run of it */
    double wait_share, wait;
    double cpu_cores, peak_bytes, cost;
} stk_report_grid_setting;

/** How many there are, of all logs. */
STK_API uint64_t stk_report_grid_settings(const stk_report *report);
/** Setting `i`, log by log, in the order of their grids; NULL past the end. Lives until the next
 * log is read. */
STK_API const stk_report_grid_setting *stk_report_grid_setting_at(const stk_report *report,
                                                                  uint64_t i);

/* ---- Comparison ------------------------------------------------------------------------------ */

/** How sure a ratio is. */
typedef enum stk_sureness {
    STK_SURE_NOT = 0, /**< nothing to compare, or too few values for an interval */
    STK_SURE_WITHIN,  /**< from blocks of one run each: says nothing of how runs differ */
    STK_SURE_RUNS     /**< from repeated runs */
} stk_sureness;

typedef struct stk_ratio {
    uint32_t struct_size;
    double ratio;     /**< of the geometric means, B / A */
    double low, high; /**< 95 % confidence interval; NaN: none */
    double p;         /**< of "no difference" (two-sided); NaN: none */
    double freedom;   /**< degrees of it */
    uint64_t n_a, n_b;
    stk_sureness sureness;
    bool real; /**< the interval leaves 1 out */
} stk_ratio;

/** Runs of one setting in one log. */
typedef struct stk_report_group {
    uint32_t struct_size;
    const char *name; /**< "num_workers=2"; the log's where its runs have no label */
    uint64_t file;
    const uint64_t *runs; /**< numbers of `count` runs; of several ranks the first */
    uint64_t count;
    double wait, per_step, total; /**< means over the runs, s */
    /** Seconds of the whole training: the median over the runs, the least and the most; NaN: none.
     */
    double training, training_least, training_most;
    /** The run that stands for all: that of this median, without trainings of the median rate, else
     * the first. */
    uint64_t shown;
    /** Of the trainings of its log: without workers, else the first; NULL: there are none. */
    const struct stk_report_group *baseline;
    /** As fast as the baseline: the median, the least and the most over `pairs` of runs, each with
     * the baseline's of the same round (`repeat`). NaN: none. */
    double speed_up, speed_up_least, speed_up_most;
    uint64_t pairs;
    double rate; /**< samples/s, or steps/s where that is not known */
    double busy_share;
} stk_report_group;

/** One setting against another: ratios b / a. */
typedef struct stk_report_pair {
    uint32_t struct_size;
    const stk_report_group *a, *b;
    const stk_ratio *per_step; /**< seconds of a step with its wait */
    const stk_ratio *wait, *total;
    const char *text; /**< in words */
} stk_report_pair;

/** A setting as one of several that were added one after the other. */
typedef struct stk_report_rung {
    uint32_t struct_size;
    const stk_report_group *group;
    const char *name; /**< what it adds: the measure of a ladder, or the setting's own name */
    double speed;     /**< samples a second of a ladder, or trainings; else steps, waits included */
    double factor;    /**< as fast as the one before; NaN: it is the first */
    double share;     /**< of what first and last differ by; NaN: next to nothing */
} stk_report_rung;

/** What makes one rank slower than the others. */
typedef enum stk_straggling {
    STK_STRAGGLING_NONE = 0,
    STK_STRAGGLING_DISK,  /**< its reads take longer */
    STK_STRAGGLING_CORES, /**< it has fewer cores, or slower ones, or others use them */
    STK_STRAGGLING_DATA,  /**< its samples are larger */
    STK_STRAGGLING_STEP,  /**< its step itself: the accelerator */
    STK_STRAGGLING_UNKNOWN
} stk_straggling;

/** One word: "disk", "cores", "data", "step", "unknown", "none". Never NULL. */
STK_API const char *stk_straggling_name(stk_straggling cause);

/** One rank of a run of several. Seconds, means of a step; NaN where unknown. */
typedef struct stk_report_rank {
    uint32_t struct_size;
    uint64_t run; /**< number of its run */
    int64_t rank;
    double offset;     /**< of its clock against the first rank's, when that began; s */
    double drift;      /**< by which it grows, s/s */
    double scatter;    /**< 95 % of its steps end as near to the first rank's, clocks lined up */
    double wait, step; /**< wait: for its batch */
    double comm;       /**< that collectives were under way in a step */
    double comm_wait;  /**< of it, that nothing else was done */
    double own;        /**< wait and step without comm_wait: until it was ready for the others */
    double behind;     /**< own, beyond that of the median rank */
    double last_share; /**< of the steps, in which it was ready last */
    double cost;       /**< where it was last, beyond the median rank; over all steps */
} stk_report_rank;

#define STK_REPORT_LINED 12 /* steps of a world that are told one by one, at most */

/** A step of one rank on the clock of the first rank, s from the first's start of the run. */
typedef struct stk_report_lined {
    uint64_t rank; /**< place in `ranks` */
    int64_t epoch, batch;
    double asked, begin, end; /**< for its batch; the step */
    double comm_wait;         /**< of it, in collectives; NaN: unknown */
} stk_report_lined;

/**
 * The ranks of one run, step by step. Of an even number the median is the lower one, so that of
 * two it is the faster.
 */
typedef struct stk_report_world {
    uint32_t struct_size;
    const char *name;                    /**< that of the first rank's run */
    uint64_t world_size;                 /**< as the logs say; `num_ranks` of them are here */
    const stk_report_rank *const *ranks; /**< in their order */
    uint64_t num_ranks;
    uint64_t steps;      /**< that are compared: all ranks have them */
    bool meets;          /**< the ranks end their steps together; else clocks are as they are */
    double cycle;        /**< a step with its wait, mean of all; s */
    stk_spread skew;     /**< of a step: from the first rank that was ready to the last; s */
    double lost_share;   /**< of the time, that the median rank waited for the last one */
    double comm_share;   /**< of the time, collectives under way; NaN: not known, so below */
    double comm_overlap; /**< of that, behind what computes */
    double comm_alone;   /**< wait of the rank that came last: no other is waited for; s */
    int64_t slowest;     /**< place in `ranks` of the greatest `own`; -1: nothing to compare */
    int64_t straggler;   /**< the same where it matters and is beyond chance; -1: there is none */
    stk_straggling cause;
    const stk_report_lined *lined; /**< of the middle of the run, step by step, all ranks of each */
    uint64_t num_lined;            /**< 0: they do not meet */
    const char *text;              /**< who is waited for and why, what collectives cost */
    const char *clocks;            /**< how far clocks are apart, or why that is not known */
} stk_report_world;

/** The settings of all logs, and one against another. */
typedef struct stk_report_comparison {
    uint32_t struct_size;
    const char *const *names;               /**< of each run, never NULL */
    const stk_report_group *const *groups;  /**< in the order of the logs */
    const stk_report_group *const *by_wait; /**< the same by rising wait */
    uint64_t num_groups;
    const stk_report_pair *const *pairs; /**< of one log: each setting against the first; of
                                            several: against that of its label in the first log */
    uint64_t num_pairs;
    uint64_t unmatched;                  /**< settings that the first log has not */
    const stk_report_rung *const *rungs; /**< of one log */
    uint64_t num_rungs;                  /**< 0: the settings are no series */
    double whole;                        /**< the last rung is so many times as fast as the first */
    bool trainings;                      /**< settings are whole trainings, speeds are of those */
    bool ladder;                         /**< they were measured as one: stoker bench --ladder */
    /** Runs of several ranks, of which there is more than one log or run: those of one label,
     * world size and repeat, each rank once; of several such the one that began nearest in time. */
    const stk_report_world *const *worlds;
    uint64_t num_worlds;
} stk_report_comparison;

/**
 * Group the runs by setting and compare the settings: by Welch's test [Welch 1947; degrees of
 * freedom of Satterthwaite 1946] on the logarithms where runs were repeated, so that an interval is
 * one of a ratio; else by blocks of steps within the runs [batch means: Schmeiser 1982].
 *
 * *out lives until the next log is read, the next comparison, or the end of the report. Thread: one
 * at a time. Errors: STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_report_compare(stk_report *report,
                                                    const stk_report_comparison **out,
                                                    stk_error *err);

/** Whether run `i` is one of those whose curves are shown together: it has some, and is the shown
 * one of its setting, or no repeated run; at most so many that each has a colour. The logs have
 * been compared. */
STK_API bool stk_report_overlaid(const stk_report *report, uint64_t i);

/**
 * What the charts of the runs and settings are drawn from, as one JSON object of ASCII that can be
 * embedded in a script of a page: bars in microseconds, packed; histograms; places over time.
 *
 * The logs have been compared (stk_report_compare()) since the last was read. *json, of *length
 * bytes and an end, lives until the next log is read, the next call, or the end of the report.
 * Thread: one at a time. Errors: STK_EINVAL (not compared), STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_report_charts(stk_report *report, const char **json,
                                                   size_t *length, stk_error *err);

/* ---- What if -------------------------------------------------------------------------------- */

/**
 * Predict what run `i` would have come to with other settings, by simulating the loader with what
 * its log says of each sample, read and step: stk_predict(). `what_if` NULL: with its own.
 *
 * Errors: STK_EINVAL (no such run; its log has no figures, and the text says how to record them),
 * and those of stk_predict(). Thread: one at a time. Does not block.
 */
STK_API STK_NODISCARD stk_status stk_report_predict(const stk_report *report, uint64_t i,
                                                    const stk_what_if *what_if, stk_prediction *out,
                                                    stk_error *err);

/** The same of many ranks on many machines: stk_predict_scale(). */
STK_API STK_NODISCARD stk_status stk_report_scale(const stk_report *report, uint64_t i,
                                                  const stk_what_if *what_if,
                                                  const stk_scale *scale, stk_scaled *out,
                                                  stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
