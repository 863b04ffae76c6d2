/* SPDX-License-Identifier: Apache-2.0 */
/* One training batch: what Lightning's closure does, in its order. */
#include "train/trainer.h"

static stk_status zero_grad(stk_trainer *t, stk_error *err)
{
    STK_TRY(stk__hook(t, STK__HOOK_on_before_zero_grad, err));
    stk__count(&t->progress.zero_grads, STK__READY, 1);
    stk__count(&t->progress.zero_grads, STK__STARTED, 1);
    stk__action(t, STK__STRATEGY, "optimizer_zero_grad");
    stk_status status = stk__zero_grad(t, err);
    stk__action_end(t, STK__STRATEGY, "optimizer_zero_grad");
    STK_TRY(status);
    stk__count(&t->progress.zero_grads, STK__COMPLETED, 1);
    t->loop.window_open = true;
    return STK_OK;
}

/* Forward, loss, gradients, and what precedes the optimizer's step. */
static stk_status closure(stk_trainer *t, stk_error *err)
{
    double loss, rows, share;
    bool bad;

    t->loss = (stk_loss){0};
    STK_TRY(stk__shards_step(t, err));
    stk__action(t, STK__STRATEGY, "training_step");
    stk_status status = t->ops.training_step(t->module, t, &t->at, &t->loss, err);
    stk__action_end(t, STK__STRATEGY, "training_step");
    STK_TRY(stk__shards_passed(t, false, status, err));
    t->at.loss = &t->loss;
    STK_TRY(stk__loss_look(t, &loss, &rows, &bad, err));
    /* A rank without rows takes part in the step of the others, with gradients of zero. */
    const bool idle = t->loss.skip;
    bad &= !idle;
    STK_TRY(stk__agree_batch(t, rows, &t->loss.skip, &bad, &share, err));
    if (t->loss.skip)
        return STK_OK;
    if (bad) {
        STK_TRY(stk__nan_met(t, loss, &t->loss.skip, err));
        if (t->loss.skip)
            return STK_OK;
    } else {
        t->bad_batches = 0;
    }
    if (!t->loop.window_open)
        STK_TRY(zero_grad(t, err));
    STK_TRY(stk__hook(t, STK__HOOK_on_before_backward, err));
    STK_TRY(stk__gradients_begin(t, t->loss.together, err));
    stk__action(t, STK__STRATEGY, "backward");
    if (!idle || t->loss.together)
        status = t->ops.backward(t->module, &t->loss, idle ? 0 : share / (double)t->loop.accumulate,
                                 err);
    stk__action_end(t, STK__STRATEGY, "backward");
    STK_TRY(stk__shards_passed(t, true, status, err));
    STK_TRY(stk__hook(t, STK__HOOK_on_after_backward, err));
    if (t->options.detect_anomaly)
        STK_TRY(stk__find_not_finite(t, STK_STATE_GRADIENT, "after the backward pass of", err));
    return STK_OK;
}

/* What the other ranks have stepped. */
static stk_status gather(stk_trainer *t, stk_error *err)
{
    const uint64_t from = stk__now_ns();

    if (!t->ranks.shards.stage || t->ranks.shards.parted)
        return STK_OK;
    const stk_status status = stk__shards_gather(t, err);
    t->ledger.comm_ns += stk__now_ns() - from;
    return status;
}

static stk_status optimizer_step(stk_trainer *t, stk_error *err)
{
    stk_progress *p = &t->progress.optimizer_steps;
    const uint64_t from = stk__now_ns();

    STK_TRY(stk__reduce_gradients(t, true, err));
    if (!stk__is_alone(t))
        t->ledger.comm_ns += stk__now_ns() - from;
    STK_TRY(stk__hook(t, STK__HOOK_on_before_optimizer_step, err));
    STK_TRY(stk__clip(t, err));
    stk__count(p, STK__READY, 1);
    stk__count(p, STK__STARTED, 1);
    stk__action(t, STK__STRATEGY, "optimizer_step");
    stk_status status = t->ops.optimizer_step(t->module, &t->at, err);
    stk__action_end(t, STK__STRATEGY, "optimizer_step");
    STK_TRY(status);
    STK_TRY(gather(t, err));
    stk__count(p, STK__PROCESSED, 1);
    stk__count(p, STK__COMPLETED, 1);
    t->loop.window_open = false;
    t->ranks.shards.scatters = false;
    t->at.global_step = ++t->loop.global_step;
    if (t->options.detect_anomaly)
        STK_TRY(stk__find_not_finite(t, STK_STATE_PARAMETER, "after the step of", err));
    return stk__schedule(t, true, false, err);
}

/* The hooks around a copy to the device; on the processor there is nothing to copy. */
static stk_status transfer(stk_trainer *t, stk_error *err)
{
    if (!(t->hooks.rows[STK__HOOK_on_before_batch_transfer].n |
          t->hooks.rows[STK__HOOK_transfer_batch_to_device].n |
          t->hooks.rows[STK__HOOK_on_after_batch_transfer].n))
        return STK_OK;
    STK_TRY(stk__hook(t, STK__HOOK_on_before_batch_transfer, err));
    STK_TRY(stk__hook(t, STK__HOOK_transfer_batch_to_device, err));
    STK_TRY(stk__hook(t, STK__HOOK_on_after_batch_transfer, err));
    stk__ledger_mark(&t->ledger, STK__PART_TRANSFER);
    return STK_OK;
}

stk_status stk__train_batch(stk_trainer *t, stk_batch *batch, bool *skip_epoch, stk_error *err)
{
    stk_progress *p = &t->progress.train_batches;
    stk__loop *loop = &t->loop;
    const uint64_t ready = loop->done + 1;

    t->at.batch = batch;
    t->at.batch_idx = loop->done;
    t->at.total_batch = loop->total_done;
    t->at.global_step = loop->global_step;
    t->at.log_step = loop->stepped;
    t->at.accumulate = loop->accumulate;
    t->at.last_batch = ready >= t->train.feeds[0].batches;
    t->at.steps = t->at.last_batch || ready % loop->accumulate == 0;
    t->at.loss = NULL;
    STK_TRY(transfer(t, err));
    stk__count(p, STK__READY, 1);
    stk_status status = stk__hook(t, STK__HOOK_on_train_batch_start, err);
    if (status < 0)
        return status;
    double end = status == STK_EOS;
    if (t->ranks.may_skip)
        STK_TRY(stk__reduce(t, &end, 1, STK_COMBINE_MAX, err));
    *skip_epoch = end > 0;
    if (*skip_epoch) {
        stk__count(p, STK__PROCESSED, 1);
        return STK_OK;
    }
    stk__count(p, STK__STARTED, 1);
    if (t->hooks.rows[STK__HOOK_on_train_batch_start].n)
        stk__ledger_mark(&t->ledger, STK__PART_CALLBACKS);
    STK_TRY(closure(t, err));
    if (t->at.steps && loop->window_open) {
        const uint64_t from = stk__accumulates(t) ? stk__now_ns() : 0;
        STK_TRY(optimizer_step(t, err));
        if (from) {
            t->ledger.optimizer_ns += stk__now_ns() - from;
            t->ledger.optimizer_steps++;
        }
    }
    if (t->at.last_batch)
        STK_TRY(stk__schedule(t, false, false, err));
    stk__count(p, STK__PROCESSED, 1);
    stk__ledger_mark(&t->ledger, STK__PART_STEP);

    /* From here on the batch is part of what a checkpoint holds. */
    stk_batch_get_state(batch, &t->loader_state);
    t->ledger.steps++;
    t->ledger.samples += stk_batch_count(batch);
    loop->done++;
    loop->total_done++;
    loop->point = STK__POINT_STEPPED;
    if (t->hooks.rows[STK__HOOK_on_train_batch_end].n) {
        STK_TRY(stk__hook(t, STK__HOOK_on_train_batch_end, err));
        stk__ledger_mark(&t->ledger, STK__PART_CALLBACKS);
    }
    return STK_OK;
}
