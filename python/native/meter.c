/* SPDX-License-Identifier: Apache-2.0 */
/* What a loop of Python waits for: the meter of the loop that runs, or ran last. */
#include <time.h>

#include "native.h"

#define TURN_NS UINT64_C(50000000) /* from one epoch to the next; more is between two loops */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Epochs that follow each other are one loop: beginning to measure costs as much as some batches.
 */
stk_status stk_py_meter_start(stk_py_meter *meter, stk_context *context, const stk_loader *loader,
                              const stk_loader_options *options, stk_error *err)
{
    const bool turn = meter->open && meter->stopped_ns && now_ns() - meter->stopped_ns < TURN_NS;

    meter->stopped_ns = 0;
    if (turn) {
        stk_meter_go_on(meter->open);
        return STK_OK;
    }
    stk_meter_close(&meter->open);
    meter->figures = (stk_figures){.struct_size = sizeof meter->figures};
    return stk_meter_open(context, loader, options, &meter->open, err);
}

void stk_py_meter_stop(stk_py_meter *meter)
{
    if (meter->open)
        stk_meter_stop(meter->open);
    meter->stopped_ns = now_ns();
}

void stk_py_meter_end(stk_py_meter *meter)
{
    stk_py_meter_stop(meter);
    if (meter->open)
        stk_meter_get(meter->open, &meter->figures);
    stk_meter_close(&meter->open);
}

stk_figures stk_py_meter_figures(const stk_py_meter *meter)
{
    stk_figures f = meter->figures;

    f.struct_size = sizeof f;
    if (meter->open)
        stk_meter_get(meter->open, &f);
    return f;
}
