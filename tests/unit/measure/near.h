/* SPDX-License-Identifier: Apache-2.0 */
/* Figures that are as they are wanted, within a share of it. */
#ifndef STK_TESTS_UNIT_MEASURE_NEAR_H
#define STK_TESTS_UNIT_MEASURE_NEAR_H

#include "support/support.h"

#include <math.h>

static inline void assert_near(double value, double wanted, double share)
{
    if (!(fabs(value - wanted) <= share * fabs(wanted)))
        fail_msg("%.9g is not within %.3g of %.9g", value, share, wanted);
}

#endif
