/* SPDX-License-Identifier: Apache-2.0 */
/* Times as Lightning's options have them: DD:HH:MM:SS, or units, "hours: 1, minutes: 30", perhaps
 * in the braces and quotes of Python. */
#include "base/options.h"

#define MOST_SECONDS 9e9 /* below 2^63 ns */

static bool parse_clock(const char *text, double *sum)
{
    static const double seconds[4] = {86400, 3600, 60, 1};
    const char *at = text;

    *sum = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t value = 0;
        int digits = 0;
        for (; *at >= '0' && *at <= '9' && digits < 6; at++, digits++)
            value = value * 10 + (uint64_t)(*at - '0');
        if (!digits || *at != (i < 3 ? ':' : 0))
            return false;
        *sum += (double)value * seconds[i];
        at++;
    }
    return true;
}

static double unit_of(const char *name, size_t length)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"weeks", 604800}, {"days", 86400},        {"hours", 3600},       {"minutes", 60},
                 {"seconds", 1},    {"milliseconds", 1e-3}, {"microseconds", 1e-6}};

    for (size_t i = 0; i < STK_COUNT(units); i++)
        if (strlen(units[i].name) == length && strncmp(name, units[i].name, length) == 0)
            return units[i].seconds;
    return 0;
}

static bool parse_units(const char *text, double *sum)
{
    static const char blanks[] = " \t'\"";
    const char *at = text + strspn(text, " \t");
    const bool braced = *at == '{';
    double value;

    *sum = 0;
    for (at += braced;; at++) {
        at += strspn(at, blanks);
        const size_t length = strcspn(at, ": \t'\"");
        const double unit = unit_of(at, length);
        at += length;
        at += strspn(at, blanks);
        if (unit == 0 || *at != ':')
            return false;
        at++;
        at += strspn(at, blanks);
        if (!stk__option_number(at, &value, &at) || value < 0)
            return false;
        *sum += value * unit;
        at += strspn(at, blanks);
        if (*at == ',')
            continue;
        if (braced && *at++ != '}')
            return false;
        return at[strspn(at, " \t")] == 0;
    }
}

stk_status stk__duration_parse(const char *option, const char *text, uint64_t *ns, stk_error *err)
{
    double seconds;

    if ((!parse_clock(text, &seconds) && !parse_units(text, &seconds)) || seconds > MOST_SECONDS) {
        char shown[STK_OPTION_SHOWN];
        stk__option_show(shown, text);
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, option, STK_NO_OFFSET,
                            "%s: '%s' is no time; it takes DD:HH:MM:SS, as 00:01:30:00 for an "
                            "hour and a half",
                            option, shown);
    }
    *ns = (uint64_t)(seconds * 1e9 + 0.5);
    return STK_OK;
}
