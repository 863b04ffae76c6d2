/* SPDX-License-Identifier: Apache-2.0 */
/* The option max_errors: how many of some samples may be bad. */
#include <errno.h>
#include <stdlib.h>

#include "base/options.h"

#define AUTO_SHARE 0.01 /* may be bad where it is `auto` */

stk_status stk__option_bound(const char *text, const char *others, uint64_t all, uint64_t least,
                             uint64_t *out, stk_error *err)
{
    char *end = NULL;

    *out = STK_MAX((uint64_t)(AUTO_SHARE * (double)all), least);
    if (!text || !*text || !strcmp(text, "auto"))
        return STK_OK;
    if (others)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "max_errors", STK_NO_OFFSET,
                            "max_errors: '%.40s' does nothing with on_error: fail, where the first "
                            "bad sample fails; leave it out, or set on_error: %s",
                            text, others);
    const bool begins = *text >= '0' && *text <= '9';
    errno = 0;
    *out = begins ? strtoull(text, &end, 10) : 0;
    if (begins && !*end && !errno)
        return STK_OK;
    const double share = begins ? strtod(text, &end) : 0;
    if (!begins || strcmp(end, "%") != 0 || text[strspn(text, "0123456789.")] != '%' || share > 100)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "max_errors", STK_NO_OFFSET,
                            "max_errors: '%.40s' is neither a count (\"20\"), nor a share of all "
                            "samples (\"0.5%%\"; \"100%%\": no bound), nor auto",
                            text);
    *out = (uint64_t)(share / 100 * (double)all + 1e-9);
    return STK_OK;
}
