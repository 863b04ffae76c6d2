/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole training as one run of a plan. A callback behind all others times the epochs and adds up
 * the losses that the steps were made with; accuracy is that of what the training came to, by the
 * rule of `stoker train`: the best checkpoint where a metric chooses one, else the last weights.
 */
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/sized.h"
#include "recipe/recipe.h"

typedef struct stk__recipe_watch {
    stk_training_events *log;
    stk_bench_training training;
    uint64_t epoch_ns; /* begin of the epoch at work; 0: none */
    double loss, rows; /* of it: sum over rows, and their number */
    double seconds;    /* of the epochs before */
} stk__recipe_watch;

typedef struct watcher {
    stk_callback base; /* first */
    stk__recipe_watch watch;
} watcher;

/* ---- Epochs ---------------------------------------------------------------------------------- */

static void end_epoch(stk__recipe_watch *w)
{
    stk_bench_training *t = &w->training;
    const uint64_t now = stk__now_ns(), i = t->epochs;
    const double loss = w->rows > 0 ? w->loss / w->rows : NAN;
    char number[32], members[48];

    if (!w->epoch_ns)
        return;
    w->seconds += stk__seconds(now - w->epoch_ns);
    t->epoch_mean = w->seconds / (double)(i + 1);
    t->last_loss = loss;
    if (i < STK_BENCH_EPOCHS) {
        t->epoch_seconds[i] = stk__seconds(now - w->epoch_ns);
        t->loss[i] = loss;
    }
    stk_number_format(loss, number);
    snprintf(members, sizeof members, "\"loss\": %s", number);
    stk__training_events_note(w->log, "training epoch", members);
    t->epochs++;
    w->epoch_ns = 0;
    w->loss = w->rows = 0;
}

static stk_status on_train_epoch_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    stk__recipe_watch *w = &((watcher *)self)->watch;

    (void)t, (void)at, (void)err;
    end_epoch(w);
    w->epoch_ns = stk__now_ns();
    return STK_OK;
}

static stk_status on_train_batch_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    stk__recipe_watch *w = &((watcher *)self)->watch;

    if (!at->loss || at->loss->skip)
        return STK_OK;
    const stk_scalar *scalar = &at->loss->value;
    double loss, rows = at->batch ? (double)stk_batch_count(at->batch) : 0;
    STK_TRY(stk_trainer_read_scalar(t, scalar, &loss, &rows, err));
    if (rows > 0) {
        w->loss += loss * rows;
        w->rows += rows;
    }
    return STK_OK;
}

static stk_status watcher_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err);

static void watcher_destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

static const stk_callback_ops watcher_ops = {.struct_size = sizeof watcher_ops,
                                             .name = "epochs",
                                             .doc = "times epochs and adds up losses",
                                             .create = watcher_create,
                                             .destroy = watcher_destroy,
                                             .on_train_epoch_start = on_train_epoch_start,
                                             .on_train_batch_end = on_train_batch_end,
                                             .roles = STK_ROLE_NO_METRICS};

static stk_status watcher_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err)
{
    watcher *made = stk__calloc(ctx, 1, sizeof *made);

    (void)options;
    *out = (stk_callback *)made;
    if (!made)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the figures");
    made->base = (stk_callback){&watcher_ops, ctx};
    return STK_OK;
}

/* ---- What it came to ------------------------------------------------------------------------- */

static void take_metrics(stk_recipe *r, const char *accuracy, const char *loss,
                         stk_bench_training *t)
{
    t->accuracy = t->evaluated_loss = NAN;
    (void)stk_trainer_metric(r->trainer, accuracy, &t->accuracy);
    (void)stk_trainer_metric(r->trainer, loss, &t->evaluated_loss);
}

stk_status stk_recipe_test(stk_recipe *recipe, stk_recipe_tested *out, stk_error *err)
{
    stk_recipe_tested tested = {.struct_size = sizeof tested};
    stk_recipe_parts parts = {.struct_size = sizeof parts};
    double score;

    STK_TRY(stk__context_check(recipe->context, err));
    STK_TRY(stk__sized_check(out, "stk_recipe_tested", STK_STAGE_TRAIN, err));
    stk_recipe_get_parts(recipe, &parts);
    tested.best = stk_trainer_best_model_score(recipe->trainer, &score);
    tested.test = recipe->data.num_test > 0;
    const bool validates = tested.best || stk_trainer_is_ahead(recipe->trainer);
    tested.again = tested.test || (validates && recipe->data.num_val);
    tested.path = tested.best ? stk_trainer_best_model_path(recipe->trainer)
                              : stk_trainer_present_model_path(recipe->trainer);
    const char *path = tested.best ? "best" : NULL;
    stk_status status = STK_OK;
    if (tested.test)
        status = stk_trainer_test(recipe->trainer, parts.module, &recipe->data, path, err);
    else if (tested.again)
        status = stk_trainer_validate(recipe->trainer, parts.module, &recipe->data, path, err);
    stk__sized_write(out, &tested);
    return status;
}

static stk_status evaluate(stk_recipe *r, stk_bench_training *t, stk_error *err)
{
    stk_recipe_tested tested = {.struct_size = sizeof tested};

    take_metrics(r, "val_acc", "val_loss", t);
    const stk_status status = stk_recipe_test(r, &tested, err);
    t->tested = tested.test;
    if (status == STK_OK && tested.again)
        take_metrics(r, tested.test ? "test_acc" : "val_acc",
                     tested.test ? "test_loss" : "val_loss", t);
    return status;
}

static void take_training(stk_recipe *r, stk__recipe_watch *w, stk_bench_result *result,
                          stk_figures *figures)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    stk_cores cores = {.struct_size = sizeof cores};
    struct rusage usage = {0};

    end_epoch(w);
    stk_trainer_get_times(r->trainer, &times);
    stk_context_cores(r->context, &cores);
    w->training.seconds = stk__seconds(times.wall);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        w->training.peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    stk_training_events_judge(r->log, &r->train, figures, NULL);
    result->epochs = w->training.epochs;
    result->delivered = result->events = times.samples;
    result->other_cores = figures->other_cores;
    result->cores_online = cores.online;
    result->cores_preparation = cores.preparation;
    result->log_written = r->options.log != NULL;
}

/* For the report. */
static void log_trained(const stk_recipe *r, const stk_bench_training *t)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"seconds", t->seconds},
               {"loss", t->last_loss},
               {"accuracy", t->accuracy},
               {"evaluated_loss", t->evaluated_loss},
               {"peak_bytes", (double)t->peak_bytes}};
    char line[512], number[32];
    size_t used =
        (size_t)snprintf(line, sizeof line, "\"tested\": %s", t->tested ? "true" : "false");

    for (size_t i = 0; i < STK_COUNT(all); i++) {
        stk_number_format(all[i].value, number);
        used +=
            (size_t)snprintf(line + used, sizeof line - used, ", \"%s\": %s", all[i].name, number);
    }
    stk__training_events_note(r->log, "trained", line);
}

static stk_status measure(stk_recipe *r, stk_bench_result *result, stk_figures *figures)
{
    stk_error *err = &result->error;
    stk_recipe_parts parts = {.struct_size = sizeof parts};
    stk_callback *callback;

    stk_recipe_get_parts(r, &parts);
    STK_TRY(stk_trainer_add_callback(r->trainer, &watcher_ops, NULL, &callback, err));
    stk__recipe_watch *w = &((watcher *)callback)->watch;
    w->log = r->log;
    w->training.accuracy = w->training.evaluated_loss = NAN;
    w->training.epoch_mean = w->training.last_loss = NAN;
    stk_status status = stk_trainer_fit(r->trainer, parts.module, &r->data, parts.ckpt_path, err);
    take_training(r, w, result, figures);
    result->interrupted = status == STK_ECANCELED;
    if (status == STK_OK && !stk_trainer_get_options(r->trainer)->barebones)
        status = evaluate(r, &w->training, err);
    /* A part of a training has a time that compares with none. */
    if (status == STK_OK)
        log_trained(r, &w->training);
    if (stk_training_events_end(r->log, status == STK_OK ? err : NULL) != STK_OK)
        result->log_failed = true;
    result->training = w->training;
    return status;
}

stk_status stk_recipe_measure(stk_recipe *recipe, stk_bench_result *out, stk_figures *figures,
                              stk_error *err)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures f = {.struct_size = sizeof f};

    STK_TRY(stk__context_check(recipe->context, err));
    STK_TRY(stk__sized_check(out, "stk_bench_result", STK_STAGE_MEASURE, err));
    STK_TRY(stk__sized_check(figures, "stk_figures", STK_STAGE_MEASURE, err));
    if (!recipe->log)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "the recipe is not for a training; its tasks need STK_RECIPE_FIT");
    stk_error_init(&result.error);
    result.status = measure(recipe, &result, &f);
    if (result.status != STK_OK && err)
        *err = result.error;
    stk__sized_write(out, &result);
    stk__sized_write(figures, &f);
    return result.status;
}
