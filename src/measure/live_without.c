/* SPDX-License-Identifier: Apache-2.0 */
/* Without libmicrohttpd no page is served. */
#include "measure/live.h"

stk_status stk_live_serve(stk_live *live, const stk_live_address *address, stk_live_server **out,
                          stk_error *err)
{
    (void)address;
    *out = NULL;
    STK_TRY(stk__context_check(stk__live_context(live), err));
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_MEASURE,
                     "this stoker was built without libmicrohttpd and serves no page: 'stoker top' "
                     "shows the same, or build it with STOKER_WITH_MICROHTTPD and "
                     "libmicrohttpd-dev");
}

void stk_live_stop(stk_live_server **server)
{
    if (server)
        *server = NULL;
}
