/* SPDX-License-Identifier: Apache-2.0 */
/* Loops without training: validation, its sanity check, test, prediction. */
#include <inttypes.h>
#include <stdio.h>

#include "train/trainer.h"

/* The hooks of a loop; validation's serve the sanity check too. */
typedef struct loop_hooks {
    const char *name;        /* "validation" */
    const char *step, *next; /* what a profiler calls them */
    enum stk__hook_id model_eval, model_train, start, end, epoch_start, epoch_end, batch_start,
        batch_end;
} loop_hooks;

#define HOOKS(what, loop)                                                                          \
    {                                                                                              \
        .name = #what, .step = #what "_step", .next = loop,                                        \
        .model_eval = STK__HOOK_on_##what##_model_eval,                                            \
        .model_train = STK__HOOK_on_##what##_model_train, .start = STK__HOOK_on_##what##_start,    \
        .end = STK__HOOK_on_##what##_end, .epoch_start = STK__HOOK_on_##what##_epoch_start,        \
        .epoch_end = STK__HOOK_on_##what##_epoch_end,                                              \
        .batch_start = STK__HOOK_on_##what##_batch_start,                                          \
        .batch_end = STK__HOOK_on_##what##_batch_end                                               \
    }

static const loop_hooks *hooks_of(stk_phase phase)
{
    static const loop_hooks validation = HOOKS(validation, "[_EvaluationLoop].val_next"),
                            test = HOOKS(test, "[_EvaluationLoop].test_next"),
                            predict = HOOKS(predict, "[_PredictionLoop].predict_next");

    return phase == STK_PHASE_TEST ? &test : phase == STK_PHASE_PREDICT ? &predict : &validation;
}

static stk_progress *progress_of(stk_trainer *t, stk_phase phase)
{
    return phase == STK_PHASE_TEST      ? &t->progress.test_batches
           : phase == STK_PHASE_PREDICT ? &t->progress.predict_batches
                                        : &t->progress.val_batches;
}

static stk_status run_step(stk_trainer *t, stk_phase phase, stk_tensor *prediction, stk_error *err)
{
    if (phase == STK_PHASE_PREDICT) {
        STK_TRY(t->ops.predict_step(t->module, t, &t->at, prediction, err));
        t->at.prediction = prediction;
        return STK_OK;
    }
    return (phase == STK_PHASE_TEST ? t->ops.test_step : t->ops.validation_step)(t->module, t,
                                                                                 &t->at, err);
}

static stk_status one_batch(stk_trainer *t, stk_phase phase, const loop_hooks *hooks,
                            stk_error *err)
{
    stk_progress *p = progress_of(t, phase);
    stk_tensor prediction = {.struct_size = sizeof prediction};

    STK_TRY(stk__hook(t, STK__HOOK_on_before_batch_transfer, err));
    STK_TRY(stk__hook(t, STK__HOOK_transfer_batch_to_device, err));
    STK_TRY(stk__hook(t, STK__HOOK_on_after_batch_transfer, err));
    stk__count(p, STK__READY, 1);
    STK_TRY(stk__hook(t, hooks->batch_start, err));
    stk__count(p, STK__STARTED, 1);
    stk__action(t, STK__STRATEGY, hooks->step);
    stk_status status = run_step(t, phase, &prediction, err);
    stk__action_end(t, STK__STRATEGY, hooks->step);
    STK_TRY(status);
    stk__count(p, STK__PROCESSED, 1);
    stk__ledger_mark(&t->ledger, STK__PART_STEP);
    STK_TRY(stk__hook(t, hooks->batch_end, err));
    stk__count(p, STK__COMPLETED, 1);
    t->at.prediction = NULL;
    return STK_OK;
}

static uint64_t batches_of(const stk_trainer *t, stk_phase phase, const stk__feed *feed)
{
    const int64_t sanity = t->settings.num_sanity_val_steps;

    return phase == STK_PHASE_SANITY && sanity >= 0 ? STK_MIN((uint64_t)sanity, feed->batches)
                                                    : feed->batches;
}

static stk_status one_loader(stk_trainer *t, stk_phase phase, stk__feed *feed,
                             const loop_hooks *hooks, stk_error *err)
{
    const uint64_t batches = batches_of(t, phase, feed);
    const bool validates = phase == STK_PHASE_VALIDATE && t->at.task == STK_TASK_FIT;
    stk_status status = STK_OK;

    stk__show_begin(t, phase, 0, batches);
    STK_TRY(stk__agree(t, err));
    STK_TRY(stk_loader_set_epoch(feed->loader, validates ? t->loop.val_runs : 0, err));
    for (uint64_t i = 0; i < batches && status == STK_OK; i++) {
        stk_batch *batch = NULL;
        if (stk__stop_asked(t))
            return stk__fail(err, STK_ECANCELED, STK_STAGE_TRAIN, "stopped in %s", hooks->name);
        stk__ledger_mark(&t->ledger, STK__PART_OTHER);
        stk__action(t, "", hooks->next);
        status = stk__feed_next(t, feed, &batch, err);
        stk__action_end(t, "", hooks->next);
        STK_TRY(status);
        stk__ledger_mark(&t->ledger, STK__PART_DATA_WAIT);
        t->at.batch = batch;
        t->at.batch_idx = i;
        t->at.last_batch = i + 1 == batches;
        status = one_batch(t, phase, hooks, err);
        t->ledger.samples += t->at.task == STK_TASK_FIT ? 0 : stk_batch_count(batch);
        t->at.batch = NULL;
        stk_batch_release(&batch);
        stk__show_done(t, phase, i + 1);
    }
    return status;
}

/* Lightning's table of results. */
static void print_results(stk_trainer *t, stk_phase phase)
{
    enum { WIDTH = 25 };
    char dashes[3 * 2 * WIDTH + 1] = "";
    const char *what = phase == STK_PHASE_TEST ? "Test metric" : "Validate metric";
    stk_metric metric;

    for (int i = 0; i < 2 * WIDTH; i++)
        memcpy(dashes + 3 * i, "\xe2\x94\x80", 4); /* U+2500 */
    stk__say(t, "%s", dashes);
    stk__say(t, "%*s%*s", (WIDTH + (int)strlen(what)) / 2, what,
             WIDTH - (WIDTH + (int)strlen(what)) / 2 + (WIDTH + 12) / 2, "DataLoader 0");
    stk__say(t, "%s", dashes);
    for (size_t i = 0; stk_trainer_metric_at(t, i, &metric); i++) {
        char value[40];
        snprintf(value, sizeof value, "%.12g", metric.value);
        stk__say(t, "%*s%*s", (WIDTH + (int)strlen(metric.name)) / 2, metric.name,
                 WIDTH - (WIDTH + (int)strlen(metric.name)) / 2 + (WIDTH + (int)strlen(value)) / 2,
                 value);
    }
    stk__say(t, "%s", dashes);
}

static stk_status all_loaders(stk_trainer *t, stk_phase phase, const loop_hooks *hooks,
                              stk_error *err)
{
    stk__feeds *feeds = stk__feeds_of(t, phase);
    stk_status status = STK_OK;
    stk_error own;

    t->may_log = phase != STK_PHASE_PREDICT;
    STK_TRY(stk__hook(t, hooks->start, err));
    STK_TRY(stk__hook(t, hooks->epoch_start, err));
    /* Every rank has learnt running statistics, or means of them, of its own rows: those of rank 0
     * count. */
    if (t->at.task == STK_TASK_FIT)
        STK_TRY(stk__share_state(t, STK_STATE_BUFFER, err));
    status = stk__shards_hold(t, err);
    for (uint32_t i = 0; i < feeds->n && status == STK_OK; i++) {
        t->at.dataloader_idx = i;
        status = one_loader(t, phase, &feeds->feeds[i], hooks, err);
    }
    t->at.dataloader_idx = 0;
    stk_error_init(&own);
    return stk__first_failure(status, stk__shards_let_go(t, &own), &own, err);
}

static stk_status finish(stk_trainer *t, stk_phase phase, const loop_hooks *hooks, stk_error *err)
{
    const stk__metric_group group = phase == STK_PHASE_TEST ? STK__METRICS_TEST : STK__METRICS_VAL;
    const bool logs = phase == STK_PHASE_VALIDATE || phase == STK_PHASE_TEST;

    if (phase != STK_PHASE_PREDICT)
        STK_TRY(stk__metrics_publish(t, group, err));
    t->epoch_hook = true;
    stk_status status = stk__hook(t, hooks->epoch_end, err);
    if (status == STK_OK && logs)
        status = stk__metrics_flush(t, group, (int64_t)t->loop.stepped, err);
    if (status == STK_OK && phase == STK_PHASE_VALIDATE && t->at.task == STK_TASK_FIT) {
        t->loop.val_runs++;
        t->loop.point = STK__POINT_VALIDATED;
    }
    if (status == STK_OK)
        status = stk__hook(t, hooks->end, err);
    t->epoch_hook = false;
    return status;
}

stk_status stk__evaluate(stk_trainer *t, stk_phase phase, stk_error *err)
{
    const loop_hooks *hooks = hooks_of(phase);
    const bool in_fit = t->at.task == STK_TASK_FIT, may_log = t->may_log;

    t->at.phase = phase;
    progress_of(t, phase)->current = (stk_progress_count){0};
    if (t->ops.train)
        t->ops.train(t->module, false);
    STK_TRY(stk__hook(t, hooks->model_eval, err));
    if (phase != STK_PHASE_PREDICT)
        stk__metrics_reset(t, phase == STK_PHASE_TEST ? STK__METRICS_TEST : STK__METRICS_VAL,
                           false);
    STK_TRY(all_loaders(t, phase, hooks, err));
    STK_TRY(finish(t, phase, hooks, err));
    if (t->ops.train)
        t->ops.train(t->module, true);
    STK_TRY(stk__hook(t, hooks->model_train, err));
    t->may_log = may_log;
    if (!in_fit && phase != STK_PHASE_PREDICT && t->settings.progress_bar)
        print_results(t, phase);
    return STK_OK;
}
