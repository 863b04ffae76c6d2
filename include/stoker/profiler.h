/* SPDX-License-Identifier: Apache-2.0 */
/* Profilers: what a trainer calls, what layers and workers do meanwhile -> tables and a trace. */
#ifndef STOKER_PROFILER_H
#define STOKER_PROFILER_H

#include <stoker/measure.h>
#include <stoker/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a profile writes; several may be had of the same run. Named as for Lightning's Trainer. */
typedef struct stk_profile_options {
    uint32_t struct_size;
    const char *profiler; /**< "simple", "advanced", "trace", or several with commas between */
    const char *dirpath;  /**< folder of the files; NULL: the log folder of the run */
    /** Part of the files' names: `fit-<filename>-0.txt`; where both tables are asked for,
     * `fit-simple_<filename>-0.txt` and `fit-advanced_<filename>-0.txt`. NULL: the tables are said
     * to the console, and the name of a trace goes without it. */
    const char *filename;
    bool extended; /**< `simple` counts calls and shares; else its rows are mean and total */
    double line_count_restriction; /**< rows of each table of `advanced`: above 1 so many, up to 1
                                        this share of them */
    uint64_t max_events;           /**< of a trace; later ones are counted, not kept */
    uint64_t warmup_steps;         /**< optimizer steps at the beginning that the times of layers
                                        leave out; the first one always is */
    /** Folder, or URL of one, that keeps the measured peaks of the machine, for the roofline of
     * layers: those of this processor, version, precision and number of threads are taken, or
     * measured when the profile is summed up or finished (some tenths of a second). NULL: there is
     * no roofline. */
    const char *machine_dir;
    /** Each task that ends is reported by itself, as by Lightning's Trainer: what
     * stk_profile_finish() gives, and behind a fit the diagnosis, to the console, and the files of
     * stk_profile_write_files(), in `dirpath`. Of one that fails nothing is. No option by name. */
    bool each_task;
} stk_profile_options;

static inline void stk_profile_options_init(stk_profile_options *options)
{
    stk_options_init(stk_option_table_find("profile"), options, sizeof *options);
}

typedef struct stk_profile stk_profile;

/**
 * Make a profile and install it as the trainer's profiler. It times every call of the trainer,
 * every layer of a model of ours, and for a trace every piece of the workers' work.
 *
 * Ownership: *out is the caller's, ended with stk_profile_close() before the trainer and its module
 * are destroyed; after the trainer, which a recipe that fails takes with it, nothing is written.
 * `options` are copied. Thread: the trainer's, not while a task is at work. Errors: STK_EINVAL (an
 * option that is wrong or has no effect, named), STK_ENOMEM, STK_EBUSY (the context has too many
 * listeners).
 */
STK_API STK_NODISCARD stk_status stk_profile_create(stk_trainer *trainer,
                                                    const stk_profile_options *options,
                                                    stk_profile **out, stk_error *err);

/**
 * Write what was recorded of the task that ended, and begin again. A task of another kind (a test
 * after a fit) does so by itself. Where layers were timed, the peaks of the machine are found first
 * (`machine_dir`).
 *
 * Blocks. Errors: those of the files; STK_EINVAL where actions did not nest (started twice, stopped
 * without a start), after writing; STK_ENOMEM where not everything could be recorded.
 */
STK_API STK_NODISCARD stk_status stk_profile_finish(stk_profile *profile, stk_error *err);

/** Finish, take the profiler off the trainer, set *profile to NULL. Accepts NULL. `err` may be
 * NULL. */
STK_API stk_status stk_profile_close(stk_profile **profile, stk_error *err);

/* ---- Looking at it: what was recorded since the last stk_profile_finish() ---- */

/** An action under its whole name ("[Strategy]SingleDeviceStrategy.backward"), or a layer's pass.
 * Times in nanoseconds. */
typedef struct stk_profile_action {
    const char *name;  /**< lives until the profile is finished */
    uint64_t calls;    /**< that have ended */
    uint64_t total_ns; /**< with what it called */
    uint64_t own_ns;   /**< without */
} stk_profile_action;

/** Action `i` in the order of their first calls; false past the last. */
STK_API bool stk_profile_get_action(const stk_profile *profile, size_t i, stk_profile_action *out);

/** Passes over one layer: how often, how long, products and bytes touched at least. */
typedef struct stk_profile_pass {
    uint64_t calls, ns, flops, bytes;
} stk_profile_pass;

/** What bounds the rate of a layer: the part that would take longer at the machine's peaks. */
typedef enum stk_profile_bound {
    STK_PROFILE_BOUND_UNKNOWN, /**< no calls, or no peaks */
    STK_PROFILE_BOUND_COMPUTE, /**< its products */
    STK_PROFILE_BOUND_MEMORY   /**< the bytes that it touches */
} stk_profile_bound;

/** "compute", "memory", "-". Never NULL. */
STK_API const char *stk_profile_bound_name(int32_t bound);

/**
 * Where some calls are below the roof of the machine [Williams, Waterman, Patterson 2009].
 * `of_peak` is the time that they would take at the peak of what bounds them, over the time they
 * took: 1 is the peak; above 1 their bytes came from a cache, not from memory.
 */
typedef struct stk_profile_roof {
    double flops_per_s, bytes_per_s; /**< that were reached */
    double of_peak;                  /**< 0: unknown */
    int32_t bound;                   /**< stk_profile_bound */
} stk_profile_roof;

/**
 * A layer, in the training batches that count: not those of the first `warmup_steps` optimizer
 * steps (at least one), nor the first of each number of rows, in which memory is allocated and code
 * generated. Of a task without training all batches but those first ones count.
 */
typedef struct stk_profile_layer {
    uint32_t struct_size;
    const char *name, *kind; /**< live until the profile is closed */
    stk_profile_pass forward, backward;
    uint64_t forward_left_out, backward_left_out;   /**< calls that do not count */
    uint64_t forward_median_ns, backward_median_ns; /**< of the last 64 calls that count */
    double share; /**< of the time of these batches, with what they were waited for */
    stk_profile_roof forward_roof, backward_roof, roof; /**< `roof`: of both */
} stk_profile_layer;

/** Layer `i` of a model of ours in the order of computation, then its loss and its optimizer (both
 * named so, with forward calls alone where there is no backward pass). One that another one does
 * has no calls. False past the last. */
STK_API bool stk_profile_get_layer(const stk_profile *profile, size_t i, stk_profile_layer *out);

/**
 * The layers that take most, of those that have calls: up to `room` numbers for
 * stk_profile_get_layer(), that of the most time first. *count is how many there are in `order`.
 * Errors: STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_profile_sort_layers(const stk_profile *profile, size_t *order,
                                                         size_t room, size_t *count,
                                                         stk_error *err);

/**
 * Where the time of one training batch went, in nanoseconds, from asking for the batch to the end
 * of its step. `other` is the optimizer, the hooks and all else, so that the four parts are the
 * whole.
 */
typedef struct stk_profile_batch {
    uint64_t epoch, batch_idx, samples;
    uint64_t data, forward, backward, other;
    uint64_t optimizer_steps; /**< in it; 0 where batches accumulate and this one ends no window */
} stk_profile_batch;

#define STK_PROFILE_MAX_BATCHES 1000000 /* later ones are not kept one by one */

/** Batch `i` in the order of training; false past the last. */
STK_API bool stk_profile_get_batch(const stk_profile *profile, size_t i, stk_profile_batch *out);

/** A part of the time of a batch. */
typedef enum stk_profile_part {
    STK_PROFILE_DATA = 0, /**< waiting for it */
    STK_PROFILE_FORWARD,
    STK_PROFILE_BACKWARD,
    STK_PROFILE_OTHER,
    STK_PROFILE_TOTAL, /**< all of them */
    STK_PROFILE_PARTS
} stk_profile_part;

/** "data", "forward", ... Never NULL. */
STK_API const char *stk_profile_part_name(stk_profile_part part);

/** Seconds of a part of a batch; 0 for what is none. */
static inline double stk_profile_part_seconds(const stk_profile_batch *batch, stk_profile_part part)
{
    const uint64_t ns[STK_PROFILE_PARTS] = {
        batch->data, batch->forward, batch->backward, batch->other,
        batch->data + batch->forward + batch->backward + batch->other};

    return part < STK_PROFILE_PARTS ? (double)ns[part] * 1e-9 : 0;
}

/** Where the time of the batches went. */
typedef struct stk_profile_summary {
    uint32_t struct_size;
    uint64_t batches, warmup; /**< that count; before them, that do not */
    uint64_t samples;
    double samples_per_s;
    stk_spread parts[STK_PROFILE_PARTS]; /**< seconds of a batch */
    double share[STK_PROFILE_PARTS];     /**< of the time of all */
    char text[2048];                     /**< what limits, and what to change: one paragraph */
    double peak_flops_per_s, peak_bytes_per_s; /**< of the machine; 0: unknown */
    uint32_t peak_threads;                     /**< that reach them together */
    uint64_t batch_size;                       /**< of the training's loader */
} stk_profile_summary;

/** Batches of the first `warmup_steps` optimizer steps; all where there were no more. */
STK_API uint64_t stk_profile_warmup(const stk_profile *profile);

/**
 * Sum up what was recorded, without the first `warmup` batches. `config` names the configuration in
 * the advice; NULL: "CONFIG.yaml". Layers have shares of the machine's peaks (`machine_dir`) from
 * then on.
 *
 * Thread: the trainer's, when no task is at work. Blocks while peaks are measured. Errors:
 * STK_ENOENT (no batch is left), STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_profile_summarize(stk_profile *profile, uint64_t warmup,
                                                       const char *config, stk_profile_summary *out,
                                                       stk_error *err);

/**
 * The measured peaks of this machine that a profile has kept in `folder` (its `machine_dir`), for a
 * precision ("32-true") and for as many threads as a model of the context computes with.
 *
 * Blocks for two small files. Errors: STK_ENOENT: none are kept for them.
 */
STK_API STK_NODISCARD stk_status stk_profile_kept_peaks(stk_context *context, const char *folder,
                                                        const char *precision, double *flops_per_s,
                                                        double *bytes_per_s, stk_error *err);

/** What a profile gives as files. */
typedef enum stk_profile_result {
    STK_PROFILE_TIMING_SUMMARY = 0, /**< timing_summary.yaml: the summary */
    STK_PROFILE_TIMING_RESULTS,     /**< timing_results.csv: a row for each batch; those of the
                                         warm-up are marked */
    STK_PROFILE_LAYERS,             /**< layers.csv: a row for each layer, as
                                         stk_profile_get_layer() gives them */
    STK_PROFILE_RESULTS
} stk_profile_result;

/**
 * One of them as a text, as snprintf(): what does not fit into `size` bytes is cut. `summary` is
 * that of stk_profile_summarize(). Times are in seconds, the point is a point in any locale.
 *
 * @return its length without the end; -1 for what is none.
 */
STK_API int stk_profile_format(const stk_profile *profile, const stk_profile_summary *summary,
                               stk_profile_result which, char *text, size_t size);

/**
 * Write all of them into a folder, or URL of one; a local folder is made where it is missing. Each
 * file is there whole or not at all.
 *
 * Thread: the trainer's, when no task is at work. Blocks. Errors: as stk_put_bytes(); STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_profile_write_files(const stk_profile *profile,
                                                         const stk_profile_summary *summary,
                                                         const char *folder, stk_error *err);

/** Path of the file that the last stk_profile_finish() wrote as its `i`-th; NULL past the last. */
STK_API const char *stk_profile_file(const stk_profile *profile, size_t i);

#ifdef __cplusplus
}
#endif
#endif
