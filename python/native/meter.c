/* SPDX-License-Identifier: Apache-2.0 */
/* What a loop of Python waits for: the meter of the loop that runs, or ran last. */
#include <stdio.h>

#include "native.h"

/* Keep what was measured until now; the meter ends. */
void stk_py_meter_stop(stk_py_meter *meter)
{
    if (meter->open)
        stk_meter_get(meter->open, &meter->figures);
    stk_meter_close(&meter->open);
}

stk_status stk_py_meter_start(stk_py_meter *meter, stk_context *context, const stk_loader *loader,
                              const stk_loader_options *options, stk_error *err)
{
    stk_meter_close(&meter->open);
    meter->figures = (stk_figures){.struct_size = sizeof meter->figures};
    return stk_meter_open(context, loader, options, &meter->open, err);
}

PyObject *stk_py_meter_judge(const stk_py_meter *meter)
{
    stk_verdict v = {.struct_size = sizeof v};
    stk_figures f = meter->figures;

    if (meter->open)
        stk_meter_get(meter->open, &f);
    if (f.steps > 0) {
        stk_judge(&f, &v);
    } else {
        v.limit = STK_LIMIT_UNKNOWN;
        v.gain = 1;
        snprintf(v.text, sizeof v.text, "No batch was taken: there is nothing to judge.");
    }
    return Py_BuildValue("{sssdsdsssssdsssKsdsdsdsd}", "limit", stk_limit_name(v.limit),
                         "lost_share", v.lost_share, "limit_share", v.limit_share, "knob", v.knob,
                         "value", v.value, "gain", v.gain, "text", v.text, "steps",
                         (unsigned long long)f.steps, "samples_per_s", f.samples_per_s, "wait_mean",
                         f.wait.mean, "step_time", f.step_time, "step_share", f.step_share);
}
