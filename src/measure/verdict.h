/* figures -> what limits, what it costs, what to change */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_VERDICT_H
#define STK_SRC_MEASURE_VERDICT_H

#include "measure/measure.h"

#define MS 1e3

/* What the cases look at, worked out once. */
typedef struct stk__view {
    const stk_figures *f;
    double step, wait; /* of one step, seconds */
    double lost;       /* share of the wall time in waits */
    double workers;    /* threads of one rank */
    double ranks;
    double free_cores;    /* cores for the workers of one rank, beside the step's */
    double busy, starved; /* shares of the workers' time: at work, waiting for reads */
    double cpu;           /* share of all usable cores that work */
} stk__view;

/* Append to the paragraph. */
void stk__verdict_say(stk_verdict *out, const char *format, ...) STK_PRINTF(2, 3);
void stk__verdict_say_waits(stk_verdict *out, const stk__view *v);
void stk__verdict_advise(stk_verdict *out, const char *knob, double value);
/* Factor in samples/s when the wait of a step shrinks to `wait` and the step to `step`. */
double stk__gain_to(const stk__view *v, double step, double wait);
/* The verdict where preparation limits: more workers, less decoding or less work. */
void stk__say_cores(const stk__view *v, stk_verdict *out);
/* What the waits were for tells (verdict_waits.c); false where it is not known. */
bool stk__judge_waits(const stk__view *v, stk_verdict *out);

#endif
