/* steps of a loader, one after the other -> workers and reads that suit them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_PACE_H
#define STK_SRC_MEASURE_PACE_H

#include "base/pace.h"

/*
 * One thing is changed at a time, by what was waited for, and kept if the steps became faster by
 * more than STK__PACE_GAIN; else it is put back and not tried again, unless the other is changed
 * and that is kept. Steps that scatter are looked at for longer, before a change and after it, so
 * that what is compared is the load and not what happened to some steps; where they turn out to
 * scatter twice as much as was thought when something was put back, it is tried again, of ever
 * more of them. So the number of changes is bounded, whatever is told, until the load itself
 * becomes another one: faster or slower by STK__PACE_OTHER, for several times as long at each time
 * that this happened.
 */

#define STK__PACE_WAITS 0.05 /* share of the time: from here on something is to be done */
#define STK__PACE_GAIN  0.05 /* of the rate, that makes a change worth keeping */
#define STK__PACE_ALIKE 0.02 /* rates that differ by less are the same */
#define STK__PACE_OTHER 0.25 /* of the rate: the load is another one */

extern const stk__pace_policy stk__pace_policy_table;

#endif
