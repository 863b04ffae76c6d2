/* ranks, machines, failures -> what many ranks come to. Inside src/measure only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_SCALE_H
#define STK_SRC_MEASURE_SCALE_H

#include "measure/measure.h"

#define STK__RANKS_ASKED_MOST (UINT64_C(1) << 20) /* most that may be asked for */

enum { STK__COLLECTIVE_TREE, STK__COLLECTIVE_RING };

/* ---- Closed forms (scale_forms.c): pure ------------------------------------------------------ */

/*
 * Seconds of an all-reduce of `bytes` over `ranks`, of which each sends `beta` bytes/s after
 * `alpha` seconds: 2 ceil(log2 N) alpha (tree) or 2 (N - 1) alpha (ring), and 2 (N - 1)/N
 * bytes/beta of both [R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective
 * communication operations in MPICH, 2005]. What adds up the numbers is left out.
 */
double stk__scale_all_reduce(int32_t collective, double ranks, double bytes, double alpha,
                             double beta);

/* From checkpoint to checkpoint, of training; `mtbf` of all ranks, `checkpoint` what one costs; s.
 * First order [J. W. Young: A first order approximation to the optimum checkpoint interval, 1974]:
 * sqrt(2 C M). */
double stk__scale_interval_first(double mtbf, double checkpoint);
/* [J. T. Daly: A higher order estimate of the optimum checkpoint interval for restart dumps, 2006]:
 * sqrt(2 C M) (1 + sqrt(C/2M)/3 + C/2M/9) - C; M where C >= 2 M. */
double stk__scale_interval(double mtbf, double checkpoint);
/* Share of the time that is lost with an interval tau and restarts of R [ibid.]:
 * 1 - tau / (M exp(R/M) (exp((tau + C)/M) - 1)). */
double stk__scale_lost(double mtbf, double checkpoint, double restart, double interval);

/* ---- Simulated failures (scale_failures.c) --------------------------------------------------- */

/*
 * The same share of `segments` intervals that were trained and saved, where failures come at random
 * at a constant rate, also while a checkpoint is written and while it restarts: what was not saved
 * is done again. The same seed gives the same bits. At most `failures` of them: 1 where there were
 * as many before the first segment was done. Pure.
 */
double stk__scale_simulate_lost(double mtbf, double checkpoint, double restart, double interval,
                                uint64_t segments, uint64_t failures, uint64_t seed);

#endif
