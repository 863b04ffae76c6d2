/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share cores -> what taking turns costs them, beyond what the cores are. */
#include <math.h>

#include "measure/simulate.h"

#define TURNS 0.7

/* Ranks of the core that has most, of so many cores; between two numbers of them a quota is. */
static double most_of(double ranks, double cores)
{
    const double few = ceil(ranks / floor(cores)), many = ceil(ranks / ceil(cores));

    return few + (many - few) * (cores - floor(cores));
}

double stk__ranks_crowding(const stk__setting *set)
{
    if (!isfinite(set->cores))
        return 1;
    return STK_MAX(most_of(set->ranks, STK_MAX(set->quota ? set->cores : round(set->cores), 1.0)),
                   1.0);
}

/* s of a step: caches are filled anew, and who is waited for has to come by its turn, behind steps
 * and workers of others. TURNS of what each of the other ranks of the core computes for a batch, as
 * measured of trainings of 2 to 8 ranks on two cores (bench/RESULTS.md). Within a step nobody
 * changes its core: of three on two cores each of two has half of one, and the third waits for
 * them. */
static double turns(const stk__stages *stages, const stk__setting *set)
{
    const double sample = stages->cpu > 0 ? stages->cpu : stages->mean_prepare,
                 step = stages->mean_step, batch = step + sample * set->batch,
                 most = stk__ranks_crowding(set), each = STK_MAX(set->ranks / set->cores, 1.0);

    if (!set->compute)
        return 0;
    return TURNS * (most - 1) * batch / STK_MIN(set->cores, 1.0) + STK_MAX(most - each, 0.0) * step;
}

double stk__ranks_in_turn(const stk__stages *stages, const stk__setting *set, double rate)
{
    return rate > 0 ? set->batch / (set->batch / rate + turns(stages, set)) : rate;
}
