/* SPDX-License-Identifier: Apache-2.0 */
/* Making a trainer, what belongs to it, and looking at it. */
#include <stdarg.h>
#include <stdio.h>

#include "base/options.h"
#include "base/probe.h"
#include "base/registry.h"
#include "base/sized.h"
#include "base/url.h"
#include "train/train.h"
#include "train/trainer.h"

/* ---- Console --------------------------------------------------------------------------------- */

static void log_the_line(void *user, const char *text)
{
    stk__message(user, STK_MESSAGE_INFO, "%s", text);
}

static void tell_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    stk__progress(user, what, done, total);
}

/* Of the other ranks than 0. */
static void keep_the_line(void *user, const char *text)
{
    stk__message(user, STK_MESSAGE_DEBUG, "%s", text);
}

static void keep_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
}

void stk_trainer_set_console(stk_trainer *t, const stk_console *console)
{
    t->console = (stk_console){.struct_size = sizeof t->console,
                               .line = log_the_line,
                               .progress = tell_progress,
                               .user = t->ctx};
    t->quiet = (stk_console){.struct_size = sizeof t->quiet,
                             .line = keep_the_line,
                             .progress = keep_progress,
                             .user = t->ctx};
    if (!console || !console->line)
        return;
    t->console = (stk_console){0};
    stk__sized_copy(&t->console, sizeof t->console, console);
}

const stk_console *stk_trainer_get_console(const stk_trainer *t)
{
    return t->ranks.strategy.rank ? &t->quiet : &t->console;
}

void stk__say(stk_trainer *t, const char *format, ...)
{
    const stk_console *console = stk_trainer_get_console(t);
    char line[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    console->line(console->user, line);
}

static void remove_profiler(stk_trainer *t, bool destroyed)
{
    if (t->profiled && t->profiler.removed)
        t->profiler.removed(t->profiler.user, destroyed);
    t->profiled = false;
}

void stk_trainer_set_profiler(stk_trainer *t, const stk_profiler *profiler)
{
    remove_profiler(t, false);
    t->profiler = (stk_profiler){0};
    if (profiler)
        stk__sized_copy(&t->profiler, sizeof t->profiler, profiler);
    t->profiled = t->profiler.start && t->profiler.stop;
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Copy every text of the options. */
static stk_status copy_options(stk_trainer *t, const stk_trainer_options *options, stk_error *err)
{
    const stk_option_table *table = &stk__trainer_option_table;
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
        if (n < STK_COUNT(t->texts) && text == &t->options.default_root_dir)
            STK_TRY(stk__url_local(t->ctx, *text, &t->texts[n], err));
        else if (n < STK_COUNT(t->texts))
            t->texts[n] = stk__strdup(t->ctx, *text);
        if (n == STK_COUNT(t->texts) || !t->texts[n])
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a trainer");
        *text = t->texts[n++];
    }
    return STK_OK;
}

static stk_status open_device(stk_trainer *t, stk_error *err)
{
    const char *name = strcmp(t->options.accelerator, "auto") == 0 ? "cpu" : t->options.accelerator;
    const stk_device_ops *ops = stk__driver_find(t->ctx, STK_DRIVER_DEVICE, name, strlen(name));

    if (!ops)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN, "this build has no accelerator '%s'",
                         name);
    STK_TRY(stk__device_open(t->ctx, ops, 0, &t->device, err));
    t->stream = t->device->stream;
    t->host_memory = stk__device_is_host(t->device);
    return STK_OK;
}

static bool is_told(void *user)
{
    return atomic_load_explicit(&((stk_trainer *)user)->stop, memory_order_relaxed);
}

static stk_status create_writer(stk_trainer *t, stk_error *err)
{
    const stk__upload_options upload = {.dir = t->options.upload_dir,
                                        .deadline_ns = (uint64_t)(t->options.upload_deadline * 1e9),
                                        .told = is_told,
                                        .user = t};

    STK_TRY(stk__checkpoint_writer_create(t->ctx, &t->writer, err));
    return stk__checkpoint_upload_by(t->writer, &upload, err);
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
    stk__ranks_init(&t->ranks);
    stk_trainer_set_console(t, NULL);
    stk_status status = copy_options(t, options, err);
    if (status == STK_OK)
        status = stk__settings_make(ctx, &t->options, &t->settings, err);
    if (status == STK_OK)
        status = open_device(t, err);
    if (status == STK_OK)
        status = create_writer(t, err);
    if (status != STK_OK) {
        stk_trainer_destroy(&t);
        return status;
    }
    stk__source_add(ctx, STK__SOURCE_TRAINER, t);
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
    stk__source_remove(ctx, STK__SOURCE_TRAINER, t);
    remove_profiler(t, true);
    /* The bar's thread looks at the metrics: callbacks go first. */
    for (size_t i = t->hooks.num_callbacks; i-- > 0;) {
        t->hooks.callbacks[i].ops.destroy(t->hooks.callbacks[i].callback);
        stk__free(ctx, t->hooks.callbacks[i].key);
    }
    stk__log_queue_destroy(&t->logs.queue);
    stk__checkpoint_writer_destroy(&t->writer);
    stk__loggers_release(ctx, &t->logs);
    stk__hooks_release(t);
    stk__metrics_release(t);
    if (t->device)
        stk__ranks_release(t);
    stk__device_close(&t->device);
    for (size_t i = 0; i < STK_COUNT(t->texts); i++)
        stk__free(ctx, t->texts[i]);
    stk__free(ctx, t->hooks.callbacks);
    stk__free(ctx, t->restart.path);
    stk__free(ctx, t->saved.path);
    stk__free(ctx, t);
    stk__context_unref(ctx);
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
    t->wish = true;
    /* Of several ranks all have to know. */
    t->should_stop |= stk__is_alone(t);
}

void stk_module_destroy(stk_module **module)
{
    stk_module *m = *module;

    *module = NULL;
    if (m && m->ops->destroy)
        m->ops->destroy(m);
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

void stk_trainer_get_info(const stk_trainer *t, stk_trainer_info *out)
{
    const stk__settings *s = &t->settings;
    const stk_trainer_info info = {.struct_size = sizeof info,
                                   .running = t->running,
                                   .logs = s->logging,
                                   .host_memory = t->host_memory,
                                   .validates_each_epoch =
                                       s->check_val_every_n_epoch == 1 && !s->val_check_ns &&
                                       s->val_check.fraction && s->val_check.share == 1,
                                   .fast_dev_run = s->fast_dev_run,
                                   .stopping = atomic_load(&t->stop) != 0,
                                   .cut = t->loop.cut,
                                   .begun = t->begun,
                                   .max_epochs = s->max_epochs,
                                   .rank = t->ranks.strategy.rank,
                                   .world_size = t->ranks.strategy.world_size,
                                   .version = t->logs.version};

    stk__sized_write(out, &info);
}

const stk_moment *stk_trainer_moment(const stk_trainer *t)
{
    return &t->at;
}

const stk_module_ops *stk_trainer_module_ops(const stk_trainer *t)
{
    return &t->ops;
}

stk_status stk_trainer_copy(stk_trainer *t, void *to, const void *from, uint64_t bytes,
                            stk_copy_kind kind, stk_error *err)
{
    const stk_device_ops *ops = t->device->ops;

    STK_TRY(stk__context_check(t->ctx, err));
    if (bytes == 0)
        return STK_OK;
    STK_TRY(ops->copy(t->stream, to, from, bytes, kind, err));
    return stk__synchronize(t, err);
}

void stk_trainer_get_bar(const stk_trainer *t, stk_phase phase, uint64_t *done, uint64_t *total)
{
    const stk__shown *shown = &t->shown[phase];

    *done = atomic_load_explicit(&shown->done, memory_order_relaxed);
    *total = atomic_load_explicit(&shown->total, memory_order_relaxed);
}

uint64_t stk_trainer_num_batches(const stk_trainer *t, stk_phase phase, uint32_t dataloader_idx)
{
    const stk__feeds *feeds = stk__feeds_of((stk_trainer *)t, phase);
    uint64_t sum = 0;

    if (dataloader_idx == UINT32_MAX) {
        for (uint32_t i = 0; i < feeds->n; i++)
            sum += feeds->feeds[i].batches;
        return sum;
    }
    return dataloader_idx < feeds->n ? feeds->feeds[dataloader_idx].batches : 0;
}

const stk_trainer_data *stk_trainer_get_data(const stk_trainer *t)
{
    return &t->data_copy;
}

const stk_optimizers *stk_trainer_optimizers(const stk_trainer *t)
{
    return &t->optimizers;
}

const char *stk_trainer_log_dir(const stk_trainer *t)
{
    return t->logs.dir ? t->logs.dir : t->options.default_root_dir;
}

const char *stk_trainer_ckpt_path(const stk_trainer *t)
{
    return t->restart.path;
}

const char *stk_trainer_best_model_path(const stk_trainer *t)
{
    return stk__callback_path(&t->hooks, STK_CHECKPOINT_BEST);
}

const char *stk_trainer_last_model_path(const stk_trainer *t)
{
    return stk__callback_path(&t->hooks, STK_CHECKPOINT_LAST);
}

bool stk_trainer_best_model_score(const stk_trainer *t, double *score)
{
    return stk__callback_score(&t->hooks, score);
}

void stk_trainer_get_progress(const stk_trainer *t, stk_trainer_progress *out)
{
    stk_trainer_progress progress = t->progress;

    progress.struct_size = sizeof progress;
    stk__sized_write(out, &progress);
}
