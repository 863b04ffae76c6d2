/* steps that were handed out -> workers and reads for the next ones */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_PACE_H
#define STK_SRC_LOADER_PACE_H

#include "base/pace.h"
#include "loader/reads.h"
#include "loader/stall.h"
#include "loader/workers.h"

#define STK__PACE_GAPS 15 /* between two waits, of which the median is told */

/* Where num_workers or io_depth is auto: what the policy is told and says. The consumer's, one
 * thread at a time. */
typedef struct stk__pace {
    const stk__pace_policy *policy; /* NULL: nothing moves */
    stk__pace_limits limits;
    stk__pace_want want;
    _Alignas(16) char state[STK__PACE_STATE];
    uint32_t steps, num_gaps;
    double gaps[STK__PACE_GAPS]; /* s */
    uint64_t began_ns, ended_ns; /* when these steps began; when the last wait ended; 0: none has */
    stk_waits then;              /* the waits when they began */
    uint64_t first_ns;           /* when the first of all steps began */
    uint32_t told_workers, told_depth; /* that messages were of */
} stk__pace;

/* Whether there is anything to move. */
void stk__pace_begin(stk__pace *pace, const stk__pace_limits *limits, uint32_t workers,
                     uint32_t depth);
/* A batch was handed out, asked for at start_ns; true: so many steps were seen that the policy is
 * to be asked. */
bool stk__pace_step(stk__pace *pace, uint64_t start_ns, uint64_t end_ns);
/* Ask it: `waits` are those until now. */
void stk__pace_ask(stk__pace *pace, const stk_waits *waits, uint64_t now_ns, stk__pace_note *note);

#endif
