/* What tests of the files of a pack share: mem://pack in a context of the program. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_ARRAY_PACKED_H
#define STK_TESTS_UNIT_ARRAY_PACKED_H

#include "golden/array/pack.h"
#include "support/objects.h"

static stk_context *context;
static stk_store *store;

/* For a set-up; once more: another pack beside it. */
static inline int open_pack(const char *name)
{
    if (!context)
        context = test_context();
    stk_store_close(&store);
    pack_load(context, name, &store);
    return 0;
}

static inline int close_packs(void **state)
{
    (void)state;
    stk_store_close(&store);
    stk_context_destroy(&context);
    return 0;
}

#endif
