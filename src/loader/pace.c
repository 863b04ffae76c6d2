/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps were like, for whoever says how many workers and reads there are to be. */
#include "loader/pace.h"

#include <stdlib.h>

void stk__pace_begin(stk__pace *p, const stk__pace_limits *limits, uint32_t workers, uint32_t depth)
{
    *p = (stk__pace){.limits = *limits};
    if (limits->workers_least == limits->workers_most && limits->depth_least == limits->depth_most)
        return;
    p->policy = stk__pace_policy_default();
    p->told_workers = workers;
    p->told_depth = depth;
    p->policy->begin(p->state, limits, workers, depth, &p->want);
}

bool stk__pace_step(stk__pace *p, uint64_t start_ns, uint64_t end_ns)
{
    if (!p->policy)
        return false;
    if (!p->began_ns)
        p->began_ns = p->first_ns = start_ns;
    if (p->ended_ns && start_ns > p->ended_ns)
        p->gaps[p->num_gaps++ % STK__PACE_GAPS] = stk__seconds(start_ns - p->ended_ns);
    p->ended_ns = end_ns;
    p->steps++;
    return p->steps >= p->want.steps && stk__seconds(end_ns - p->began_ns) >= p->want.seconds;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(stk__pace *p)
{
    const uint32_t n = STK_MIN(p->num_gaps, (uint32_t)STK__PACE_GAPS);

    qsort(p->gaps, n, sizeof *p->gaps, by_size);
    return n ? p->gaps[n / 2] : 0;
}

static double part(const stk__pace *p, const stk_waits *waits, stk_wait i)
{
    return stk__seconds(waits->parts_ns[i] - p->then.parts_ns[i]);
}

void stk__pace_ask(stk__pace *p, const stk_waits *waits, uint64_t now_ns, stk__pace_note *note)
{
    const double cold = part(p, waits, STK_WAIT_STARTUP) + part(p, waits, STK_WAIT_EPOCH_TURN);
    const stk__pace_seen seen = {
        .steps = p->steps,
        .step = median(p),
        .wait = STK_MAX(stk__seconds(waits->total_ns - p->then.total_ns) - cold, 0.0),
        .wait_reads = part(p, waits, STK_WAIT_READ_SLOT) +
                      part(p, waits, STK_WAIT_STORAGE_LATENCY) + part(p, waits, STK_WAIT_RETRY),
        .wait_transfer = part(p, waits, STK_WAIT_STORAGE_TRANSFER),
        .wait_work = part(p, waits, STK_WAIT_WORKER) + part(p, waits, STK_WAIT_DECODE_ENTROPY) +
                     part(p, waits, STK_WAIT_DECODE) + part(p, waits, STK_WAIT_TRANSFORM) +
                     part(p, waits, STK_WAIT_COLLATE) + part(p, waits, STK_WAIT_ORDERING),
        .workers = p->want.workers,
        .depth = p->want.depth};

    p->policy->next(p->state, &seen, &p->want);
    *note = (stk__pace_note){.limits = p->limits, .seen = seen, .want = p->want};
    p->then = *waits;
    p->steps = p->num_gaps = 0;
    p->began_ns = now_ns;
}
