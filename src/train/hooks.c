/* SPDX-License-Identifier: Apache-2.0 */
/* Who is called when: rows of calls, made once for each task, so that a hook without a callback
 * costs a branch. */
#include <stdio.h>

#include "train/trainer.h"

/* Where a hook is in the tables; SIZE_MAX: that table has none of it. */
static const struct {
    size_t callback, module;
} places[STK__HOOKS] = {
#define BOTH(name)                                                                                 \
    [STK__HOOK_##name] = {offsetof(stk_callback_ops, name), offsetof(stk_module_ops, name)},
#define CALLBACK(name) [STK__HOOK_##name] = {offsetof(stk_callback_ops, name), SIZE_MAX},
#define MODULE(name)   [STK__HOOK_##name] = {SIZE_MAX, offsetof(stk_module_ops, name)},
    STK_HOOK_LIST(BOTH) STK_CALLBACK_HOOK_LIST(CALLBACK) STK_MODULE_HOOK_LIST(MODULE)
#undef BOTH
#undef CALLBACK
#undef MODULE
};

static stk_callback_hook *callback_hook(const stk_callback_ops *ops, size_t hook)
{
    stk_callback_hook *call = NULL;

    if (places[hook].callback != SIZE_MAX)
        memcpy(&call, (const char *)ops + places[hook].callback, sizeof call);
    return call;
}

static stk_module_hook *module_hook(const stk_module_ops *ops, size_t hook)
{
    stk_module_hook *call = NULL;

    if (places[hook].module != SIZE_MAX)
        memcpy(&call, (const char *)ops + places[hook].module, sizeof call);
    return call;
}

/*
 * Callbacks come before the module, with two exceptions. At the end of a training epoch those that
 * monitor follow it, so that they see what it logs there. And those that save follow it wherever it
 * has the same hook: what they save then includes all that the hook does.
 */
static int place_of(const stk_callback_ops *ops, size_t hook)
{
    if (ops->checkpoints)
        return 2;
    return ops->monitors && hook == STK__HOOK_on_train_epoch_end ? 1 : 0;
}

static void add_callbacks(stk_trainer *t, size_t hook, int place)
{
    for (size_t i = 0; i < t->hooks.num_callbacks; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        stk_callback_hook *call = callback_hook(&entry->ops, hook);
        if (call && place_of(&entry->ops, hook) == place)
            t->hooks.rows[hook].calls[t->hooks.rows[hook].n++] = (stk__hook_call){
                .callback = entry->callback, .hook = (enum stk__hook_id)hook, .of_callback = call};
    }
}

stk_status stk__hooks_build(stk_trainer *t, stk_error *err)
{
    stk__hook_call *next;

    stk__hooks_release(t);
    t->hooks.calls =
        stk__calloc(t->ctx, STK__HOOKS * (t->hooks.num_callbacks + 1), sizeof *t->hooks.calls);
    if (!t->hooks.calls)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the hooks");
    next = t->hooks.calls;
    t->hooks.wants_lines = false;
    for (size_t i = 0; i < t->hooks.num_callbacks; i++)
        t->hooks.wants_lines |= t->hooks.callbacks[i].ops.logged != NULL;
    for (size_t hook = 0; hook < STK__HOOKS; hook++) {
        stk_module_hook *call = module_hook(&t->ops, hook);
        t->hooks.rows[hook] = (stk__hook_row){.calls = next};
        add_callbacks(t, hook, 0);
        if (call)
            t->hooks.rows[hook].calls[t->hooks.rows[hook].n++] =
                (stk__hook_call){.hook = (enum stk__hook_id)hook, .of_module = call};
        add_callbacks(t, hook, 1);
        add_callbacks(t, hook, 2);
        next += t->hooks.rows[hook].n;
    }
    return STK_OK;
}

void stk__hooks_release(stk_trainer *t)
{
    stk__free(t->ctx, t->hooks.calls);
    t->hooks.calls = NULL;
    memset(t->hooks.rows, 0, sizeof t->hooks.rows);
}

static stk_status call_one(stk_trainer *t, const stk__hook_call *call, stk_error *err)
{
    return call->callback ? call->of_callback(call->callback, t, &t->at, err)
                          : call->of_module(t->module, t, &t->at, err);
}

/* Whose call it is, for a profiler: "[Callback]ema". */
static void owner_of(const stk_trainer *t, const stk__hook_call *call, char *text, size_t size)
{
    snprintf(text, size, "[LightningModule]%s", t->ops.name ? t->ops.name : "module");
    for (size_t i = 0; call->callback && i < t->hooks.num_callbacks; i++)
        if (t->hooks.callbacks[i].callback == call->callback)
            snprintf(text, size, "[Callback]%s", t->hooks.callbacks[i].key);
}

static stk_status call_profiled(stk_trainer *t, const stk__hook_call *call, stk_error *err)
{
    static const char *const names[STK__HOOKS] = {
#define NAME(name) [STK__HOOK_##name] = #name,
        STK_HOOK_LIST(NAME) STK_CALLBACK_HOOK_LIST(NAME) STK_MODULE_HOOK_LIST(NAME)
#undef NAME
    };
    char owner[300];

    owner_of(t, call, owner, sizeof owner);
    stk__action(t, owner, names[call->hook]);
    stk_status status = call_one(t, call, err);
    stk__action_end(t, owner, names[call->hook]);
    return status;
}

stk_status stk__hook_run(stk_trainer *t, const stk__hook_row *row, stk_error *err)
{
    stk_status answer = STK_OK;

    for (uint32_t i = 0; i < row->n; i++) {
        stk_status status =
            t->profiled ? call_profiled(t, &row->calls[i], err) : call_one(t, &row->calls[i], err);
        if (status < 0)
            return status;
        if (status != STK_OK)
            answer = status;
    }
    return answer;
}

void stk__callbacks_logged(stk_trainer *t, const stk_metric *metrics, size_t n, int64_t step)
{
    for (size_t i = 0; i < t->hooks.num_callbacks && t->hooks.wants_lines; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        if (entry->ops.logged)
            entry->ops.logged(entry->callback, t, metrics, n, step);
    }
}
