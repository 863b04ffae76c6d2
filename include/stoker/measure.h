/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: the event log, statistics of waits, the verdict. */
#ifndef STOKER_MEASURE_H
#define STOKER_MEASURE_H

#include <stoker/base.h>
#include <stoker/options.h>

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
typedef struct stk_event_log stk_event_log;

/**
 * Open (append) the log at `path` and listen to the context. A URL of another store is written to
 * a temporary file and put whole about every 30 s and at the close, as stk_mirror_open() says.
 *
 * Ownership: *out is the caller's, ended with stk_event_log_close() before the context is
 * destroyed. Thread: any. Blocks. Errors: STK_EACCES, STK_ENOENT, STK_ENOSPC, ... of the file;
 * STK_EBUSY with too many listeners; STK_ENOMEM, STK_ETHREAD.
 */
STK_API STK_NODISCARD stk_status stk_event_log_open(stk_context *context, const char *path,
                                                    stk_event_log **out, stk_error *err);

/**
 * Write what is buffered, stop listening and set *log to NULL. Accepts NULL.
 * The status is that of the first write that failed since the log was opened; after one nothing
 * more was written, and the file ends with a whole line.
 */
STK_API stk_status stk_event_log_close(stk_event_log **log, stk_error *err);

/** In the place of a duration: none. */
#define STK_NO_DURATION UINT64_MAX

/**
 * Write the line {"event": "NAME", FIRST, "time": ..., "duration": ..., MORE, "time_ns": ...,
 * "pid": ...}.
 *
 * `first` and `more` are members in JSON without braces ("\"epoch\": 0"), or NULL. `when_ns` is a
 * time of CLOCK_MONOTONIC; 0: now. `duration_ns` may be STK_NO_DURATION. `log` may be NULL. Any
 * thread. A "run start" gets the member "machine" in addition: stk_machine_format(), with the disk
 * of the working directory.
 */
STK_API void stk_event_log_write(stk_event_log *log, const char *name, const char *first,
                                 uint64_t when_ns, uint64_t duration_ns, const char *more);

/**
 * Write "get-batch start" and "get-batch end" of a sample of `epoch` that was prepared elsewhere,
 * by `worker` (-1: by the caller of the loader); they are thinned as the library's own. `log` may
 * be NULL. Any thread.
 */
STK_API void stk_event_log_sample(stk_event_log *log, uint64_t epoch, uint64_t index,
                                  int64_t worker, uint64_t start_ns, uint64_t end_ns);

/** The shortest decimal that reads back as the same double, as Python and JSON write it ("0.1",
 * "5e-05", "2.0"; "null" for what JSON cannot say). Returns its length. */
STK_API int stk_number_format(double value, char text[32]);

/* ---- Statistics ----------------------------------------------------------------------------- */

/** Statistics of a list of durations in seconds. */
typedef struct stk_spread {
    uint64_t n;
    double mean, p50, p95, p99, max, min, sum;
} stk_spread;

/** Percentiles by linear interpolation, as NumPy's default. Sorts `values`. n = 0 gives zeros. */
STK_API void stk_spread_of(double *values, uint64_t n, stk_spread *out);

/* ---- Stores --------------------------------------------------------------------------------- */

/** What a store answers like. */
typedef enum stk_storage {
    STK_STORAGE_UNKNOWN = 0,
    STK_STORAGE_MEMORY,  /**< or the page cache */
    STK_STORAGE_SSD,     /**< or a fast network */
    STK_STORAGE_DISK,    /**< one head: late, and no more at once */
    STK_STORAGE_NETWORK, /**< late, and many at once */
    STK_STORAGE_OBJECTS  /**< later still: an object store, or a far network */
} stk_storage;

/** "memory", "an SSD", "a hard disk", ... Never NULL. */
STK_API const char *stk_storage_name(stk_storage storage);

#define STK_STORAGE_FAST    20e-6 /**< a small read alone takes less, s: memory */
#define STK_STORAGE_NEAR    2e-3  /**< less: an SSD */
#define STK_STORAGE_FAR     20e-3 /**< as much or more: an object store */
#define STK_STORAGE_SEEKS   300.0 /**< more small reads a second are beyond a hard disk */
#define STK_STORAGE_OVERLAP 4.0   /**< factor of many reads at once that one head does not give */
#define STK_STORAGE_PAYS    2.0   /**< reading in order so many times as fast is worth it */
#define STK_STORAGE_PACKS   4.0   /**< likewise large reads against small ones */

#define STK_STORAGE_STEPS  8   /**< numbers of reads at once that a far store is asked for */
#define STK_STORAGE_FILLED 0.9 /**< of the greatest bandwidth: as many at once as give it */

/** What large reads at random gave, so many at once. */
typedef struct stk_storage_step {
    uint32_t depth;
    double bytes_per_s;
    double latency, latency_p95; /**< of a read, s */
} stk_storage_step;

/** What was measured of a store: seconds, reads and bytes a second. */
typedef struct stk_storage_figures {
    uint32_t struct_size;
    double latency;        /**< of a small random read alone, the median */
    double one_per_s;      /**< small random reads, one at a time */
    double many_per_s;     /**< `many` at a time */
    double in_order_bytes; /**< large reads in order */
    double random_bytes;   /**< large reads at random */
    uint64_t small;        /**< bytes of a small read */
    uint32_t many;
    uint64_t objects, bytes; /**< that were there to read */
    double latency_p95;      /**< of a small random read alone */
    uint32_t most;           /**< reads at once that the store lets through; 0: no limit is known */
    uint32_t num_steps;      /**< 0: it is near, and was not asked */
    stk_storage_step steps[STK_STORAGE_STEPS]; /**< bandwidth by reads at once */
    stk_network network;                       /**< all that was read over the network */
} stk_storage_figures;

/** What follows from it. */
typedef struct stk_storage_answer {
    uint32_t struct_size;
    stk_storage storage;
    uint32_t io_depth;    /**< that fills it; twice `many` where more than that was not tried */
    bool in_order;        /**< reading in order pays */
    bool pack;            /**< samples in few large files pay */
    uint32_t filled;      /**< large reads at once that fill its bandwidth; 0: unknown */
    bool grows;           /**< it still grew with the last step */
    uint32_t connections; /**< that `io_depth` wants, more than there are, or fewer as the server
                             throttles; 0: those there are */
} stk_storage_answer;

/** Judge a store. Pure. */
STK_API void stk_storage_judge(const stk_storage_figures *figures, stk_storage_answer *out);

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
    double step_stretch; /**< time of the step while the loader runs / alone */
    double step_time;    /**< mean duration of a step, s */
    double wall;         /**< of the measured window, s */
    double cpu_s;        /**< of the process in the window, without the step's */
    double cpu_s_per_1000;
    uint64_t peak_bytes;   /**< anonymous and shared memory of the process beyond what it had before
                              the loader */
    uint64_t budget_bytes; /**< of a loader of the library; 0: it is another */
    double leak_bytes_per_epoch; /**< slope of the memory over the epochs; 0: no steady growth */
    uint64_t bytes_read, requests;
    uint64_t samples, steps, batch_size;
    int64_t num_workers, io_depth, prefetch;
    double prepare_busy, prepare_wait_in, prepare_wait_out; /**< worker seconds */
    uint64_t pictures;                                      /**< decoded; 0: none */
    double decode_seconds, resize_seconds; /**< worker seconds of prepare_busy spent on them */
    double
        entropy_share; /**< of decode_seconds that is entropy decoding, an estimate; 0: unknown */
    double read_latency, read_seconds; /**< mean of a request, sum over requests */
    double cached_share;               /**< of the files in the page cache; < 0: unknown */
    uint32_t usable_cores, compute_cores,
        ranks;    /**< `num_workers` and the figures are of one rank */
    bool spin;    /**< the step computes; else it sleeps and its cores are free */
    bool no_step; /**< there is none: the rate is the loader's own */
    uint64_t allocations_per_step_times_1000; /**< of Stoker's own, after warm-up */
    double waits[STK_WAIT_ROOM]; /**< of the window, what they were for; all 0: unknown */
    double other_cores;          /**< kept busy by other programs */
    double runnable_s;           /**< that threads wanted a core and had none; 0: unknown */
    double budget_wait;          /**< planning waited for room in memory_budget, s */
    double read_transfer_share;  /**< of a mean read, what grows with the bytes under way */
    double read_floor;           /**< the rest of it, s: the latency of the store */
    uint64_t bytes_needed;       /**< of bytes_read, what the samples asked for */
    uint64_t bytes_decoded;      /**< of chunks that samples are cut from; 0: there are none */
    uint64_t bytes_taken;        /**< in the samples, as delivered */
    bool pin_memory, persistent_workers;
    bool device; /**< there is an accelerator that batches are copied to */
    /* Of the training thread in the window, s, what a trainer does in addition to waiting and
     * stepping. */
    double transfer_s, validation_s, callbacks_s, logging_s, checkpoint_s;
    uint64_t val_every; /**< epochs from one validation to the next; 0: unknown, or not by epochs */
    uint64_t log_every; /**< steps from one logged to the next */
    uint32_t io_threads;     /**< of one rank, that read; 0: none, or unknown */
    char chunks[64];         /**< "8x64x64": chunks that suit the samples better; empty: unknown */
    uint64_t read_failures;  /**< of the requests */
    uint64_t bad_samples;    /**< of the window, left out or replaced */
    uint64_t picture_pixels; /**< decoded in `pictures`, at the scale of the decode; 0: unknown */
    uint64_t picture_side;   /**< of a picture as it is delivered, the longer one; 0: unknown */
    uint64_t max_epochs;     /**< that are to be trained; 0: unknown, or without end */
    uint64_t
        optimizer_steps;   /**< where `steps` batches accumulate gradients; 0: each has its own */
    double optimizer_time; /**< of one of them, s, in the step of its last batch */
    stk_tiers tiers;       /**< of the window; see stk_tiers_format() */
    stk_network network;   /**< in the window, of all stores over the network */
    stk_claims claims;     /**< of the loader's budget */
    uint64_t chunks_needed, chunks_decoded; /**< by samples, one by one; in the window */
    double chunk_seconds;                   /**< worker seconds of prepare_busy spent on them */
} stk_figures;

/** What limits a setting. */
typedef enum stk_limit {
    STK_LIMIT_STEP = 0,       /**< the step takes all the time: nothing to gain */
    STK_LIMIT_ONE_CORE,       /**< num_workers 0: the step and the preparation take turns */
    STK_LIMIT_CORES,          /**< all cores busy */
    STK_LIMIT_STORAGE,        /**< preparation waits for reads */
    STK_LIMIT_OVERSUBSCRIBED, /**< workers slow the step */
    STK_LIMIT_WORKERS,        /**< all workers busy and cores left over */
    STK_LIMIT_DECODE,         /**< all cores busy, most of the time with decoding pictures */
    /* Told apart by the waits. */
    STK_LIMIT_LATENCY,     /**< of storage: too few reads under way */
    STK_LIMIT_BANDWIDTH,   /**< of storage: too many bytes */
    STK_LIMIT_SMALL_READS, /**< latency with all reads under way that there may be */
    STK_LIMIT_OVER_READ,   /**< bandwidth or cores spent on bytes that were not asked for */
    STK_LIMIT_RETRIES,     /**< reads fail and are tried again */
    STK_LIMIT_BUDGET,      /**< memory_budget is full */
    STK_LIMIT_STRAGGLERS,  /**< batches are finished behind one that is not */
    STK_LIMIT_TURN,        /**< nothing is ahead when an epoch begins */
    /* Of a trainer, in addition to its steps. */
    STK_LIMIT_TRANSFER,   /**< batches on their way to the device */
    STK_LIMIT_VALIDATION, /**< with all that happens in it but checkpoints */
    STK_LIMIT_CALLBACKS,
    STK_LIMIT_LOGGING,
    STK_LIMIT_CHECKPOINT,
    /* Of reads over the network. */
    STK_LIMIT_THROTTLED,   /**< the server answers that it is asked for too much */
    STK_LIMIT_CONNECTIONS, /**< reads wait until one of the connections is free */
    STK_LIMIT_UNKNOWN
} stk_limit;

/** One word for a limit: "step", "one core", "cores", ... Never NULL. */
STK_API const char *stk_limit_name(stk_limit limit);

typedef struct stk_verdict {
    uint32_t struct_size;
    stk_limit limit;
    double lost_share;  /**< of the wall time, that the step waited */
    double limit_share; /**< of the wall time, lost to the limit itself; 0 where it is not known */
    stk_limit second;   /**< another one that costs much; STK_LIMIT_UNKNOWN: none */
    char knob[32], value[32];   /**< what to change, to what; knob empty: nothing; value empty: the
                                   text tells */
    double gain;                /**< factor in samples/s to expect; 1: none */
    char text[1024];            /**< one paragraph */
    double gain_low, gain_high; /**< where it is expected, of one that was simulated; 0: it is a
                                   bound */
} stk_verdict;

/** Thresholds of the verdict, and the rule of thumb it quotes. */
#define STK_JUDGE_WAIT    0.05 /**< below this share of the time in waits, the step is the limit */
#define STK_JUDGE_STRETCH 1.10 /**< above this stretch, the loader slows the step */
#define STK_JUDGE_STRETCHED                                                                        \
    0.50 /**< and that costs at least this share of what the waits cost, that is the limit */
#define STK_JUDGE_BUSY                                                                             \
    0.80 /**< at or above this share of their time, workers or cores are busy                      \
          */
#define STK_JUDGE_READ                                                                             \
    0.50 /**< at or above this share of their time waiting for reads, storage is the limit */
#define STK_JUDGE_DECODE                                                                           \
    0.50 /**< at or above this share of the work in decoding pictures, decoding is the limit */

#define STK_JUDGE_ASLEEP                                                                           \
    0.50 /**< workers that compute less than this share of their busy time sleep in it */
#define STK_JUDGE_KNOWN 0.50 /**< below this share of the waits known, they do not decide */
#define STK_JUDGE_SECOND                                                                           \
    0.25 /**< at or above this share of the waits, another limit is named, too */
#define STK_JUDGE_TRANSFER                                                                         \
    0.30 /**< at or above this share of a read that grows with the bytes, bandwidth is the limit   \
          */
#define STK_JUDGE_ALONE                                                                            \
    0.50 /**< the same where one read is under way at a time: what it would share is not seen */
#define STK_JUDGE_STORAGE                                                                          \
    0.50 /**< at or above this share of the waits that reads take, no worker helps before io_depth \
          */
#define STK_JUDGE_NETWORK                                                                          \
    0.25 /**< at or above this share of the time of reads over the network in turns, or in tries   \
            in vain, these are the limit */
#define STK_JUDGE_IDLE 0.40 /**< workers that work less and are waited for do not get a core */
#define STK_JUDGE_OVER_READ                                                                        \
    2.0 /**< at or above so many bytes read or decoded for each one needed, they are what to spare \
         */
#define STK_JUDGE_SMALL_READ 65536.0 /**< reads of fewer bytes are small */
#define STK_JUDGE_DEPTH      64.0   /**< from this io_depth on, more of it is not what is missing */
#define STK_JUDGE_MOST_DEPTH 1024.0 /**< more is not advised */
#define STK_JUDGE_DISK       50e6   /**< a store that gives more bytes a second does not seek */
#define STK_JUDGE_BESIDE                                                                           \
    0.10 /**< at or above this share of the time, validation, callbacks, logging or checkpoints    \
            are named */

#define STK_JUDGE_STEPS                                                                            \
    20 /**< of fewer steps no share of validation, callbacks, logging or checkpoints is judged */
#define STK_JUDGE_DISTURBED                                                                        \
    0.25 /**< from this many cores on that other programs keep busy, a slower step may be theirs   \
          */
#define STK_JUDGE_ALIKE 0.98 /**< rates that are nearer than this are alike */

/** Judge one setting. Pure. */
STK_API void stk_judge(const stk_figures *figures, stk_verdict *out);

/** One setting of a sweep, that differs from another in one option alone. */
typedef struct stk_sweep_point {
    char knob[32], value[32];
    double samples_per_s;
    double least, most; /**< of all its runs; equal to `samples_per_s` where there was one */
} stk_sweep_point;

/* ---- What if -------------------------------------------------------------------------------- */

/** A read as it was recorded. */
typedef struct stk_recorded_read {
    double start;  /**< when it was sent, s from any origin */
    float seconds; /**< that it took */
    float bytes;
} stk_recorded_read;

/**
 * What a run took for each sample, read and step, as an event log has it. What is missing (a log
 * that is a summary) is made up of the means of the figures: then a prediction knows no spread.
 */
typedef struct stk_recording {
    uint32_t struct_size;
    const stk_figures *figures; /**< of the run, of one rank */
    const float *prepare;       /**< s of a worker for a sample, in the order in which they ended */
    uint64_t num_prepare;
    const stk_recorded_read *reads; /**< in the order in which they ended */
    uint64_t num_reads;
    const float *steps; /**< s of a step, in order */
    uint64_t num_steps;
    uint64_t epoch_steps; /**< 0: not known */
    bool turns;           /**< nothing is ahead when an epoch begins */
    bool whole_batches;   /**< a worker makes a batch alone, as those of PyTorch's loader do */
} stk_recording;

/** What shall be otherwise than it was recorded. The table is "what_if" of stk_option_table_find().
 */
typedef struct stk_what_if {
    uint32_t struct_size;
    int64_t num_workers, io_depth, prefetch_factor; /**< STK_AUTO: as recorded; so `ranks`, ... */
    uint64_t batch_size;                            /**< 0: as recorded */
    uint64_t memory_budget;                         /**< 0: as recorded */
    double train_step_time;                         /**< s; NaN: as recorded; so those below */
    double cores;     /**< that all ranks may use; a quota may be a fraction */
    double latency;   /**< mean of a read alone, s */
    double bandwidth; /**< of the storage, for all ranks together, bytes/s */
    int64_t connections;
    int64_t ranks; /**< on this machine; other than recorded: they step together, as in stk_scale */
    int32_t cache; /**< position in "auto|none|encoded|decoded"; auto: as recorded */
} stk_what_if;

/** What a setting would give: of the steady state, as the figures of a run. */
typedef struct stk_prediction {
    uint32_t struct_size;
    double samples_per_s; /**< of one rank */
    double low, high;     /**< where it is expected: how runs of the model differ, widened by what
                             the model was off for the recorded setting */
    double base_samples_per_s; /**< that the model gives for the recorded setting */
    stk_spread wait;           /**< of a step, s */
    double cpu_cores;          /**< that the loaders keep busy, without the steps */
    double peak_bytes;         /**< memory, as stk_figures has it */
    double step_time;          /**< s */
    double step_stretch;
    bool recorded; /**< from what each sample took; false: from means, so waits are too even */
} stk_prediction;

/** Everything as recorded. */
static inline void stk_what_if_init(stk_what_if *what_if)
{
    stk_options_init(stk_option_table_find("what_if"), what_if, sizeof *what_if);
}

/**
 * Set members by name: "num_workers=8,io_depth=32". What is not named stays.
 * Errors: STK_EINVAL naming the key, and for an unknown one the nearest; STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_what_if_parse(stk_context *context, const char *text,
                                                   stk_what_if *what_if, stk_error *err);

/** The same back: what differs from what was recorded, as text ("num_workers=8"); empty: nothing.
 * Returns the length, as snprintf(). */
STK_API int stk_what_if_format(const stk_what_if *what_if, char *text, size_t size);

/**
 * Predict a setting by simulating the loader with what was recorded: workers, reads and their
 * depth, batches ahead, the memory budget, cores that all share, the step. `what_if` NULL: the
 * recorded setting itself. Deterministic: the same arguments give the same bits.
 *
 * Thread: any. Does not block; takes some hundredths of a second. Errors: STK_EINVAL (a recording
 * without figures of samples and steps; a change that it does not allow to predict), STK_ELIMIT
 * (more samples ahead than are simulated), STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_predict(stk_context *context, const stk_recording *recording,
                                             const stk_what_if *what_if, stk_prediction *out,
                                             stk_error *err);

/* ---- Scale ---------------------------------------------------------------------------------- */

/** Many ranks on many machines that train together. The table is "scale" of
 * stk_option_table_find(). */
typedef struct stk_scale {
    uint32_t struct_size;
    uint64_t ranks;       /**< of all machines */
    uint64_t per_machine; /**< of a machine; the last may have fewer */
    uint64_t gradients;   /**< bytes of a rank that are put together with all others' in a step */
    double alpha;         /**< of a message from one rank to another, s */
    double beta;          /**< that a rank sends, bytes/s; NaN: no limit */
    int32_t collective;   /**< position in "tree|ring" */
    double overlap;       /**< share of a step behind which that is hidden */
    double storage;       /**< that all machines share, bytes/s; NaN: each has its own */
    double slow_share;    /**< of the steps of a rank, that take longer at random */
    double slow_factor;   /**< so many times as long */
    double mtbf;          /**< of one rank, from failure to failure, s; NaN: none fails */
    double checkpoint;    /**< that training stands to save, s */
    double restart;       /**< from a failure to the first step after it, s */
    double contention;    /**< a step of all cores takes so many times as long as one of a core */
} stk_scale;

/** What a number of ranks would come to. Seconds are means of a step. */
typedef struct stk_scaled {
    uint32_t struct_size;
    uint64_t ranks, machines;
    double samples_per_s; /**< of all ranks, while none fails */
    double one_per_s;     /**< of one rank that has a machine alone */
    double efficiency;    /**< samples_per_s / (ranks * one_per_s) */
    double step, wait;    /**< of a rank; wait: for its batch */
    double behind;        /**< that it waits for slower ranks */
    double comm;          /**< of the all-reduce, and what of it is not hidden */
    double comm_wait;
    double mtbf; /**< of all ranks together; infinite: none fails, and interval and shares are 0 */
    double interval;       /**< from checkpoint to checkpoint, of training; the best by Daly */
    double interval_first; /**< the same by Young, the first order of it */
    double lost_share;     /**< of the time, to checkpoints, restarts and what is done again */
    double lost_simulated; /**< the same of a simulation of failures, which checks the formula; NaN:
                              the interval is 0 */
    double useful_per_s;   /**< samples_per_s of what is not lost */
} stk_scaled;

#define STK_SCALE_RANKS 32 /* numbers of ranks that are asked for at once */

/** What is measured is not known: one machine of 8 ranks, no collective, no failure. */
static inline void stk_scale_init(stk_scale *scale)
{
    stk_options_init(stk_option_table_find("scale"), scale, sizeof *scale);
}

/**
 * Set members by name, those of `what_if`, too: "ranks=8,64,1024,alpha=20us,cores=160". Of several
 * numbers of ranks the first is the member; all are in `ranks`, which has room for STK_SCALE_RANKS,
 * and *n says how many there are. Errors: as of stk_what_if_parse().
 */
STK_API STK_NODISCARD stk_status stk_scale_parse(stk_context *context, const char *text,
                                                 stk_scale *scale, stk_what_if *what_if,
                                                 uint64_t *ranks, size_t *n, stk_error *err);

/**
 * Predict many ranks from the recorded run of one: the ranks of a machine are simulated as
 * stk_predict() does, but begin their steps together; the slowest of the other machines is drawn
 * from what a machine takes; then comes what of the all-reduce is not hidden. `what_if` (NULL:
 * nothing) is what shall be otherwise on each machine; its `ranks` is not looked at. Deterministic.
 *
 * Thread: any. Does not block; takes some tenths of a second. Errors: those of stk_predict().
 */
STK_API STK_NODISCARD stk_status stk_predict_scale(stk_context *context,
                                                   const stk_recording *recording,
                                                   const stk_what_if *what_if,
                                                   const stk_scale *scale, stk_scaled *out,
                                                   stk_error *err);

/**
 * Judge a run by its figures as stk_judge() does; where what it took for each sample was recorded,
 * the gain is what the advised setting gives when it is simulated: stk_predict(). Thread: any. Does
 * not block; takes some hundredths of a second.
 */
STK_API void stk_judge_recording(stk_context *context, const stk_recording *recording,
                                 stk_verdict *out);

/** As members of a JSON object without its braces, for stk_event_log_write(): the event "verdict",
 * and the member "wait" of "ledger" (seconds). Return the length, as snprintf(). */
STK_API int stk_verdict_format(const stk_verdict *verdict, char *text, size_t size);
STK_API int stk_waits_format(const stk_waits *waits, char *text, size_t size);
/** The same of the event "prediction". */
STK_API int stk_prediction_format(const stk_prediction *prediction, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
