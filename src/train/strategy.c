/* SPDX-License-Identifier: Apache-2.0 */
/* One process trains alone: what it has is what everybody has. */
#include "train/trainer.h"

static stk_status single_setup(stk_trainer *t, stk_error *err)
{
    return STK_OK;
}

static stk_status single_reduce(stk_trainer *t, double *values, size_t n, stk_error *err)
{
    return STK_OK;
}

const stk__strategy stk__strategy_single = {
    .name = "single_device",
    .world_size = 1,
    .setup = single_setup,
    .reduce = single_reduce,
};
