/* A callback that notes every hook that it is called for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_RECORDER_H
#define STK_TESTS_UNIT_TRAIN_RECORDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

/* What was called, a name a line. */
static char calls[16384];

static inline void note(const char *prefix, const char *name)
{
    const size_t used = strlen(calls);

    snprintf(calls + used, sizeof calls - used, "%s%s\n", prefix, name);
}

#define RECORD_CALLBACK(name)                                                                      \
    static stk_status callback_##name(stk_callback *self, stk_trainer *t, const stk_moment *at,    \
                                      stk_error *err)                                              \
    {                                                                                              \
        note("Callback.", #name);                                                                  \
        return STK_OK;                                                                             \
    }
STK_HOOK_LIST(RECORD_CALLBACK)
STK_CALLBACK_HOOK_LIST(RECORD_CALLBACK)

static stk_status record_create(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err);

static void record_destroy(stk_callback *callback)
{
    free(callback);
}

static stk_status record_state_dict(stk_callback *self, stk_saver *to, stk_error *err)
{
    note("Callback.", "state_dict");
    return stk_saver_text(to, "foo", "true", err);
}

static stk_status record_load_state_dict(stk_callback *self, const stk_restorer *from,
                                         stk_error *err)
{
    note("Callback.", "load_state_dict");
    assert_string_equal(stk_restorer_text(from, "foo"), "true");
    return STK_OK;
}

static const stk_callback_ops record_ops = {.struct_size = sizeof(stk_callback_ops),
                                            .name = "record",
                                            .doc = "records",
                                            .create = record_create,
                                            .destroy = record_destroy,
                                            .state_dict = record_state_dict,
                                            .load_state_dict = record_load_state_dict,
#define CALLBACK_MEMBER(name) .name = callback_##name,
                                            STK_HOOK_LIST(CALLBACK_MEMBER)
                                                STK_CALLBACK_HOOK_LIST(CALLBACK_MEMBER)};

static stk_status record_create(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err)
{
    *out = calloc(1, sizeof **out);
    **out = (stk_callback){&record_ops, ctx};
    return STK_OK;
}

#endif
