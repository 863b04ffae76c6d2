/* SPDX-License-Identifier: Apache-2.0 */
/* ModelCheckpoint: its options, the list of what it keeps, and both in a checkpoint. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/best.h"
#include "base/options.h"
#include "base/url.h"
#include "train/callbacks/model_checkpoint.h"

#define AT(member) offsetof(stk__model_checkpoint_options, member)

#define FILENAME "{epoch}-{step}"

static const stk_option options[] = {
    {"dirpath", STK_OPTION_STRING, AT(dirpath), NULL, 0, 0, NULL, "DIR",
     "Where checkpoints go; else `checkpoints` next to the logs, or below default_root_dir."},
    {"filename", STK_OPTION_STRING, AT(filename), FILENAME, 0, 0, NULL, "TEMPLATE",
     "Name of a checkpoint: \"{epoch:02d}-{val_loss:.2f}\"."},
    {"monitor", STK_OPTION_STRING, AT(monitor), NULL, 0, 0, NULL, "METRIC",
     "What says which checkpoints are the best; none: the newest is."},
    {"verbose", STK_OPTION_BOOL, AT(verbose), "false", 0, 0, NULL, NULL, "Say what is saved."},
    {"save_last", STK_OPTION_ENUM, AT(save_last), "false", 0, 0, "false|true|link", NULL,
     "Have last.safetensors be the newest; link: as another name of it."},
    {"save_top_k", STK_OPTION_INT, AT(save_top_k), "1", -1, 1000000, NULL, "K",
     "How many of the best to keep; -1: all, 0: none."},
    {"save_on_exception", STK_OPTION_BOOL, AT(save_on_exception), "false", 0, 0, NULL, NULL,
     "Save when the run fails, too."},
    {"save_weights_only", STK_OPTION_BOOL, AT(save_weights_only), "false", 0, 0, NULL, NULL,
     "Save the model alone; training cannot go on from that."},
    {"mode", STK_OPTION_ENUM, AT(mode), "min", 0, 0, "min|max", NULL,
     "Whether a small or a large `monitor` is good."},
    {"auto_insert_metric_name", STK_OPTION_BOOL, AT(auto_insert_metric_name), "true", 0, 0, NULL,
     NULL, "Write name=value in place of the value."},
    {"every_n_train_steps", STK_OPTION_UINT, AT(every_n_train_steps), "0", 0, 1e15, NULL, "N",
     "Save every so many optimizer steps; 0: not by steps."},
    {"train_time_interval", STK_OPTION_STRING, AT(train_time_interval), NULL, 0, 0, NULL,
     "DD:HH:MM:SS", "Save so often, at the end of a batch."},
    {"every_n_epochs", STK_OPTION_UINT, AT(every_n_epochs), "0", 0, 1e9, NULL, "N",
     "Save every so many epochs; 0: each one, unless steps or time say when."},
    {"save_on_train_epoch_end", STK_OPTION_ENUM, AT(save_on_train_epoch_end), "auto", 0, 0,
     "auto|false|true", NULL,
     "Save at the end of the training epoch, else of validation; auto: as validation is run."},
    {"enable_version_counter", STK_OPTION_BOOL, AT(enable_version_counter), "true", 0, 0, NULL,
     NULL, "Add -v1, -v2 to a name that is taken, else write over it."},
};

const stk_option_table stk__model_checkpoint_table = {
    .name = "model_checkpoint",
    .doc = "Saves the best and the newest state.",
    .struct_size = sizeof(stk__model_checkpoint_options),
    .options = options,
    .count = STK_COUNT(options),
};

/* ---- Making ---------------------------------------------------------------------------------- */

/* Lightning's `null` is the default. */
static const char *filename_of(const stk__model_checkpoint_options *o)
{
    return o->filename && *o->filename ? o->filename : FILENAME;
}

static stk_status check(const stk__model_checkpoint_options *o, stk_error *err)
{
    const int triggers = (o->every_n_train_steps > 0) + (o->every_n_epochs > 0) +
                         (o->train_time_interval && *o->train_time_interval);

    if (triggers > 1)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "every_n_train_steps",
                            STK_NO_OFFSET,
                            "model_checkpoint: every_n_train_steps, every_n_epochs and "
                            "train_time_interval exclude each other; %d of them are given",
                            triggers);
    if ((!o->monitor || !*o->monitor) && (o->save_top_k < -1 || o->save_top_k > 1))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "save_top_k", STK_NO_OFFSET,
                            "model_checkpoint.save_top_k: %" PRId64
                            " without `monitor`: there is nothing to compare; give a monitor, or "
                            "-1, 0 or 1",
                            o->save_top_k);
    if ((!o->monitor || !*o->monitor) && o->mode == 1)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "mode", STK_NO_OFFSET,
                            "model_checkpoint.mode: it has no effect without `monitor`");
    return stk__filename_check(filename_of(o), err);
}

stk_status stk__model_checkpoint_create(stk_context *ctx, const void *given, stk_callback **out,
                                        stk_error *err)
{
    const stk__model_checkpoint_options *o = given;
    uint64_t interval = 0;

    STK_TRY(check(o, err));
    if (o->train_time_interval && *o->train_time_interval)
        STK_TRY(stk__duration_parse("model_checkpoint.train_time_interval", o->train_time_interval,
                                    &interval, err));
    stk__model_checkpoint *self =
        stk__callback_new(ctx, &stk__callback_model_checkpoint, sizeof *self);
    if (!self)
        return stk__callback_no_memory("model_checkpoint", err);
    self->options = *o;
    self->interval_ns = interval;
    self->every_n_epochs = o->every_n_epochs                              ? o->every_n_epochs
                           : o->every_n_train_steps == 0 && interval == 0 ? 1
                                                                          : 0;
    self->best_score = self->current_score = o->mode ? -INFINITY : INFINITY;
    if (!stk__callback_text(ctx, o->dirpath, &self->dirpath) ||
        !stk__callback_text(ctx, filename_of(o), &self->filename) ||
        !stk__callback_text(ctx, o->monitor, &self->monitor)) {
        stk__model_checkpoint_destroy(&self->base);
        return stk__callback_no_memory("model_checkpoint", err);
    }
    /* When it saves says nothing of what is the best. */
    snprintf(self->key, sizeof self->key, "model_checkpoint(monitor=%.100s,mode=%s)",
             self->monitor ? self->monitor : "", o->mode ? "max" : "min");
    *out = &self->base;
    return STK_OK;
}

void stk__model_checkpoint_release(stk__model_checkpoint *self, uint64_t before)
{
    for (size_t i = 0; i < STK__CLAIMS; i++) {
        stk__claim *claim = &self->claims[i];
        if (!claim->put || claim->save >= before)
            continue;
        claim->put->ops->abandon(claim->put);
        claim->put = NULL;
    }
}

static void forget(stk__model_checkpoint *self)
{
    for (size_t i = 0; i < self->num_kept; i++)
        stk__free(self->base.context, self->kept[i].path);
    self->num_kept = 0;
    stk__free(self->base.context, self->last);
    self->last = NULL;
}

void stk__model_checkpoint_destroy(stk_callback *callback)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;
    stk_context *ctx = callback->context;

    stk__model_checkpoint_release(self, UINT64_MAX);
    forget(self);
    stk__free(ctx, self->kept);
    stk__free(ctx, self->dirpath);
    stk__free(ctx, self->filename);
    stk__free(ctx, self->monitor);
    stk__free(ctx, self->dir);
    stk__free(ctx, self->best);
    stk__free(ctx, self->last_saved);
    stk__free(ctx, self);
}

const char *stk__model_checkpoint_key(const stk_callback *callback)
{
    return ((const stk__model_checkpoint *)callback)->key;
}

/* ---- The list -------------------------------------------------------------------------------- */

stk_status stk__model_checkpoint_set(stk__model_checkpoint *self, char **to, const char *text,
                                     stk_error *err)
{
    char *copy = stk__strdup(self->base.context, text);

    if (!copy)
        return stk__callback_no_memory("model_checkpoint", err);
    stk__free(self->base.context, *to);
    *to = copy;
    return STK_OK;
}

stk_status stk__model_checkpoint_keep(stk__model_checkpoint *self, char *path, double score,
                                      stk_error *err)
{
    stk__kept *kept =
        stk__grow(self->base.context, self->kept, &self->room, self->num_kept + 1, sizeof *kept);
    if (!kept) {
        stk__free(self->base.context, path);
        return stk__callback_no_memory("model_checkpoint", err);
    }
    self->kept = kept;
    self->kept[self->num_kept++] = (stk__kept){path, score};
    return STK_OK;
}

void stk__model_checkpoint_disown(stk__model_checkpoint *self)
{
    forget(self);
    self->inherited = self->best != NULL;
}

size_t stk__model_checkpoint_extreme(const stk__model_checkpoint *self, bool worst)
{
    const bool largest = (self->options.mode == 1) != worst;
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < self->num_kept; i++)
        if (found == SIZE_MAX || (largest ? self->kept[i].score > self->kept[found].score
                                          : self->kept[i].score < self->kept[found].score))
            found = i;
    return found;
}

/* ---- In a checkpoint ------------------------------------------------------------------------- */

stk_status stk__model_checkpoint_state(stk_callback *callback, stk_saver *to, stk_error *err)
{
    const stk__model_checkpoint *self = (const stk__model_checkpoint *)callback;
    stk__text text = {.ctx = callback->context};

    stk__text_add(&text, "dirpath %s\nbest_model_path %s\nlast_model_path %s\n",
                  self->dir ? self->dir : "", self->best ? self->best : "",
                  self->last ? self->last : "");
    stk__text_add(&text, "own %d\nlast_step_saved %" PRIu64 "\n", self->saving,
                  self->last_step_saved);
    stk__text_add_double(&text, "best_model_score", self->best_score);
    stk__text_add_double(&text, "current_score", self->current_score);
    for (size_t i = 0; i < self->num_kept; i++) {
        uint64_t bits;
        memcpy(&bits, &self->kept[i].score, sizeof bits);
        stk__text_add(&text, "kept %016" PRIx64 " %s\n", bits, self->kept[i].path);
    }
    return stk__callback_save_text(to, &text, err);
}

/* Whether it is an object, of a local folder a file and no link. */
static bool is_object(stk_context *ctx, const char *path)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    struct stat st;

    if (!stk__url_elsewhere(ctx, path))
        return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
    const bool is = stk_store_open(ctx, path, &store, key, sizeof key, NULL) == STK_OK &&
                    stk_store_stat(store, key, NULL, &info, NULL) == STK_OK && !info.is_folder;
    stk_store_close(&store);
    return is;
}

/* What a checkpoint told of the run that it is of. */
typedef struct loading {
    stk__model_checkpoint *self;
    const stk_restorer *from;
    char *dir, *best, *last; /* as that run had them */
    double best_score, current_score;
    char *folder; /* `dir` as this run spells it, or where it was moved to */
    bool same;    /* it is the folder of this run */
} loading;

/* Whether a state tells that folder as its own, or this run's in other words. */
static bool is_of(const loading *l, char *state)
{
    char *end = strchr(state, '\n');

    if (!end || strncmp(state, "dirpath ", 8) != 0)
        return false;
    *end = 0;
    return strcmp(state + 8, l->dir) == 0 ||
           stk__best_is_folder(l->self->base.context, state + 8, l->self->dir);
}

/* A path that the checkpoint told, from here: a plain name in that folder, or in one beside it.
 * NULL: it is none. */
static char *found(const loading *l, const char *path)
{
    stk_context *ctx = l->self->base.context;

    if (!l->folder || !(stk__best_in(ctx, l->dir, path) || stk__best_of_sibling(ctx, l->dir, path)))
        return NULL;
    char *there = stk__url_below(ctx, l->dir, "a"), *here = stk__url_below(ctx, l->folder, "a");
    char *told = there && here ? stk__best_told(ctx, there, path) : NULL;
    char *out = told ? stk__best_found(ctx, here, told) : NULL;
    stk__free(ctx, there);
    stk__free(ctx, here);
    stk__free(ctx, told);
    return out;
}

/* Whether it is a checkpoint that has a state of this callback. */
static bool has_state(const loading *l, const char *path, char *text, size_t size)
{
    return is_object(l->self->base.context, path) &&
           stk_restorer_peek(l->from, path, "state", text, size);
}

/*
 * Whether a path is this run's to replace and to remove: a plain name in the folder that its
 * checkpoints go to, of a checkpoint that the same callback of a run has put there.
 */
static bool is_own(const loading *l, const char *path)
{
    char text[STK_MAX_OBJECT_KEY];

    return l->same && stk__best_in(l->self->base.context, l->self->dir, path) &&
           has_state(l, path, text, sizeof text) && is_of(l, text);
}

/* Whether it is the best of the run that this one goes on with, in that run's folder: to be used,
 * and never to be replaced or removed. A dirpath that was given is this run's own choice. */
static bool is_inherited(const loading *l, const char *path)
{
    char text[1];

    return !l->self->dirpath && stk__best_of_sibling(l->self->base.context, l->self->dir, path) &&
           has_state(l, path, text, sizeof text);
}

/* What was kept, as it was told: sort_out() looks at it. */
static stk_status load_kept(void *user, const char *value, stk_error *err)
{
    const loading *l = user;
    double score;

    if (!stk__take_double(&value, &score) || !stk__take(&value, ' '))
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "the state of model_checkpoint cannot be read: a score that is none");
    char *path = stk__strdup(l->self->base.context, value);
    return path ? stk__model_checkpoint_keep(l->self, path, score, err)
                : stk__callback_no_memory("model_checkpoint", err);
}

/* Of what was told behind the first `before` that were kept, keep what is this run's own. */
static void sort_out(const loading *l, size_t before)
{
    stk__model_checkpoint *self = l->self;
    const size_t told = self->num_kept;

    self->num_kept = before;
    for (size_t i = before; i < told; i++) {
        char *path = found(l, self->kept[i].path);
        stk__free(self->base.context, self->kept[i].path);
        if (path && is_own(l, path))
            self->kept[self->num_kept++] = (stk__kept){path, self->kept[i].score};
        else
            stk__free(self->base.context, path);
    }
}

static void replace(stk_context *ctx, char **to, char *path)
{
    stk__free(ctx, *to);
    *to = path;
}

static void load_best(const loading *l)
{
    stk__model_checkpoint *self = l->self;
    stk_context *ctx = self->base.context;
    char *best = found(l, l->best);
    const bool own = best && is_own(l, best);

    if (own || (best && is_inherited(l, best))) {
        replace(ctx, &self->best, best);
        self->best_score = l->best_score;
        self->inherited = !own;
        return;
    }
    /* One that is gone counts no more. */
    if (self->monitor && !l->same &&
        (self->dirpath || !best || !stk__best_of_sibling(ctx, self->dir, best)))
        stk__message(ctx, STK_MESSAGE_WARNING,
                     "the best checkpoint so far, '%s', is in no folder of a run beside '%s': the "
                     "best of this run begins anew",
                     l->best, self->dir);
    stk__free(ctx, best);
}

static void load_last(const loading *l)
{
    char *last = found(l, l->last);

    if (last && is_own(l, last))
        replace(l->self->base.context, &l->self->last, last);
    else
        stk__free(l->self->base.context, last);
}

/* Find the folder of that run again: its checkpoints tell, wherever they were moved to. */
static stk_status find_folder(loading *l, bool own, stk_error *err)
{
    stk_context *ctx = l->self->base.context;
    char *there = own ? stk__best_folder(ctx, stk_trainer_ckpt_path(l->self->trainer)) : NULL;

    l->folder = stk__best_spelt(ctx, l->self->dir, there ? there : l->dir);
    stk__free(ctx, there);
    if (!l->folder)
        return stk__callback_no_memory("model_checkpoint", err);
    l->same = strcmp(l->folder, l->self->dir) == 0;
    return STK_OK;
}

stk_status stk__model_checkpoint_load(stk_callback *callback, const stk_restorer *from,
                                      stk_error *err)
{
    stk__model_checkpoint *self = (stk__model_checkpoint *)callback;
    const char *text = stk_restorer_text(from, "state");
    stk_context *ctx = callback->context;
    const size_t before = self->num_kept;
    loading l = {.self = self, .from = from};
    uint64_t own = 0;
    const stk__line lines[] = {
        {"dirpath", STK__LINE_TEXT, .to = &l.dir},
        {"best_model_path", STK__LINE_TEXT, .to = &l.best},
        {"last_model_path", STK__LINE_TEXT, .to = &l.last},
        {"own", STK__LINE_UINT, .to = &own, .most = 1},
        {"last_step_saved", STK__LINE_UINT, .to = &self->last_step_saved},
        {"best_model_score", STK__LINE_DOUBLE, .to = &l.best_score},
        {"current_score", STK__LINE_DOUBLE, .to = &l.current_score},
        {"kept", STK__LINE_EACH, .to = &l, .each = load_kept},
    };

    if (!text)
        return STK_OK;
    stk_status status =
        stk__lines_read(ctx, "the state of model_checkpoint", text, lines, STK_COUNT(lines), err);
    if (status == STK_OK)
        status = find_folder(&l, own, err);
    if (l.same) {
        self->current_score = l.current_score;
        load_last(&l);
    }
    sort_out(&l, before);
    if (status == STK_OK && *l.best)
        load_best(&l);
    stk__free(ctx, l.dir);
    stk__free(ctx, l.best);
    stk__free(ctx, l.last);
    stk__free(ctx, l.folder);
    return status;
}
