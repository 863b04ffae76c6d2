/* SPDX-License-Identifier: Apache-2.0 */
/* Loggers of a trainer: which, opened when the first task logs, all behind one queue. */
#include <inttypes.h>
#include <stdio.h>

#include "base/options.h"
#include "base/registry.h"
#include "base/table.h"
#include "train/loggers/loggers.h"
#include "train/loggers/run_folder.h"
#include "train/remote/remote.h"
#include "train/trainer.h"

static const stk__member members[] = {STK__MEMBER(stk_logger_ops, open),
                                      STK__MEMBER(stk_logger_ops, close),
                                      STK__MEMBER(stk_logger_ops, log_metrics)};
static const stk__given_table table = {.type = "stk_logger_ops",
                                       .least = offsetof(stk_logger_ops, finalize),
                                       .members = members,
                                       .num_members = STK_COUNT(members),
                                       .stage = STK_STAGE_TRAIN};

stk_status stk__logger_kind_check(const void *ops, stk_error *err)
{
    STK_TRY(stk__table_check(&table, ops, err));
    const stk_option_table *options = ((const stk_logger_ops *)ops)->options;
    return options ? stk__options_check(options, err) : STK_OK;
}

/* Keep a logger and a copy of its options; NULL: their defaults. */
static stk_status add_logger(stk_trainer *t, const stk_logger_ops *ops, const void *options,
                             stk_error *err)
{
    void *copy = NULL;

    if (t->logs.num_loggers == STK__MAX_LOGGERS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "%d loggers are the most",
                         STK__MAX_LOGGERS);
    if (ops->options) {
        copy = stk__calloc(t->ctx, 1, ops->options->struct_size);
        if (!copy)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a logger");
        stk_options_init(ops->options, copy, ops->options->struct_size);
        if (options)
            memcpy(copy, options, ops->options->struct_size);
    }
    t->logs.loggers[t->logs.num_loggers++] = (stk__logger_entry){ops, copy};
    return STK_OK;
}

stk_status stk_trainer_add_logger(stk_trainer *t, const stk_logger_ops *ops, const void *options,
                                  stk_error *err)
{
    stk_error_init(err);
    STK_TRY(stk__context_check(t->ctx, err));
    STK_TRY(stk__logger_kind_check(ops, err));
    if (strcmp(t->options.logger, "auto"))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "logger", STK_NO_OFFSET,
                            "trainer.logger: '%s' and a logger that is added contradict each "
                            "other: leave the option at auto",
                            t->options.logger);
    return add_logger(t, ops, options, err);
}

stk_status stk__loggers_check(const stk_context *ctx, const char *names, stk_error *err)
{
    char words[512];
    size_t length;

    stk__driver_names(ctx, STK_DRIVER_LOGGER, "|", words, sizeof words);

    for (const char *at = names; *at; at += length + (at[length] == ',')) {
        length = strcspn(at, ",");
        if (!stk__driver_find(ctx, STK_DRIVER_LOGGER, at, length))
            return stk__option_no_word("trainer.logger", "logger", at, length, words, err);
    }
    return STK_OK;
}

/* The loggers that the option names, which has been checked. */
static stk_status add_named(stk_trainer *t, stk_error *err)
{
    const char *at = strcmp(t->options.logger, "auto") && strcmp(t->options.logger, "true")
                         ? t->options.logger
                         : "csv,tensorboard";

    while (*at) {
        size_t length = strcspn(at, ",");
        STK_TRY(add_logger(t, stk__driver_find(t->ctx, STK_DRIVER_LOGGER, at, length), NULL, err));
        at += length + (at[length] == ',');
    }
    return STK_OK;
}

/* The second logger and those after it share the folder of the first. */
static void share_version(stk_trainer *t, const stk__logger_entry *entry)
{
    if (t->logs.version && entry->ops->options &&
        stk_options_find(entry->ops->options, "version") &&
        stk_options_set(entry->ops->options, entry->options, "version", t->logs.version, NULL) !=
            STK_OK)
        stk__message(t->ctx, STK_MESSAGE_DEBUG, "logger %s chooses a version of its own",
                     entry->ops->name);
}

/* Have `text` be the words; a text that is the same already stays where it is. */
static stk_status note(stk_trainer *t, char **text, const char *words, stk_error *err)
{
    if (*text && strcmp(*text, words) == 0)
        return STK_OK;
    stk__free(t->ctx, *text);
    *text = stk__strdup(t->ctx, words);
    return *text ? STK_OK
                 : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the loggers");
}

static stk_status note_run(stk_trainer *t, const char *dir, int64_t version, stk_error *err)
{
    char number[32];

    snprintf(number, sizeof number, "%" PRId64, version);
    if (dir)
        STK_TRY(note(t, &t->logs.dir, dir, err));
    return version < 0 ? STK_OK : note(t, &t->logs.version, number, err);
}

static stk_status open_all(stk_trainer *t, stk_logger **loggers, size_t *n, stk_error *err)
{
    bool noted = false;

    for (size_t i = 0; i < t->logs.num_loggers; i++) {
        const stk__logger_entry *entry = &t->logs.loggers[i];
        if (i > 0)
            share_version(t, entry);
        stk_status status =
            entry->ops->open(t->ctx, entry->options, t->options.default_root_dir, &loggers[i], err);
        STK_TRY(stk__table_made(&table, entry->ops->name, "open", status, loggers[i], err));
        STK_TRY(stk__table_check(&table, loggers[i]->ops, err));
        *n = i + 1;
        if (!noted)
            STK_TRY(note_run(t, loggers[i]->log_dir, loggers[i]->version, err));
        noted |= loggers[i]->log_dir != NULL;
    }
    return STK_OK;
}

/* Rank 0 alone writes; where, all of them know. */
static stk_status share_names(stk_trainer *t, stk_error *err)
{
    char dir[STK_MAX_OBJECT_KEY], version[32];

    if (stk__is_alone(t))
        return STK_OK;
    snprintf(dir, sizeof dir, "%s", t->logs.dir ? t->logs.dir : "");
    snprintf(version, sizeof version, "%s", t->logs.version ? t->logs.version : "");
    STK_TRY(stk__share_text(t, dir, sizeof dir, err));
    STK_TRY(stk__share_text(t, version, sizeof version, err));
    if (t->ranks.strategy.rank == 0)
        return STK_OK;
    stk__free(t->ctx, t->logs.dir);
    stk__free(t->ctx, t->logs.version);
    t->logs.dir = *dir ? stk__strdup(t->ctx, dir) : NULL;
    t->logs.version = *version ? stk__strdup(t->ctx, version) : NULL;
    return (*dir && !t->logs.dir) || (*version && !t->logs.version)
               ? stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the loggers")
               : STK_OK;
}

stk_status stk__loggers_open(stk_trainer *t, stk_error *err)
{
    stk_logger *loggers[STK__MAX_LOGGERS] = {0};
    size_t n = 0;

    if (t->logs.queue || !t->settings.logging || t->ranks.strategy.rank)
        return share_names(t, err);
    if (t->logs.num_loggers == 0)
        STK_TRY(add_named(t, err));
    stk_status status = open_all(t, loggers, &n, err);
    if (status == STK_OK)
        status = stk__log_queue_create(t->ctx, loggers, n, &t->logs.queue, err);
    if (status != STK_OK) {
        for (size_t i = 0; i < n; i++)
            loggers[i]->ops->close(loggers[i]);
        return status;
    }
    if (t->logs.num_hparams)
        status =
            stk__log_queue_hyperparams(t->logs.queue, t->logs.hparams, t->logs.num_hparams, err);
    return status == STK_OK ? share_names(t, err) : status;
}

/* Whether the first logger is one of these, whose folders are known before they are made; *options
 * are its own, NULL: the defaults. */
static bool first_is_known(const stk_trainer *t, const void **options)
{
    const stk__logger_entry *first = t->logs.num_loggers ? &t->logs.loggers[0] : NULL;
    const char *names = t->options.logger;
    /* "auto", "true" and "false" are names of none. */
    const stk_logger_ops *ops =
        first ? first->ops
              : stk__driver_find(t->ctx, STK_DRIVER_LOGGER, names, strcspn(names, ","));

    *options = first ? first->options : NULL;
    return !ops || ops == &stk__logger_csv || ops == &stk__logger_tensorboard ||
           ops == &stk__logger_mlflow || ops == &stk__logger_wandb;
}

stk_status stk__loggers_runs(const stk_trainer *t, char **out, stk_error *err)
{
    const char *root = t->options.default_root_dir;
    const void *options;

    *out = NULL;
    return first_is_known(t, &options) ? stk__run_folder_runs(t->ctx, options, root, out, err)
                                       : STK_OK;
}

stk_status stk__loggers_name(stk_trainer *t, stk_error *err)
{
    const void *options;
    stk__run_folder run;

    if (t->logs.dir || !t->settings.logging)
        return STK_OK;
    if (!first_is_known(t, &options))
        return stk__loggers_open(t, err);
    if (t->ranks.strategy.rank)
        return share_names(t, err);
    STK_TRY(stk__run_folder_name(t->ctx, options, t->options.default_root_dir, &run, err));
    stk_status status = note_run(t, run.log_dir, run.version, err);
    stk__run_folder_release(t->ctx, &run);
    return status == STK_OK ? share_names(t, err) : status;
}

stk_status stk__log_line(stk_trainer *t, const stk_metric *metrics, size_t n, int64_t step,
                         stk_error *err)
{
    if (t->ranks.strategy.rank == 0)
        stk__callbacks_logged(t, metrics, n, step);
    return t->logs.queue ? stk__log_queue_metrics(t->logs.queue, metrics, n, step, err) : STK_OK;
}

bool stk__logs_lines(const stk_trainer *t)
{
    /* All ranks come to a line or none does: what it holds is of all of them. */
    return stk__is_alone(t) ? t->logs.queue || t->hooks.wants_lines : t->settings.logging;
}

stk_status stk_trainer_add_hparam(stk_trainer *t, const char *name, const char *value,
                                  stk_error *err)
{
    stk_error_init(err);
    STK_TRY(stk__context_check(t->ctx, err));
    if (t->logs.num_hparams == t->logs.hparam_room) {
        size_t room = t->logs.hparam_room * 2 + 16;
        stk_hparam *list = stk__realloc(t->ctx, t->logs.hparams, room * sizeof *list);
        if (!list)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for '%s'", name);
        t->logs.hparams = list;
        t->logs.hparam_room = room;
    }
    stk_hparam *to = &t->logs.hparams[t->logs.num_hparams];
    *to = (stk_hparam){stk__strdup(t->ctx, name), stk__strdup(t->ctx, value)};
    if (!to->name || !to->value) {
        stk__free(t->ctx, (char *)to->name);
        stk__free(t->ctx, (char *)to->value);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for '%s'", name);
    }
    t->logs.num_hparams++;
    return STK_OK;
}

void stk__loggers_release(stk_context *ctx, stk__logs *logs)
{
    for (size_t i = 0; i < logs->num_loggers; i++)
        stk__free(ctx, logs->loggers[i].options);
    for (size_t i = 0; i < logs->num_hparams; i++) {
        stk__free(ctx, (char *)logs->hparams[i].name);
        stk__free(ctx, (char *)logs->hparams[i].value);
    }
    stk__free(ctx, logs->hparams);
    stk__free(ctx, logs->dir);
    stk__free(ctx, logs->version);
}
