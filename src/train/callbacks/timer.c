/* SPDX-License-Identifier: Apache-2.0 */
/* Timer: ends training when its time is over; time of earlier runs counts. */
#include <inttypes.h>
#include <stdio.h>

#include "base/options.h"
#include "train/callbacks/callback.h"

typedef struct timer {
    stk_callback base;
    stk__timer_options options;
    uint64_t duration_ns, begin_ns, before_ns; /* `before`: trained in earlier runs */
    bool over;                                 /* the trainer was told so in this run */
} timer;

#define AT(member) offsetof(stk__timer_options, member)

static const stk_option options[] = {
    {"duration", STK_OPTION_STRING, AT(duration), NULL, 0, 0, NULL, "DD:HH:MM:SS",
     "Time to train at most; it has to be given."},
    {"interval", STK_OPTION_ENUM, AT(interval), "step", 0, 0, "step|epoch", NULL,
     "Look after each batch, or after each epoch."},
    {"verbose", STK_OPTION_BOOL, AT(verbose), "true", 0, 0, NULL, NULL,
     "Say so when the time is over."},
};

static const stk_option_table table = {.name = "timer",
                                       .doc = "Ends training when its time is over.",
                                       .struct_size = sizeof(stk__timer_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const stk__timer_options *o = given;
    uint64_t duration;

    if (!o->duration || !*o->duration)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "duration", STK_NO_OFFSET,
                            "timer.duration: it has to be given, as 00:01:30:00");
    STK_TRY(stk__duration_parse("timer.duration", o->duration, &duration, err));
    timer *self = stk__callback_new(ctx, &stk__callback_timer, sizeof *self);
    if (!self)
        return stk__callback_no_memory("timer", err);
    self->options = *o;
    self->options.duration = NULL;
    self->duration_ns = duration;
    *out = &self->base;
    return STK_OK;
}

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

static uint64_t elapsed(const timer *self, uint64_t now)
{
    return self->before_ns + (self->begin_ns && now > self->begin_ns ? now - self->begin_ns : 0);
}

static stk_status state_dict(stk_callback *callback, stk_saver *to, stk_error *err)
{
    stk__text text = {.ctx = callback->context};

    stk__text_add(&text, "elapsed_ns %" PRIu64 "\n",
                  elapsed((const timer *)callback, stk__now_ns()));
    return stk__callback_save_text(to, &text, err);
}

static stk_status load_state_dict(stk_callback *callback, const stk_restorer *from, stk_error *err)
{
    const char *text = stk_restorer_text(from, "state");
    const stk__line line = {"elapsed_ns", STK__LINE_UINT, .to = &((timer *)callback)->before_ns,
                            .most = INT64_MAX};

    return text ? stk__lines_read(callback->context, "the state of timer", text, &line, 1, err)
                : STK_OK;
}

static void check(timer *self, stk_trainer *t, uint64_t now)
{
    const uint64_t ns = elapsed(self, now), seconds = ns / 1000000000u;

    if (ns < self->duration_ns || self->over)
        return;
    self->over = true;
    stk_trainer_should_stop(t);
    if (self->options.verbose)
        stk__callback_say(t,
                          "Time limit reached. Elapsed time is %" PRIu64 ":%02" PRIu64 ":%02" PRIu64
                          ". Signaling Trainer to stop.",
                          seconds / 3600, seconds / 60 % 60, seconds % 60);
}

static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    timer *self = (timer *)callback;

    self->begin_ns = stk__now_ns();
    self->over = false;
    /* A run that had used up its time before does not train another batch. */
    check(self, t, self->begin_ns);
    return STK_OK;
}

static stk_status on_train_batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    timer *self = (timer *)callback;

    if (self->options.interval == 0)
        check(self, t, stk__now_ns());
    return STK_OK;
}

static stk_status on_train_epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    check((timer *)callback, t, stk__now_ns());
    return STK_OK;
}

const stk_callback_ops stk__callback_timer = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "timer",
    .doc = "ends training when its time is over",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .state_dict = state_dict,
    .load_state_dict = load_state_dict,
    .on_train_start = on_train_start,
    .on_train_batch_end = on_train_batch_end,
    .on_train_epoch_end = on_train_epoch_end,
    .roles = STK_ROLE_TIME_LIMIT | STK_ROLE_NO_METRICS,
};
