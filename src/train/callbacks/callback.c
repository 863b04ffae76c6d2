/* SPDX-License-Identifier: Apache-2.0 */
#include "train/callbacks/callback.h"

void *stk__callback_new(stk_context *ctx, const stk_callback_ops *ops, size_t size)
{
    stk_callback *callback = stk__calloc(ctx, 1, size);

    if (callback)
        *callback = (stk_callback){ops, ctx};
    return callback;
}

stk_status stk__callback_no_memory(const char *name, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the callback %s", name);
}

bool stk__callback_text(stk_context *ctx, const char *text, char **out)
{
    *out = NULL;
    if (!text || !*text)
        return true;
    *out = stk__strdup(ctx, text);
    return *out != NULL;
}

stk_status stk__callback_save_text(stk_saver *to, stk__text *text, stk_error *err)
{
    stk_status status =
        text->failed || !text->bytes
            ? stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the state of a callback")
            : stk_saver_text(to, "state", text->bytes, err);

    stk__text_release(text);
    return status;
}
