/* stamps of reads and tasks -> parts of a wait */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_STALL_H
#define STK_SRC_LOADER_STALL_H

#include <stoker/loader.h>

enum { STK__WORK_DECODE, STK__WORK_TRANSFORM, STK__WORK_COLLATE, STK__WORK_PARTS };

/* The way of the row that completed a step: stamps, 0 where it needed no such thing. */
typedef struct stk__path {
    uint64_t queued_ns, first_ns, sent_ns, arrived_ns; /* of the read that came last: planned, its
                                                          first try, its last, its end */
    uint64_t decode_ns, decoded_ns; /* of what rows share, decoded before the task */
    double transfer;                /* share of the last try that was transfer, an estimate */
    uint64_t start_ns, end_ns;      /* of the task */
    double work[STK__WORK_PARTS];   /* of the task, in any unit */
} stk__path;

/* Weighted means, and sums of products of deviations from them. */
typedef struct stk__sums {
    double n, bytes, ns, bytes2, bytes_ns, ns2;
} stk__sums;

/*
 * Line through (bytes under way when a read was sent, time it took), in two ways, of which the
 * steeper counts. Of all reads alike: but in a steady state nearly all have about as many bytes,
 * and noise hides what bytes do. Of points, each of the reads of about as many bytes, with a
 * bounded weight: so the few of a start or an end count, but these may be slow for reasons of their
 * own.
 */
enum { STK__TREND_POINTS = 160 };

typedef struct stk__trend {
    stk__sums all;
    struct {
        double n, bytes, ns, ns2; /* means, then sum of squared deviations */
    } points[STK__TREND_POINTS];
    double slope; /* nanoseconds per byte, as of at most an eighth of the reads ago; 0: the bytes
                     explain nothing */
    uint64_t reads, next_fit;
} stk__trend;

typedef struct stk__stalls {
    stk_waits waits;
    uint64_t pending_ns; /* of calls that ended without a batch */
    stk_wait cold;       /* why nothing was ahead, until the next batch; STK_WAIT_PARTS: it was */
    bool starving;       /* the round of planning at hand found the budget full */
    uint64_t starve_begin_ns, starve_end_ns; /* the last time that planning lacked memory; 0: never;
                                                UINT64_MAX: it does */
    uint64_t starved_ns;                     /* all such times before that */
} stk__stalls;

#endif
