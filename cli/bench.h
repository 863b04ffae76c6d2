/* settings -> processes -> figures: what the files of `stoker bench` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_BENCH_H
#define STK_CLI_BENCH_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cli.h"

#define BENCH_LABEL        STK_BENCH_LABEL
#define BENCH_PATH         4096
#define BENCH_MAX_SETTINGS 1000

/* ---- Options (bench_options.c) -------------------------------------------------------------- */

/* What stands at the top of a YAML file: `dataset`. */
struct bench_source {
    uint32_t struct_size;
    const char *dataset;
};

const stk_option_table *bench_source_table(void);

/* One row of the table. */
struct bench_setting {
    stk_bench_options bench;
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

/* ---- One run in one process (bench_child.c) ------------------------------------------------- */

/* What a child tells its parent; plain memory. */
struct bench_result {
    stk_bench_result run;
    stk_figures figures;
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
    FILE *hashes;    /* takes a struct stk_bench_hash for each row; NULL: none are asked for */
    uint64_t repeat;
    pid_t parent; /* that forks it */
};

/* Measure, in a process of its own. */
void bench_run(const struct bench_task *task, struct bench_result *result);
/* A result that says why there is none. */
void bench_fail(struct bench_result *result, stk_status status, const char *text);

/* ---- Processes (bench_fork.c) --------------------------------------------------------------- */

/* Run the ranks of a setting, each in a child, and wait for them. `results` has one for each. */
void bench_fork(struct cli *cli, const struct bench_setting *setting, uint64_t repeat,
                const char *log, FILE *hash, struct bench_result *results);

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
/* Forward, backward and optimizer step, on a batch or on noise. It lives as long as `train`. */
const stk_bench_step *bench_train_step(const struct bench_train *train);

/* ---- Hashes (bench_hash.c) ------------------------------------------------------------------ */

/* Write the hashes of several ranks as lines, in the order of epoch, step and position. */
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
void bench_report(struct cli *cli, FILE *out, const char *log, const struct bench_row *rows,
                  size_t n);

/* ---- The ledger (bench_ledger.c) ------------------------------------------------------------ */

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

/* The table of what one picture costs; nothing where none was decoded. */
void bench_cost_print(FILE *out, const struct bench_row *row);

#endif
