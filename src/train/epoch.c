/* SPDX-License-Identifier: Apache-2.0 */
/* One epoch of training. A checkpoint may be made at several points in the life of a batch; the
 * loop can be entered at each of them. */
#include <inttypes.h>

#include "train/trainer.h"

bool stk__can_stop_early(const stk_trainer *t)
{
    return t->loop.epoch >= t->options.min_epochs && t->loop.global_step >= t->options.min_steps;
}

bool stk__steps_reached(const stk_trainer *t)
{
    const int64_t max = t->settings.max_steps;

    return max >= 0 && t->loop.global_step >= (uint64_t)max;
}

static bool validation_due(stk_trainer *t)
{
    const stk__settings *s = &t->settings;
    uint64_t batches = 0;

    for (uint32_t i = 0; i < t->val.n; i++)
        batches += t->val.feeds[i].batches;
    if (batches == 0)
        return false;
    if (s->check_val_every_n_epoch && (t->loop.epoch + 1) % s->check_val_every_n_epoch)
        return false;
    if (t->should_stop && stk__can_stop_early(t))
        return true;
    if (s->val_check_ns)
        return stk__is_alone(t) ? stk__now_ns() - t->val_last_ns >= s->val_check_ns
                                : t->ranks.val_due;
    return (s->check_val_every_n_epoch ? t->loop.done : t->loop.total_done) % t->val_check_batch ==
           0;
}

static stk_status log_step(stk_trainer *t, stk_error *err)
{
    const uint64_t every = t->options.log_every_n_steps;

    if (!stk__logs_lines(t) || !t->at.steps || every == 0 || (t->loop.stepped + 1) % every)
        return STK_OK;
    STK_TRY(stk__metrics_log_step(t, (int64_t)t->loop.stepped, err));
    stk__ledger_mark(&t->ledger, STK__PART_LOGGING);
    return STK_OK;
}

static stk_status validate(stk_trainer *t, stk_error *err)
{
    if (t->at.steps) {
        STK_TRY(stk__hook(t, STK__HOOK_zero_grad, err));
        STK_TRY(stk__hook(t, STK__HOOK_on_validation_model_zero_grad, err));
    }
    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    t->ledger.depth++;
    stk_status status = stk__evaluate(t, STK_PHASE_VALIDATE, err);
    stk__ledger_mark(&t->ledger, STK__PART_VALIDATION);
    t->ledger.depth--;
    t->validated = t->progress.train_batches.total.ready;
    t->val_last_ns = t->ledger.last_ns;
    t->at.phase = STK_PHASE_TRAIN;
    t->at.batch_idx = t->loop.done - 1;
    return status == STK_OK ? stk__agree(t, err) : status;
}

/* A batch whose step is done: its logging and validation. */
static stk_status after_step(stk_trainer *t, stk_error *err)
{
    STK_TRY(log_step(t, err));
    STK_TRY(stk__agree(t, err));
    if (validation_due(t))
        STK_TRY(validate(t, err));
    /* Not before: a validation that is stopped is done again. */
    stk__count(&t->progress.train_batches, STK__COMPLETED, 1);
    t->loop.point = STK__POINT_VALIDATED;
    return STK_OK;
}

static stk_status after_validation(stk_trainer *t, stk_error *err)
{
    if (t->at.steps) {
        STK_TRY(stk__schedule(t, true, true, err));
        t->at.log_step = ++t->loop.stepped;
    }
    t->loop.point = STK__POINT_NEXT;
    return STK_OK;
}

static stk_status next_batch(stk_trainer *t, bool *skip_epoch, stk_error *err)
{
    stk_batch *batch = NULL;

    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    stk__action(t, "", "[_TrainingEpochLoop].train_dataloader_next");
    stk_status status = stk__feed_next(t, &t->train.feeds[0], &batch, err);
    stk__action_end(t, "", "[_TrainingEpochLoop].train_dataloader_next");
    stk__ledger_mark(&t->ledger, STK__PART_DATA_WAIT);
    if (status != STK_OK)
        return status;
    stk__action(t, "", "run_training_batch");
    status = stk__train_batch(t, batch, skip_epoch, err);
    stk__action_end(t, "", "run_training_batch");
    if (status == STK_OK) {
        t->at.batch = NULL;
        t->at.loss = NULL;
        stk_batch_release(&batch);
        stk__show_done(t, STK_PHASE_TRAIN, t->loop.done);
        return STK_OK;
    }
    /* The hooks of the failure may still want to know the batch. */
    if (t->ledger.depth == 0)
        stk__ledger_mark(&t->ledger, STK__PART_STEP);
    t->at.batch = NULL;
    stk_batch_release(&batch);
    return status;
}

/* What a batch's `at` says, for a run that goes on behind its step. */
static void place_behind(stk_trainer *t)
{
    const stk__loop *loop = &t->loop;

    t->at.batch_idx = loop->done ? loop->done - 1 : 0;
    t->at.last_batch = loop->done >= t->train.feeds[0].batches;
    t->at.accumulate = loop->accumulate;
    t->at.steps = t->at.last_batch || loop->done % loop->accumulate == 0;
    t->at.global_step = loop->global_step;
    t->at.log_step = loop->stepped;
}

static stk_status one_batch(stk_trainer *t, bool *end, stk_error *err)
{
    stk__loop *loop = &t->loop;

    switch (loop->point) {
    case STK__POINT_NEXT:
        *end = loop->done >= t->train.feeds[0].batches;
        if (*end)
            return STK_OK;
        *end = loop->cut = stk__steps_reached(t) || (t->should_stop && stk__can_stop_early(t));
        if (*end)
            return STK_OK;
        if (stk__stop_asked(t) && !loop->window_open)
            return stk__fail(err, STK_ECANCELED, STK_STAGE_TRAIN, "stopped");
        return next_batch(t, end, err);
    case STK__POINT_STEPPED:
        return after_step(t, err);
    case STK__POINT_VALIDATED:
        return after_validation(t, err);
    default:
        *end = true;
        return STK_OK;
    }
}

stk_status stk__epoch_run(stk_trainer *t, stk_error *err)
{
    bool end = false;

    if (t->loop.point != STK__POINT_NEXT)
        place_behind(t);
    while (!end)
        STK_TRY(one_batch(t, &end, err));
    return STK_OK;
}
