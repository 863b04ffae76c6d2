/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event log of a training: the names and fields of `stoker bench`, so that `stoker report`
 * reads both. A callback that stands before all others takes the times of the trainer's ledger at
 * the end of each step; nothing is timed a second time.
 *
 * An epoch ends where the next begins, or the training: its checkpoint is part of it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

#define NS   1e-9
#define LINE 4096

/* Epochs whose memory is kept: of more, the last ones. */
#define EPOCHS 512

struct train_log {
    stk_log *log;                                       /* NULL: none is written */
    uint64_t run_ns, epoch_ns, evaluation_ns, saved_ns; /* begin of what is at work; 0: nothing */
    uint64_t epoch, ready;
    uint32_t io_threads;
    uint64_t train_ns, cpu_ns, machine_ns; /* when the first epoch began: CPU time so far */
    double other_cores;
    stk_trainer *trainer;         /* while it is at work */
    stk_trainer_times step, from; /* at the end of the last step; at the begin of the epoch */
    uint64_t epochs[EPOCHS], bytes[EPOCHS], num_epochs;
};

struct watcher {
    stk_callback base; /* first */
    struct train_log *log;
};

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
    stk_waits_subtract(&now->waits, &then->waits);
}

static void log_ledger(struct train_log *l, const char *first, uint64_t now_ns,
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
    char line[LINE], waits[1024], number[32];
    size_t used = (size_t)snprintf(line, sizeof line, "\"parts\": {");

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        stk_number_format(NS * (double)parts[i].ns, number);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s\"%s\": %s", i ? ", " : "",
                                 parts[i].name, number);
    }
    stk_waits_format(&t->waits, waits, sizeof waits);
    snprintf(line + used, sizeof line - used, "}, \"wait\": {%s}", waits);
    stk_log_event(l->log, "ledger", first, now_ns, t->wall, line);
}

/* A checkpoint is told once its time is known: at the next look at the times. */
static void log_saved(struct train_log *l, const stk_trainer_times *now)
{
    const uint64_t took = now->checkpoint - l->step.checkpoint;

    if (l->saved_ns && took)
        stk_log_event(l->log, "checkpoint end", NULL, l->saved_ns, took, NULL);
    l->saved_ns = 0;
}

static void end_epoch(struct train_log *l)
{
    const uint64_t now = cli_now_ns();
    stk_trainer_times times = {.struct_size = sizeof times};
    stk_usage usage = {.struct_size = sizeof usage};
    char first[48];

    if (!l->epoch_ns)
        return;
    const uint64_t took = now - l->epoch_ns;
    l->epoch_ns = 0;
    l->epochs[l->num_epochs % EPOCHS] = l->epoch;
    stk_usage_get(&usage);
    l->bytes[l->num_epochs % EPOCHS] = usage.memory_bytes;
    l->io_threads = usage.io_threads;
    l->num_epochs++;
    if (!l->log)
        return;
    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, l->epoch);
    stk_log_event(l->log, "epoch end", first, now, took, NULL);
    stk_trainer_get_times(l->trainer, &times);
    log_saved(l, &times);
    subtract(&times, &l->from);
    log_ledger(l, first, now, &times);
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

static struct train_log *log_of(stk_callback *self)
{
    return ((struct watcher *)self)->log;
}

static stk_status on_train_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    struct train_log *l = log_of(self);
    stk_usage usage = {.struct_size = sizeof usage};

    (void)at, (void)err;
    l->trainer = t;
    l->step.struct_size = l->from.struct_size = sizeof l->step;
    l->train_ns = cli_now_ns();
    stk_usage_get(&usage);
    l->cpu_ns = usage.cpu_ns;
    l->machine_ns = usage.machine_busy_ns;
    stk_trainer_get_times(t, &l->step);
    stk_log_event(l->log, "setup end", NULL, 0, cli_now_ns() - l->run_ns, NULL);
    return STK_OK;
}

static stk_status on_train_epoch_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    struct train_log *l = log_of(self);
    char first[48];

    (void)err;
    end_epoch(l);
    l->epoch = at->epoch;
    l->epoch_ns = cli_now_ns();
    if (!l->log)
        return STK_OK;
    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, at->epoch);
    stk_log_event(l->log, "epoch start", first, l->epoch_ns, STK_NO_DURATION, NULL);
    stk_trainer_get_times(t, &l->from);
    return STK_OK;
}

static stk_status on_train_batch_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    struct train_log *l = log_of(self);
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
    struct train_log *l = log_of(self);
    stk_trainer_times times = {.struct_size = sizeof times}, part = {.struct_size = sizeof part};
    char first[48], more[128], wait[32];

    (void)err;
    if (!l->log)
        return STK_OK;
    const uint64_t now = cli_now_ns();
    stk_trainer_get_times(t, &times);
    log_saved(l, &times);
    part = times;
    subtract(&part, &l->step);
    l->step = times;
    stk_number_format(NS * (double)part.data_wait, wait);
    snprintf(first, sizeof first, "\"batch\": %" PRIu64, at->batch_idx);
    snprintf(more, sizeof more, "\"epoch\": %" PRIu64 ", \"ready\": %" PRIu64 ", \"wait\": %s",
             at->epoch, l->ready, wait);
    stk_log_event(l->log, "training start", first, now - part.step, STK_NO_DURATION, more);
    snprintf(more, sizeof more, "\"epoch\": %" PRIu64, at->epoch);
    stk_log_event(l->log, "training end", first, now, part.step, more);
    return STK_OK;
}

static void begin_evaluation(struct train_log *l, const char *name)
{
    l->evaluation_ns = cli_now_ns();
    stk_log_event(l->log, name, NULL, l->evaluation_ns, STK_NO_DURATION, NULL);
}

static void end_evaluation(struct train_log *l, const char *name)
{
    const uint64_t now = cli_now_ns();

    if (l->evaluation_ns)
        stk_log_event(l->log, name, NULL, now, now - l->evaluation_ns, NULL);
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

static stk_status on_save_checkpoint(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    (void)t, (void)at, (void)err;
    log_of(self)->saved_ns = cli_now_ns();
    return STK_OK;
}

static stk_status watcher_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err);

static void watcher_destroy(stk_callback *callback)
{
    free(callback);
}

static const stk_callback_ops watcher_ops = {.struct_size = sizeof watcher_ops,
                                             .name = "event_log",
                                             .doc = "writes the event log",
                                             .create = watcher_create,
                                             .destroy = watcher_destroy,
                                             .on_train_start = on_train_start,
                                             .on_train_epoch_start = on_train_epoch_start,
                                             .on_train_batch_start = on_train_batch_start,
                                             .on_train_batch_end = on_train_batch_end,
                                             .on_validation_start = on_validation_start,
                                             .on_validation_end = on_validation_end,
                                             .on_sanity_check_start = on_sanity_check_start,
                                             .on_sanity_check_end = on_sanity_check_end,
                                             .on_save_checkpoint = on_save_checkpoint};

static stk_status watcher_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err)
{
    struct watcher *watcher = calloc(1, sizeof *watcher);

    *out = (stk_callback *)watcher;
    if (!watcher) {
        stk_error_init(err);
        err->status = STK_ENOMEM;
        snprintf(err->text, sizeof err->text, "no memory for the event log");
        return STK_ENOMEM;
    }
    watcher->base = (stk_callback){&watcher_ops, ctx};
    watcher->log = (struct train_log *)options;
    return STK_OK;
}

/* ---- The run --------------------------------------------------------------------------------- */

struct train_log *train_log_create(void)
{
    struct train_log *l = calloc(1, sizeof *l);

    if (l)
        l->run_ns = cli_now_ns();
    return l;
}

static bool writes(const struct cli *cli)
{
    return cli->log && strcmp(cli->log, "none") != 0;
}

int train_log_watch(struct train_log *log, struct cli *cli, stk_trainer *trainer)
{
    stk_callback_ops ops = watcher_ops;
    stk_error err;

    /* Without a log nobody is called for a step. */
    if (!writes(cli))
        ops.on_train_batch_start = ops.on_train_batch_end = NULL;
    stk_status status = stk_trainer_add_callback(trainer, &ops, log, NULL, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* All options, with the names of their sections: "loader.batch_size". */
static void put_locals(FILE *out, struct train_config *config, const char *spec)
{
    struct train_section sections[TRAIN_SECTIONS];

    train_sections(config, sections);
    fputs("\"locals\": {\"dataset\": ", out);
    cli_json_string(out, spec);
    for (size_t i = 0; i < TRAIN_SECTIONS; i++)
        for (size_t k = 0; k < sections[i].table->count; k++) {
            const stk_option_table *table = sections[i].table;
            fprintf(out, ", \"%s%s%s\": ", table->name, *table->name ? "." : "",
                    table->options[k].name);
            cli_json_option(out, &table->options[k], sections[i].options);
        }
    fputs("}", out);
}

int train_log_begin(struct train_log *l, struct cli *cli, stk_context *context,
                    struct train_config *config, const char *spec)
{
    char *more = NULL;
    size_t size;
    stk_error err;

    if (!writes(cli))
        return CLI_GO_ON;
    stk_status status = stk_log_open(context, cli->log, &l->log, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    FILE *text = open_memstream(&more, &size);
    if (text) {
        put_locals(text, config, spec);
        fputs(", \"rank\": 0, \"world_size\": 1, \"label\": ", text);
        cli_json_string(text, "train");
        fclose(text);
    }
    stk_log_event(l->log, "run start", NULL, l->run_ns, STK_NO_DURATION, more);
    stk_log_event(l->log, "setup start", NULL, l->run_ns, STK_NO_DURATION, NULL);
    free(more);
    return CLI_GO_ON;
}

void train_log_trained(struct train_log *l)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    stk_usage usage = {.struct_size = sizeof usage};

    if (!l->trainer)
        return;
    end_epoch(l);
    stk_usage_get(&usage);
    const double own = NS * (double)(usage.cpu_ns - l->cpu_ns),
                 all = NS * (double)(usage.machine_busy_ns - l->machine_ns),
                 took = NS * (double)(cli_now_ns() - l->train_ns);
    if (all > own && took > 0)
        l->other_cores = (all - own) / took;
    if (!l->log)
        return;
    stk_trainer_get_times(l->trainer, &times);
    log_ledger(l, NULL, 0, &times);
}

void train_log_task(struct train_log *l, const char *name, uint64_t begin_ns)
{
    const uint64_t now = cli_now_ns();

    stk_log_event(l->log, name, NULL, now, now - begin_ns, NULL);
}

void train_log_figures(const struct train_log *l, stk_figures *f)
{
    uint64_t epochs[EPOCHS], bytes[EPOCHS];
    const uint64_t n = l->num_epochs < EPOCHS ? l->num_epochs : EPOCHS;

    for (uint64_t i = 0; i < n; i++) {
        epochs[i] = l->epochs[(l->num_epochs - n + i) % EPOCHS];
        bytes[i] = l->bytes[(l->num_epochs - n + i) % EPOCHS];
    }
    f->leak_bytes_per_epoch = stk_memory_slope(epochs, bytes, n);
    f->io_threads = l->io_threads;
    f->other_cores = l->other_cores;
}

void train_log_judged(struct train_log *l, const stk_figures *figures)
{
    if (l->log)
        stk_log_verdict(l->log, figures);
}

int train_log_end(struct train_log *l)
{
    stk_error err;

    stk_log_event(l->log, "run end", NULL, 0, cli_now_ns() - l->run_ns, NULL);
    if (stk_log_close(&l->log, &err) == STK_OK)
        return CLI_GO_ON;
    cli_error("%s", err.text);
    return CLI_FAILED;
}

void train_log_free(struct train_log **log)
{
    stk_error err;

    /* One that was not ended has told its failure. */
    if (*log && stk_log_close(&(*log)->log, &err) != STK_OK)
        cli_warning("%s", err.text);
    free(*log);
    *log = NULL;
}
