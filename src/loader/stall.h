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
