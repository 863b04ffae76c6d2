/* logs -> figures, comparisons, a page: what the files of `stoker report` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_REPORT_H
#define STK_CLI_REPORT_H

#include <stoker/report.h>

#include "cli.h"

struct report_options {
    uint32_t struct_size;
    const char *html; /* where the page goes; NULL: not said; "none" */
};

#define REPORT_NAME 256

/* Runs of one setting in one log. */
struct report_group {
    char name[REPORT_NAME];
    uint64_t file;
    uint64_t *runs, count;                    /* numbers of runs; of several ranks the first */
    double wait, per_step, total, rate, busy; /* means over the runs; rate: samples/s or steps/s */
};

/* A setting as one of several that were added one after the other. */
struct report_rung {
    const struct report_group *group;
    char name[REPORT_NAME]; /* what it adds: the measure of a ladder, or the setting's own name */
    double speed;           /* samples a second of a ladder; else steps, waits included */
    double factor;          /* as fast as the one before; NaN: it is the first */
    double share;           /* of what first and last differ by; NaN: next to nothing */
};

/* One setting against another: ratios B / A. */
struct report_pair {
    const struct report_group *a, *b;
    stk_ratio per_step, wait, total;
    char text[768];
};

struct report_view {
    struct cli *cli;
    stk_report *report;
    uint64_t runs, files;
    struct report_group *groups;
    uint64_t num_groups;
    uint64_t *by_wait; /* groups by rising wait */
    struct report_pair *pairs;
    uint64_t num_pairs, unmatched; /* settings of a log that the first one has not */
    struct report_rung *rungs;
    uint64_t num_rungs; /* 0: the settings are no series */
    bool ladder;        /* they were measured as one: stoker bench --ladder */
};

/* A figure of a run, by name. */
struct report_figure {
    const char *name;
    double value; /* not finite: unknown */
};

#define REPORT_FIGURES 48

/* ---- report_figures.c ---- */
size_t report_figures(const struct report_view *view, const stk_report_run *run,
                      struct report_figure *out);
/* "num_workers=2", or the name of the log where a run has no label. */
void report_run_name(const struct report_view *view, uint64_t run, char *out, size_t size);
/* What to know of the logs themselves: one line each; `each` is called with it. */
void report_health(const struct report_view *view, uint64_t file,
                   void (*each)(void *user, const char *line), void *user);
void report_print(const struct report_view *view, FILE *out);
/* "1.38 s", "5.1 ms"; "-" for what is unknown. */
void report_seconds(char *text, size_t size, double value);

/* ---- report_ladder.c ---- */
/* The settings of one log as one measure added after the other. False: no memory. */
bool report_ladder_make(struct report_view *view);
/* A table on a terminal, one of the page, a list in JSON; nothing where there is no ladder. */
void report_ladder_print(const struct report_view *view, FILE *out, size_t width);
void report_ladder_page(const struct report_view *view, FILE *out);
void report_ladder_json(const struct report_view *view, FILE *out);

/* ---- report_compare.c ---- */
int report_group_runs(struct report_view *view);
void report_free(struct report_view *view);

/* ---- report_html.c, report_data.c ---- */
void report_write_page(const struct report_view *view, FILE *out);
/* What the charts are drawn from, as JSON that may stand in a script. */
void report_write_data(const struct report_view *view, FILE *out);
/* "1.38 s", "12.5 %", "3.2"; "-" for what is unknown. */
void report_put_seconds(FILE *out, double value);
void report_put_share(FILE *out, double value);
void report_put_amount(FILE *out, double value);

#endif
