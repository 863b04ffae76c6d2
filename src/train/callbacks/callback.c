/* SPDX-License-Identifier: Apache-2.0 */
/* What the built-in callbacks share. */
#include "train/callbacks/callback.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/options.h"

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

bool stk__callback_number(const char *text, double *out)
{
    const char *end;

    *out = NAN;
    if (!text || !*text)
        return true;
    return stk__option_number(text, out, &end) && !*end;
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

void stk__callback_say(stk_trainer *t, const char *format, ...)
{
    const stk_console *console = stk_trainer_get_console(t);
    char line[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    console->line(console->user, line);
}

void stk__callback_metric_names(stk_trainer *t, char *text, size_t size)
{
    stk_metric metric;
    size_t used = 0;

    snprintf(text, size, "none");
    for (size_t i = 0; stk_trainer_metric_at(t, i, &metric) && used + 8 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s`%s`", i ? ", " : "", metric.name);
}

bool stk__callback_logs(const stk_trainer *t, const stk_moment *at)
{
    const uint64_t every = stk_trainer_get_options(t)->log_every_n_steps;

    return every && (at->log_step + 1) % every == 0;
}

stk_trainer_info stk__callback_info(const stk_trainer *t)
{
    stk_trainer_info info = {.struct_size = sizeof info};

    stk_trainer_get_info(t, &info);
    return info;
}

stk_status stk__callback_decide(stk_trainer *t, bool *yes, stk_error *err)
{
    double says = *yes && stk__callback_info(t).rank == 0;

    STK_TRY(stk_trainer_reduce(t, &says, 1, STK_COMBINE_MAX, err));
    *yes = says > 0;
    return STK_OK;
}
