/* bytes of a log -> objects -> runs, in bounded memory */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_READ_H
#define STK_SRC_MEASURE_READ_H

#include <stoker/report.h>

#include "base/json_scan.h"
#include "base/text.h"
#include "measure/kept.h"

/* ---- Numbers of a log ----------------------------------------------------------------------- */

/* What a number of a log may be: a log is written by anybody, and one absurd number is not to turn
 * what all others say. */
#define STK__TIME_MAX  1e10 /* seconds that a time or a duration may be */
#define STK__WHOLE_MAX (INT64_C(1) << 53)

#define STK__RANGE_TIME     ((stk__json_range){-STK__TIME_MAX, STK__TIME_MAX})
#define STK__RANGE_DURATION ((stk__json_range){0, STK__TIME_MAX})
/* Of what is left of a difference of clocks. */
#define STK__RANGE_LEDGER ((stk__json_range){-1e-3, STK__TIME_MAX})
#define STK__RANGE_SHARE  ((stk__json_range){0, 1})
#define STK__RANGE_FACTOR ((stk__json_range){0, 1e6})
#define STK__RANGE_COUNT  ((stk__json_range){0, (double)STK__WHOLE_MAX})
#define STK__RANGE_ANY    ((stk__json_range){-1e18, 1e18}) /* of a series, which is only drawn */

/* ---- Objects of a stream (read_scan.c) ------------------------------------------------------ */

#define STK__SCAN_OBJECT  (256u << 10) /* most bytes of one object */
#define STK__SCAN_ROOM    (1u << 20)
#define STK__SCAN_MEMBERS 192 /* "figures" has most of all */

/* The objects in a stream of bytes. What is none is counted and passed over, up to the next line or
 * the next "{"event"". */
typedef struct stk__scanner {
    char *buffer; /* STK__SCAN_ROOM bytes */
    size_t begin, end;
    bool eof;
    bool fresh;    /* only blanks since the last line end */
    bool dropping; /* inside a piece that is no object */
    uint64_t dropped_bytes, dropped_pieces;
    bool truncated; /* the stream ended inside an object */
} stk__scanner;

typedef struct stk__log_object {
    stk__json_member members[STK__SCAN_MEMBERS];
    size_t n;
    bool alone; /* its line holds nothing else */
} stk__log_object;

/* Where the next bytes go. */
char *stk__scanner_room(stk__scanner *scanner, size_t *size);
/* The next object, valid until the next call of any of these; false: more bytes are needed, or
 * (eof) there are none. */
bool stk__scanner_next(stk__scanner *scanner, stk__log_object *out);

/* ---- Runs (read_run.c) ---------------------------------------------------------------------- */

#define STK__RUNS_MAX   1000
#define STK__EPOCHS_MAX 4096
#define STK__COUNTS_MAX 64
#define STK__SERIES_MAX 64 /* of one run */
#define STK__SERIES_ALL 1024
#define STK__LANES_MAX  64
#define STK__REORDER    256        /* events of the training thread that may be out of order */
#define STK__EXACT_MAX  (2u << 20) /* doubles kept exactly */
#define STK__CLOCK_STEP 1.0        /* seconds back, from which on the clock was set */

/* Events of the training thread, which are put into the order of time. */
typedef enum stk__main_kind {
    STK__MAIN_EPOCH_START,
    STK__MAIN_EPOCH_END,
    STK__MAIN_TRAIN_START,
    STK__MAIN_TRAIN_END
} stk__main_kind;

typedef struct stk__main {
    double time;
    double duration;
    double wait; /* of a start for data, of an end for collectives; NaN: it does not say */
    double comm; /* likewise that collectives were under way */
    int64_t number, epoch;
    uint64_t sequence;
    stk__main_kind kind;
} stk__main;

typedef struct stk__series {
    stk_report_series out;
    stk__places places;
} stk__series;

/* A run while it is read; `out` is what the caller sees. */
typedef struct stk__run {
    stk_report_run out;
    uint32_t number;
    bool monotonic;
    int64_t origin_ns;
    double origin, shift; /* of time; added to the wall clock since it was set back */
    double main_last;     /* last time of the training thread, in the order of the file */
    double first, last;   /* least and greatest time seen */
    double any_last;      /* of any event, in the order of the file */
    uint64_t sequence;
    stk__main *heap; /* STK__REORDER; NULL once the run has ended */
    size_t heap_n;
    char *label, *data_params, *measure;

    double notebook_end; /* time of the last "training end" that the notebook sees */
    double end;          /* of the last "training end"; NaN: none */
    double step_began, waited;
    bool epoch_fresh; /* no step of the epoch has begun */
    double epoch_start;
    uint64_t turns;
    double turn_sum, first_step, step_sum;
    stk__values wait, notebook, get;
    stk__recorded records;
    stk__marks marks; /* of one of several ranks */
    stk__blocks blocks;
    stk__places steps, waits, gets; /* over time */
    stk_report_epoch *epochs;
    uint64_t epochs_room;
    double *losses; /* of a whole training: of each epoch */
    uint64_t num_losses, losses_room;
    stk_report_count *counts;
    char (*row_names)[STK_REPORT_NAME];
    uint64_t lanes[STK__LANES_MAX]; /* keys of workers */
    uint32_t num_lanes;
    stk__series **series;
    uint64_t series_room;
    stk_report_series *series_out;
    stk__curve **curves;
    stk_report_curve *curves_out;
    stk_figures figures;
    stk_verdict verdict;
    stk_prediction predicted;
    bool has_figures;
    char tiers[512];
} stk__run;

/* An event, taken from an object. */
typedef struct stk__log_line {
    const stk__log_object *object;
    char name[STK_REPORT_NAME];
    double time, duration;                            /* NaN: none */
    int64_t time_ns, pid, epoch, batch, worker, task; /* -1: none; worker -2 */
    bool alone;
} stk__log_line;

/* What stk_report_compare() has made (report_groups.c). */
typedef struct stk__comparison stk__comparison;

void stk__comparison_destroy(stk_context *ctx, stk__comparison *comparison);
/* What the caller of stk_report_compare() has; NULL for none. */
const stk_report_comparison *stk__comparison_shown(const stk__comparison *comparison);
/* Compare positive values of two kinds (report_compare.c); values that are not above 0, or one
 * alone, leave the ratio without an interval. Pure. */
void stk__ratio_of(const double *a, uint64_t n_a, const double *b, uint64_t n_b, stk_ratio *out);
/* Seconds a step takes in two runs, with the interval from their blocks. Pure. */
void stk__ratio_within(const stk_report_run *a, const stk_report_run *b, stk_ratio *out);

struct stk_report {
    stk_context *ctx;
    atomic_bool canceled;
    stk__scanner scanner;
    stk_report_file *files;
    uint64_t num_files, files_room;
    stk__run **runs;
    uint64_t num_runs, runs_room;
    stk__run *last; /* that an event without a known process belongs to */
    uint64_t exact_left, series_left, curves_left, records_left;
    stk__bars bars;
    bool reading;
    stk__log_object object;
    stk__grid grid;
    stk__comparison *comparison; /* NULL: none was asked for */
    stk__text charts;            /* likewise empty */
};

stk_status stk__run_create(stk_report *report, const stk__log_line *start, stk__run **out);
void stk__run_free(stk_report *report, stk__run *run);
/* Take one event; a "grid setting" (read_grid.c). */
stk_status stk__run_event(stk_report *report, stk__run *run, const stk__log_line *line);
stk_status stk__report_grid_add(stk_report *report, const stk__log_line *line);
/* An object that is an event; false when it is none. */
bool stk__line_of(const stk__log_object *object, stk__log_line *out);
const stk__json_member *stk__line_find(const stk__log_line *line, const char *key);
double stk__line_seconds(const stk__log_line *line, const char *key); /* NaN: it has none */
/* Numbers of an event as series of the group `event`, those of its objects as "EVENT.MEMBER"
 * (read_series.c). */
stk_status stk__run_series(stk_report *report, stk__run *run, const stk__log_line *line,
                           const char *event, double at, bool ledger);
/* One number of it, where it has it. */
stk_status stk__run_value(stk_report *report, stk__run *run, const char *group, const char *name,
                          const stk__log_line *line, double at);
/* A "metrics" event as curves, and one value of one, a number or NULL, at step, epoch and time of
 * `at` (read_curves.c). */
stk_status stk__run_metrics(stk_report *report, stk__run *run, const stk__log_line *line,
                            double time);
stk_status stk__run_curve(stk_report *report, stk__run *run, const char *name,
                          const stk__json_member *value, const stk_report_point *at);
/* Have what the caller sees be as they are now. */
stk_status stk__curves_show(stk_report *report, stk__run *run);
void stk__curves_free(stk_report *report, stk__run *run);
/* Settings of a "run start" (read_settings.c), and its machine (read_machine.c). */
stk_status stk__run_settings(stk_report *report, stk__run *run, const stk__log_line *line);
void stk__settings_free(stk_report *report, stk__run *run);
stk_status stk__run_machine(stk_report *report, stk__run *run, const stk__json_member *machine);
void stk__run_machine_free(stk_report *report, stk__run *run);
/* Work through what waits in the order of time. */
stk_status stk__run_drain(stk_report *report, stk__run *run, size_t keep);
/* Figures of a run that was read (report.c). */
void stk__run_figures(stk_report *report, stk__run *run);
/* Figures of a log without steps, from those that it was written with. */
void stk__run_summary(stk__run *run);
/* Judge a run from its events alone. */
void stk__run_judge(stk__run *run);
#define STK__SIMULATED_VERDICTS 8 /* of a report: each takes some hundredths of a second */
/* Where the log has what each sample took: simulate what the verdict advises (report_predict.c).
 */
void stk__run_simulate(stk_report *report, stk__run *run);
/* Take "figures" and "verdict" events. */
void stk__run_logged(stk__run *run, const stk__log_line *line);

/* The value that `share` of Student's t distribution lies below. */
double stk__student_quantile(double share, double freedom);

/* ---- Charts (report_charts.c, report_training.c) ----------------------------------------------
 */

/* A string of ASCII alone, without what could end a script; a number of six digits, or null. */
void stk__charts_string(stk__text *out, const char *string);
void stk__charts_number(stk__text *out, double value);
/* Members of a run's object, and of the object of all: its curves; the runs that are shown
 * together.
 */
void stk__charts_curves(stk__text *out, const stk_report_run *run);
void stk__charts_overlaid(stk__text *out, const stk_report *report);

/* ---- Logs in pieces (report.c) --------------------------------------------------------------- */

/* stk_report_read() from memory: begin a log, add its bytes in pieces of any length, end it. After
 * a failure the report can only be destroyed. */
stk_status stk__report_begin(stk_report *report, const char *name, stk_error *err);
stk_status stk__report_feed(stk_report *report, const void *bytes, size_t n, stk_error *err);
stk_status stk__report_end(stk_report *report, stk_error *err);

/* The value of a setting by its name, also below a section ("loader.batch_size"); NULL: none. */
const char *stk__report_setting_of(const stk_report_run *run, const char *name);

#endif
