/* a tuner's points -> table, JSON, CSV: what the files of `stoker tune` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_TUNE_H
#define STK_CLI_TUNE_H

#include <stoker/tune.h>

#include "bench.h"

/* What is shown once a tuner has come to its end, or was interrupted. */
struct tune_view {
    struct cli *cli;
    const struct bench_plan *plan;
    const stk_tune *tune;
    const stk_tune_options *options;
    stk_tune_answer answer;
    const char *log; /* of all runs that is kept; NULL: none */
};

/* The table of what was run, and the verdict. */
void tune_print(const struct tune_view *view, FILE *out);
/* All points of the grid. */
void tune_json(const struct tune_view *view, FILE *out);
void tune_csv(const struct tune_view *view, FILE *out);
/* The same table, empty before, of what was run. */
void tune_table(const struct tune_view *view, struct cli_table *table);
/* The configuration of the best. CLI_GOOD, or the exit code after printing the error. */
int tune_write(const struct tune_view *view, stk_config_line *line, void *user);
/* The page (tune_page.c). CLI_GOOD, or the exit code after printing the error. */
int tune_write_page(const struct tune_view *view, const char *path);

#endif
