/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of a trainer: what its owner adds, and what it has by default. */
#include "base/options.h"
#include "base/sized.h"
#include "base/table.h"
#include "train/trainer.h"

static bool has_role(const stk__hooks *hooks, uint32_t role)
{
    for (size_t i = 0; i < hooks->num_callbacks; i++)
        if (hooks->callbacks[i].ops.roles & role)
            return true;
    return false;
}

static bool averages(const stk__hooks *hooks)
{
    for (size_t i = 0; i < hooks->num_callbacks; i++)
        if (hooks->callbacks[i].ops.average)
            return true;
    return false;
}

/* The first from number *i on that keeps checkpoints, and behind it *i; NULL: none does. */
static const stk__callback_entry *next_keeper(const stk__hooks *hooks, size_t *i)
{
    while (*i < hooks->num_callbacks) {
        const stk__callback_entry *entry = &hooks->callbacks[(*i)++];
        if (entry->ops.checkpoint_path)
            return entry;
    }
    return NULL;
}

static const char *path_of(const stk__callback_entry *keeper, stk_checkpoint_which which)
{
    const char *path = keeper ? keeper->ops.checkpoint_path(keeper->callback, which) : NULL;

    return path && *path ? path : NULL;
}

/* Whose best is the best: the first that compares a metric, else the first. */
static const stk__callback_entry *judge_of(const stk__hooks *hooks)
{
    const stk__callback_entry *keeper;
    size_t i = 0, first = 0;

    while ((keeper = next_keeper(hooks, &i))) {
        uint32_t flags = 0;
        if (keeper->ops.monitored && keeper->ops.monitored(keeper->callback, &flags))
            return keeper;
    }
    return next_keeper(hooks, &first);
}

const char *stk__callback_path(const stk__hooks *hooks, stk_checkpoint_which which)
{
    const stk__callback_entry *keeper;
    const char *path = NULL;

    if (which == STK_CHECKPOINT_BEST)
        return path_of(judge_of(hooks), which);
    for (size_t i = 0; !path && (keeper = next_keeper(hooks, &i));)
        path = path_of(keeper, which);
    return path;
}

size_t stk__callback_folders(const stk__hooks *hooks, const char **folders)
{
    const stk__callback_entry *keeper;
    size_t n = 0;

    for (size_t i = 0; (keeper = next_keeper(hooks, &i));) {
        const char *folder = path_of(keeper, STK_CHECKPOINT_FOLDER);
        size_t k = 0;
        while (folder && k < n && strcmp(folders[k], folder) != 0)
            k++;
        if (folder && k == n)
            folders[n++] = folder;
    }
    return n;
}

bool stk__callback_score(const stk__hooks *hooks, double *score)
{
    const stk__callback_entry *keeper = judge_of(hooks);

    return keeper && keeper->ops.checkpoint_score &&
           keeper->ops.checkpoint_score(keeper->callback, score);
}

/* A key that no other callback has: "ema", "ema#2". */
static char *unique_key(stk_trainer *t, const stk_callback_ops *ops, const stk_callback *callback)
{
    const char *base = ops->state_key ? ops->state_key(callback) : ops->name;
    char *key = stk__format(t->ctx, "%.200s", base);

    for (size_t number = 2, i = 0; key && i < t->hooks.num_callbacks; i++) {
        if (strcmp(t->hooks.callbacks[i].key, key))
            continue;
        stk__free(t->ctx, key);
        key = stk__format(t->ctx, "%.200s#%zu", base, number++);
        i = (size_t)-1;
    }
    return key;
}

static const stk__member members[] = {STK__MEMBER(stk_callback_ops, create),
                                      STK__MEMBER(stk_callback_ops, destroy)};
static const stk__given_table table = {.type = "stk_callback_ops",
                                       .least = offsetof(stk_callback_ops, monitors),
                                       .members = members,
                                       .num_members = STK_COUNT(members),
                                       .stage = STK_STAGE_TRAIN};

stk_status stk__callback_kind_check(const void *ops, stk_error *err)
{
    STK_TRY(stk__table_check(&table, ops, err));
    const stk_option_table *options = ((const stk_callback_ops *)ops)->options;
    return options ? stk__options_check(options, err) : STK_OK;
}

static stk_status check_callback(const stk_trainer *t, const stk_callback_ops *ops, stk_error *err)
{
    STK_TRY(stk__callback_kind_check(ops, err));
    if (ops->checkpoints && t->options.enable_checkpointing == STK_SWITCH_FALSE)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "enable_checkpointing",
                            STK_NO_OFFSET,
                            "trainer.enable_checkpointing: false and the callback '%s' contradict "
                            "each other",
                            ops->name);
    if (ops->checkpoints && t->options.barebones)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "barebones", STK_NO_OFFSET,
                            "trainer.barebones and the callback '%s' contradict each other: saving "
                            "takes time",
                            ops->name);
    if (t->hooks.num_callbacks >= STK__MOST_CALLBACKS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "%d callbacks are the most",
                         STK__MOST_CALLBACKS);
    return STK_OK;
}

static stk_status add_callback(stk_trainer *t, const stk_callback_ops *ops, const void *options,
                               stk_callback **out, stk_error *err)
{
    uint64_t room[64]; /* for the defaults: no table is larger */

    STK_TRY(check_callback(t, ops, err));
    if (!options && ops->options) {
        if (ops->options->struct_size > sizeof room)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                             "the options of the callback '%s' are more than %zu bytes", ops->name,
                             sizeof room);
        stk_options_init(ops->options, room, sizeof room);
        options = room;
    }
    stk__callback_entry *list = stk__grow(t->ctx, t->hooks.callbacks, &t->hooks.room,
                                          t->hooks.num_callbacks + 1, sizeof *list);
    if (!list)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a callback");
    t->hooks.callbacks = list;
    stk__callback_entry *entry = &t->hooks.callbacks[t->hooks.num_callbacks];
    *entry = (stk__callback_entry){0};
    stk__sized_copy(&entry->ops, sizeof entry->ops, ops);
    if (entry->ops.average && averages(&t->hooks))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "the callback '%s' averages the parameters, and another one does already: "
                         "a checkpoint has room for one mean of each",
                         ops->name);
    stk_status status = ops->create(t->ctx, options, &entry->callback, err);
    STK_TRY(stk__table_made(&table, ops->name, "create", status, entry->callback, err));
    entry->key = unique_key(t, ops, entry->callback);
    if (!entry->key) {
        ops->destroy(entry->callback);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a callback");
    }
    t->hooks.num_callbacks++;
    if (out)
        *out = entry->callback;
    return STK_OK;
}

stk_status stk_trainer_add_callback(stk_trainer *t, const stk_callback_ops *ops,
                                    const void *options, stk_callback **out, stk_error *err)
{
    stk_error_init(err);
    if (out)
        *out = NULL;
    STK_TRY(stk__context_check(t->ctx, err));
    return add_callback(t, ops, options, out, err);
}

/* The callback that ends a run after max_time. */
static stk_status add_timer(stk_trainer *t, stk_error *err)
{
    stk__timer_options options;

    stk_options_init(stk__callback_timer.options, &options, sizeof options);
    options.duration = t->options.max_time;
    return add_callback(t, &stk__callback_timer, &options, NULL, err);
}

/* What a trainer has by default, unless others were given in their place. */
stk_status stk__defaults_add(stk_trainer *t, stk_error *err)
{
    const stk__settings *s = &t->settings;
    const bool first = t->ranks.strategy.rank == 0;
    const struct {
        uint32_t role;
        bool wanted;
        const stk_callback_ops *ops;
    } defaults[] = {
        {STK_ROLE_SUMMARY, s->model_summary && first, &stk__callback_model_summary},
        {STK_ROLE_PROGRESS, s->progress_bar && first, &stk__callback_progress_bar},
        {STK_ROLE_TIME_LIMIT, s->max_time_ns > 0, NULL},
        {STK_ROLE_CHECKPOINT, s->checkpointing, &stk__callback_model_checkpoint},
    };

    for (size_t i = 0; i < STK_COUNT(defaults) && !t->hooks.defaults_added; i++)
        if (defaults[i].wanted && !has_role(&t->hooks, defaults[i].role))
            STK_TRY(defaults[i].ops ? add_callback(t, defaults[i].ops, NULL, NULL, err)
                                    : add_timer(t, err));
    t->hooks.defaults_added = true;
    return STK_OK;
}
