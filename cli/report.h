/* logs -> figures, comparisons, a page: what the files of `stoker report` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_REPORT_H
#define STK_CLI_REPORT_H

#include <stoker/report.h>

#include "cli.h"
#include "table.h"

struct report_options {
    uint32_t struct_size;
    const char *html;    /* where the page goes; NULL: not said; "none" */
    const char *figures; /* folder that charts go to; NULL: none */
    const char *sync;    /* logger whose journals are sent; NULL: logs are read */
    const char *tracking_uri, *token, *experiment_name, *run_name, *ca_file;
    const char *project, *entity, *python;
    bool allow_http;
    const char *what_if; /* the last of them: cli->repeated has all */
    const char *scale;   /* NULL: none */
};

/* What a run would come to. */
struct report_prediction {
    uint64_t run;
    const char *what; /* what is otherwise, as it was written; NULL: nothing */
    stk_prediction is;
};

/* What so many ranks would come to. */
struct report_scaled {
    uint64_t run;
    stk_scaled is;
};

struct report_view {
    struct cli *cli;
    stk_report *report;
    uint64_t runs, files;
    const stk_report_comparison *all;      /* settings, pairs, ladder */
    const char *charts;                    /* what those of the page are drawn from, as JSON */
    struct report_prediction *predictions; /* of each setting: as recorded, then --what-if */
    size_t num_predictions;
    struct report_scaled *scaled; /* of each setting: --scale, one of each number of ranks */
    size_t num_scaled;
};

/* A figure of a run, by name. */
struct report_figure {
    const char *name;
    double value; /* not finite: unknown */
};

#define REPORT_FIGURES 48

/* ---- report_sync.c ---- */
/* Send the journals of the runs that are named. The exit code. */
int report_sync(struct cli *cli, const struct report_options *options);

/* ---- report_figures.c ---- */
size_t report_figures(const struct report_view *view, const stk_report_run *run,
                      struct report_figure *out);
void report_print(const struct report_view *view, FILE *out);
/* "1.38 s", "5.1 ms"; "-" for what is unknown. */
void report_seconds(char *text, size_t size, double value);
/* The same as a cell; a share as "12.5 %". */
void report_cell_seconds(struct cli_table_row *row, double value);
void report_cell_share(struct cli_table_row *row, double share);

/* ---- report_ladder.c ---- */
/* A table on a terminal, one of the page, a list in JSON; nothing where there is no ladder. */
void report_ladder_print(const struct report_view *view, FILE *out, size_t width);
void report_ladder_page(const struct report_view *view, FILE *out);
/* The table of whole trainings, of which there are some. */
void report_trainings_print(const struct report_view *view, FILE *out, size_t width);
void report_trainings_page(const struct report_view *view, FILE *out);
void report_ladder_json(const struct report_view *view, FILE *out);

/* ---- report_ranks.c ---- */
#define REPORT_LINED_TITLE "Steps of the ranks on one clock"
#define REPORT_LINED_ABOUT                                                                         \
    "some steps of the middle of the run, one after the other; clocks are lined up by their ends"
struct svg;
void report_ranks_print(const struct report_view *view, FILE *out, size_t width);
void report_ranks_page(const struct report_view *view, FILE *out);
void report_ranks_json(const struct report_view *view, FILE *out);
/* The steps that are told one by one as a chart, and how high it is. */
void report_lined_draw(struct svg *svg, const stk_report_world *world);
double report_lined_height(const stk_report_world *world);

/* ---- report_training.c ---- */
/* How many runs' curves are shown together. */
uint64_t report_overlaid(const struct report_view *view);
void report_curves_page(const struct report_view *view, FILE *out);
/* The metrics of a run: a table of the page, a member of JSON. */
void report_metrics_page(const stk_report_run *run, FILE *out);
void report_metrics_json(const stk_report_run *run, FILE *out);
void report_contents_page(const struct report_view *view, FILE *out);

/* ---- report_drawings.c ---- */
/* Every chart as an SVG file in a folder, which is made where it is not there. The exit code. */
int report_drawings(const struct report_view *view, const char *folder);

/* ---- report_words.c ---- */
/* What a word of the page means, a figure by its name, an option by its key; NULL: not known. */
const char *report_word(const char *word);
const char *report_figure_word(const char *name);
const char *report_option_word(const char *key);
/* The number of a part of a ledger, which its colour follows from; -1: not known. */
int report_part(const char *name);
/* The colour that is of one thing alone, on every chart; NULL: none. */
const char *report_part_own(int part);
/* All of them as a list of JSON. */
void report_parts_json(FILE *out);
/* The attribute `title` of an element that is open; nothing for NULL. */
void report_put_title(FILE *out, const char *meaning);
void report_words_page(FILE *out);
/* ---- report_what_if.c ---- */
/* Predict each setting of the logs as recorded and with each --what-if. CLI_GO_ON, or the exit code
 * after the message. */
int report_predict(struct report_view *view, stk_context *context);
void report_what_if_print(const struct report_view *view, FILE *out, size_t width);
void report_what_if_page(const struct report_view *view, FILE *out);
void report_what_if_json(const struct report_view *view, FILE *out);

/* ---- report_scale.c ---- */
/* Predict each setting of the logs for the ranks that `text` says. CLI_GO_ON, or the exit code
 * after the message. Nothing is shown where none was asked for. */
int report_scale(struct report_view *view, stk_context *context, const char *text);
void report_scale_print(const struct report_view *view, FILE *out, size_t width);
void report_scale_page(const struct report_view *view, FILE *out);
void report_scale_json(const struct report_view *view, FILE *out);

/* ---- report_surface.c ---- */
/* Whether a log has the grid of a tuning, or its settings differ in workers and in reads; then the
 * wait over both. */
bool report_has_surface(const struct report_view *view);
void report_surface_page(const struct report_view *view, FILE *out);
/* The grid of a tuning, with what is predicted: tables on a terminal, where there is one; a list in
 * JSON. */
void report_grid_print(const struct report_view *view, FILE *out, size_t width);
void report_grid_json(const struct report_view *view, FILE *out);

/* ---- report_html.c ---- */
/* The same table on the page; of a row with a link the first cell leads to that run. */
void report_table_page(const struct cli_table *table, const char *name, FILE *out);
void report_write_page(const struct report_view *view, FILE *out);
/* The style of the page. */
const char *report_page_style(void);
/* A text between two pieces of the page. */
void report_put_text(FILE *out, const char *before, const char *text, const char *after);
/* "1.38 s", "12.5 %", "3.2"; "-" for what is unknown. */
void report_put_seconds(FILE *out, double value);
void report_put_share(FILE *out, double value);
void report_put_amount(FILE *out, double value);

#endif
