/* SPDX-License-Identifier: Apache-2.0 */
/* Times as Lightning's options have them: DD:HH:MM:SS. */
#include "base/options.h"

stk_status stk__duration_parse(const char *option, const char *text, uint64_t *ns, stk_error *err)
{
    static const uint64_t seconds[4] = {86400, 3600, 60, 1};
    uint64_t sum = 0;
    const char *at = text;

    for (int i = 0; i < 4; i++) {
        uint64_t value = 0;
        int digits = 0;
        for (; *at >= '0' && *at <= '9' && digits < 6; at++, digits++)
            value = value * 10 + (uint64_t)(*at - '0');
        if (!digits || *at != (i < 3 ? ':' : 0)) {
            char shown[STK_OPTION_SHOWN];
            stk__option_show(shown, text);
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, option, STK_NO_OFFSET,
                                "%s: '%s' is no time; it takes DD:HH:MM:SS, as 00:01:30:00 for an "
                                "hour and a half",
                                option, shown);
        }
        sum += value * seconds[i];
        at++;
    }
    *ns = sum * 1000000000u;
    return STK_OK;
}
