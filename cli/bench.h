/* settings -> processes -> figures: what the files of `stoker bench` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_BENCH_H
#define STK_CLI_BENCH_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cli.h"

#define BENCH_LABEL        256
#define BENCH_PATH         4096
#define BENCH_MAX_RANKS    256
#define BENCH_MAX_SETTINGS 1000

/* ---- Options (bench_options.c) -------------------------------------------------------------- */

/* The table `bench`. Seconds. */
struct bench_options {
    uint32_t struct_size;
    uint64_t num_epochs;  /* 0: as many as the time asks for */
    uint64_t num_batches; /* of an epoch; 0: all */
    const char *step;     /* "train:CONFIG", or NULL: simulated */
    double train_step_time;
    bool spin;
    bool ceiling;
    uint64_t repeat;
    uint64_t warmup; /* batches before the measured window */
    uint64_t ranks;
    const char *hash; /* file, "-", or NULL */
    bool published;
    bool drop_cache;
    bool ladder;       /* one measure after the other instead of all combinations */
    const char *trace; /* file, or NULL */
    uint64_t trace_every;
    double min_seconds;
    uint64_t min_batches;
    double max_seconds; /* 0: no limit */
};

const stk_option_table *bench_option_table(void);

/* The value of an option as JSON, or as Python writes it. */
void bench_put_value(FILE *out, const stk_option *option, const void *options, bool python);

/* What stands at the top of a YAML file: `dataset`. */
struct bench_source {
    uint32_t struct_size;
    const char *dataset;
};

const stk_option_table *bench_source_table(void);

/* One row of the table. */
struct bench_setting {
    struct bench_options bench;
    stk_loader_options loader;
    const char *dataset;
    struct bench_recipe *recipe; /* of a real step; NULL: simulated */
    uint64_t which;              /* combination of the configuration */
    uint64_t number;             /* from 1 */
    uint64_t rung;               /* of a ladder, from 1; 0: of none */
    bool free_data;              /* a ceiling: one batch served again and again */
    char label[BENCH_LABEL];
    char measure[BENCH_LABEL]; /* what a rung adds to the one before: "io_depth=32" */
    char *identity;            /* for the log: which run it is, as members of a JSON object, */
    char *locals;              /* all options as JSON, */
    char *data_params;         /* and those given as a Python dict */
};

struct bench_plan {
    struct bench_setting *settings;
    size_t count;
};

/* All settings of the configuration. CLI_GO_ON, or the exit code after printing the error. */
int bench_plan_make(struct cli *cli, struct bench_plan *plan);
void bench_plan_free(struct bench_plan *plan);

/* ---- One run in one process (bench_run.c) --------------------------------------------------- */

/* What a child tells its parent; plain memory. */
struct bench_result {
    stk_status status; /* STK_OK, STK_ECANCELED, or why it failed */
    stk_error error;
    stk_figures figures;
    stk_cores cores;
    uint64_t epochs; /* ended in the measured window */
    double setup;    /* seconds from the start to the first measured step */
    uint64_t events, delivered, discarded_most, bad_samples; /* samples: the self-check */
    double other_cores; /* kept busy by other programs in the window */
    char bad[1024];     /* "12 bad samples: ..."; empty: none */
    bool undecoded;     /* batches hold pictures as they are stored */
    bool interrupted, check_failed;
    bool log_failed, has_log;
    char log[BENCH_PATH];
    uint64_t stoker_peak_bytes; /* of Stoker's own allocations */
    char loader_text[64];       /* "2 workers, io_depth 8" as they came out */
};

/* Memory shared by the ranks of a run. */
struct bench_meeting {
    atomic_uint arrived[4]; /* processes at each meeting point */
    atomic_bool broken;     /* one is gone: nobody waits any more */
};

/* One process of a run. */
struct bench_task {
    struct cli *cli;
    const struct bench_setting *setting;
    struct bench_meeting *meeting;
    uint64_t rank;
    const char *log; /* path, or NULL */
    bool summary;    /* it takes no events of samples and steps */
    int hash_fd;     /* takes the lines of --hash; -1: none */
    uint64_t repeat;
    pid_t parent; /* that forks it */
};

/* Measure, in a process of its own. Fills `result`. */
void bench_run(const struct bench_task *task, struct bench_result *result);
/* What a signal does in it: cancel the loader, which may be NULL. */
void bench_interrupt(void *loader);

/* ---- Processes (bench_fork.c) --------------------------------------------------------------- */

/* What a rank takes of the samples and, unless it is told, of the cores. */
void bench_share(const struct bench_task *task, const stk_cores *cores,
                 stk_loader_options *options);
/* Run the ranks of a setting, each in a child, and wait for them. `results` has one for each. */
void bench_fork(struct cli *cli, const struct bench_setting *setting, uint64_t repeat,
                const char *log, FILE *hash, struct bench_result *results);

/* ---- The step (bench_step.c) ---------------------------------------------------------------- */

struct bench_row;
struct bench_step;

/* The step of a setting, for a process that has a context. */
stk_status bench_step_make(struct cli *cli, stk_context *context,
                           const struct bench_setting *setting, uint32_t threads,
                           struct bench_step **out, stk_error *err);
/* A step of `seconds`: sleeping, or (spin) fixed work on `threads` threads. NULL when it cannot be
 * made. */
struct bench_step *bench_step_create(double seconds, bool spin, uint32_t threads);
void bench_step_destroy(struct bench_step *step);
/* Find the amount of work and the time it takes alone. Nothing else of this program runs meanwhile.
 */
void bench_step_calibrate(struct bench_step *step);
/* Seconds of a step alone. */
double bench_step_alone(const struct bench_step *step);
/* One step; a real one takes `batch`, or noise where that is NULL. */
void bench_step_run(struct bench_step *step, const stk_batch *batch);
/* STK_OK, or why a real step has failed. */
stk_status bench_step_failure(const struct bench_step *step, stk_error *err);
/* CPU time of all steps so far. */
uint64_t bench_step_cpu_ns(const struct bench_step *step);

/* ---- The real step (bench_train.c) ---------------------------------------------------------- */

struct bench_train;

/* Read the configuration that bench.step names, and take from it what the setting does not say of
 * data and loader. CLI_GO_ON, or the exit code after printing the error. */
int bench_recipe_make(struct cli *cli, struct bench_setting *setting);
void bench_recipe_free(struct bench_recipe *recipe);
/* The model of a setting's recipe, with its optimizer. */
stk_status bench_train_create(struct cli *cli, stk_context *context,
                              const struct bench_setting *setting, struct bench_train **out,
                              stk_error *err);
void bench_train_destroy(struct bench_train *train);
/* Forward, backward and optimizer step on a batch, or on noise where it is NULL. */
stk_status bench_train_run(struct bench_train *train, const stk_batch *batch, stk_error *err);
uint32_t bench_train_threads(const struct bench_train *train);

/* ---- Memory (bench_memory.c) ---------------------------------------------------------------- */

#define BENCH_EPOCHS_SEEN 4096

struct bench_memory;

/* Anonymous and shared memory of this process in bytes. */
uint64_t bench_memory_now(void);
/* Room for values, without using memory before there are any; *room is their number. NULL: none.
 * Ended with munmap(). */
double *bench_memory_reserve(uint64_t *room);
/* CPU time of this process. */
uint64_t bench_process_cpu_ns(void);
/* CPU time of all processes of the machine since it was started; 0: unknown. */
uint64_t bench_machine_busy_ns(void);
/* Time that the threads of this process that live wanted a core and had none; 0: unknown. */
uint64_t bench_runnable_ns(void);
/* Threads of this process that do nothing but read. */
uint32_t bench_io_threads(void);
/* Begin to sample it from a thread of its own. NULL when that cannot be started. */
struct bench_memory *bench_memory_start(void);
/* What the bench itself has taken since, and the epoch that runs. */
void bench_memory_note(struct bench_memory *memory, uint64_t own_bytes, uint64_t epoch);
/* Stop; the most held beyond the start, and the slope over the epochs. */
void bench_memory_stop(struct bench_memory *memory, uint64_t *peak, double *slope);

/* ---- Files (bench_files.c) ------------------------------------------------------------------ */

/* Share of the local files behind a spec that is in the page cache; < 0 where there are none. */
double bench_files_cached(const char *spec);
/* Ask the kernel to forget them. Number of files. */
uint64_t bench_files_drop(const char *spec);

/* ---- Hashes (bench_hash.c) ------------------------------------------------------------------ */

/*
 * Read the epochs of a setting again, untimed, and write a line for each row to `fd`: epoch, step,
 * position, index, hash of all its bytes.
 */
stk_status bench_hash_pass(stk_dataset *dataset, const stk_loader_options *options,
                           const struct bench_options *bench, int fd, stk_error *err);
/* Merge the lines of several ranks in the order of epoch, step and position. */
int bench_hash_merge(FILE *const *in, size_t n, FILE *out);

/* ---- Output (bench_report.c) ---------------------------------------------------------------- */

/* What came out of one setting: over its ranks and repeats. */
struct bench_row {
    const struct bench_setting *setting;
    struct bench_result sum; /* of all ranks, of the repeat with the median rate */
    stk_figures judged;      /* of its slowest rank */
    double least, most;      /* samples/s over the repeats */
    uint64_t runs;           /* repeats that ended well */
    bool ended;              /* anything to show */
};

/* Sum of the ranks of one run. */
void bench_sum(const struct bench_result *ranks, uint64_t n, struct bench_result *sum,
               stk_figures *judged);
void bench_report(struct cli *cli, FILE *out, const struct bench_row *rows, size_t n);

/* ---- The ledger (bench_ledger.c) ------------------------------------------------------------ */

/* An epoch of the log: what it was spent on; and all those before. */
struct bench_ledger {
    uint64_t begin_ns, step_ns;
    stk_waits waits; /* before it */
    struct {
        uint64_t wall_ns, step_ns;
        stk_waits waits;
    } all;
};

/* `now` becomes what was waited since `then`. */
void bench_ledger_subtract(stk_waits *now, const stk_waits *then);
/* What the loader did between two looks at it. */
void bench_ledger_figures(const stk_loader_stats *then, const stk_loader_stats *now,
                          stk_figures *f);
/* An epoch begins, or ends with the event "ledger". */
void bench_ledger_epoch(struct bench_ledger *ledger, stk_log *log, const stk_loader *loader,
                        bool start, uint64_t epoch, uint64_t now_ns);
/* The events "figures" and "verdict" of a run, and the "ledger" of all its epochs (NULL: it has
 * been written). */
void bench_ledger_verdict(stk_log *log, const struct bench_ledger *ledger, const stk_figures *f);
/* Begin the trace of a run, where its setting has one: of the first rank, in its first repeat. */
stk_status bench_ledger_trace(stk_context *context, const struct bench_task *task, stk_trace **out,
                              stk_error *err);
/* A paragraph: what was waited for. Nothing where it is not known. */
void bench_ledger_print(FILE *out, size_t width, const struct bench_row *row);

/* ---- Sweeps (bench_sweep.c) ----------------------------------------------------------------- */

/* The verdict of row `i` beside the others, which differ from it in one option alone or not. */
void bench_judge(const struct bench_row *rows, size_t n, size_t i, stk_verdict *out);
/* Whether two rows are as fast as each other, as far as was measured. */
bool bench_alike(const struct bench_row *a, const struct bench_row *b);
/* A line for each option of which more gives no more: from which value on. */
void bench_sweep_print(FILE *out, size_t width, const struct bench_row *rows, size_t n,
                       const struct bench_row *best);

/* ---- Ladders (bench_ladder.c) --------------------------------------------------------------- */

/* What each rung of a ladder gave; nothing where it is none. */
void bench_ladder_print(FILE *out, size_t width, const struct bench_row *rows, size_t n);
/* The same of row `i`, as members of a JSON object. */
void bench_ladder_json(FILE *out, const struct bench_row *rows, size_t n, size_t i);

/* ---- Pictures (bench_cost.c) ---------------------------------------------------------------- */

/* What decoding took between two looks at the loader. */
void bench_cost_figures(const stk_loader_stats *then, const stk_loader_stats *now, stk_figures *f);
/* How large pictures leave the loader. */
void bench_cost_side(const stk_loader *loader, stk_figures *f);
/* Where more was read or decoded of chunks than samples need: which chunks would suit them. */
void bench_cost_chunks(stk_dataset *dataset, stk_figures *f);
/* The same; and where pictures were decoded: estimate the share of it that is entropy decoding,
 * from some of them. Blocks. */
void bench_cost_estimate(stk_dataset *dataset, stk_figures *f);
/* The table of what one picture costs; nothing where none was decoded. */
void bench_cost_print(FILE *out, const struct bench_row *row);

#endif
