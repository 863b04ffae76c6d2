/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, fractions and durations in the texts of options. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/options.h"
#include "train/trainer.h"

stk_status stk__limit_parse(const char *option, const char *text, stk__limit *out, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];
    double value = 0;
    const char *end = NULL;

    stk__option_show(shown, text ? text : "");
    if (!text || !stk__option_number(text, &value, &end) || *end || value < 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, option, STK_NO_OFFSET,
                            "trainer.%s: '%s' is no number of batches; it takes a count as 10 or "
                            "a fraction as 0.25",
                            option, shown);
    *out = (stk__limit){.fraction = strpbrk(text, ".eE") != NULL};
    if (out->fraction && value > 1)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, option, STK_NO_OFFSET,
                            "trainer.%s: a fraction lies between 0.0 and 1.0, '%s' does not; for "
                            "a count leave out the point",
                            option, shown);
    if (!out->fraction && value > 1e15)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, option, STK_NO_OFFSET,
                            "trainer.%s: '%s' is more than can be counted", option, shown);
    if (out->fraction)
        out->share = value;
    else
        out->count = (uint64_t)value;
    return STK_OK;
}

stk_status stk__limit_apply(const char *option, const stk__limit *limit, uint64_t steps,
                            uint64_t *out, stk_error *err)
{
    if (!limit->fraction) {
        *out = STK_MIN(limit->count, steps);
        return STK_OK;
    }
    *out = limit->share >= 1 ? steps : (uint64_t)((double)steps * limit->share);
    if (*out == 0 && limit->share > 0 && steps > 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, option, STK_NO_OFFSET,
                            "trainer.%s: %g of %" PRIu64
                            " batches is less than one; it has to be at least %.3g",
                            option, limit->share, steps, 1 / (double)steps);
    return STK_OK;
}
