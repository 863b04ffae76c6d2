/* settings -> processes -> figures: what the files of `stoker bench` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_BENCH_H
#define STK_CLI_BENCH_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cli.h"
#include "table.h"

#define BENCH_PATH 4096

/* ---- Settings (bench_options.c) ------------------------------------------------------------- */

struct bench_recipe;

struct bench_plan {
    struct cli *cli;
    stk_bench_plan *settings;
    struct bench_recipe *recipes; /* of real steps */
    int code;                     /* CLI_GO_ON, or that of an error that has been printed */
};

/* All settings of the configuration. CLI_GO_ON, or the exit code after printing the error. */
int bench_plan_make(struct cli *cli, struct bench_plan *plan);
/* PATH is the dataset of all settings, whatever a file says: before the plan, or its grid, is made.
 * CLI_GO_ON, or the exit code after printing the error. */
int bench_take_path(struct cli *cli);
void bench_plan_free(struct bench_plan *plan);
/* Setting `i`. */
stk_bench_setting bench_setting(const struct bench_plan *plan, size_t i);

struct bench_result;
/* Give the plan what came of the ranks of a run. False: no, and it was said. */
bool bench_keep(struct bench_plan *plan, size_t i, const stk_bench_setting *setting,
                struct bench_result *results, bool *log_failed);

/* ---- One run in one process (bench_child.c) ------------------------------------------------- */

/* What a child tells its parent; plain memory. */
struct bench_result {
    stk_bench_result run;
    stk_figures figures;
};

/* Memory shared by the ranks of a run. */
struct bench_meeting {
    atomic_uint arrived[4]; /* processes at each meeting point */
    atomic_bool broken;     /* one is gone: none waits any more */
};

/* One process of a run. */
struct bench_task {
    struct cli *cli;
    const struct bench_plan *plan;
    stk_bench_setting setting; /* with rank, repeat and log */
    struct bench_meeting *meeting;
    FILE *hashes; /* takes a stk_bench_hash for each row; NULL: none are asked for */
    pid_t parent; /* that forks it */
    bool joined;  /* it has met the other ranks over their MPI */
};

/* Measure, in a process of its own. */
void bench_run(struct bench_task *task, struct bench_result *result);
/* The same of a whole training (bench_fit.c). */
void bench_fit(struct bench_task *task, stk_context *context, stk_config *config,
               struct bench_result *result);
/* A result that says why there is none. */
void bench_fail(struct bench_result *result, stk_status status, const char *text);

/* ---- Processes (bench_fork.c) --------------------------------------------------------------- */

/* Run the ranks of a task, each in a child, and wait for them. `results` has one for each; `hash`
 * takes the lines of --hash, NULL: none. */
void bench_fork(struct bench_task *task, FILE *hash, struct bench_result *results);

/* ---- Ranks of an MPI (bench_mpi.c) ----------------------------------------------------------- */

/* The same of a task with an all-reduce, whose ranks mpirun starts. */
void bench_mpi(struct bench_task *task, FILE *hash, struct bench_result *results);
/* Whether this process is one of them, and what it does then: the exit code. */
bool bench_mpi_is_rank(void);
int bench_mpi_rank(struct cli *cli, const struct bench_plan *plan);

/* ---- The real step (bench_train.c) ---------------------------------------------------------- */

/* Read the configuration that bench.step names, and take from it what the setting does not say of
 * data and loader. It is put in front of `recipes`. CLI_GO_ON, or the exit code after printing the
 * error. */
int bench_recipe_make(struct cli *cli, stk_bench_setting *setting, stk_loader_options *loader,
                      stk_bench_options *bench, struct bench_recipe **recipes);
/* That of a combination of the configuration; NULL: its step is simulated. */
const struct bench_recipe *bench_recipe_of(const struct bench_recipe *recipes, uint64_t which);
/* The configuration of a whole training; NULL: the step is of another kind. */
stk_config *bench_recipe_fit(const struct bench_recipe *recipe);
/* Without one: refuse what would be of a training. CLI_GO_ON, or the exit code. */
int bench_recipe_check(struct cli *cli);
void bench_recipe_free(struct bench_recipe *recipes);
/* The step of its model: forward, backward and optimizer step, on a batch or on noise. It lives as
 * long as *out, which the caller destroys, after a failure as well. */
stk_status bench_train_create(struct cli *cli, stk_context *context,
                              const struct bench_recipe *recipe, uint64_t batch_size,
                              stk_recipe **out, const stk_bench_step **step, stk_error *err);

/* ---- Hashes (bench_hash.c) ------------------------------------------------------------------ */

/* Write the hashes of several ranks as lines, in the order of epoch, step and position. */
int bench_hash_merge(FILE *const *in, size_t n, FILE *out);

/* ---- Output (bench_report.c) ---------------------------------------------------------------- */

/* One setting with what came of it. */
struct bench_row {
    stk_bench_setting setting;
    stk_bench_row row;
    stk_verdict verdict;
};

enum bench_step { BENCH_SIMULATED, BENCH_TRAIN, BENCH_FIT, BENCH_PYTHON, BENCH_UNKNOWN };
/* What bench.step ("train:a.yaml", "fit:a.yaml", "fit", NULL) names, and its configuration; NULL:
 * none. */
enum bench_step bench_step_of(const char *step, const char **config);

/* All of them that were begun. */
struct bench_rows {
    const struct bench_plan *plan;
    struct bench_row *rows;
    size_t n;
    stk_bench_summary summary;
    bool repeats;    /* some setting has several runs */
    const char *log; /* path; "": none */
};

/* Ended with free(rows->rows). False: no memory. */
bool bench_rows_make(const struct bench_plan *plan, size_t begun, const char *log,
                     struct bench_rows *rows);
void bench_report(struct cli *cli, FILE *out, const struct bench_rows *rows);
/* What all settings have in common, "digits:, batch_size 32, a step of 10 ms that sleeps, ": what
 * follows is how long they are measured, but for whole trainings. */
void bench_work_print(struct cli *cli, FILE *out, const stk_bench_setting *setting);
/* That other programs took cores of the `cores` there are; nothing where they took next to none. */
void bench_disturbance_print(FILE *out, size_t width, const stk_bench_summary *all, uint32_t cores);
/* Begin the row of a table with its label; NULL where it has no figures, which it says. */
struct cli_table_row *bench_row_begin(struct cli_table *table, const struct bench_row *from);
/* The same as objects and lists (bench_json.c). */
void bench_json(FILE *out, const struct bench_rows *rows);
void bench_csv(FILE *out, const struct bench_rows *rows);

/* A paragraph: what was waited for (bench_ledger.c). Nothing where it is not known. */
void bench_ledger_print(FILE *out, size_t width, const struct bench_row *row);
/* A line for each setting with an all-reduce: what it takes (bench_ledger.c). */
void bench_all_reduce_print(FILE *out, size_t width, const struct bench_rows *rows);
/* A line for each option of which more gives no more: from which value on (bench_sweep.c). */
void bench_sweep_print(FILE *out, size_t width, const struct bench_rows *rows);
/* The tables of whole trainings, and what they say together (bench_trainings.c). */
void bench_trainings_print(FILE *out, size_t width, const struct bench_rows *rows, bool quiet);
/* Their lists as members of a row in JSON; nothing of a row that is none. */
void bench_trainings_json(FILE *out, const struct bench_row *row);
/* What each rung of a ladder gave (bench_ladder.c); nothing where it is none. */
void bench_ladder_print(FILE *out, size_t width, const struct bench_rows *rows);
/* What settings that read over the network give next to those of local data (bench_network.c). */
void bench_network_print(FILE *out, size_t width, const struct bench_rows *rows);
/* The table of what one picture costs (bench_cost.c); nothing where none was decoded. */
void bench_cost_print(FILE *out, const struct bench_row *row);

#endif
