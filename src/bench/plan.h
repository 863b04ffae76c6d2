/* Settings of a plan and what came of them: what plan.c, label.c, rows.c and sweep.c share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BENCH_PLAN_H
#define STK_SRC_BENCH_PLAN_H

#include "bench/bench.h"

/* The value that an option which varies has in a setting. */
typedef struct stk__bench_knob {
    char name[64], value[128];
} stk__bench_knob;

/* One run, over its ranks. */
typedef struct stk__bench_outcome {
    stk_bench_result result;
    stk_figures sum, judged;
} stk__bench_outcome;

typedef struct stk__bench_planned {
    stk_bench_setting setting;
    stk_bench_options bench;
    stk_loader_options loader;
    stk_bench_python_options python;
    char label[STK_BENCH_LABEL], measure[STK_BENCH_LABEL];
    char *options_json, *about;
    stk__bench_knob *knobs; /* plan->num_knobs */
    stk_prediction prediction;

    stk__bench_outcome *runs;
    size_t num_runs, room;
    size_t shown;  /* the run of the median rate */
    uint64_t good; /* runs that ended well */
    double least, most;
} stk__bench_planned;

struct stk_bench_plan {
    stk_context *ctx;
    stk_config *config;
    stk__bench_planned *settings;
    size_t count, num_knobs;
};

/* ---- Texts (label.c) ------------------------------------------------------------------------ */

/* How many options have several values. */
size_t stk__bench_count_knobs(const stk_bench_plan *plan);
/* Their values in a setting. */
stk_status stk__bench_take_knobs(const stk_bench_plan *plan, stk__bench_planned *setting,
                                 stk_error *err);
/* "NAME=VALUE" of each of them, or (before not NULL) of those that are others there. */
void stk__bench_name_knobs(const stk_bench_plan *plan, const stk__bench_planned *setting,
                           const stk__bench_planned *before, char text[STK_BENCH_LABEL]);
/* The options as JSON, and what the log says of the setting. */
stk_status stk__bench_describe(const stk_bench_plan *plan, stk__bench_planned *setting,
                               stk_error *err);
/* Whether the configuration says something of an option. */
bool stk__bench_given(const stk_bench_plan *plan, const stk_option_table *table, const char *name);

/* ---- Python (python.c) ---------------------------------------------------------------------- */

/* Whether an interpreter is to measure a setting; what has no effect there, or elsewhere, is
 * refused. */
stk_status stk__bench_take_python(const stk_bench_plan *plan, const stk_bench_plan_options *how,
                                  stk__bench_planned *s, stk_error *err);

/* ---- Rows (rows.c) -------------------------------------------------------------------------- */

/* The run that is shown; NULL: there is none. */
const stk__bench_outcome *stk__bench_shown(const stk__bench_planned *setting);
/* Whether there are figures of it, of a loader. */
bool stk__bench_measured(const stk__bench_planned *setting);
/* The rates of a setting. */
void stk__bench_rate(const stk__bench_planned *setting, stk_sweep_point *point);
/* Of one run: samples a second, or trainings a second. */
double stk__bench_speed(const stk__bench_outcome *run);
/* Whether a run came to figures. */
bool stk__bench_ended_well(const stk__bench_outcome *run);
/* What speed-ups are measured against: the first setting without workers, else the first one. */
size_t stk__bench_baseline(const stk_bench_plan *plan);

/* ---- Trainings (trainings.c) ---------------------------------------------------------------- */

/* How many times as fast a setting is as another: of their runs in pairs, each of the same round.
 */
void stk__bench_pair(const stk_bench_plan *plan, size_t i, size_t other, stk_spread *out);
/* Whether two settings came to the same: as many epochs of the same losses. */
bool stk__bench_same_training(const stk_bench_plan *plan, size_t i, size_t other);
/* The speed-up of a setting over the baseline, over their runs in pairs. */
void stk__bench_pair_runs(const stk_bench_plan *plan, size_t i, stk_bench_row *row);
/* Whether the losses are those of the baseline, and of each other. */
void stk__bench_compare_losses(const stk_bench_plan *plan, size_t i, stk_bench_row *row);

#endif
