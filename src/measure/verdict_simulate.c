/* SPDX-License-Identifier: Apache-2.0 */
/* The gain of an advice, simulated. */
#include <stdio.h>

#include "base/options.h"
#include "measure/verdict.h"

bool stk__verdict_simulate(const stk__case *v, stk_verdict *out)
{
    stk_prediction p = {.struct_size = sizeof p};
    const double measured = v->f->samples_per_s;
    char text[sizeof out->knob + sizeof out->value];
    stk_what_if what;

    if (!v->recording || !(measured > 0) ||
        !stk_options_find(&stk__what_if_option_table, out->knob))
        return false;
    snprintf(text, sizeof text, "%s=%s", out->knob, out->value);
    stk_what_if_init(&what);
    if (stk_what_if_parse(v->ctx, text, &what, NULL) != STK_OK ||
        stk_predict(v->ctx, v->recording, &what, &p, NULL) != STK_OK || !(p.base_samples_per_s > 0))
        return false;
    out->gain = p.samples_per_s / p.base_samples_per_s;
    out->gain_low = p.low / measured;
    out->gain_high = p.high / measured;
    return true;
}
