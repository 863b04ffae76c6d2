/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What callbacks and schedules monitor against what is logged, before the first step. It can be
 * told only where the module and all callbacks say what they log; where one does not, a metric that
 * nothing logs fails where it is looked at first.
 */
#include <stdio.h>

#include "base/options.h"
#include "train/trainer.h"

/* The search for one name, and what to say where it is not found. */
typedef struct search {
    const char *wanted;
    bool each_step, found;
    stk__nearest nearest;
    char there[400]; /* "train_loss, val_loss", as far as a message has room */
    size_t used;
    bool cut;
} search;

static void offer(search *s, const char *name, bool on_step)
{
    if (s->each_step && !on_step)
        return;
    s->found |= strcmp(name, s->wanted) == 0;
    stk__nearest_offer(&s->nearest, name);
    if (s->cut)
        return;
    s->cut = s->used + strlen(name) + sizeof ", , ..." > sizeof s->there;
    s->used += (size_t)snprintf(s->there + s->used, sizeof s->there - s->used, "%s%s",
                                s->used ? ", " : "", s->cut ? "..." : name);
}

/* Names of the module in a phase of so many loaders. */
static void offer_phase(search *s, const stk_trainer *t, stk_phase phase, uint32_t loaders)
{
    char text[STK__METRIC_FORM_NAME];
    const char *name;

    for (size_t i = 0;; i++) {
        uint32_t flags = 0;
        if (!(name = t->ops.logs(t->module, phase, i, &flags)))
            break;
        for (uint32_t k = 0; k < loaders; k++)
            for (int form = 0; form < stk__metric_forms(flags); form++)
                offer(s, stk__metric_form(name, form, loaders > 1 ? (int64_t)k : -1, text),
                      phase == STK_PHASE_TRAIN && (flags & STK_ON_STEP) && form < 2);
    }
}

static void offer_all(search *s, stk_trainer *t)
{
    const char *name;

    /* Barebones: what is logged with stk_trainer_log() is dropped. */
    if (!t->options.barebones) {
        offer_phase(s, t, STK_PHASE_TRAIN, 1);
        offer_phase(s, t, STK_PHASE_VALIDATE, t->val.n);
    }
    for (size_t i = 0; i < t->hooks.num_callbacks; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        for (size_t k = 0; entry->ops.logs && (name = entry->ops.logs(entry->callback, t, k)); k++)
            offer(s, name, true);
    }
}

static bool logged_by_validation(const stk_trainer *t, const char *name)
{
    search s = {.wanted = name};

    stk__nearest_init(&s.nearest, name);
    offer_phase(&s, t, STK_PHASE_VALIDATE, 1);
    return s.found;
}

static stk_status check(stk_trainer *t, const char *who, const char *wanted, uint32_t flags,
                        stk_error *err)
{
    search s = {.wanted = wanted, .each_step = flags & STK_ON_STEP, .there = "none"};
    char meant[STK_OPTION_MEANT];

    stk__nearest_init(&s.nearest, wanted);
    offer_all(&s, t);
    if (s.found)
        return STK_OK;
    if (!t->options.barebones && t->val.n == 0 && logged_by_validation(t, wanted))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, wanted, STK_NO_OFFSET,
                            "%.100s.monitor: '%.100s' is of validation, and there are no "
                            "validation data: give some (data.val or data.val_split), or "
                            "monitor what training logs: %s",
                            who, wanted, s.there);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, wanted, STK_NO_OFFSET,
                        "%.100s.monitor: nothing logs a metric '%.100s'%s%s (there are: %s)%s", who,
                        wanted, s.each_step ? " after each batch" : "",
                        stk__nearest_said(&s.nearest, meant), s.there,
                        t->options.barebones ? ", as trainer.barebones says" : "");
}

static bool all_say_what_they_log(const stk_trainer *t)
{
    for (size_t i = 0; i < t->hooks.num_callbacks; i++) {
        const stk_callback_ops *ops = &t->hooks.callbacks[i].ops;
        if (!ops->logs && !(ops->roles & STK_ROLE_NO_METRICS))
            return false;
    }
    return t->ops.logs != NULL;
}

stk_status stk__monitors_check(stk_trainer *t, stk_error *err)
{
    if (!all_say_what_they_log(t))
        return STK_OK;
    for (size_t i = 0; i < t->hooks.num_callbacks; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        uint32_t flags = 0;
        const char *name =
            entry->ops.monitored ? entry->ops.monitored(entry->callback, &flags) : NULL;
        if (name)
            STK_TRY(check(t, entry->ops.name, name, flags, err));
    }
    for (uint32_t i = 0; i < t->optimizers.num_schedulers; i++) {
        const stk_lr_scheduler *schedule = &t->optimizers.schedulers[i];
        if (schedule->reduce_on_plateau && schedule->strict)
            STK_TRY(check(t, "module", schedule->monitor, 0, err));
    }
    return STK_OK;
}
