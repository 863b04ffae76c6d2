/* SPDX-License-Identifier: Apache-2.0 */
/* Training from the sanity check to the last epoch. */
#include <inttypes.h>

#include "train/trainer.h"

static uint64_t batches_of(const stk__feeds *feeds)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < feeds->n; i++)
        sum += feeds->feeds[i].batches;
    return sum;
}

/* After how many batches to validate. */
static stk_status resolve_val_check(stk_trainer *t, stk_error *err)
{
    const stk__settings *s = &t->settings;
    const uint64_t batches = t->train.feeds[0].batches;

    if (s->val_check_ns)
        return STK_OK;
    if (s->val_check.fraction) {
        t->val_check_batch = STK_MAX((uint64_t)((double)batches * s->val_check.share), (uint64_t)1);
        return STK_OK;
    }
    t->val_check_batch = s->val_check.count;
    if (s->check_val_every_n_epoch && t->val_check_batch > batches)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "val_check_interval", STK_NO_OFFSET,
                            "trainer.val_check_interval: %" PRIu64 " is more than the %" PRIu64
                            " batches of an epoch; to count across epochs set "
                            "check_val_every_n_epoch to 0, to switch validation off "
                            "limit_val_batches",
                            t->val_check_batch, batches);
    return STK_OK;
}

static stk_status sanity_check(stk_trainer *t, stk_error *err)
{
    if (t->restart.restarted || t->settings.num_sanity_val_steps == 0 || batches_of(&t->val) == 0)
        return STK_OK;
    t->at.phase = STK_PHASE_SANITY;
    STK_TRY(stk__hook(t, STK__HOOK_on_sanity_check_start, err));
    STK_TRY(stk__hook(t, STK__HOOK_val_dataloader, err));
    t->ledger.depth++;
    stk_status status = stk__evaluate(t, STK_PHASE_SANITY, err);
    stk__ledger_mark(&t->ledger, STK__PART_VALIDATION);
    t->ledger.depth--;
    STK_TRY(status);
    STK_TRY(stk__hook(t, STK__HOOK_on_sanity_check_end, err));
    stk__metrics_reset(t, STK__METRICS_VAL, true);
    return STK_OK;
}

static bool epochs_reached(const stk_trainer *t)
{
    return t->settings.max_epochs >= 0 && t->loop.epoch >= (uint64_t)t->settings.max_epochs;
}

static bool done(stk_trainer *t)
{
    if (stk__steps_reached(t)) {
        stk__say(t, "`Trainer.fit` stopped: `max_steps=%" PRId64 "` reached.",
                 t->settings.max_steps);
        return true;
    }
    if (epochs_reached(t)) {
        stk__say(t, "`Trainer.fit` stopped: `max_epochs=%" PRId64 "` reached.",
                 t->settings.max_epochs);
        return true;
    }
    if (!t->should_stop)
        return false;
    if (stk__can_stop_early(t))
        return true;
    stk__message(t->ctx, STK_MESSAGE_INFO,
                 "Trainer was signaled to stop but the required `min_epochs=%" PRIu64
                 "` or `min_steps=%" PRIu64 "` has not been met. Training will continue...",
                 t->options.min_epochs, t->options.min_steps);
    return false;
}

/* Go to the first batch of the epoch at hand. */
static stk_status place_loader(stk_trainer *t, stk_error *err)
{
    const uint64_t every = t->options.reload_dataloaders_every_n_epochs;

    if (every && t->loop.epoch && t->loop.epoch % every == 0) {
        stk__ledger_carry(t);
        STK_TRY(stk__feeds_open(t, STK_PHASE_TRAIN, err));
        STK_TRY(stk__hook(t, STK__HOOK_train_dataloader, err));
        STK_TRY(resolve_val_check(t, err));
    }
    return stk_loader_set_epoch(t->train.feeds[0].loader, t->loop.epoch, err);
}

static stk_status epoch_start(stk_trainer *t, stk_error *err)
{
    const uint64_t epoch = t->loop.epoch;

    t->at.epoch = epoch;
    const uint64_t from = stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    if (!t->restart.within_epoch)
        STK_TRY(place_loader(t, err));
    t->ledger.turn_ns += stk__ledger_mark(&t->ledger, STK__PART_DATA_WAIT) - from;
    stk__show_begin(t, STK_PHASE_TRAIN, t->restart.within_epoch ? t->loop.done : 0,
                    t->train.feeds[0].batches);
    if (t->restart.within_epoch) {
        t->restart.within_epoch = false;
        return STK_OK;
    }
    t->loop.done = 0;
    t->loop.point = STK__POINT_NEXT;
    t->loop.cut = false;
    t->loop.accumulate = stk__accumulate_at(t, epoch);
    t->progress.train_batches.current = (stk_progress_count){0};
    stk__metrics_reset(t, STK__METRICS_TRAIN, false);
    stk__count(&t->progress.epochs, STK__READY, 1);
    STK_TRY(stk__hook(t, STK__HOOK_on_train_epoch_start, err));
    stk__count(&t->progress.epochs, STK__STARTED, 1);
    return STK_OK;
}

/* The calls of one hook, those that save apart from the others. */
static stk_status epoch_hooks(stk_trainer *t, bool saving, stk_error *err)
{
    stk__hook_row row = t->hooks.rows[STK__HOOK_on_train_epoch_end];
    uint32_t others = 0;

    for (size_t i = 0; i < t->hooks.num_callbacks; i++)
        if (t->hooks.callbacks[i].ops.checkpoints && t->hooks.callbacks[i].ops.on_train_epoch_end)
            others++;
    others = row.n - others;
    if (saving) {
        row.calls += others;
        row.n -= others;
    } else {
        row.n = others;
    }
    return stk__hook_run(t, &row, err);
}

static stk_status epoch_end(stk_trainer *t, stk_error *err)
{
    const int64_t step = (int64_t)t->loop.stepped - 1;

    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    STK_TRY(stk__metrics_publish(t, STK__METRICS_TRAIN, err));
    stk__count(&t->progress.epochs, STK__PROCESSED, 1);
    t->epoch_hook = true;
    stk_status status = epoch_hooks(t, false, err);
    t->epoch_hook = false;
    STK_TRY(status);
    stk__ledger_mark(&t->ledger, STK__PART_CALLBACKS);
    STK_TRY(stk__metrics_flush(t, STK__METRICS_TRAIN, step < 0 ? 0 : step, err));
    /* A plateau sees what the hooks logged. */
    if (t->at.last_batch)
        STK_TRY(stk__schedule(t, false, true, err));
    stk__ledger_mark(&t->ledger, STK__PART_LOGGING);
    stk__count(&t->progress.epochs, STK__COMPLETED, 1);
    t->loop.point = STK__POINT_EPOCH;
    STK_TRY(epoch_hooks(t, true, err));
    stk__ledger_mark(&t->ledger, STK__PART_CALLBACKS);
    return stk__checkpoint_poll(t->writer, err);
}

static void next_epoch(stk_trainer *t)
{
    t->loop.epoch++;
    t->loop.done = 0;
    t->loop.cut = false;
    t->loop.point = STK__POINT_NEXT;
    t->at.epoch = t->loop.epoch;
}

/* Where a restored run goes on: in an epoch that was cut short it is the next batch. One that was
 * begun without a batch begins anew, and counts once. */
static void place_loop(stk_trainer *t)
{
    stk__loop *loop = &t->loop;
    stk_progress *epochs = &t->progress.epochs;

    if (loop->point == STK__POINT_EPOCH && loop->cut && loop->done) {
        loop->point = STK__POINT_NEXT;
        loop->cut = false;
    }
    if (loop->point == STK__POINT_EPOCH)
        next_epoch(t);
    t->restart.within_epoch = loop->done > 0;
    if (!t->restart.within_epoch) {
        epochs->total.ready = epochs->total.started = epochs->total.processed;
        epochs->current.ready = epochs->current.started = epochs->current.processed;
    }
}

/* A checkpoint of more epochs than the run shall have: Lightning refuses it, too. */
static stk_status check_place(const stk_trainer *t, stk_error *err)
{
    if (t->settings.max_epochs < 0 || t->loop.epoch <= (uint64_t)t->settings.max_epochs)
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "max_epochs", STK_NO_OFFSET,
                        "trainer.max_epochs: it counts all epochs and is %" PRId64
                        "%s, but the checkpoint '%.200s' has %" PRIu64
                        " behind it: give more, or another checkpoint",
                        t->settings.max_epochs,
                        t->settings.fast_dev_run ? " with fast_dev_run" : "", t->restart.path,
                        t->loop.epoch);
}

/* A loader that has another order of the data than the checkpoint's is refused here. */
static stk_status place_restored(stk_trainer *t, stk_error *err)
{
    if (!t->restart.restarted)
        return STK_OK;
    place_loop(t);
    STK_TRY(check_place(t, err));
    if (stk__steps_reached(t) || epochs_reached(t))
        return STK_OK;
    return t->restart.within_epoch
               ? stk_loader_restore(t->train.feeds[0].loader, &t->loader_state, err)
               : stk__feed_compare(t, err);
}

/* A whole epoch in which no row counted is like all that would follow: steps do not end the run. */
static stk_status no_step(const stk_trainer *t, stk_error *err)
{
    if (t->loop.done == 0 || t->should_stop || t->settings.max_epochs >= 0 ||
        t->settings.max_steps < 0)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "epoch %" PRIu64
                     " had no optimizer step, as no row of it counts (ignore_index, "
                     "a mask): max_steps %" PRId64 " is never reached; correct the targets",
                     t->loop.epoch, t->settings.max_steps);
}

static stk_status epochs(stk_trainer *t, stk_error *err)
{
    for (;;) {
        STK_TRY(stk__agree(t, err));
        if (done(t))
            break;
        const bool whole = !t->restart.within_epoch;
        const uint64_t steps = t->loop.global_step;
        STK_TRY(epoch_start(t, err));
        stk__action(t, "", "run_training_epoch");
        stk_status status = stk__epoch_run(t, err);
        stk__action_end(t, "", "run_training_epoch");
        STK_TRY(status);
        STK_TRY(epoch_end(t, err));
        if (whole && t->loop.global_step == steps)
            STK_TRY(no_step(t, err));
        next_epoch(t);
    }
    return STK_OK;
}

static void say_short_log(stk_trainer *t)
{
    const uint64_t batches = t->train.feeds[0].batches, every = t->options.log_every_n_steps;

    if (t->logs.queue && every > batches)
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "The number of training batches (%" PRIu64
                     ") is smaller than the logging interval Trainer(log_every_n_steps=%" PRIu64
                     "). Set a lower value for log_every_n_steps if you want to see logs for the "
                     "training epoch.",
                     batches, every);
}

stk_status stk__fit(stk_trainer *t, stk_error *err)
{
    t->should_stop = t->wish = false;
    t->bad_batches = 0;
    STK_TRY(stk__monitors_check(t, err));
    STK_TRY(sanity_check(t, err));
    t->at.phase = STK_PHASE_TRAIN;
    if (t->train.feeds[0].batches == 0) {
        stk__say(t, "`Trainer.fit` stopped: No training batches.");
        return STK_OK;
    }
    STK_TRY(resolve_val_check(t, err));
    STK_TRY(stk__hook(t, STK__HOOK_train_dataloader, err));
    STK_TRY(place_restored(t, err));
    STK_TRY(stk__agree_hooks(t, err));
    STK_TRY(stk__nan_keep(t, err));
    STK_TRY(stk__state_reserve(t, err));
    STK_TRY(stk__memory_check(t, err));
    /* All that could refuse the run has been asked: it may have a folder. */
    STK_TRY(stk__loggers_open(t, err));
    t->begun = true;
    say_short_log(t);
    t->val_last_ns = stk__now_ns();
    t->may_log = true;
    stk__show_begin(t, STK_PHASE_TRAIN, t->loop.done, t->train.feeds[0].batches);
    STK_TRY(stk__hook(t, STK__HOOK_on_train_start, err));
    STK_TRY(epochs(t, err));
    t->may_log = false;
    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    STK_TRY(stk__hook(t, STK__HOOK_on_train_end, err));
    stk__ledger_mark(&t->ledger, STK__PART_CALLBACKS);
    return STK_OK;
}
