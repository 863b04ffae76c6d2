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
    bool leave;
} progress_bar_options;

typedef struct progress_bar {
    stk_callback base;
    bool leave;
    stk_trainer *trainer;
    stk__thread thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t wake;
    bool stopping;
    bool active; /* a loop is at work */
    char what[64];
    uint64_t begin_ns, first; /* when it began, and with how many done */
    uint64_t shown_ns;        /* of the last line off a terminal */
    char train_what[64];
    uint64_t train_begin_ns, train_first;
} progress_bar;

static const stk_option options[] = {
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
static void put_postfix(stk_trainer *t, char *text, size_t size)
{
    const size_t n = atomic_load(&t->metrics.num_shown);
    size_t used = 0;
    char number[40];

    *text = 0;
    if (t->version)
        used = (size_t)snprintf(text, size, "v_num=%.16s", t->version);
    pthread_mutex_lock(&t->metrics.lock);
    for (size_t i = 0; i < n && used < size; i++) {
        stk__metric *item = t->metrics.items[i];
        if (!item->prog_bar || !atomic_load_explicit(&item->set, memory_order_relaxed))
            continue;
        stk__bar_number(number, sizeof number,
                        atomic_load_explicit(&item->value, memory_order_relaxed));
        used += (size_t)snprintf(text + used, size - used, "%s%.64s=%s", used ? ", " : "",
                                 item->name, number);
    }
    pthread_mutex_unlock(&t->metrics.lock);
}

static void line_locked(progress_bar *self, uint64_t now, int width, char *text, size_t size)
{
    stk_trainer *t = self->trainer;
    const uint64_t done = atomic_load(&t->shown.done), total = atomic_load(&t->shown.total);
    const double seconds = (double)(now - self->begin_ns) * 1e-9;
    char postfix[400];

    put_postfix(t, postfix, sizeof postfix);
    stk__bar_line(text, size, width, self->what, done, total,
                  done > self->first ? seconds * (double)done / (double)(done - self->first) : 0,
                  postfix);
}

static int width_of(const stk_trainer *t)
{
    return t->console.width ? t->console.width(t->console.user) : 80;
}

static void draw_locked(progress_bar *self, uint64_t now)
{
    stk_trainer *t = self->trainer;
    char text[2400];

    if (!self->active)
        return;
    if (!t->has_console) {
        stk__progress(t->ctx, self->what, atomic_load(&t->shown.done),
                      atomic_load(&t->shown.total));
    } else if (t->console.bar) {
        line_locked(self, now, width_of(t), text, sizeof text);
        t->console.bar(t->console.user, text);
    } else if (now - self->shown_ns >= LINE_NS) {
        self->shown_ns = now;
        line_locked(self, now, 0, text, sizeof text);
        t->console.line(t->console.user, text);
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

static void begin(progress_bar *self, uint64_t first, const char *format, uint64_t number)
{
    pthread_mutex_lock(&self->lock);
    snprintf(self->what, sizeof self->what, format, number);
    self->begin_ns = self->shown_ns = stk__now_ns();
    self->first = first;
    self->active = true;
    pthread_mutex_unlock(&self->lock);
}

/* The loop is over: its line stays, or goes. */
static void end(progress_bar *self, bool stays)
{
    stk_trainer *t = self->trainer;
    char text[2400];

    pthread_mutex_lock(&self->lock);
    if (self->active) {
        self->active = false;
        if (!t->has_console)
            stk__progress(t->ctx, self->what, atomic_load(&t->shown.total),
                          atomic_load(&t->shown.total));
        if (t->has_console && stays) {
            line_locked(self, stk__now_ns(), t->console.bar ? width_of(t) : 0, text, sizeof text);
            if (t->console.bar)
                t->console.bar(t->console.user, NULL);
            t->console.line(t->console.user, text);
        } else if (t->has_console && t->console.bar) {
            t->console.bar(t->console.user, NULL);
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
    self->stopping = false;
    return stk__thread_start(t->ctx, &self->thread, "stk-bar", bar_main, self, err);
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
    atomic_store(&t->shown.done, t->loop.done);
    atomic_store(&t->shown.total, t->train.feeds[0].batches);
    begin((progress_bar *)callback, t->loop.done, "Epoch %" PRIu64, at->epoch);
    return STK_OK;
}

/* Also where an epoch goes on in its middle. */
static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    return t->loop.done ? on_train_epoch_start(callback, t, at, err) : STK_OK;
}

static stk_status on_train_epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    progress_bar *self = (progress_bar *)callback;
    const bool last =
        t->settings.max_epochs >= 0 && t->loop.epoch + 1 >= (uint64_t)t->settings.max_epochs;

    end(self, last || self->leave || t->loop.cut || !t->console.bar);
    return STK_OK;
}

static stk_status on_loader(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                            stk_error *err)
{
    progress_bar *self = (progress_bar *)callback;

    if (at->batch_idx)
        return STK_OK;
    begin(self, 0,
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
    atomic_store(&t->shown.done, t->loop.done);
    atomic_store(&t->shown.total, t->train.feeds[0].batches);
    pthread_mutex_lock(&self->lock);
    memcpy(self->what, self->train_what, sizeof self->what);
    self->begin_ns = self->train_begin_ns;
    self->first = self->train_first;
    self->active = true;
    pthread_mutex_unlock(&self->lock);
    return STK_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    progress_bar *self = stk__callback_new(ctx, &stk__callback_progress_bar, sizeof *self);

    if (!self)
        return stk__callback_no_memory("progress_bar", err);
    self->leave = ((const progress_bar_options *)given)->leave;
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
};
