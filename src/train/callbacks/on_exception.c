/* SPDX-License-Identifier: Apache-2.0 */
/* OnExceptionCheckpoint: saves what there is when a run fails. */
#include "base/url.h"
#include "train/callbacks/callback.h"

typedef struct on_exception_options {
    uint32_t struct_size;
    const char *dirpath, *filename;
} on_exception_options;

typedef struct on_exception_checkpoint {
    stk_callback base;
    char *dirpath, *filename;
} on_exception_checkpoint;

#define AT(member) offsetof(on_exception_options, member)

static const stk_option options[] = {
    {"dirpath", STK_OPTION_STRING, AT(dirpath), NULL, 0, 0, NULL, "DIR",
     "Where it goes; else next to the logs."},
    {"filename", STK_OPTION_STRING, AT(filename), "on_exception", 0, 0, NULL, "NAME",
     "Its name, without the extension."},
};

static const stk_option_table table = {.name = "on_exception",
                                       .doc = "Saves a checkpoint when a run fails.",
                                       .struct_size = sizeof(on_exception_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static void destroy(stk_callback *callback)
{
    on_exception_checkpoint *self = (on_exception_checkpoint *)callback;

    stk__free(callback->context, self->dirpath);
    stk__free(callback->context, self->filename);
    stk__free(callback->context, self);
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const on_exception_options *o = given;
    on_exception_checkpoint *self =
        stk__callback_new(ctx, &stk__callback_on_exception, sizeof *self);

    if (!self)
        return stk__callback_no_memory("on_exception", err);
    if (!stk__callback_text(ctx, o->dirpath, &self->dirpath) ||
        !stk__callback_text(ctx, o->filename, &self->filename)) {
        destroy(&self->base);
        return stk__callback_no_memory("on_exception", err);
    }
    *out = &self->base;
    return STK_OK;
}

static stk_status on_exception(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    on_exception_checkpoint *self = (on_exception_checkpoint *)callback;

    /* A run that was stopped has saved already; one that was refused has nothing to save. */
    if (!stk__callback_info(t).begun || at->exception->status == STK_ECANCELED)
        return STK_OK;
    stk_context *ctx = callback->context;
    char *name =
        stk__format(ctx, "%s.safetensors", self->filename ? self->filename : "on_exception");
    char *path =
        name ? stk__url_below(ctx, self->dirpath ? self->dirpath : stk_trainer_log_dir(t), name)
             : NULL;
    stk__free(ctx, name);
    if (!path)
        return stk__callback_no_memory("on_exception", err);
    stk_status status = stk_trainer_save(t, path, false, NULL, err);
    stk__free(ctx, path);
    return status;
}

const stk_callback_ops stk__callback_on_exception = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "on_exception",
    .doc = "saves a checkpoint when a run fails",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .checkpoints = true,
    .on_exception = on_exception,
    .roles = STK_ROLE_NO_METRICS,
};
