/* SPDX-License-Identifier: Apache-2.0 */
/* Making a trainer, what belongs to it, and looking at it. */
#include <stdarg.h>
#include <stdio.h>

#include "base/options.h"
#include "base/sized.h"
#include "base/table.h"
#include "train/train.h"

/* ---- Making ---------------------------------------------------------------------------------- */

/* Copy every text of the options. */
static stk_status copy_options(stk_trainer *t, const stk_trainer_options *options, stk_error *err)
{
    const stk_option_table *table = stk_trainer_option_table();
    size_t n = 0;

    stk_trainer_options_init(&t->options);
    if (options)
        STK_TRY(stk__sized_read(&t->options, sizeof t->options, options, "stk_trainer_options",
                                STK_STAGE_TRAIN, err));
    for (size_t i = 0; i < table->count; i++) {
        const char **text = (const char **)((char *)&t->options + table->options[i].offset);
        if (table->options[i].type != STK_OPTION_STRING)
            continue;
        if (!*text)
            *text = table->options[i].initial;
        if (!*text)
            continue;
        if (n == STK_COUNT(t->texts) || !(t->texts[n] = stk__strdup(t->ctx, *text)))
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a trainer");
        *text = t->texts[n++];
    }
    return STK_OK;
}

static stk_status open_device(stk_trainer *t, stk_error *err)
{
    const char *name = strcmp(t->options.accelerator, "auto") == 0 ? "cpu" : t->options.accelerator;
    const stk_device_ops *ops = stk__driver_find(t->ctx, STK_DRIVER_DEVICE, name, strlen(name));
    stk_device_info info;

    if (!ops)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN, "this build has no accelerator '%s'",
                         name);
    STK_TRY(stk__device_open(t->ctx, ops, 0, &t->device, err));
    STK_TRY(ops->stream_create(t->device, &t->stream, err));
    ops->info(t->device, &info);
    t->host_memory = info.host_memory;
    return STK_OK;
}

stk_status stk_trainer_create(stk_context *ctx, const stk_trainer_options *options,
                              stk_trainer **out, stk_error *err)
{
    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    stk_trainer *t = stk__calloc(ctx, 1, sizeof *t);
    if (!t || (t->ctx = stk__context_ref(ctx), stk__metrics_init(t) != STK_OK)) {
        if (t)
            stk__context_unref(ctx);
        stk__free(ctx, t);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a trainer");
    }
    t->strategy = &stk__strategy_single;
    stk_status status = copy_options(t, options, err);
    if (status == STK_OK)
        status = stk__settings_make(ctx, &t->options, &t->settings, err);
    if (status == STK_OK)
        status = open_device(t, err);
    if (status == STK_OK)
        status = stk__checkpoint_writer_create(ctx, &t->writer, err);
    if (status != STK_OK) {
        stk_trainer_destroy(&t);
        return status;
    }
    *out = t;
    return STK_OK;
}

void stk_trainer_destroy(stk_trainer **trainer)
{
    stk_trainer *t = *trainer;

    if (!t)
        return;
    *trainer = NULL;
    if (stk__context_forked(t->ctx))
        return;
    stk_context *ctx = t->ctx;
    stk__profile_forget(t);
    /* The bar's thread looks at the metrics: callbacks go first. */
    for (size_t i = t->num_callbacks; i-- > 0;) {
        t->callbacks[i].ops.destroy(t->callbacks[i].callback);
        stk__free(ctx, t->callbacks[i].key);
    }
    stk__log_queue_destroy(&t->log);
    stk__checkpoint_writer_destroy(&t->writer);
    for (size_t i = 0; i < t->num_loggers; i++)
        stk__free(ctx, t->loggers[i].options);
    for (size_t i = 0; i < t->num_hparams; i++) {
        stk__free(ctx, (char *)t->hparams[i].name);
        stk__free(ctx, (char *)t->hparams[i].value);
    }
    stk__hooks_release(t);
    stk__metrics_release(t);
    if (t->stream)
        t->device->ops->stream_destroy(t->stream);
    stk__device_close(&t->device);
    for (size_t i = 0; i < STK_COUNT(t->texts); i++)
        stk__free(ctx, t->texts[i]);
    stk__free(ctx, t->callbacks);
    stk__free(ctx, t->hparams);
    stk__free(ctx, t->log_dir);
    stk__free(ctx, t->version);
    stk__free(ctx, t->checkpoint_path);
    stk__free(ctx, t);
    stk__context_unref(ctx);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static bool has_callback(const stk_trainer *t, const stk_callback_ops *ops)
{
    for (size_t i = 0; i < t->num_callbacks; i++)
        if (t->callbacks[i].callback->ops == ops)
            return true;
    return false;
}

/* A key that no other callback has: "ema", "ema#2". */
static char *unique_key(stk_trainer *t, const stk_callback_ops *ops, const stk_callback *callback)
{
    const char *base = ops->state_key ? ops->state_key(callback) : ops->name;
    char *key = stk__format(t->ctx, "%.200s", base);

    for (size_t number = 2, i = 0; key && i < t->num_callbacks; i++) {
        if (strcmp(t->callbacks[i].key, key))
            continue;
        stk__free(t->ctx, key);
        key = stk__format(t->ctx, "%.200s#%zu", base, number++);
        i = (size_t)-1;
    }
    return key;
}

static const stk__member members[] = {STK__MEMBER(stk_callback_ops, create),
                                      STK__MEMBER(stk_callback_ops, destroy)};
static const stk__table table = {.type = "stk_callback_ops",
                                 .least = offsetof(stk_callback_ops, monitors),
                                 .members = members,
                                 .num_members = STK_COUNT(members),
                                 .stage = STK_STAGE_TRAIN};

stk_status stk__callback_kind_check(const void *ops, stk_error *err)
{
    STK_TRY(stk__table_check(&table, ops, err));
    const stk_option_table *options = ((const stk_callback_ops *)ops)->options;
    return options ? stk__options_check(options, err) : STK_OK;
}

static stk_status check_callback(const stk_trainer *t, const stk_callback_ops *ops, stk_error *err)
{
    STK_TRY(stk__callback_kind_check(ops, err));
    if (ops->checkpoints && t->options.enable_checkpointing == STK_SWITCH_FALSE)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "enable_checkpointing",
                            STK_NO_OFFSET,
                            "trainer.enable_checkpointing: false and the callback '%s' contradict "
                            "each other",
                            ops->name);
    if (ops->checkpoints && t->options.barebones)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "barebones", STK_NO_OFFSET,
                            "trainer.barebones and the callback '%s' contradict each other: saving "
                            "takes time",
                            ops->name);
    if (t->num_callbacks >= 256)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "256 callbacks are the most");
    return STK_OK;
}

static stk_status add_callback(stk_trainer *t, const stk_callback_ops *ops, const void *options,
                               stk_callback **out, stk_error *err)
{
    uint64_t room[64]; /* for the defaults: no table is larger */

    STK_TRY(check_callback(t, ops, err));
    if (!options && ops->options) {
        if (ops->options->struct_size > sizeof room)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                             "the options of the callback '%s' are more than %zu bytes", ops->name,
                             sizeof room);
        stk_options_init(ops->options, room, sizeof room);
        options = room;
    }
    if (t->num_callbacks == t->callback_room) {
        size_t more = t->callback_room * 2 + 16;
        stk__callback_entry *list = stk__realloc(t->ctx, t->callbacks, more * sizeof *list);
        if (!list)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a callback");
        t->callbacks = list;
        t->callback_room = more;
    }
    stk__callback_entry *entry = &t->callbacks[t->num_callbacks];
    *entry = (stk__callback_entry){0};
    stk__sized_copy(&entry->ops, sizeof entry->ops, ops);
    stk_status status = ops->create(t->ctx, options, &entry->callback, err);
    STK_TRY(stk__table_made(&table, ops->name, "create", status, entry->callback, err));
    entry->key = unique_key(t, ops, entry->callback);
    if (!entry->key) {
        ops->destroy(entry->callback);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a callback");
    }
    t->num_callbacks++;
    if (out)
        *out = entry->callback;
    return STK_OK;
}

stk_status stk_trainer_add_callback(stk_trainer *t, const stk_callback_ops *ops,
                                    const void *options, stk_callback **out, stk_error *err)
{
    stk_error_init(err);
    if (out)
        *out = NULL;
    STK_TRY(stk__context_check(t->ctx, err));
    return add_callback(t, ops, options, out, err);
}

/* What a trainer has unless it is told otherwise. */
stk_status stk__defaults_add(stk_trainer *t, stk_error *err)
{
    if (t->defaults_added)
        return STK_OK;
    if (t->settings.model_summary && !has_callback(t, &stk__callback_model_summary))
        STK_TRY(add_callback(t, &stk__callback_model_summary, NULL, NULL, err));
    if (t->settings.progress_bar && !has_callback(t, &stk__callback_progress_bar))
        STK_TRY(add_callback(t, &stk__callback_progress_bar, NULL, NULL, err));
    if (t->settings.max_time_ns && !has_callback(t, &stk__callback_timer)) {
        const stk__timer_options o = {.struct_size = sizeof o, .duration = t->options.max_time};
        STK_TRY(add_callback(t, &stk__callback_timer, &o, NULL, err));
    }
    if (t->settings.checkpointing && !has_callback(t, &stk__callback_model_checkpoint))
        STK_TRY(add_callback(t, &stk__callback_model_checkpoint, NULL, NULL, err));
    t->defaults_added = true;
    return STK_OK;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

stk_status stk_trainer_fit(stk_trainer *t, stk_module *module, const stk_trainer_data *data,
                           const char *ckpt_path, stk_error *err)
{
    return stk__run(t, STK_TASK_FIT, module, data, ckpt_path, err);
}

stk_status stk_trainer_validate(stk_trainer *t, stk_module *module, const stk_trainer_data *data,
                                const char *ckpt_path, stk_error *err)
{
    return stk__run(t, STK_TASK_VALIDATE, module, data, ckpt_path, err);
}

stk_status stk_trainer_test(stk_trainer *t, stk_module *module, const stk_trainer_data *data,
                            const char *ckpt_path, stk_error *err)
{
    return stk__run(t, STK_TASK_TEST, module, data, ckpt_path, err);
}

stk_status stk_trainer_predict(stk_trainer *t, stk_module *module, const stk_trainer_data *data,
                               const char *ckpt_path, stk_error *err)
{
    return stk__run(t, STK_TASK_PREDICT, module, data, ckpt_path, err);
}

void stk_trainer_stop(stk_trainer *t)
{
    atomic_store(&t->stop, 1);
}

void stk_trainer_resume(stk_trainer *t)
{
    atomic_store(&t->stop, 0);
}

void stk_trainer_should_stop(stk_trainer *t)
{
    t->should_stop = true;
}

void stk_module_destroy(stk_module **module)
{
    stk_module *m = *module;

    *module = NULL;
    if (m && m->ops->destroy)
        m->ops->destroy(m);
}

/* ---- Console --------------------------------------------------------------------------------- */

void stk_trainer_set_console(stk_trainer *t, const stk_console *console)
{
    t->console = (stk_console){0};
    stk__sized_copy(&t->console, sizeof t->console, console);
    t->has_console = t->console.line != NULL;
}

void stk_trainer_set_profiler(stk_trainer *t, const stk_profiler *profiler)
{
    t->profiler = (stk_profiler){0};
    if (profiler)
        stk__sized_copy(&t->profiler, sizeof t->profiler, profiler);
    t->profiled = t->profiler.start && t->profiler.stop;
}

void stk__say(stk_trainer *t, const char *format, ...)
{
    char line[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (t->has_console)
        t->console.line(t->console.user, line);
    else
        stk__log(t->ctx, STK_LOG_INFO, "%s", line);
}

/* ---- Looking --------------------------------------------------------------------------------- */

stk_context *stk_trainer_context(const stk_trainer *t)
{
    return t->ctx;
}

const stk_trainer_options *stk_trainer_get_options(const stk_trainer *t)
{
    return &t->options;
}

uint64_t stk_trainer_current_epoch(const stk_trainer *t)
{
    return t->loop.epoch;
}

uint64_t stk_trainer_global_step(const stk_trainer *t)
{
    return t->loop.global_step;
}

uint64_t stk_trainer_num_batches(const stk_trainer *t, stk_phase phase, uint32_t dataloader_idx)
{
    const stk__feeds *feeds = stk__feeds_of((stk_trainer *)t, phase);

    return dataloader_idx < feeds->n ? feeds->feeds[dataloader_idx].batches : 0;
}

const stk_optimizers *stk_trainer_optimizers(const stk_trainer *t)
{
    return &t->optimizers;
}

const char *stk_trainer_log_dir(const stk_trainer *t)
{
    return t->log_dir ? t->log_dir : t->options.default_root_dir;
}

static const char *model_path(const stk_trainer *t, const char *(*path)(const stk_callback *))
{
    for (size_t i = 0; i < t->num_callbacks; i++)
        if (t->callbacks[i].callback->ops == &stk__callback_model_checkpoint) {
            const char *text = path(t->callbacks[i].callback);
            return *text ? text : NULL;
        }
    return NULL;
}

const char *stk_trainer_best_model_path(const stk_trainer *t)
{
    return model_path(t, stk__model_checkpoint_best);
}

const char *stk_trainer_last_model_path(const stk_trainer *t)
{
    return model_path(t, stk__model_checkpoint_last);
}

void stk_trainer_set_accumulate(stk_trainer *t, uint64_t batches)
{
    t->loop.accumulate = STK_MAX(batches, (uint64_t)1);
}

void stk_trainer_get_progress(const stk_trainer *t, stk_trainer_progress *out)
{
    stk_trainer_progress progress = t->progress;

    progress.struct_size = sizeof progress;
    stk__sized_write(out, &progress);
}
