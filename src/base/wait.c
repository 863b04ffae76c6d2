/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

const char *stk__wait_name(stk_wait part)
{
    static const char *const names[] = {
#define NAME(NAME, name, text) #name,
        STK_WAIT_LIST(NAME)
#undef NAME
    };

    return (uint32_t)part < STK_WAIT_PARTS ? names[part] : "unknown";
}

const char *stk_wait_text(stk_wait part)
{
    static const char *const texts[] = {
#define TEXT(NAME, name, text) text,
        STK_WAIT_LIST(TEXT)
#undef TEXT
    };

    return (uint32_t)part < STK_WAIT_PARTS ? texts[part] : "something unknown";
}
