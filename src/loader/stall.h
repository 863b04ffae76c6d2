/* stamps of reads and tasks -> parts of a wait */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_STALL_H
#define STK_SRC_LOADER_STALL_H

#include <stoker/loader.h>

#include "base/base.h"

enum { STK__WORK_READ, STK__WORK_DECODE, STK__WORK_TRANSFORM, STK__WORK_COLLATE, STK__WORK_PARTS };

/* The way of the row that completed a step: stamps, 0 where it needed no such thing. */
typedef struct stk__path {
    uint64_t queued_ns, first_ns, sent_ns, arrived_ns; /* of the read that came last: planned, its
                                                          first try, its last, its end */
    uint64_t decode_ns, decoded_ns; /* of what rows share, decoded before the task */
    double transfer;                /* share of the last try that was transfer, an estimate */
    uint64_t idle_ns;               /* when the last worker with nothing to do, before the task,
                                       found something */
    uint64_t start_ns, end_ns;      /* of the task */
    double work[STK__WORK_PARTS];   /* of the task, in any unit */
} stk__path;

/*
 * The waits of the consumer, each divided into parts that add up to it. All of it is (L), the
 * ring's lock, but `alone`.
 */
typedef struct stk__stalls {
    bool alone; /* there are no workers */
    stk_waits waits;
    uint64_t pending_ns; /* of calls that ended without a batch */
    stk_wait cold;       /* why nothing was ahead, until the next batch; STK_WAIT_PARTS: it was */
    bool starving;       /* the round of planning at hand found the budget full */
    uint64_t starve_begin_ns, starve_end_ns; /* the last time that planning lacked memory; 0: never;
                                                UINT64_MAX: it does */
    uint64_t starved_ns;                     /* all such times before that */
    uint64_t idle_sum_ns;                    /* of the workers, when the last wait was divided */
    uint64_t helped_ns;                      /* when the last task of the consumer ended */
} stk__stalls;

struct stk__steps;
struct stk__step;
struct stk__unit;

/* A round of planning begins. */
void stk__stall_round_locked(stk__stalls *stalls);
/* Planning waits for memory; or a round has ended, which goes on unless it found none. */
void stk__stall_starve_locked(stk__stalls *stalls);
void stk__stall_feed_locked(stk__stalls *stalls, uint64_t now_ns);
bool stk__stall_starves_locked(const stk__stalls *stalls);
/* Nothing is ahead any more. */
void stk__stall_cold_locked(stk__stalls *stalls);
/* The same, and it was for want of memory. */
void stk__stall_widened_locked(stk__stalls *stalls);
/* A task has ended that was the last of its step: its way. `last`: of the units of its rows the one
 * that was ready last, or NULL. */
void stk__stall_task_locked(stk__path *path, const struct stk__unit *last,
                            const double work[STK__WORK_PARTS], uint64_t idle_ns, uint64_t start_ns,
                            uint64_t end_ns);
/* A task of the consumer has ended. */
void stk__stall_helped_locked(stk__stalls *stalls, uint64_t end_ns);
/* Divide the wait for a step that is handed out; `idle_sum_ns`: stk__workers_idle_locked(). */
void stk__stall_settle_locked(stk__stalls *stalls, const struct stk__steps *steps,
                              const struct stk__step *step, uint64_t idle_sum_ns, uint64_t asked_ns,
                              uint64_t got_ns);
/* A call that gave no batch; `turn`: it told the end of an epoch. */
void stk__stall_in_vain_locked(stk__stalls *stalls, uint64_t asked_ns, bool turn);

#endif
