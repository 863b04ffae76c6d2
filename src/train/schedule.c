/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of the learning rate: which are due, and what plateaus look at. */
#include <inttypes.h>

#include "train/trainer.h"

static stk_status no_metric(stk_trainer *t, const stk_lr_scheduler *scheduler, stk_error *err)
{
    char names[400];

    stk__callback_metric_names(t, names, sizeof names);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "ReduceLROnPlateau conditioned on metric `%.100s` which is not available. "
                     "Available metrics are: %s",
                     scheduler->monitor ? scheduler->monitor : "", names);
}

static stk_status step_one(stk_trainer *t, uint32_t which, stk_error *err)
{
    const stk_lr_scheduler *scheduler = &t->optimizers.schedulers[which];
    double metric = 0;

    if (scheduler->reduce_on_plateau &&
        (!scheduler->monitor || !stk_trainer_metric(t, scheduler->monitor, &metric))) {
        stk_error missing;
        stk_status status = no_metric(t, scheduler, &missing);
        if (scheduler->strict) {
            if (err)
                *err = missing;
            return status;
        }
        stk__message(t->ctx, STK_MESSAGE_WARNING, "%s", missing.text);
        return STK_OK;
    }
    stk__count(&t->progress.scheduler_steps, STK__READY, 1);
    STK_TRY(t->ops.lr_scheduler_step(t->module, which,
                                     scheduler->reduce_on_plateau ? &metric : NULL, err));
    stk__count(&t->progress.scheduler_steps, STK__COMPLETED, 1);
    return STK_OK;
}

stk_status stk__schedule(stk_trainer *t, bool every_step, bool plateau, stk_error *err)
{
    /* Batches of the epoch, or epochs, with the one at hand. */
    const uint64_t now = every_step ? t->at.batch_idx + 1 : t->loop.epoch + 1;

    for (uint32_t i = 0; i < t->optimizers.num_schedulers; i++) {
        const stk_lr_scheduler *scheduler = &t->optimizers.schedulers[i];
        const uint64_t frequency = STK_MAX(scheduler->frequency, (uint64_t)1);
        if (scheduler->every_step == every_step && scheduler->reduce_on_plateau == plateau &&
            now % frequency == 0)
            STK_TRY(step_one(t, i, err));
    }
    return STK_OK;
}
