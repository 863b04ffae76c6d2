/* A store of memory whose calls a test replaces. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_OVER_MEM_H
#define STK_TESTS_SUPPORT_OVER_MEM_H

#include <stdio.h>
#include <string.h>

#include "store/store.h"

/* For the open() of `ops`: opens NAME:REST as mem:REST, with these calls. */
static inline stk_status test_open_over_mem(const stk_store_ops *ops, stk_context *ctx,
                                            const char *url, stk_store **out, stk_error *err)
{
    char inner[256];

    snprintf(inner, sizeof inner, "mem%s", url + strlen(ops->name));
    STK_TRY(stk__store_mem.open(ctx, inner, NULL, out, err));
    (*out)->ops = ops;
    return STK_OK;
}

#endif
