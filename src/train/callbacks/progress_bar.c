/* SPDX-License-Identifier: Apache-2.0 */
/* The progress bar: the loop stores a number, a thread of its own draws it ten times a second. Off
 * a terminal it prints a line now and then. */
#include "train/callbacks/progress_bar.h"

#include <inttypes.h>
#include <stdio.h>

#define DRAW_NS UINT64_C(100000000)
#define LINE_NS UINT64_C(5000000000) /* between two lines off a terminal */

typedef struct progress_bar_options {
    uint32_t struct_size;
    uint64_t refresh_rate;
    bool leave;
} progress_bar_options;

typedef struct progress_bar {
    stk_callback base;
    progress_bar_options options;
    stk_trainer *trainer;
    const stk_console *console;
    stk__thread thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t wake;
    bool stopping;
    bool active; /* a loop is at work */
    stk_phase phase;
    char what[64];
    uint64_t begin_ns, first; /* when it began, and with how many done */
    uint64_t shown_ns;        /* of the last line off a terminal */
    char train_what[64];
    uint64_t train_begin_ns, train_first;
    char version[24]; /* of the run */
} progress_bar;

static const stk_option options[] = {
    {"refresh_rate", STK_OPTION_UINT, offsetof(progress_bar_options, refresh_rate), "1", 0, 1e9,
     NULL, "N", "It moves at each so many batches; 0: nothing is shown."},
    {"leave", STK_OPTION_BOOL, offsetof(progress_bar_options, leave), "false", 0, 0, NULL, NULL,
     "Leave a line of each epoch on the terminal, not of the last alone."},
};

static const stk_option_table table = {.name = "progress_bar",
                                       .doc = "Shows how far it is.",
                                       .struct_size = sizeof(progress_bar_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

/* ---- Drawing --------------------------------------------------------------------------------- */

/* "v_num=0, train_loss=2.340" */
static void put_postfix(const progress_bar *self, char *text, size_t size)
{
    size_t used = 0;
    stk_metric metric;
    char number[40];

    *text = 0;
    if (*self->version)
        used = (size_t)snprintf(text, size, "v_num=%s", self->version);
    for (size_t i = 0; used < size && stk_trainer_bar_metric(self->trainer, i, &metric); i++) {
        stk__bar_number(number, sizeof number, metric.value);
        used += (size_t)snprintf(text + used, size - used, "%s%.64s=%s", used ? ", " : "",
                                 metric.name, number);
    }
}

/* Batches done, as far as they are shown. */
static void count_locked(const progress_bar *self, uint64_t *done, uint64_t *total)
{
    stk_trainer_get_bar(self->trainer, self->phase, done, total);
    if (*done != *total)
        *done -= *done % self->options.refresh_rate;
}

static void line_locked(progress_bar *self, uint64_t now, int width, char *text, size_t size)
{
    uint64_t done, total;
    const double seconds = (double)(now - self->begin_ns) * 1e-9;
    char postfix[400];

    count_locked(self, &done, &total);
    put_postfix(self, postfix, sizeof postfix);
    stk__bar_line(text, size, width, self->what, done, total,
                  done > self->first ? seconds * (double)done / (double)(done - self->first) : 0,
                  postfix);
}

static int width_of(const stk_console *console)
{
    return console->width ? console->width(console->user) : 80;
}

static void draw_locked(progress_bar *self, uint64_t now)
{
    const stk_console *console = self->console;
    uint64_t done, total;
    char text[2400];

    if (!self->active)
        return;
    if (console->progress) {
        count_locked(self, &done, &total);
        console->progress(console->user, self->what, done, total);
    } else if (console->bar) {
        line_locked(self, now, width_of(console), text, sizeof text);
        console->bar(console->user, text);
    } else if (now - self->shown_ns >= LINE_NS) {
        self->shown_ns = now;
        line_locked(self, now, 0, text, sizeof text);
        console->line(console->user, text);
    }
}

static void bar_main(void *argument)
{
    progress_bar *self = argument;

    stk__thread_background();
    pthread_mutex_lock(&self->lock);
    while (!self->stopping) {
        const uint64_t now = stk__now_ns();
        draw_locked(self, now);
        stk__cond_wait_until(&self->wake, &self->lock, now + DRAW_NS);
    }
    pthread_mutex_unlock(&self->lock);
}

/* ---- A loop begins and ends ------------------------------------------------------------------ */

static void begin(progress_bar *self, stk_phase phase, uint64_t first, const char *format,
                  uint64_t number)
{
    const stk_trainer_info info = stk__callback_info(self->trainer);

    pthread_mutex_lock(&self->lock);
    self->phase = phase;
    snprintf(self->version, sizeof self->version, "%s", info.version ? info.version : "");
    snprintf(self->what, sizeof self->what, format, number);
    self->begin_ns = self->shown_ns = stk__now_ns();
    self->first = first;
    self->active = self->options.refresh_rate > 0;
    pthread_mutex_unlock(&self->lock);
}

/* The loop is over: its line stays, or goes. */
static void end(progress_bar *self, bool stays)
{
    const stk_console *console = self->console;
    uint64_t done, total;
    char text[2400];

    pthread_mutex_lock(&self->lock);
    if (self->active) {
        self->active = false;
        stk_trainer_get_bar(self->trainer, self->phase, &done, &total);
        if (console->progress) {
            console->progress(console->user, self->what, total, total);
        } else if (stays) {
            line_locked(self, stk__now_ns(), console->bar ? width_of(console) : 0, text,
                        sizeof text);
            if (console->bar)
                console->bar(console->user, NULL);
            console->line(console->user, text);
        } else if (console->bar) {
            console->bar(console->user, NULL);
        }
    }
    pthread_mutex_unlock(&self->lock);
}

static void stop_thread(progress_bar *self)
{
    end(self, false);
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    pthread_cond_signal(&self->wake);
    pthread_mutex_unlock(&self->lock);
    stk__thread_join(&self->thread);
}

static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    progress_bar *self = (progress_bar *)callback;

    self->trainer = t;
    self->console = stk_trainer_get_console(t);
    self->stopping = false;
    return stk__thread_start(callback->context, &self->thread, "stk-bar", bar_main, self, err);
}

static stk_status teardown(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                           stk_error *err)
{
    stop_thread((progress_bar *)callback);
    return STK_OK;
}

static stk_status on_train_epoch_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    uint64_t done, total;

    stk_trainer_get_bar(t, STK_PHASE_TRAIN, &done, &total);
    begin((progress_bar *)callback, STK_PHASE_TRAIN, done, "Epoch %" PRIu64, at->epoch);
    return STK_OK;
}

/* Also where an epoch goes on in its middle. */
static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    uint64_t done, total;

    stk_trainer_get_bar(t, STK_PHASE_TRAIN, &done, &total);
    return done ? on_train_epoch_start(callback, t, at, err) : STK_OK;
}

static stk_status on_train_epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    progress_bar *self = (progress_bar *)callback;
    const int64_t max_epochs = stk__callback_info(t).max_epochs;
    const bool last = max_epochs >= 0 && at->epoch + 1 >= (uint64_t)max_epochs;
    uint64_t done, total;

    /* An epoch that the run has cut short is the last one, too. */
    stk_trainer_get_bar(t, STK_PHASE_TRAIN, &done, &total);
    end(self, last || self->options.leave || done < total || !self->console->bar);
    return STK_OK;
}

static stk_status on_loader(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                            stk_error *err)
{
    progress_bar *self = (progress_bar *)callback;

    if (at->batch_idx)
        return STK_OK;
    begin(self, at->phase, 0,
          at->phase == STK_PHASE_SANITY    ? "Sanity Checking DataLoader %" PRIu64
          : at->phase == STK_PHASE_TEST    ? "Testing DataLoader %" PRIu64
          : at->phase == STK_PHASE_PREDICT ? "Predicting DataLoader %" PRIu64
                                           : "Validation DataLoader %" PRIu64,
          at->dataloader_idx);
    return STK_OK;
}

/* Training's own line is put aside while validation is at work. */
static stk_status on_evaluation_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                      stk_error *err)
{
    progress_bar *self = (progress_bar *)callback;

    pthread_mutex_lock(&self->lock);
    memcpy(self->train_what, self->what, sizeof self->what);
    self->train_begin_ns = self->begin_ns;
    self->train_first = self->first;
    self->active = false;
    pthread_mutex_unlock(&self->lock);
    return STK_OK;
}

static stk_status on_evaluation_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    progress_bar *self = (progress_bar *)callback;
    const bool goes_on = at->task == STK_TASK_FIT && at->phase == STK_PHASE_VALIDATE;

    end(self, !goes_on && at->phase != STK_PHASE_SANITY);
    if (!goes_on)
        return STK_OK;
    pthread_mutex_lock(&self->lock);
    self->phase = STK_PHASE_TRAIN;
    memcpy(self->what, self->train_what, sizeof self->what);
    self->begin_ns = self->train_begin_ns;
    self->first = self->train_first;
    self->active = self->options.refresh_rate > 0;
    pthread_mutex_unlock(&self->lock);
    return STK_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    progress_bar *self = stk__callback_new(ctx, &stk__callback_progress_bar, sizeof *self);

    if (!self)
        return stk__callback_no_memory("progress_bar", err);
    self->options = *(const progress_bar_options *)given;
    pthread_mutex_init(&self->lock, NULL);
    stk__cond_init(&self->wake);
    *out = &self->base;
    return STK_OK;
}

static void destroy(stk_callback *callback)
{
    progress_bar *self = (progress_bar *)callback;

    if (self->thread.started)
        stop_thread(self);
    pthread_cond_destroy(&self->wake);
    pthread_mutex_destroy(&self->lock);
    stk__free(callback->context, self);
}

const stk_callback_ops stk__callback_progress_bar = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "progress_bar",
    .doc = "shows how far it is",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .setup = setup,
    .teardown = teardown,
    .on_exception = teardown,
    .on_train_start = on_train_start,
    .on_train_epoch_start = on_train_epoch_start,
    .on_train_epoch_end = on_train_epoch_end,
    .on_validation_start = on_evaluation_start,
    .on_validation_batch_start = on_loader,
    .on_validation_end = on_evaluation_end,
    .on_test_start = on_evaluation_start,
    .on_test_batch_start = on_loader,
    .on_test_end = on_evaluation_end,
    .on_predict_start = on_evaluation_start,
    .on_predict_batch_start = on_loader,
    .on_predict_end = on_evaluation_end,
    .roles = STK_ROLE_PROGRESS | STK_ROLE_NO_METRICS,
};
