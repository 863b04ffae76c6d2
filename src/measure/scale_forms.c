/* SPDX-License-Identifier: Apache-2.0 */
/* What many ranks cost, as formulas: the sources are in scale.h. */
#include "measure/scale.h"

#include <math.h>

double stk__scale_all_reduce(int32_t collective, double ranks, double bytes, double alpha,
                             double beta)
{
    const double hops = collective == STK__COLLECTIVE_RING ? ranks - 1 : ceil(log2(ranks));

    if (!(ranks > 1))
        return 0;
    return 2 * hops * alpha + (beta > 0 ? 2 * (ranks - 1) / ranks * bytes / beta : 0);
}

double stk__scale_interval_first(double mtbf, double checkpoint)
{
    return sqrt(2 * checkpoint * mtbf);
}

double stk__scale_interval(double mtbf, double checkpoint)
{
    const double part = checkpoint / (2 * mtbf);

    if (part >= 1)
        return mtbf;
    return sqrt(2 * checkpoint * mtbf) * (1 + sqrt(part) / 3 + part / 9) - checkpoint;
}

double stk__scale_lost(double mtbf, double checkpoint, double restart, double interval)
{
    /* An interval of nothing with checkpoints that cost nothing loses what failures take alone. */
    const double useful = interval > 0     ? interval / mtbf / expm1((interval + checkpoint) / mtbf)
                          : checkpoint > 0 ? 0
                                           : 1;

    return STK_MIN(STK_MAX(1 - useful * exp(-restart / mtbf), 0.0), 1.0);
}
