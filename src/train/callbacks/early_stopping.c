/* SPDX-License-Identifier: Apache-2.0 */
/* EarlyStopping: ends training when a metric says so. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <stoker/measure.h>

#include "train/callbacks/callback.h"

typedef struct early_stopping_options {
    uint32_t struct_size;
    const char *monitor;
    double min_delta;
    uint64_t patience;
    bool verbose;
    int32_t mode;
    bool strict, check_finite;
    const char *stopping_threshold, *divergence_threshold; /* texts, as none is no number */
    int32_t check_on_train_epoch_end;
} early_stopping_options;

typedef enum stopping_reason {
    NOT_STOPPED,
    STOPPING_THRESHOLD,
    DIVERGENCE_THRESHOLD,
    PATIENCE_EXHAUSTED,
    NON_FINITE_METRIC
} stopping_reason;

typedef struct early_stopping {
    stk_callback base;
    early_stopping_options options;
    char *monitor;
    double stopping, divergence; /* NaN: none */
    double best;
    uint64_t wait_count, stopped_epoch;
    stopping_reason reason;
    bool at_train_epoch_end, same_rules; /* of the checkpoint and of this run */
    char key[200];
    char rules[200]; /* what it stops by, for a checkpoint */
} early_stopping;

#define AT(member) offsetof(early_stopping_options, member)

static const stk_option options[] = {
    {"monitor", STK_OPTION_STRING, AT(monitor), NULL, 0, 0, NULL, "METRIC",
     "What to look at; it has to be given."},
    {"min_delta", STK_OPTION_DOUBLE, AT(min_delta), "0", 0, 1e300, NULL, "X",
     "An improvement is more than this."},
    {"patience", STK_OPTION_UINT, AT(patience), "3", 0, 1e15, NULL, "N",
     "Checks without an improvement after which to stop."},
    {"verbose", STK_OPTION_BOOL, AT(verbose), "false", 0, 0, NULL, NULL, "Say what happens."},
    {"mode", STK_OPTION_ENUM, AT(mode), "min", 0, 0, "min|max", NULL,
     "Whether a small or a large value is good."},
    {"strict", STK_OPTION_BOOL, AT(strict), "true", 0, 0, NULL, NULL,
     "Fail when there is no such metric."},
    {"check_finite", STK_OPTION_BOOL, AT(check_finite), "true", 0, 0, NULL, NULL,
     "Stop when the metric is no number."},
    {"stopping_threshold", STK_OPTION_STRING, AT(stopping_threshold), NULL, 0, 0, NULL, "X",
     "Stop as soon as the metric is better than this."},
    {"divergence_threshold", STK_OPTION_STRING, AT(divergence_threshold), NULL, 0, 0, NULL, "X",
     "Stop as soon as the metric is worse than this."},
    {"check_on_train_epoch_end", STK_OPTION_ENUM, AT(check_on_train_epoch_end), "auto", 0, 0,
     "auto|false|true", NULL,
     "Check at the end of the training epoch, else of validation; auto: as validation is run."},
};

static const stk_option_table table = {.name = "early_stopping",
                                       .doc = "Ends training when a metric says so.",
                                       .struct_size = sizeof(early_stopping_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, ((early_stopping *)callback)->monitor);
    stk__free(callback->context, callback);
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const early_stopping_options *o = given;
    double stopping, divergence;
    char numbers[3][32];

    if (!o->monitor || !*o->monitor)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "monitor", STK_NO_OFFSET,
                            "early_stopping.monitor: it has to be given, as val_loss");
    if (!stk__callback_number(o->stopping_threshold, &stopping) ||
        !stk__callback_number(o->divergence_threshold, &divergence))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "stopping_threshold", STK_NO_OFFSET,
                            "early_stopping: stopping_threshold and divergence_threshold take a "
                            "number");
    early_stopping *self = stk__callback_new(ctx, &stk__callback_early_stopping, sizeof *self);
    if (!self || !stk__callback_text(ctx, o->monitor, &self->monitor)) {
        stk__free(ctx, self);
        return stk__callback_no_memory("early_stopping", err);
    }
    self->options = *o;
    self->stopping = stopping;
    self->divergence = divergence;
    self->best = o->mode ? -INFINITY : INFINITY;
    snprintf(self->key, sizeof self->key, "early_stopping(monitor=%.120s,mode=%s)", o->monitor,
             o->mode ? "max" : "min");
    stk_number_format(o->min_delta, numbers[0]);
    stk_number_format(stopping, numbers[1]);
    stk_number_format(divergence, numbers[2]);
    snprintf(self->rules, sizeof self->rules,
             "min_delta=%s,patience=%" PRIu64 ",check_finite=%d,stopping=%s,divergence=%s",
             numbers[0], o->patience, o->check_finite, numbers[1], numbers[2]);
    *out = &self->base;
    return STK_OK;
}

static const char *state_key(const stk_callback *callback)
{
    return ((const early_stopping *)callback)->key;
}

static stk_status state_dict(stk_callback *callback, stk_saver *to, stk_error *err)
{
    const early_stopping *self = (const early_stopping *)callback;
    stk__text text = {.ctx = callback->context};

    stk__text_add(&text, "wait_count %" PRIu64 "\nstopped_epoch %" PRIu64 "\nreason %d\n",
                  self->wait_count, self->stopped_epoch, self->reason);
    stk__text_add_double(&text, "best_score", self->best);
    stk__text_add(&text, "rules %s\n", self->rules);
    return stk__callback_save_text(to, &text, err);
}

/* Of a checkpoint that has them. */
static stk_status compare_rules(void *user, const char *value, stk_error *err)
{
    early_stopping *self = user;

    self->same_rules = strcmp(value, self->rules) == 0;
    return STK_OK;
}

static stk_status load_state_dict(stk_callback *callback, const stk_restorer *from, stk_error *err)
{
    early_stopping *self = (early_stopping *)callback;
    const char *text = stk_restorer_text(from, "state");
    uint64_t reason = 0;
    const stk__line lines[] = {
        {"wait_count", STK__LINE_UINT, .to = &self->wait_count},
        {"stopped_epoch", STK__LINE_UINT, .to = &self->stopped_epoch},
        {"reason", STK__LINE_UINT, .to = &reason, .most = NON_FINITE_METRIC},
        {"best_score", STK__LINE_DOUBLE, .to = &self->best},
        {"rules", STK__LINE_EACH, .to = self, .each = compare_rules},
    };

    self->same_rules = false;
    if (!text)
        return STK_OK;
    STK_TRY(stk__lines_read(callback->context, "the state of early_stopping", text, lines,
                            STK_COUNT(lines), err));
    /* By other rules it is not stopped yet. */
    self->reason = self->same_rules ? (stopping_reason)reason : NOT_STOPPED;
    return STK_OK;
}

/* ---- Deciding -------------------------------------------------------------------------------- */

static bool is_better(const early_stopping *self, double a, double b)
{
    return self->options.mode ? a > b : a < b;
}

static void improved(early_stopping *self, double current, char *text, size_t size)
{
    const double delta = self->options.min_delta;

    if (isfinite(self->best))
        snprintf(text, size, "Metric %s improved by %.3f >= min_delta = %g. New best score: %.3f",
                 self->monitor, fabs(self->best - current), delta, current);
    else
        snprintf(text, size, "Metric %s improved. New best score: %.3f", self->monitor, current);
    self->best = current;
    self->wait_count = 0;
}

static stopping_reason judge(early_stopping *self, double current, char *text, size_t size)
{
    const char *than = self->options.mode ? ">" : "<";
    const double delta = self->options.min_delta;

    *text = 0;
    if (self->options.check_finite && !isfinite(current)) {
        snprintf(text, size,
                 "Monitored metric %s = %g is not finite. Previous best value was %.3f. Signaling "
                 "Trainer to stop.",
                 self->monitor, current, self->best);
        return NON_FINITE_METRIC;
    }
    if (!isnan(self->stopping) && is_better(self, current, self->stopping)) {
        snprintf(text, size,
                 "Stopping threshold reached: %s = %g %s %g. Signaling Trainer to stop.",
                 self->monitor, current, than, self->stopping);
        return STOPPING_THRESHOLD;
    }
    if (!isnan(self->divergence) && is_better(self, -current, -self->divergence)) {
        snprintf(text, size,
                 "Divergence threshold reached: %s = %g %s %g. Signaling Trainer to stop.",
                 self->monitor, current, self->options.mode ? "<" : ">", self->divergence);
        return DIVERGENCE_THRESHOLD;
    }
    if (is_better(self, self->options.mode ? current - delta : current + delta, self->best)) {
        improved(self, current, text, size);
        return NOT_STOPPED;
    }
    if (++self->wait_count < self->options.patience)
        return NOT_STOPPED;
    snprintf(text, size,
             "Monitored metric %s did not improve in the last %" PRIu64
             " records. Best score: %.3f. Signaling Trainer to stop.",
             self->monitor, self->wait_count, self->best);
    return PATIENCE_EXHAUSTED;
}

static stk_status check(early_stopping *self, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    char text[400];
    double current;

    if (at->task != STK_TASK_FIT || at->phase == STK_PHASE_SANITY ||
        stk__callback_info(t).fast_dev_run)
        return STK_OK;
    if (!stk_trainer_metric(t, self->monitor, &current)) {
        stk__callback_metric_names(t, text, sizeof text);
        if (self->options.strict)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, self->monitor, STK_NO_OFFSET,
                                "Early stopping conditioned on metric `%s` which is not "
                                "available. Pass in or modify your `EarlyStopping` callback to "
                                "use any of the following: %s",
                                self->monitor, text);
        if (self->options.verbose)
            stk__message(self->base.context, STK_MESSAGE_WARNING,
                         "Early stopping found no metric `%s`; there are %s", self->monitor, text);
        return STK_OK;
    }
    const stopping_reason reason = judge(self, current, text, sizeof text);
    if (reason != NOT_STOPPED) {
        stk_trainer_should_stop(t);
        self->reason = reason;
        self->stopped_epoch = at->epoch;
    }
    if (*text && self->options.verbose)
        stk__callback_say(t, "%s", text);
    return STK_OK;
}

static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    early_stopping *self = (early_stopping *)callback;
    const int32_t want = self->options.check_on_train_epoch_end;

    /* What a checkpoint says of it is read later. */
    self->reason = NOT_STOPPED;
    self->at_train_epoch_end = want == STK_SWITCH_AUTO ? stk__callback_info(t).validates_each_epoch
                                                       : want == STK_SWITCH_TRUE;
    return STK_OK;
}

/* A run that was stopped does not go on when it is started again. */
static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    const early_stopping *self = (const early_stopping *)callback;

    if (self->reason == NOT_STOPPED)
        return STK_OK;
    stk__message(callback->context, STK_MESSAGE_INFO,
                 "early_stopping (monitor '%s') has stopped this run in epoch %" PRIu64
                 ": to train on, change its options or leave it out",
                 self->monitor, self->stopped_epoch);
    stk_trainer_should_stop(t);
    return STK_OK;
}

static stk_status on_train_epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    early_stopping *self = (early_stopping *)callback;

    return self->at_train_epoch_end ? check(self, t, at, err) : STK_OK;
}

static stk_status on_validation_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    early_stopping *self = (early_stopping *)callback;

    return self->at_train_epoch_end ? STK_OK : check(self, t, at, err);
}

static const char *monitored(const stk_callback *callback, uint32_t *flags)
{
    const early_stopping *self = (const early_stopping *)callback;

    return self->options.strict ? self->monitor : NULL;
}

const stk_callback_ops stk__callback_early_stopping = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "early_stopping",
    .doc = "ends training when a metric says so",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .state_key = state_key,
    .state_dict = state_dict,
    .load_state_dict = load_state_dict,
    .monitors = true,
    .setup = setup,
    .on_train_start = on_train_start,
    .on_train_epoch_end = on_train_epoch_end,
    .on_validation_end = on_validation_end,
    .roles = STK_ROLE_NO_METRICS,
    .monitored = monitored,
};
