/* SPDX-License-Identifier: Apache-2.0 */
/* ModelCheckpoint: when to save, under which name, and which older ones go. Files are written in
 * the background; an older one goes after the newer is durable. */
#include "train/callbacks/model_checkpoint.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/durable.h"
#include "base/url.h"

#define EXTENSION ".safetensors"

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_mine(const stk__model_checkpoint *self, const char *path)
{
    for (size_t i = 0; i < self->num_kept; i++)
        if (strcmp(self->kept[i].path, path) == 0)
            return true;
    return (self->best && strcmp(self->best, path) == 0) ||
           (self->last && strcmp(self->last, path) == 0) ||
           (self->last_saved && strcmp(self->last_saved, path) == 0);
}

/* Let go of the names of saves that are on the disk: each waits for the one before it. */
static void release_claims(stk__model_checkpoint *self)
{
    stk__model_checkpoint_release(self, self->num_saves < 2 ? 0 : self->num_saves - 1);
}

/* Whether a new name is free, and from now on this training's: another one in the same folder, also
 * of another process, finds it taken while its file is being written. What cannot be claimed for
 * another reason counts as free: the save will tell. */
static bool claim(stk__model_checkpoint *self, const char *path)
{
    const stk_store_call call = {.struct_size = sizeof call, .no_replace = true};
    stk__claim *to = NULL;
    stk_put *put = NULL;

    if (stk_put_open(self->base.context, path, &call, &put, NULL) == STK_EEXIST)
        return false;
    for (size_t i = 0; i < STK__CLAIMS && put && !to; i++)
        if (!self->claims[i].put)
            to = &self->claims[i];
    if (to)
        *to = (stk__claim){put, self->num_saves};
    else if (put)
        put->ops->abandon(put);
    return true;
}

static char *version_path(const stk__model_checkpoint *self, const char *name, uint64_t version)
{
    stk_context *ctx = self->base.context;

    char *file = version ? stk__format(ctx, "%s-v%" PRIu64 EXTENSION, name, version)
                         : stk__format(ctx, "%s" EXTENSION, name);
    char *path = file ? stk__url_below(ctx, self->dir, file) : NULL;
    stk__free(ctx, file);
    return path;
}

/* The first free of "name", "name-v1", ...; `going` is about to be replaced and counts as free.
 * Rank 0 looks, and where the others save, too (`together`), they have the name that it found. */
static stk_status free_path(stk__model_checkpoint *self, stk_trainer *t, const char *name,
                            const char *going, bool together, char **out, stk_error *err)
{
    const bool counts = self->options.enable_version_counter;
    double version = 0;

    *out = version_path(self, name, 0);
    while (*out && counts && !stk__callback_info(t).rank && !(going && strcmp(*out, going) == 0) &&
           (is_mine(self, *out) || !claim(self, *out))) {
        stk__free(self->base.context, *out);
        *out = version_path(self, name, (uint64_t)++version);
    }
    if (!*out)
        return stk__callback_no_memory("model_checkpoint", err);
    if (!counts || !together || stk__callback_info(t).world_size == 1)
        return STK_OK;
    stk__free(self->base.context, *out);
    *out = NULL;
    STK_TRY(stk_trainer_reduce(t, &version, 1, STK_COMBINE_MAX, err));
    *out = version_path(self, name, (uint64_t)version);
    return *out ? STK_OK : stk__callback_no_memory("model_checkpoint", err);
}

static stk_status path_of(stk__model_checkpoint *self, stk_trainer *t, const char *prefix,
                          const char *going, char **out, stk_error *err)
{
    char name[512];
    const size_t used = strlen(prefix);

    memcpy(name, prefix, used);
    STK_TRY(stk__filename_format(t, self->filename, self->options.auto_insert_metric_name,
                                 name + used, sizeof name - used, err));
    /* Of a failure the other ranks may not know. */
    return free_path(self, t, name, going, !used, out, err);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static stk_status put(stk__model_checkpoint *self, stk_trainer *t, const char *path,
                      const char *replaces, stk_error *err)
{
    self->saving = true;
    const stk_status status =
        stk_trainer_save(t, path, self->options.save_weights_only, replaces, err);
    self->saving = false;
    return status;
}

static stk_status save(stk__model_checkpoint *self, stk_trainer *t, const char *path,
                       const char *replaces, stk_error *err)
{
    if (replaces && strcmp(replaces, path) == 0)
        replaces = NULL;
    /* Noted before, so that the checkpoint knows of itself. */
    self->last_step_saved = stk_trainer_global_step(t);
    STK_TRY(stk__model_checkpoint_set(self, &self->last_saved, path, err));
    STK_TRY(put(self, t, path, replaces, err));
    self->num_saves++;
    release_claims(self);
    return STK_OK;
}

/* Without a monitor the newest is the best. */
static stk_status save_newest(stk__model_checkpoint *self, stk_trainer *t, stk_error *err)
{
    char *path, *before = self->best;
    char *going = self->options.save_top_k == 1 && !self->inherited ? before : NULL;

    STK_TRY(path_of(self, t, "", going, &path, err));
    self->best = path;
    self->inherited = false;
    stk_status status = save(self, t, path, going, err);
    stk__free(self->base.context, before);
    return status;
}

static bool is_better(const stk__model_checkpoint *self, double a, double b)
{
    return self->options.mode ? a > b : a < b;
}

/* Take the worst out of the list when it is full; its path, which the caller frees. */
static char *make_room(stk__model_checkpoint *self)
{
    const int64_t k = self->options.save_top_k;

    if (k < 1 || self->num_kept < (size_t)k)
        return NULL;
    const size_t worst = stk__model_checkpoint_extreme(self, true);
    char *path = self->kept[worst].path;
    self->kept[worst] = self->kept[--self->num_kept];
    return path;
}

static stk_status save_monitored(stk__model_checkpoint *self, stk_trainer *t, double score,
                                 stk_error *err)
{
    stk_context *ctx = self->base.context;
    char *going = make_room(self), *path = NULL;

    /* What is no number is the worst there is. */
    if (isnan(score))
        score = self->options.mode ? -INFINITY : INFINITY;
    stk_status status = path_of(self, t, "", going, &path, err);
    if (status == STK_OK) {
        self->current_score = score;
        status = stk__model_checkpoint_keep(self, path, score, err);
    }
    if (status == STK_OK) {
        const stk__kept *best = &self->kept[stk__model_checkpoint_extreme(self, false)];
        self->inherited = self->inherited && !is_better(self, best->score, self->best_score);
        if (!self->inherited) {
            self->best_score = best->score;
            status = stk__model_checkpoint_set(self, &self->best, best->path, err);
        }
    }
    if (status == STK_OK && self->options.verbose)
        stk__callback_say(t,
                          "Epoch %" PRIu64 ", global step %" PRIu64
                          ": '%s' reached %.5f (best %.5f), saving model to '%s' as top %" PRIu64,
                          stk_trainer_current_epoch(t), stk_trainer_global_step(t), self->monitor,
                          score, self->best_score, path,
                          self->options.save_top_k < 0 ? (uint64_t)self->num_kept
                                                       : (uint64_t)self->options.save_top_k);
    if (status == STK_OK)
        status = save(self, t, path, going, err);
    stk__free(ctx, going);
    return status;
}

static stk_status no_metric(const stk__model_checkpoint *self, stk_trainer *t, stk_error *err)
{
    char names[400];

    stk__callback_metric_names(t, names, sizeof names);
    stk_status status =
        stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, self->monitor, STK_NO_OFFSET,
                     "`ModelCheckpoint(monitor='%s')` could not find the monitored key in the "
                     "returned metrics: %s. HINT: Did you call `log('%s', value)` in the module?",
                     self->monitor, names, self->monitor);
    if (self->validated)
        return status;
    stk__message(self->base.context, STK_MESSAGE_WARNING, "%s", err->text);
    return STK_OK;
}

static stk_status save_top_k(stk__model_checkpoint *self, stk_trainer *t, stk_error *err)
{
    const int64_t k = self->options.save_top_k;
    stk_error missing;
    double score = NAN;

    if (k == 0)
        return STK_OK;
    if (!self->monitor)
        return save_newest(self, t, err);
    const bool found = stk_trainer_metric(t, self->monitor, &score);
    const size_t worst = stk__model_checkpoint_extreme(self, true);
    bool save = found && (k < 0 || self->num_kept < (size_t)k ||
                          is_better(self, score, self->kept[worst].score));
    STK_TRY(stk__callback_decide(t, &save, err));
    if (save)
        return save_monitored(self, t, score, err);
    if (!found)
        return no_metric(self, t, err ? err : &missing);
    if (self->options.verbose)
        stk__callback_say(
            t, "Epoch %" PRIu64 ", global step %" PRIu64 ": '%s' was not in top %" PRId64,
            stk_trainer_current_epoch(t), stk_trainer_global_step(t), self->monitor, k);
    return STK_OK;
}

/* The name of the newest, before anything is saved: `last` may become another name of a checkpoint,
 * which is to know of it. */
static stk_status name_last(stk__model_checkpoint *self, stk_trainer *t, stk_error *err)
{
    char *path;

    if (!self->options.save_last)
        return STK_OK;
    STK_TRY(free_path(self, t, "last", self->last, true, &path, err));
    stk__free(self->base.context, self->last);
    self->last = path;
    return STK_OK;
}

static stk_status save_last(stk__model_checkpoint *self, stk_trainer *t, stk_error *err)
{
    const char *path = self->last;
    stk_status status;

    if (!self->options.save_last)
        return STK_OK;
    const bool saved_now = self->last_saved && self->last_step_saved == stk_trainer_global_step(t);
    const bool link = self->last_saved && self->options.save_top_k != 0 &&
                      (saved_now || self->options.save_last == 2);
    /* Noted before, as in save(). */
    self->last_step_saved = stk_trainer_global_step(t);
    if (link)
        status = stk_trainer_link(t, self->last_saved, path, err);
    else
        status = put(self, t, path, NULL, err);
    return status;
}

/* ---- When ------------------------------------------------------------------------------------ */

static bool skips(const stk__model_checkpoint *self, const stk_trainer *t, const stk_moment *at)
{
    return at->task != STK_TASK_FIT || at->phase == STK_PHASE_SANITY ||
           stk__callback_info(t).fast_dev_run ||
           self->last_step_saved == stk_trainer_global_step(t);
}

static bool at_train_epoch_end(const stk__model_checkpoint *self, const stk_trainer *t)
{
    const int32_t want = self->options.save_on_train_epoch_end;

    if (want != STK_SWITCH_AUTO)
        return want == STK_SWITCH_TRUE;
    if (stk_trainer_get_options(t)->check_val_every_n_epoch != 1)
        return false;
    return stk_trainer_num_batches(t, STK_PHASE_VALIDATE, UINT32_MAX) == 0 ||
           stk__callback_info(t).validates_each_epoch;
}

static stk_status on_train_batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;
    const uint64_t every = self->options.every_n_train_steps;

    if (every == 0 && self->interval_ns == 0)
        return STK_OK;
    bool due = every && at->steps && stk_trainer_global_step(t) % every == 0;
    if (!due && self->interval_ns) {
        const uint64_t now = stk__now_ns();
        due = now - self->last_time_ns >= self->interval_ns;
        STK_TRY(stk__callback_decide(t, &due, err));
        if (due)
            self->last_time_ns = now;
    }
    if (!due || skips(self, t, at))
        return STK_OK;
    STK_TRY(name_last(self, t, err));
    STK_TRY(save_top_k(self, t, err));
    return save_last(self, t, err);
}

static stk_status on_epoch(stk__model_checkpoint *self, stk_trainer *t, const stk_moment *at,
                           stk_error *err)
{
    if (skips(self, t, at))
        return STK_OK;
    STK_TRY(name_last(self, t, err));
    if (self->every_n_epochs && (stk_trainer_current_epoch(t) + 1) % self->every_n_epochs == 0)
        STK_TRY(save_top_k(self, t, err));
    return save_last(self, t, err);
}

static stk_status on_train_epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;

    return at_train_epoch_end(self, t) ? on_epoch(self, t, at, err) : STK_OK;
}

static stk_status on_validation_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;

    self->validated |= at->task == STK_TASK_FIT && at->phase == STK_PHASE_VALIDATE;
    return at_train_epoch_end(self, t) ? STK_OK : on_epoch(self, t, at, err);
}

static stk_status on_exception(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;
    char *path;

    if (!self->options.save_on_exception || !stk__callback_info(t).begun || skips(self, t, at) ||
        at->exception->status == STK_ECANCELED)
        return STK_OK;
    STK_TRY(path_of(self, t, "exception-", NULL, &path, err));
    stk_status status = save(self, t, path, NULL, err);
    stk__free(callback->context, path);
    return status;
}

static void warn_if_not_empty(stk_context *ctx, const char *dir)
{
    DIR *folder = opendir(dir);
    int entries = 0;

    if (!folder)
        return;
    while (entries < 3 && readdir(folder))
        entries++;
    closedir(folder);
    if (entries == 3)
        stk__message(ctx, STK_MESSAGE_WARNING, "Checkpoint directory %s exists and is not empty.",
                     dir);
}

/* Where checkpoints go: without a dirpath next to the logs, whose folder has its number for good
 * when it is made. */
static stk_status name_folder(stk__model_checkpoint *self, const stk_trainer *t, stk_error *err)
{
    stk_context *ctx = self->base.context;
    char *dir = NULL;

    if (self->dirpath)
        STK_TRY(stk__url_local(ctx, self->dirpath, &dir, err));
    else
        dir = stk__url_below(ctx, stk_trainer_log_dir(t), "checkpoints");
    if (!dir)
        return stk__callback_no_memory("model_checkpoint", err);
    if (self->dir && strcmp(self->dir, dir) != 0)
        stk__model_checkpoint_disown(self);
    stk__free(ctx, self->dir);
    self->dir = dir;
    return STK_OK;
}

static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;

    self->trainer = t;
    if (at->task != STK_TASK_FIT || self->dir)
        return STK_OK;
    STK_TRY(name_folder(self, t, err));
    if (strchr(self->dir, '\n'))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, "dirpath", STK_NO_OFFSET,
                            "model_checkpoint: a folder with a line break in its name cannot be "
                            "noted in a checkpoint; choose another dirpath");
    warn_if_not_empty(callback->context, self->dir);
    return STK_OK;
}

/* A folder that cannot be made is found before the first step, not at the first save, hours later.
 */
static stk_status make_folder(const stk__model_checkpoint *self, const stk_trainer *t,
                              stk_error *err)
{
    stk_context *ctx = self->base.context;
    const bool saves = self->options.save_top_k != 0 || self->options.save_last;

    if (!saves || stk__callback_info(t).rank)
        return STK_OK;
    if (stk__url_elsewhere(ctx, self->dir)) {
        stk_put *put;
        char *path = version_path(self, "last", 0);
        if (!path)
            return stk__callback_no_memory("model_checkpoint", err);
        const stk_status status = stk_put_open(ctx, path, NULL, &put, err);
        stk__free(ctx, path);
        if (status == STK_OK)
            put->ops->abandon(put);
        return status;
    }
    return stk__durable_path(ctx, NULL, self->dir, err);
}

static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;

    self->last_time_ns = stk__now_ns();
    STK_TRY(name_folder(self, t, err));
    return make_folder(self, t, err);
}

static const char *checkpoint_path(const stk_callback *callback, stk_checkpoint_which which)
{
    const stk__model_checkpoint *self = (const stk__model_checkpoint *)callback;

    return which == STK_CHECKPOINT_BEST   ? self->best
           : which == STK_CHECKPOINT_LAST ? self->last
           : self->dir                    ? self->dir
                                          : self->dirpath;
}

static bool checkpoint_score(const stk_callback *callback, double *score)
{
    const stk__model_checkpoint *self = (const stk__model_checkpoint *)callback;

    *score = self->best_score;
    return self->monitor && self->best;
}

static const char *monitored(const stk_callback *callback, uint32_t *flags)
{
    const stk__model_checkpoint *self = (const stk__model_checkpoint *)callback;

    return self->options.save_top_k ? self->monitor : NULL;
}

/* All that was saved is on the disk. */
static stk_status teardown(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                           stk_error *err)
{
    stk__model_checkpoint_release((stk__model_checkpoint *)callback, UINT64_MAX);
    return STK_OK;
}

const stk_callback_ops stk__callback_model_checkpoint = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "model_checkpoint",
    .doc = "saves the best and the newest state",
    .options = &stk__model_checkpoint_table,
    .create = stk__model_checkpoint_create,
    .destroy = stk__model_checkpoint_destroy,
    .state_key = stk__model_checkpoint_key,
    .state_dict = stk__model_checkpoint_state,
    .load_state_dict = stk__model_checkpoint_load,
    .monitors = true,
    .checkpoints = true,
    .setup = setup,
    .teardown = teardown,
    .on_train_start = on_train_start,
    .on_train_batch_end = on_train_batch_end,
    .on_train_epoch_end = on_train_epoch_end,
    .on_validation_end = on_validation_end,
    .on_exception = on_exception,
    .roles = STK_ROLE_CHECKPOINT | STK_ROLE_NO_METRICS,
    .checkpoint_path = checkpoint_path,
    .checkpoint_score = checkpoint_score,
    .monitored = monitored,
};
