/* SPDX-License-Identifier: Apache-2.0 */
/* LearningRateMonitor: what the optimizer is set to, for the loggers. */
#include <inttypes.h>
#include <stdio.h>

#include "train/callbacks/callback.h"

enum { MAX_LINE = 96 /* numbers of one line */, NAME = 160 };

typedef struct lr_monitor_options {
    uint32_t struct_size;
    int32_t logging_interval; /* none, step, epoch */
    bool log_momentum, log_weight_decay;
} lr_monitor_options;

typedef struct lr_monitor {
    stk_callback base;
    lr_monitor_options options;
    char names[MAX_LINE][NAME];
} lr_monitor;

#define AT(member) offsetof(lr_monitor_options, member)

static const stk_option options[] = {
    {"logging_interval", STK_OPTION_ENUM, AT(logging_interval), "none", 0, 0, "none|step|epoch",
     NULL, "When to log; none: as often as the schedule moves."},
    {"log_momentum", STK_OPTION_BOOL, AT(log_momentum), "false", 0, 0, NULL, NULL,
     "Log the momentum too."},
    {"log_weight_decay", STK_OPTION_BOOL, AT(log_weight_decay), "false", 0, 0, NULL, NULL,
     "Log the weight decay too."},
};

static const stk_option_table table = {.name = "lr_monitor",
                                       .doc = "Logs the learning rate.",
                                       .struct_size = sizeof(lr_monitor_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    lr_monitor *self = stk__callback_new(ctx, &stk__callback_lr_monitor, sizeof *self);

    if (!self)
        return stk__callback_no_memory("lr_monitor", err);
    self->options = *(const lr_monitor_options *)given;
    *out = &self->base;
    return STK_OK;
}

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    const stk_trainer_info info = stk__callback_info(t);

    if (!info.logs && !info.fast_dev_run)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "Cannot use `LearningRateMonitor` callback with `Trainer` that has no "
                         "logger.");
    return STK_OK;
}

static size_t add(lr_monitor *self, stk_metric *line, size_t n, const char *name, double value)
{
    if (n == MAX_LINE)
        return n;
    snprintf(self->names[n], NAME, "%s", name);
    line[n] = (stk_metric){self->names[n], value};
    return n + 1;
}

/* With `all`, also those of a group that does not learn yet. */
static size_t add_group(lr_monitor *self, stk_trainer *t, const char *base, uint32_t group,
                        bool all, stk_metric *line, size_t n)
{
    static const char *const options_of[] = {"lr", "momentum", "weight_decay"};
    static const char *const suffixes[] = {"", "-momentum", "-weight_decay"};
    const bool wanted[] = {true, self->options.log_momentum, self->options.log_weight_decay};
    char name[NAME], part[24] = "";
    double value = 0;

    if (stk_trainer_optimizers(t)->num_groups > 1)
        snprintf(part, sizeof part, "/pg%" PRIu32, group + 1);
    for (size_t i = 0; i < STK_COUNT(wanted); i++) {
        snprintf(name, sizeof name, "%.100s%s%s", base, suffixes[i], part);
        if (wanted[i] && (stk_trainer_module_ops(t)->get_option(stk_trainer_moment(t)->module,
                                                                group, options_of[i], &value) ||
                          all))
            n = add(self, line, n, name, value);
    }
    return n;
}

static size_t line_of(lr_monitor *self, stk_trainer *t, bool all, stk_metric line[MAX_LINE])
{
    const stk_optimizers *o = stk_trainer_optimizers(t);
    char base[NAME];
    size_t n = 0;

    if (!stk_trainer_module_ops(t)->get_option)
        return 0;
    snprintf(base, sizeof base, "lr-%.100s", o->name ? o->name : "optimizer");
    for (uint32_t i = 0; i < o->num_schedulers; i++)
        if (o->schedulers[i].name)
            snprintf(base, sizeof base, "%.120s", o->schedulers[i].name);
    for (uint32_t group = 0; group < STK_MAX(o->num_groups, 1u); group++)
        n = add_group(self, t, base, group, all, line, n);
    return n;
}

static stk_status log_now(lr_monitor *self, stk_trainer *t, stk_error *err)
{
    stk_metric line[MAX_LINE];
    const size_t n = line_of(self, t, false, line);

    return n ? stk_trainer_log_metrics(t, line, n, err) : STK_OK;
}

static const char *logs(stk_callback *callback, stk_trainer *t, size_t i)
{
    stk_metric line[MAX_LINE];

    return i < line_of((lr_monitor *)callback, t, true, line) ? line[i].name : NULL;
}

static bool moves(const stk_trainer *t, bool every_step)
{
    const stk_optimizers *o = stk_trainer_optimizers(t);

    for (uint32_t i = 0; i < o->num_schedulers; i++)
        if (o->schedulers[i].every_step == every_step)
            return true;
    return every_step && o->num_schedulers == 0;
}

static stk_status on_train_batch_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    lr_monitor *self = (lr_monitor *)callback;
    const int32_t interval = self->options.logging_interval;

    if (!stk__callback_logs(t, at) || interval == 2 || (interval == 0 && !moves(t, true)))
        return STK_OK;
    return log_now(self, t, err);
}

static stk_status on_train_epoch_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    lr_monitor *self = (lr_monitor *)callback;
    const int32_t interval = self->options.logging_interval;

    if (interval == 1 || (interval == 0 && !moves(t, false)))
        return STK_OK;
    return log_now(self, t, err);
}

const stk_callback_ops stk__callback_lr_monitor = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "lr_monitor",
    .doc = "logs the learning rate",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .on_train_start = on_train_start,
    .on_train_batch_start = on_train_batch_start,
    .on_train_epoch_start = on_train_epoch_start,
    .logs = logs,
};
