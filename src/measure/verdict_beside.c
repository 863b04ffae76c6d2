/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trainer does in addition to its steps: no data is waited for then, and no step runs. Where
 * one of these takes more of the time than the waits for data, it is what to look at first.
 */
#include "measure/verdict.h"

#include <stdio.h>

/* Shares below this are not worth a word. */
#define SAID 0.01

/* Logging a tenth as often costs a tenth. */
#define LOG_LESS 10

static const struct row {
    size_t offset; /* of its seconds in stk_figures */
    stk_limit limit;
    const char *name, *verb;
} rows[STK__BESIDES] = {
    [STK__BESIDE_TRANSFER] = {offsetof(stk_figures, transfer_s), STK_LIMIT_TRANSFER, "transfer",
                              "takes"},
    [STK__BESIDE_VALIDATION] = {offsetof(stk_figures, validation_s), STK_LIMIT_VALIDATION,
                                "validation", "takes"},
    [STK__BESIDE_CALLBACKS] = {offsetof(stk_figures, callbacks_s), STK_LIMIT_CALLBACKS, "callbacks",
                               "take"},
    [STK__BESIDE_LOGGING] = {offsetof(stk_figures, logging_s), STK_LIMIT_LOGGING, "logging",
                             "takes"},
    [STK__BESIDE_CHECKPOINT] = {offsetof(stk_figures, checkpoint_s), STK_LIMIT_CHECKPOINT,
                                "checkpoints", "take"},
};

static double seconds_of(const stk_figures *f, int i)
{
    return *(const double *)((const char *)f + rows[i].offset);
}

double stk__beside_sum(const stk_figures *f)
{
    double sum = 0;

    for (int i = 0; i < STK__BESIDES; i++)
        sum += seconds_of(f, i);
    return f->steps ? sum / (double)f->steps : 0;
}

static double share_of(const stk__case *v, int i)
{
    const double all = (v->step + v->wait + v->beside) * (double)v->f->steps;

    return all > 0 ? seconds_of(v->f, i) / all : 0;
}

static int greatest(const stk__case *v)
{
    int most = 0;

    for (int i = 1; i < STK__BESIDES; i++)
        if (seconds_of(v->f, i) > seconds_of(v->f, most))
            most = i;
    return most;
}

void stk__beside_say_shares(const stk__case *v, stk_verdict *out)
{
    const char *before = " The rest:";

    for (int i = 0; i < STK__BESIDES; i++) {
        if (share_of(v, i) < SAID)
            continue;
        stk__verdict_say(out, "%s %s %.1f %%", before, rows[i].name, 100 * share_of(v, i));
        before = ",";
    }
    if (*before == ',')
        stk__verdict_say(out, ".");
}

/* What to do about it, and what that gives. */
static void advise(const stk__case *v, int which, double share, stk_verdict *out)
{
    const stk_figures *f = v->f;

    out->gain = 1 / STK_MAX(1 - share, 1e-3);
    switch (which) {
    case STK__BESIDE_TRANSFER:
        if (f->device && !f->pin_memory) {
            snprintf(out->knob, sizeof out->knob, "pin_memory");
            snprintf(out->value, sizeof out->value, "true");
        }
        stk__verdict_say(out, " Fewer bytes help: uint8 up to the device, smaller samples.");
        break;
    case STK__BESIDE_VALIDATION:
        out->gain = 1 / (1 - share / 2);
        stk__verdict_say(out, " Validating less often, on fewer batches (limit_val_batches) or in "
                              "larger ones (val_batch_size) gives it to the steps.");
        if (f->val_every && f->max_epochs && 2 * f->val_every > f->max_epochs) {
            /* No epoch is left that it could be put off to. */
            snprintf(out->knob, sizeof out->knob, "limit_val_batches");
            snprintf(out->value, sizeof out->value, "0.5");
        } else if (f->val_every) {
            stk__verdict_advise(out, "check_val_every_n_epoch", 2 * (double)f->val_every);
        } else {

            snprintf(out->knob, sizeof out->knob, "val_check_interval");
        }
        break;
    case STK__BESIDE_CALLBACKS:
        snprintf(out->knob, sizeof out->knob, "callbacks");
        stk__verdict_say(out, " 'stoker profile' names the callback that does.");
        break;
    case STK__BESIDE_LOGGING:
        out->gain = 1 / STK_MAX(1 - share * (1 - 1.0 / LOG_LESS), 1e-3);
        stk__verdict_advise(out, "log_every_n_steps",
                            LOG_LESS * (double)STK_MAX(f->log_every, UINT64_C(1)));
        break;
    default:
        snprintf(out->knob, sizeof out->knob, "every_n_train_steps");
        stk__verdict_say(out, " Saving less often (model_checkpoint: every_n_train_steps, "
                              "every_n_epochs) or to a faster disk gives it to the steps.");
        break;
    }
}

bool stk__judge_beside(const stk__case *v, stk_verdict *out)
{
    const int which = greatest(v);
    const double share = share_of(v, which);
    const char *name = rows[which].name;

    /* Of few steps the first, which are unlike the others, are too large a part. */
    if (v->f->steps < STK_JUDGE_STEPS || share < STK_JUDGE_BESIDE || share < v->lost)
        return false;
    out->limit = rows[which].limit;
    out->limit_share = share;
    stk__verdict_say(out,
                     "%c%s %s %.1f %% of the time, no data being waited for; the step ran %.1f %%.",
                     name[0] - 'a' + 'A', name + 1, rows[which].verb, 100 * share,
                     100 * v->step / (v->step + v->wait + v->beside));
    if (v->lost >= STK_JUDGE_WAIT)
        stk__verdict_say_waits(out, v);
    advise(v, which, share, out);
    return true;
}

void stk__beside_remark(const stk__case *v, stk_verdict *out)
{
    const int which = greatest(v);
    const double share = share_of(v, which);

    if (v->f->steps < STK_JUDGE_STEPS || share < STK_JUDGE_BESIDE ||
        rows[which].limit == out->limit || out->limit == STK_LIMIT_STEP)
        return;
    stk__verdict_say(out, " Next to it, %s %s %.1f %% of the time.", rows[which].name,
                     rows[which].verb, 100 * share);
    if (out->second == STK_LIMIT_UNKNOWN)
        out->second = rows[which].limit;
}
