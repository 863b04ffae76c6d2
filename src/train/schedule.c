/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: which are due, what plateaus look at, and how long one is that spans the training. */
#include <inttypes.h>

#include "base/gcd.h"
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

/* ---- Accumulation by epoch ------------------------------------------------------------------- */

uint64_t stk__accumulate_at(const stk_trainer *t, uint64_t epoch)
{
    uint64_t batches = t->options.accumulate_grad_batches;

    for (uint32_t i = 0; i < t->num_accumulates && t->accumulates[i].epoch <= epoch; i++)
        batches = t->accumulates[i].batches;
    return batches;
}

/* Changes of epochs that are over are one. */
static void forget_passed(stk_trainer *t)
{
    uint32_t passed = 0;

    while (passed + 1 < t->num_accumulates && t->accumulates[passed + 1].epoch <= t->loop.epoch)
        passed++;
    t->num_accumulates -= passed;
    memmove(t->accumulates, t->accumulates + passed, t->num_accumulates * sizeof *t->accumulates);
}

bool stk_trainer_set_accumulate(stk_trainer *t, uint64_t epoch, uint64_t batches)
{
    uint32_t at = 0;

    forget_passed(t);
    while (at < t->num_accumulates && t->accumulates[at].epoch < epoch)
        at++;
    if (at == t->num_accumulates || t->accumulates[at].epoch != epoch) {
        if (t->num_accumulates == STK__MAX_ACCUMULATES)
            return false;
        memmove(t->accumulates + at + 1, t->accumulates + at,
                (t->num_accumulates++ - at) * sizeof *t->accumulates);
    }
    t->accumulates[at] = (stk__accumulate){epoch, STK_MAX(batches, (uint64_t)1)};
    t->loop.accumulate = stk__accumulate_at(t, t->loop.epoch);
    return true;
}

/* ---- The length of a schedule ---------------------------------------------------------------- */

#define MOST (UINT64_C(1) << 53)

static uint64_t times(uint64_t a, uint64_t b)
{
    return a && b > MOST / a ? MOST : a * b;
}

/* Epochs of one training with the same number of batches to a step. */
typedef struct stretch {
    uint64_t batches, accumulate, frequency;
} stretch;

static uint64_t steps_of(const stretch *s)
{
    return s->batches / s->accumulate + (s->batches % s->accumulate > 0);
}

/* The batch, from 1, of a step of an epoch, from 1. */
static uint64_t batch_of(const stretch *s, uint64_t step)
{
    return STK_MIN(times(step, s->accumulate), s->batches);
}

/* Moves of a schedule in the first `steps` steps of an epoch: at batches that end a step and are a
 * multiple of the frequency. */
static uint64_t moves_of(const stretch *s, uint64_t steps)
{
    const uint64_t whole = STK_MIN(steps, s->batches / s->accumulate);
    const uint64_t every = s->frequency / stk__gcd(s->accumulate, s->frequency);

    return whole / every + (steps > whole && s->batches % s->frequency == 0);
}

/* How far a training has come, as it is counted. */
typedef struct count {
    uint64_t epoch; /* epochs that have a step */
    uint64_t left;  /* steps that max_steps still allows */
    uint64_t moves; /* of a schedule of steps */
    bool last;      /* the last of them came after the last step */
} count;

/* Go on up to epoch `end`; false where the steps end before. */
static bool count_stretch(count *c, const stretch *s, uint64_t end)
{
    const uint64_t steps = steps_of(s), whole = STK_MIN(end - c->epoch, c->left / steps);

    if (whole) {
        c->moves = STK_MIN(c->moves + times(whole, moves_of(s, steps)), MOST);
        c->last = s->batches % s->frequency == 0;
        c->epoch += whole;
        c->left -= whole * steps;
    }
    if (c->epoch == end)
        return true;
    if (c->left) {
        c->moves += moves_of(s, c->left);
        c->last = batch_of(s, c->left) % s->frequency == 0;
        c->epoch++;
    }
    return false;
}

uint64_t stk__schedule_length(const stk_trainer *t, bool every_step, uint64_t frequency)
{
    const stk__settings *set = &t->settings;
    const uint64_t end = set->max_epochs < 0 ? MOST : (uint64_t)set->max_epochs;
    const uint64_t batches = t->train.feeds[0].batches, every = STK_MAX(frequency, (uint64_t)1);
    count c = {.left = set->max_steps < 0 ? MOST : (uint64_t)set->max_steps};
    bool more = batches > 0;

    if (set->max_epochs < 0 && set->max_steps < 0)
        return 0;
    for (uint32_t i = 0; more && i <= t->num_accumulates; i++) {
        const uint64_t next = i < t->num_accumulates ? t->accumulates[i].epoch : end;
        const stretch s = {batches, stk__accumulate_at(t, c.epoch), every};
        more = STK_MIN(next, end) <= c.epoch || count_stretch(&c, &s, STK_MIN(next, end));
    }
    const uint64_t values = every_step ? c.moves + !c.last : (c.epoch + every - 1) / every;
    return STK_MAX(values, (uint64_t)1);
}
