/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event log of a training: the names and fields of `stoker bench`, so that `stoker report`
 * reads both. A callback in front of all others takes the times of the trainer's ledger at
 * the end of each step; nothing is timed a second time.
 *
 * An epoch ends where the next begins, or the training: its checkpoint is part of it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/sized.h"
#include "base/tiers.h"
#include "measure/measure.h"
#include "recipe/recipe.h"

#define LINE 4096

/* Epochs whose memory is kept: of more, the last ones. */
#define EPOCHS 512

struct stk_training_events {
    stk_context *context;
    char *path;         /* NULL: none is written */
    stk_event_log *log; /* NULL: likewise, or it has not begun, or has ended */
    uint64_t run_ns, epoch_ns, evaluation_ns, saved_ns; /* begin of what is at work; 0: nothing */
    uint64_t epoch, ready;
    uint64_t batches, all_batches; /* of the epoch: so far, and in all; 0: not known */
    bool rates_logged;             /* by a callback */
    uint32_t io_threads;
    uint64_t ranks;                        /* that train together */
    uint64_t train_ns, cpu_ns, machine_ns; /* when the first epoch began: CPU time so far */
    double other_cores;
    stk_trainer *watched;
    stk_trainer *trainer;         /* once it has trained; else NULL */
    stk_trainer_times step, from; /* at the end of the last step; at the begin of the epoch */
    uint64_t epochs[EPOCHS], bytes[EPOCHS], num_epochs;
};

typedef struct watcher {
    stk_callback base; /* first */
    stk_training_events *log;
} watcher;

/* ---- Lines ----------------------------------------------------------------------------------- */

/* What lies between two looks at the times. */
static void subtract(stk_trainer_times *now, const stk_trainer_times *then)
{
    now->wall -= then->wall;
    now->data_wait -= then->data_wait;
    now->transfer -= then->transfer;
    now->step -= then->step;
    now->validation -= then->validation;
    now->callbacks -= then->callbacks;
    now->logging -= then->logging;
    now->checkpoint -= then->checkpoint;
    now->other -= then->other;
    now->steps -= then->steps;
    now->optimizer_steps -= then->optimizer_steps;
    now->optimizer -= then->optimizer;
    now->comm -= then->comm;
    now->comm_hidden -= then->comm_hidden;
    stk__waits_subtract(&now->waits, &then->waits);
    stk__tiers_subtract(&now->tiers, &then->tiers);
}

static void log_ledger(stk_training_events *l, const char *first, uint64_t now_ns,
                       const stk_trainer_times *t)
{
    const struct {
        const char *name;
        uint64_t ns;
    } parts[] = {{"step", t->step},
                 {"data_wait", t->data_wait},
                 {"transfer", t->transfer},
                 {"validation", t->validation},
                 {"callbacks", t->callbacks},
                 {"logging", t->logging},
                 {"checkpoint", t->checkpoint},
                 {"other", t->other}};
    char line[LINE], waits[1024], tiers[160], number[32];
    size_t used = (size_t)snprintf(line, sizeof line, "\"parts\": {");

    for (size_t i = 0; i < STK_COUNT(parts); i++) {
        stk_number_format(stk__seconds(parts[i].ns), number);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s\"%s\": %s", i ? ", " : "",
                                 parts[i].name, number);
    }
    stk_waits_format(&t->waits, waits, sizeof waits);
    stk__tiers_members(&t->tiers, tiers, sizeof tiers);
    snprintf(line + used, sizeof line - used, "}, \"wait\": {%s}%s", waits, tiers);
    stk_event_log_write(l->log, "ledger", first, now_ns, t->wall, line);
}

/* A checkpoint is logged once its time is known: at the next look at the times. */
static void log_saved(stk_training_events *l, const stk_trainer_times *now)
{
    const uint64_t took = now->checkpoint - l->step.checkpoint;

    if (l->saved_ns && took)
        stk_event_log_write(l->log, "checkpoint end", NULL, l->saved_ns, took, NULL);
    l->saved_ns = 0;
}

static void end_epoch(stk_training_events *l)
{
    const uint64_t now = stk__now_ns();
    stk_trainer_times times = {.struct_size = sizeof times};
    stk__usage usage;
    char first[48];

    if (!l->epoch_ns)
        return;
    const uint64_t took = now - l->epoch_ns;
    l->epoch_ns = 0;
    l->epochs[l->num_epochs % EPOCHS] = l->epoch;
    stk__usage_get(&usage);
    l->bytes[l->num_epochs % EPOCHS] = usage.memory_bytes;
    l->io_threads = usage.io_threads;
    l->num_epochs++;
    if (!l->log)
        return;
    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, l->epoch);
    stk_event_log_write(l->log, "epoch end", first, now, took, NULL);
    stk_trainer_get_times(l->trainer, &times);
    log_saved(l, &times);
    subtract(&times, &l->from);
    log_ledger(l, first, now, &times);
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

static stk_training_events *log_of(stk_callback *self)
{
    return ((watcher *)self)->log;
}

static stk_status on_train_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    stk_training_events *l = log_of(self);
    stk__usage usage;

    (void)at, (void)err;
    l->trainer = t;
    l->step.struct_size = l->from.struct_size = sizeof l->step;
    l->train_ns = stk__now_ns();
    stk__usage_get(&usage);
    l->cpu_ns = usage.cpu_ns;
    l->machine_ns = usage.machine_busy_ns;
    stk_trainer_get_times(t, &l->step);
    stk_event_log_write(l->log, "setup end", NULL, 0, stk__now_ns() - l->run_ns, NULL);
    return STK_OK;
}

static stk_status on_train_epoch_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    stk_training_events *l = log_of(self);
    char first[48];

    (void)err;
    end_epoch(l);
    l->epoch = at->epoch;
    l->batches = 0;
    l->all_batches = stk_trainer_num_batches(t, STK_PHASE_TRAIN, 0);
    l->epoch_ns = stk__now_ns();
    if (!l->log)
        return STK_OK;
    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, at->epoch);
    stk_event_log_write(l->log, "epoch start", first, l->epoch_ns, STK_NO_DURATION, NULL);
    stk_trainer_get_times(t, &l->from);
    return STK_OK;
}

static stk_status on_train_batch_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    stk_training_events *l = log_of(self);
    stk_loader_stats begin = {.struct_size = sizeof begin}, now = {.struct_size = sizeof now};

    (void)at, (void)err;
    if (!l->log)
        return STK_OK;
    stk_trainer_get_loader_stats(t, &begin, &now);
    l->ready = now.ready;
    return STK_OK;
}

static stk_status on_train_batch_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    stk_training_events *l = log_of(self);
    stk_trainer_times times = {.struct_size = sizeof times}, part = {.struct_size = sizeof part};
    char first[48], more[128], wait[32], all[32];

    (void)err;
    if (!l->log)
        return STK_OK;
    const uint64_t now = stk__now_ns();
    l->batches = at->batch_idx + 1;
    stk_trainer_get_times(t, &times);
    log_saved(l, &times);
    part = times;
    subtract(&part, &l->step);
    l->step = times;
    stk_number_format(stk__seconds(part.data_wait), wait);
    snprintf(first, sizeof first, "\"batch\": %" PRIu64, at->batch_idx);
    snprintf(more, sizeof more, "\"epoch\": %" PRIu64 ", \"ready\": %" PRIu64 ", \"wait\": %s",
             at->epoch, l->ready, wait);
    stk_event_log_write(l->log, "training start", first, now - part.step, STK_NO_DURATION, more);
    int n = snprintf(more, sizeof more, "\"epoch\": %" PRIu64, at->epoch);
    if (l->ranks > 1) {
        stk_number_format(stk__seconds(part.comm + part.comm_hidden), all);
        stk_number_format(stk__seconds(part.comm), wait);
        snprintf(more + n, sizeof more - (size_t)n, ", \"comm\": %s, \"comm_wait\": %s", all, wait);
    }
    stk_event_log_write(l->log, "training end", first, now, part.step, more);
    /* Where batches accumulate: the batch that ends a window is longer by this. */
    if (part.optimizer_steps)
        stk_event_log_write(l->log, "optimizer step", first, now, part.optimizer, more);
    return STK_OK;
}

/* A rate that a callback logs is not logged twice. */
static void logged(stk_callback *self, stk_trainer *t, const stk_metric *metrics, size_t n,
                   int64_t step)
{
    stk_training_events *l = log_of(self);
    stk__training_line line = {
        .metrics = metrics, .n = n, .step = step, .epoch = l->epoch, .epochs = NAN};

    if (!l->log)
        return;
    for (size_t i = 0; i < n; i++)
        l->rates_logged |= strncmp(metrics[i].name, "lr-", 3) == 0;
    line.rates = stk_trainer_moment(t)->task == STK_TASK_FIT && !l->rates_logged;
    if (l->all_batches && l->all_batches != UINT64_MAX)
        line.epochs = (double)l->epoch + (double)l->batches / (double)l->all_batches;
    stk__training_events_metrics(l->log, t, &line);
}

static void begin_evaluation(stk_training_events *l, const char *name)
{
    l->evaluation_ns = stk__now_ns();
    stk_event_log_write(l->log, name, NULL, l->evaluation_ns, STK_NO_DURATION, NULL);
}

static void end_evaluation(stk_training_events *l, const char *name)
{
    const uint64_t now = stk__now_ns();

    if (l->evaluation_ns)
        stk_event_log_write(l->log, name, NULL, now, now - l->evaluation_ns, NULL);
    l->evaluation_ns = 0;
}

static stk_status on_sanity_check_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                        stk_error *err)
{
    (void)t, (void)at, (void)err;
    begin_evaluation(log_of(self), "sanity check start");
    return STK_OK;
}

static stk_status on_sanity_check_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                      stk_error *err)
{
    (void)t, (void)at, (void)err;
    end_evaluation(log_of(self), "sanity check end");
    return STK_OK;
}

static stk_status on_validation_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                      stk_error *err)
{
    (void)t, (void)err;
    if (at->phase == STK_PHASE_VALIDATE)
        begin_evaluation(log_of(self), "validation start");
    return STK_OK;
}

static stk_status on_validation_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    (void)t, (void)err;
    if (at->phase == STK_PHASE_VALIDATE)
        end_evaluation(log_of(self), "validation end");
    return STK_OK;
}

/* A task begins: of a test its time is logged. */
static stk_status setup(stk_callback *self, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    (void)t, (void)err;
    if (at->task == STK_TASK_TEST)
        log_of(self)->evaluation_ns = stk__now_ns();
    return STK_OK;
}

static stk_status teardown(stk_callback *self, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    (void)t, (void)err;
    if (at->task == STK_TASK_TEST)
        end_evaluation(log_of(self), "test end");
    return STK_OK;
}

static stk_status on_save_checkpoint(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    (void)t, (void)at, (void)err;
    log_of(self)->saved_ns = stk__now_ns();
    return STK_OK;
}

static stk_status watcher_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err);

static void watcher_destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

static const stk_callback_ops watcher_ops = {.struct_size = sizeof watcher_ops,
                                             .name = "event_log",
                                             .doc = "writes the event log",
                                             .create = watcher_create,
                                             .destroy = watcher_destroy,
                                             .setup = setup,
                                             .teardown = teardown,
                                             .on_train_start = on_train_start,
                                             .on_train_epoch_start = on_train_epoch_start,
                                             .on_train_batch_start = on_train_batch_start,
                                             .on_train_batch_end = on_train_batch_end,
                                             .on_validation_start = on_validation_start,
                                             .on_validation_end = on_validation_end,
                                             .on_sanity_check_start = on_sanity_check_start,
                                             .on_sanity_check_end = on_sanity_check_end,
                                             .on_save_checkpoint = on_save_checkpoint,
                                             .roles = STK_ROLE_NO_METRICS,
                                             .logged = logged};
/* Without a file nothing is called for a step. */
static const stk_callback_ops quiet_ops = {.struct_size = sizeof quiet_ops,
                                           .name = "event_log",
                                           .doc = "notes what the verdict wants",
                                           .create = watcher_create,
                                           .destroy = watcher_destroy,
                                           .on_train_start = on_train_start,
                                           .on_train_epoch_start = on_train_epoch_start,
                                           .roles = STK_ROLE_NO_METRICS};

static stk_status watcher_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err)
{
    watcher *made = stk__calloc(ctx, 1, sizeof *made);

    *out = (stk_callback *)made;
    if (!made)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the event log");
    stk_training_events *log = (stk_training_events *)options;
    made->base = (stk_callback){log->path ? &watcher_ops : &quiet_ops, ctx};
    made->log = log;
    return STK_OK;
}

/* ---- The run --------------------------------------------------------------------------------- */

static stk_status make(stk_trainer *trainer, const stk_training_events_options *o,
                       stk_training_events **out, stk_error *err)
{
    stk_context *ctx = stk_trainer_context(trainer);
    stk_training_events *log = stk__calloc(ctx, 1, sizeof *log);

    *out = log;
    if (!log)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the event log");
    log->context = stk__context_ref(ctx);
    log->watched = trainer;
    log->run_ns = o->begin_ns ? o->begin_ns : stk__now_ns();
    log->path = o->path ? stk__strdup(ctx, o->path) : NULL;
    if (o->path && !log->path)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the event log");
    return STK_OK;
}

static stk_status watch(stk_training_events *log, stk_error *err)
{
    return stk_trainer_add_callback(log->watched, log->path ? &watcher_ops : &quiet_ops, log, NULL,
                                    err);
}

stk_status stk__training_events_watch(stk_trainer *trainer,
                                      const stk_training_events_options *options,
                                      stk_training_events **out, stk_error *err)
{
    stk_status status = make(trainer, options, out, err);

    if (status == STK_OK)
        status = watch(*out, err);
    if (status != STK_OK)
        stk_training_events_destroy(out);
    return status;
}

stk_status stk__training_events_begin(stk_training_events *l, const char *locals, const char *about,
                                      stk_error *err)
{
    stk__text more = {.ctx = l->context};
    stk_trainer_info info = {.struct_size = sizeof info};

    if (!l->path)
        return STK_OK;
    STK_TRY(stk_event_log_open(l->context, l->path, &l->log, err));
    if (about)
        stk__text_add(&more, "%s", about);
    else
        stk__text_add(&more, "\"locals\": {%s}, \"label\": \"train\"", locals ? locals : "");
    stk_trainer_get_info(l->watched, &info);
    l->ranks = info.world_size;
    stk__text_add(&more, ", \"rank\": %" PRIu64 ", \"world_size\": %" PRIu64, info.rank,
                  info.world_size);
    stk_event_log_write(l->log, "run start", NULL, l->run_ns, STK_NO_DURATION,
                        more.failed ? NULL : more.bytes);
    stk_event_log_write(l->log, "setup start", NULL, l->run_ns, STK_NO_DURATION, NULL);
    stk__text_release(&more);
    return STK_OK;
}

stk_status stk_training_events_create(stk_trainer *trainer,
                                      const stk_training_events_options *options,
                                      stk_training_events **out, stk_error *err)
{
    stk_training_events_options o = {.struct_size = sizeof o};

    *out = NULL;
    STK_TRY(stk__context_check(stk_trainer_context(trainer), err));
    if (options)
        STK_TRY(stk__sized_read(&o, sizeof o, options, "stk_training_events_options",
                                STK_STAGE_MEASURE, err));
    stk_status status = make(trainer, &o, out, err);
    if (status == STK_OK)
        status = stk__training_events_begin(*out, o.locals, NULL, err);
    /* Last: the trainer keeps what watches it. */
    if (status == STK_OK)
        status = watch(*out, err);
    if (status != STK_OK)
        stk_training_events_destroy(out);
    return status;
}

void stk__training_events_note(stk_training_events *l, const char *name, const char *members)
{
    if (l->log)
        stk_event_log_write(l->log, name, NULL, 0, STK_NO_DURATION, members);
}

/* The last epoch is over, and the training with it. */
static void end_training(stk_training_events *l)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    stk__usage usage;

    if (!l->trainer)
        return;
    end_epoch(l);
    stk__usage_get(&usage);
    const double own = stk__seconds(usage.cpu_ns - l->cpu_ns),
                 all = stk__seconds(usage.machine_busy_ns - l->machine_ns),
                 took = stk__seconds(stk__now_ns() - l->train_ns);
    if (all > own && took > 0)
        l->other_cores = (all - own) / took;
    if (!l->log)
        return;
    stk_trainer_get_times(l->trainer, &times);
    log_ledger(l, NULL, 0, &times);
}

static void add_figures(const stk_training_events *l, stk_figures *f)
{
    uint64_t epochs[EPOCHS], bytes[EPOCHS];
    const uint64_t n = STK_MIN(l->num_epochs, (uint64_t)EPOCHS);

    for (uint64_t i = 0; i < n; i++) {
        epochs[i] = l->epochs[(l->num_epochs - n + i) % EPOCHS];
        bytes[i] = l->bytes[(l->num_epochs - n + i) % EPOCHS];
    }
    f->leak_bytes_per_epoch = stk__memory_slope(epochs, bytes, n);
    f->io_threads = l->io_threads;
    f->other_cores = l->other_cores;
}

void stk_training_events_judge(stk_training_events *l, const stk_loader_source *train,
                               stk_figures *figures, stk_verdict *verdict)
{
    stk_figures f = {.struct_size = sizeof f};
    stk_verdict v = {.struct_size = sizeof v};

    if (stk__context_forked(l->context))
        return;
    end_training(l);
    stk__figures_of_trainer(l->watched, train, &f);
    add_figures(l, &f);
    stk_judge(&f, &v);
    stk__event_log_verdict(l->log, &f);
    if (figures)
        stk__sized_write(figures, &f);
    if (verdict)
        stk__sized_write(verdict, &v);
}

stk_status stk_training_events_end(stk_training_events *l, stk_error *err)
{
    STK_TRY(stk__context_check(l->context, err));
    if (!l->log)
        return STK_OK;
    stk_event_log_write(l->log, "run end", NULL, 0, stk__now_ns() - l->run_ns, NULL);
    return stk_event_log_close(&l->log, err);
}

void stk_training_events_destroy(stk_training_events **log)
{
    stk_training_events *l = log ? *log : NULL;

    if (!l)
        return;
    *log = NULL;
    stk_context *ctx = l->context;
    if (stk__context_forked(ctx))
        return;
    stk_error err;
    /* One that was not ended has told its failure. */
    if (stk_event_log_close(&l->log, &err) != STK_OK)
        stk__message(ctx, STK_MESSAGE_WARNING, "%s", err.text);
    stk__free(ctx, l->path);
    stk__free(ctx, l);
    stk__context_unref(ctx);
}
