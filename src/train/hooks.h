/* hooks of callbacks and of the module -> rows of calls */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_HOOKS_H
#define STK_SRC_TRAIN_HOOKS_H

#include <stoker/trainer.h>

enum stk__hook_id {
#define STK__HOOK_ID(name) STK__HOOK_##name,
    STK_HOOK_LIST(STK__HOOK_ID) STK_CALLBACK_HOOK_LIST(STK__HOOK_ID)
        STK_MODULE_HOOK_LIST(STK__HOOK_ID)
#undef STK__HOOK_ID
            STK__HOOKS
};

typedef struct stk__hook_call {
    stk_callback *callback; /* NULL: the module's */
    enum stk__hook_id hook;
    union {
        stk_callback_hook *of_callback;
        stk_module_hook *of_module;
    };
} stk__hook_call;

/* Who is called at a hook, in order. */
typedef struct stk__hook_row {
    stk__hook_call *calls;
    uint32_t n;
} stk__hook_row;

typedef struct stk__callback_entry {
    stk_callback *callback;
    stk_callback_ops ops; /* in full size: what the caller's does not have is NULL */
    char *key;            /* in checkpoints: unique */
} stk__callback_entry;

#define STK__MOST_CALLBACKS 256

/* Callbacks of a trainer, and who is called at each hook of the task at hand. */
typedef struct stk__hooks {
    stk__callback_entry *callbacks;
    size_t num_callbacks, room;
    bool defaults_added;
    bool wants_lines; /* a callback has `logged` */
    stk__hook_row rows[STK__HOOKS];
    stk__hook_call *calls; /* of all rows */
} stk__hooks;

/* Fill the rows for the task's module and callbacks. */
stk_status stk__hooks_build(stk_trainer *t, stk_error *err);
void stk__hooks_release(stk_trainer *t);
/* A path of the first callback that has one, of those that keep checkpoints; the best is that of
 * the first that compares a metric, else of the first. NULL: none. */
const char *stk__callback_path(const stk__hooks *hooks, stk_checkpoint_which which);
/* The folders of all those, each once, into `folders`, which has room for all callbacks; their
 * number. */
size_t stk__callback_folders(const stk__hooks *hooks, const char **folders);
/* Tell those that have `logged` of a line of metrics. */
void stk__callbacks_logged(stk_trainer *t, const stk_metric *metrics, size_t n, int64_t step);
/* What the best of those scored; false: nothing is monitored, or none was saved. */
bool stk__callback_score(const stk__hooks *hooks, double *score);
stk_status stk__hook_run(stk_trainer *t, const stk__hook_row *row, stk_error *err);

#endif
