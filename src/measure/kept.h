/* many values of a log -> what is kept of them, in bounded memory. Inside src/measure only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_KEPT_H
#define STK_SRC_MEASURE_KEPT_H

#include <stoker/measure.h>
#include <stoker/report.h>

#include "base/base.h"

/* ---- Durations (read_values.c) --------------------------------------------------------------- */

#define STK__SKETCH_BUCKETS 960

/* Durations: all of them while the budget lasts, then counts in buckets that grow by 3 %. */
typedef struct stk__values {
    double *exact; /* NULL once it is over */
    uint64_t room;
    bool over;
    uint32_t *sketch;
    uint64_t n;
    double sum, mean, m2, min, max; /* mean and m2: Welford's */
} stk__values;

/* `budget`: how many more doubles may be kept exactly, all values together. */
stk_status stk__values_add(stk_context *ctx, stk__values *values, double value, uint64_t *budget);
void stk__values_spread(const stk__values *values, stk_spread *out);
/* Population standard deviation. */
double stk__values_deviation(const stk__values *values);
void stk__values_histogram(const stk__values *values, stk_report_histogram *out);
void stk__values_release(stk_context *ctx, stk__values *values, uint64_t *budget);

#define STK__PLACES 256

/* Sums in places of equal width, which doubles when there are too few. */
typedef struct stk__places {
    double width;
    uint32_t n;
    double sum[STK__PLACES];
    uint32_t count[STK__PLACES];
} stk__places;

/* `at` below 0 counts as 0. */
void stk__places_add(stk__places *places, double at, double value);

/* Means of neighbouring values in blocks of equal size. */
typedef struct stk__blocks {
    double sum[STK_REPORT_BLOCKS], open; /* open: of the block that is not full */
    uint64_t n, size, filled;
} stk__blocks;

void stk__blocks_add(stk__blocks *blocks, double value);

/* ---- Curves (read_curves.c) -------------------------------------------------------------------
 */

#define STK__CURVES_MAX 64 /* of one run */
#define STK__CURVES_ALL 512
#define STK__POINTS_MAX 640 /* of one curve; even */

/* A metric of a training (read_curves.c). */
typedef struct stk__curve {
    stk_report_curve out;
    stk_report_point *points;
    uint64_t room, each; /* each: values of a point that is full */
} stk__curve;

/* ---- Bars (read_bars.c) --------------------------------------------------------------------- */

#define STK__BARS_KEPT 131072 /* after thinning at most; twice as many between */

typedef struct stk__bars {
    stk_report_bar *bars;
    size_t n, room;
    float reach; /* bars of a lane with a gap up to this became one; < 0: none did */
    bool sorted;
} stk__bars;

stk_status stk__bars_add(stk_context *ctx, stk__bars *bars, const stk_report_bar *bar);
/* Bring into order, and down to `most`. */
void stk__bars_finish(stk__bars *bars, size_t most);

/* ---- Grids of tunings (read_grid.c) ---------------------------------------------------------- */

#define STK__GRID_MAX 16384 /* settings of all logs */

/* Log by log; `first`: of the log that is read. */
typedef struct stk__grid {
    stk_report_grid_setting *settings;
    uint64_t n, room, first;
} stk__grid;

/* ---- Recorded times (read_records.c) --------------------------------------------------------- */

#define STK__RECORDED_RUN 32768      /* of each kind that are kept of a run, its first */
#define STK__RECORDED_ALL (1u << 21) /* of all runs and kinds */

/* What a run took for each sample, read and step: for predictions. Seconds and bytes. */
typedef struct stk__recorded {
    float *prepare, *steps;
    uint16_t *together; /* [num_prepare] samples of the same task; 65535: or more */
    stk_recorded_read *reads;
    uint64_t num_prepare, num_reads, num_steps;
    size_t room_prepare, room_together, room_reads, room_steps;
} stk__recorded;

/* `left`: how many more may be kept of all runs; what is beyond is left out. STK_ENOMEM.
 * `seconds` is of one of the `task` samples that were prepared together. */
stk_status stk__recorded_prepare(stk_context *ctx, stk__recorded *records, double seconds,
                                 int64_t task, uint64_t *left);
/* Of tasks that took much longer than others give the rest to one sample: a log has their sum
 * alone, and a sample that is late would be many that are a little. */
void stk__recorded_part(stk__recorded *records);
stk_status stk__recorded_step(stk_context *ctx, stk__recorded *records, double seconds,
                              uint64_t *left);
stk_status stk__recorded_read(stk_context *ctx, stk__recorded *records, double start,
                              double seconds, double bytes, uint64_t *left);
void stk__recorded_release(stk_context *ctx, stk__recorded *records, uint64_t *left);

/* ---- Steps of one of several ranks (read_marks.c) -------------------------------------------- */

#define STK__MARKS_MAX 1024 /* of a run; of more, those of every second number */

/* When a step began and ended, s from the start of the run, and what of it was none of its own
 * work; NaN where unknown. */
typedef struct stk__mark {
    int64_t epoch, batch;
    double begin, end;
    float wait;      /* for its batch, before it */
    float comm_wait; /* in it, for collectives */
    float comm;      /* that collectives were under way, also behind what computes */
} stk__mark;

/* Which steps are kept follows from their numbers alone, so that they are the same of all ranks. */
typedef struct stk__marks {
    stk__mark *marks;
    size_t n, room;
    uint64_t every; /* one of so many, a power of two; 0: all */
} stk__marks;

/* A step without a number is left out. STK_ENOMEM. */
stk_status stk__marks_add(stk_context *ctx, stk__marks *marks, const stk__mark *mark);

#endif
