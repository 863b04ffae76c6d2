/* how a loader goes -> how many workers and reads it is to have */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_PACE_H
#define STK_SRC_BASE_PACE_H

#include "base/base.h"

/*
 * Where num_workers or io_depth is auto, a loader tells a policy how its last steps went, and the
 * policy says how it is to go on. A policy is pure: its state and what it is told decide, no clock.
 * The composition root gives the one there is.
 */

/* Bounds; where least and most are the same there is nothing to move. */
typedef struct stk__pace_limits {
    uint32_t workers_least, workers_most, depth_least, depth_most;
} stk__pace_limits;

/* Some steps, one after the other. Seconds. */
typedef struct stk__pace_seen {
    uint32_t steps;
    double step;       /* between two waits, the median of some: what comes between is no step */
    double wait;       /* sum, without what was waited for at a start or at the turn of an epoch */
    double wait_reads; /* of it, for a slot, or for storage to answer */
    double wait_transfer;    /* of it, for the bytes of reads */
    double wait_work;        /* of it, for a worker, or for its work */
    uint32_t workers, depth; /* as they were meanwhile */
} stk__pace_seen;

typedef struct stk__pace_want {
    uint32_t workers, depth;
    uint32_t steps;  /* of what is to be told next, at least; */
    double seconds;  /* and so long */
    bool calm;       /* nothing is tried at the moment */
    const char *why; /* of a change; NULL: there is none. Static */
} stk__pace_want;

#define STK__PACE_STATE 384 /* bytes of a policy's state at most */

typedef struct stk__pace_policy {
    size_t state_bytes;
    /* From the values that the loader begins with. */
    void (*begin)(void *state, const stk__pace_limits *limits, uint32_t workers, uint32_t depth,
                  stk__pace_want *first);
    void (*next)(void *state, const stk__pace_seen *seen, stk__pace_want *out);
} stk__pace_policy;

/* Defined by the composition root, src/stoker.c. */
const stk__pace_policy *stk__pace_policy_default(void);

/* What was told and what was wanted, for the event STK__EVENT_PACE. */
typedef struct stk__pace_note {
    stk__pace_limits limits;
    stk__pace_seen seen;
    stk__pace_want want;
} stk__pace_note;

#endif
