/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint -> the state of a run, refused where it is not of this model or this data. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/best.h"
#include "base/files.h"
#include "base/url.h"
#include "checkpoint/safetensors/safetensors.h"
#include "train/trainer.h"

const char *stk_restorer_text(const stk_restorer *restorer, const char *name)
{
    char full[512];

    snprintf(full, sizeof full, "%s%s", restorer->prefix, name);
    return stk__checkpoint_find_text(restorer->checkpoint, full);
}

const stk_state_tensor *stk_restorer_tensor(const stk_restorer *restorer, const char *name)
{
    char full[512];

    snprintf(full, sizeof full, "%s%s", restorer->prefix, name);
    return stk__checkpoint_find(restorer->checkpoint, full);
}

bool stk_restorer_peek(const stk_restorer *restorer, const char *path, const char *name, char *text,
                       size_t size)
{
    stk__safetensors_file file;
    char full[512];

    if (stk__safetensors_file_open(restorer->ctx, path, &file, NULL) != STK_OK)
        return false;
    snprintf(full, sizeof full, "%s%s", restorer->prefix, name);
    const char *found = stk__safetensors_find_text(&file.parsed, full);
    const bool own = found && stk__safetensors_find_text(&file.parsed, STK__CHECKPOINT_HASH);
    if (own)
        snprintf(text, size, "%s", found);
    stk__safetensors_file_close(&file);
    return own;
}

/* ---- Which ----------------------------------------------------------------------------------- */

/* The folder of a URL that names the newest checkpoint below it, "s3://bucket/run/last"; NULL: it
 * is none, or there is no memory. */
static char *folder_of_last(stk_context *ctx, const char *url)
{
    size_t length;
    const char *name = stk__url_name(ctx, url, &length);

    if (!stk__url_elsewhere(ctx, url) || length != 4 || memcmp(name, "last", 4) != 0)
        return NULL;
    return stk__format(ctx, "%.*s%s", (int)(name - url), url, name + length);
}

/* Where this run saves; then the runs beside it, of the same root and the same logger. A logger of
 * others may have its folders anywhere below the root. */
static stk_status find_newest(stk_trainer *t, bool goes_on, char *path, size_t size, stk_error *err)
{
    const char *own[STK__MOST_CALLBACKS], *root = t->options.default_root_dir;
    stk__newest_where where = {.own = own,
                               .runs = root,
                               .goes_on = goes_on && t->running,
                               .verify = t->restart.together ? stk__state_verify : NULL,
                               .user = t};
    char *runs = NULL, *other = NULL;
    stk_status status = STK_OK;

    where.num_own = stk__callback_folders(&t->hooks, own);
    if (!where.num_own && t->logs.dir)
        own[where.num_own++] = t->logs.dir;
    /* From weights alone no run goes on. */
    where.wanted = goes_on ? STK__STATE_LOOPS : NULL;
    STK_TRY(stk__loggers_runs(t, &runs, err));
    if (runs) {
        where.runs = runs;
        where.other = other = stk__url_below(t->ctx, root, "checkpoints");
        if (!other)
            status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
    }
    if (status == STK_OK)
        status = stk__checkpoint_newest(t->ctx, &where, path, size, err);
    stk__free(t->ctx, runs);
    stk__free(t->ctx, other);
    return status;
}

/* `last`, or that of a folder. */
static stk_status find_newest_in(stk_trainer *t, const char *folder, bool goes_on, char *path,
                                 size_t size, stk_error *err)
{
    const stk__newest_where where = {.runs = folder,
                                     .wanted = goes_on ? STK__STATE_LOOPS : NULL,
                                     .verify = t->restart.together ? stk__state_verify : NULL,
                                     .user = t};

    return folder ? stk__checkpoint_newest(t->ctx, &where, path, size, err)
                  : find_newest(t, goes_on, path, size, err);
}

static stk_status find_last(stk_trainer *t, const char *folder, char *path, size_t size,
                            stk_error *err)
{
    stk_error why;
    stk_status status = find_newest_in(t, folder, t->at.task == STK_TASK_FIT, path, size, &why);

    if (status != STK_ENOENT || t->at.task != STK_TASK_FIT) {
        if (status != STK_OK && err)
            *err = why;
        return status;
    }
    stk__message(t->ctx, STK_MESSAGE_WARNING, "%s: training begins anew", why.text);
    *path = 0;
    return STK_OK;
}

/* The best of the newest run, which may be one of the run that it goes on with. */
static stk_status find_best(stk_trainer *t, char *path, size_t size, stk_error *err)
{
    const stk_restorer restorer = {.ctx = t->ctx, .prefix = ""};
    char told[STK_MAX_OBJECT_KEY], newest[STK_MAX_OBJECT_KEY], *best = NULL;

    STK_TRY(find_newest(t, false, newest, sizeof newest, err));
    if (stk_restorer_peek(&restorer, newest, STK__STATE_BEST, told, sizeof told))
        best = stk__best_found(t->ctx, newest, told);
    if (!best)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_TRAIN, newest, STK_NO_OFFSET,
                            "ckpt_path 'best': the newest checkpoint, '%s', does not say which one "
                            "is the best; give the path of one, or 'last'",
                            newest);
    const int used = snprintf(path, size, "%s", best);
    stk__free(t->ctx, best);
    return used >= 0 && (size_t)used < size
               ? STK_OK
               : stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "the path of '%s' is too long", told);
}

static stk_status find_path(stk_trainer *t, const char *ckpt_path, char *path, size_t size,
                            stk_error *err)
{
    char *folder = folder_of_last(t->ctx, ckpt_path);

    if (folder || strcmp(ckpt_path, "last") == 0) {
        const stk_status status = find_last(t, folder, path, size, err);
        stk__free(t->ctx, folder);
        return status;
    }
    if (strcmp(ckpt_path, "best") == 0) {
        const char *best = stk_trainer_best_model_path(t);
        if (!best)
            return find_best(t, path, size, err);
        snprintf(path, size, "%s", best);
        /* It may still be on its way to the disk. */
        STK_TRY(stk__checkpoint_flush(t->writer, err));
    } else {
        snprintf(path, size, "%s", ckpt_path);
    }
    stk__checkpoint_local(t->writer, path, path, size);
    return STK_OK;
}

stk_status stk_trainer_peek(stk_trainer *t, const char *ckpt_path, stk_loader_state *out,
                            stk_error *err)
{
    const stk_restorer restorer = {.ctx = t->ctx, .prefix = ""};
    char path[STK_MAX_OBJECT_KEY], state[512];

    STK_TRY(stk__context_check(t->ctx, err));
    char *folder = folder_of_last(t->ctx, ckpt_path);
    const stk_status status = folder || strcmp(ckpt_path, "last") == 0
                                  ? find_newest_in(t, folder, true, path, sizeof path, err)
                                  : find_path(t, ckpt_path, path, sizeof path, err);
    stk__free(t->ctx, folder);
    STK_TRY(status);
    if (!stk_restorer_peek(&restorer, path, STK__STATE_LOADER, state, sizeof state))
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "'%s' says nothing of data: training cannot go on from it", path);
    return stk_loader_state_parse(state, out, err);
}

/* What runs with the same folders left on this machine goes to the store; the search for the last
 * checkpoint `waits` for it. A store that takes nothing ends no training. */
static void upload_left(stk_trainer *t, bool waits)
{
    const char *root = t->options.default_root_dir;
    char nothing[1] = "";
    stk_error err;

    /* Each rank may have left parts on its machine. */
    const bool all = stk__shards_stage(t) && stk__checkpoint_parts_store(t->ctx, root);
    const uint64_t rank = t->ranks.strategy.rank;
    if (t->at.task != STK_TASK_FIT || (rank && !all) || !stk__url_elsewhere(t->ctx, root))
        return;
    /* On one machine rank 0 has them, which looks for the last then. */
    if (rank && waits && stk__share_text(t, nothing, sizeof nothing, &err) != STK_OK)
        return;
    if (stk__checkpoint_upload_left(t->writer, root, &err) != STK_OK)
        stk__message(t->ctx, STK_MESSAGE_WARNING, "%s", err.text);
    if (!rank && all && waits && stk__share_text(t, nothing, sizeof nothing, &err) != STK_OK)
        return;
    if (waits)
        stk__state_upload(t, all);
}

static bool is_searched(stk_trainer *t, const char *ckpt_path)
{
    char *folder = folder_of_last(t->ctx, ckpt_path);
    const bool is = folder || strcmp(ckpt_path, "last") == 0;

    stk__free(t->ctx, folder);
    return is;
}

/* What tells a save from any other, by its hash. */
static uint64_t number_of(const stk__checkpoint *checkpoint)
{
    char digits[14];

    snprintf(digits, sizeof digits, "%s",
             stk__checkpoint_find_text(checkpoint, STK__CHECKPOINT_HASH));
    return strtoull(digits, NULL, 16);
}

/* Open the checkpoint that rank 0 has found. */
static stk_status open_found(stk_trainer *t, const char *ckpt_path, stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY] = "";
    stk_status status = STK_OK;

    /* Rank 0 says which: the others may see another state of the folder. */
    if (t->ranks.strategy.rank == 0) {
        t->restart.together = !stk__is_alone(t);
        status = find_path(t, ckpt_path, path, sizeof path, err);
        t->restart.together = false;
    }
    STK_TRY(stk__state_share_path(t, path, sizeof path, err));
    STK_TRY(stk__agree_failure(t, status, err));
    if (!*path)
        return STK_OK;
    stk__say(t, "Restoring states from the checkpoint path at %s", path);
    status = stk__checkpoint_open_first(t->ctx, path, &t->restart.checkpoint, err);
    STK_TRY(stk__agree_failure(t, status, err));
    STK_TRY(stk__same_everywhere(t, number_of(t->restart.checkpoint),
                                 "do not see the same checkpoint at the path they go on from",
                                 err));
    t->restart.path = stk__strdup(t->ctx, path);
    if (!t->restart.path)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
    if (t->at.task == STK_TASK_FIT &&
        !stk__checkpoint_find_text(t->restart.checkpoint, STK__STATE_LOOPS))
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "'%s' holds weights alone: training cannot go on from it; load the "
                            "weights into the model instead",
                            path);
    t->restart.restarted = t->at.task == STK_TASK_FIT;
    return STK_OK;
}

stk_status stk__state_open(stk_trainer *t, const char *ckpt_path, stk_error *err)
{
    stk_status status = STK_OK;

    t->restart.restarted = t->restart.within_epoch = false;
    stk__free(t->ctx, t->restart.path);
    t->restart.path = NULL;
    if (t->at.task == STK_TASK_FIT) {
        STK_TRY(stk__state_note(t, NULL, err));
        t->validated = UINT64_MAX;
    }
    if (ckpt_path && is_searched(t, ckpt_path))
        upload_left(t, true);
    if (ckpt_path)
        status = open_found(t, ckpt_path, err);
    /* It may be the file of the checkpoint that was named, which goes when it is uploaded. */
    if (status == STK_OK)
        upload_left(t, false);
    return status;
}

void stk__state_close(stk_trainer *t)
{
    stk__state_forget_copies(t);
    stk__checkpoint_close(&t->restart.checkpoint);
}

/* A failure to read part of the checkpoint: say of which. */
static stk_status in_checkpoint(const stk_trainer *t, stk_status status, stk_error *err)
{
    stk_error inner;

    if (!err)
        return status;
    inner = *err;
    return stk__fail_at(err, status, STK_STAGE_TRAIN, t->restart.path, STK_NO_OFFSET,
                        "the checkpoint '%.300s': %.500s", t->restart.path, inner.text);
}

/* ---- Callbacks and hooks --------------------------------------------------------------------- */

static stk_status load_hooks(stk_trainer *t, bool of_module, stk_error *err)
{
    const stk__hook_row *row = &t->hooks.rows[STK__HOOK_on_load_checkpoint];
    char prefix[300];
    stk_status status = STK_OK;

    for (uint32_t i = 0; i < row->n && status >= 0; i++) {
        const stk__hook_row one = {.calls = &row->calls[i], .n = 1};
        if ((one.calls->callback == NULL) != of_module)
            continue;
        const stk_restorer restorer = {
            t->ctx, t->restart.checkpoint,
            stk__state_prefix(t, one.calls->callback, prefix, sizeof prefix), t};
        t->at.restorer = &restorer;
        status = stk__hook_run(t, &one, err);
        t->at.restorer = NULL;
    }
    return status < 0 ? status : STK_OK;
}

/* Whether a callback of this run has a key of `length` bytes. */
static bool has_key(const stk_trainer *t, const char *key, size_t length)
{
    for (size_t i = 0; i < t->hooks.num_callbacks; i++)
        if (strlen(t->hooks.callbacks[i].key) == length &&
            memcmp(t->hooks.callbacks[i].key, key, length) == 0)
            return true;
    return false;
}

/* Whether the checkpoint has tensors of the callback of this key. */
static bool has_tensors(const stk__checkpoint *checkpoint, const char *key, size_t length)
{
    const size_t skip = strlen(STK__STATE_CALLBACK);

    for (size_t i = 0; i < stk__checkpoint_count(checkpoint); i++) {
        const char *name = stk__checkpoint_tensor(checkpoint, i)->name;
        if (strncmp(name, STK__STATE_CALLBACK, skip) == 0 &&
            strncmp(name + skip, key, length) == 0 && name[skip + length] == '.')
            return true;
    }
    return false;
}

/* What compares a metric has its name in its key: of another name it begins anew, and that is said,
 * as by Lightning. So is who kept tensors, as those of means stand in the place of the weights. */
static void warn_of_one(stk_trainer *t, const char *key, size_t length)
{
    const int shown = (int)STK_MIN(length, (size_t)200);
    const char *monitor = memmem(key, length, "(monitor=", 9);

    if (has_key(t, key, length))
        return;
    if (monitor && monitor[9] != ',')
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "the checkpoint holds the state of the callback %.*s, which this run does not "
                     "have: what monitors another metric begins anew",
                     shown, key);
    else if (has_tensors(t->restart.checkpoint, key, length))
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "the checkpoint holds tensors of the callback %.*s, which this run does not "
                     "have: training goes on from what that has put in the place of the weights",
                     shown, key);
}

static void warn_of_left(stk_trainer *t)
{
    static const char end[] = ".state";
    const size_t skip = strlen(STK__STATE_CALLBACK), cut = sizeof end - 1;
    const char *name;

    for (size_t i = 0; (name = stk__checkpoint_text_name(t->restart.checkpoint, i)); i++) {
        const size_t length = strlen(name);
        if (length > skip + cut && strncmp(name, STK__STATE_CALLBACK, skip) == 0 &&
            strcmp(name + length - cut, end) == 0)
            warn_of_one(t, name + skip, length - skip - cut);
    }
}

stk_status stk__state_load_hooks(stk_trainer *t, stk_error *err)
{
    if (!t->restart.checkpoint)
        return STK_OK;
    STK_TRY(load_hooks(t, true, err));
    return load_hooks(t, false, err);
}

stk_status stk__state_load_callbacks(stk_trainer *t, stk_error *err)
{
    char prefix[300];
    stk_status status = STK_OK;

    if (!t->restart.checkpoint)
        return STK_OK;
    for (size_t i = 0; i < t->hooks.num_callbacks && t->restart.restarted; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        const stk_restorer restorer = {t->ctx, t->restart.checkpoint,
                                       stk__state_prefix(t, entry->callback, prefix, sizeof prefix),
                                       t};
        if (entry->ops.load_state_dict)
            status = entry->ops.load_state_dict(entry->callback, &restorer, err);
        if (status < 0)
            return in_checkpoint(t, status, err);
    }
    if (t->restart.restarted)
        warn_of_left(t);
    return STK_OK;
}

/* ---- The module ------------------------------------------------------------------------------ */

typedef struct loading {
    stk_trainer *t;
    size_t weights; /* taken that are nobody's but the model's */
} loading;

static void shape_text(const stk_state_tensor *tensor, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};

    stk__text_add(&out, "%s", stk_dtype_name(tensor->dtype));
    stk__text_add_shape(&out, tensor->shape, tensor->rank, false);
}

static stk_status load_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    loading *l = user;
    const char *prefix = stk__state_kind_prefix(kind);
    char name[512], is[128], wants[128];
    stk_state_tensor whole;
    size_t parameter;
    uint64_t skip = 0;

    if (stk__shard_whole(l->t, kind, tensor, &whole, &parameter))
        skip = l->t->ranks.shards.own[parameter].from * stk_dtype_size(tensor->dtype);
    snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
    const stk_state_tensor *from = stk__checkpoint_find(l->t->restart.checkpoint, name);
    if (!from)
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, l->t->restart.path, STK_NO_OFFSET,
                            "the checkpoint '%s' has no '%s': it is one of another model",
                            l->t->restart.path, name);
    if (!stk__state_same_shape(from, &whole)) {
        shape_text(from, is, sizeof is);
        shape_text(&whole, wants, sizeof wants);
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, l->t->restart.path, STK_NO_OFFSET,
                            "'%s' is %s in the checkpoint '%s' and %s in the model: it is one of "
                            "another model",
                            name, is, l->t->restart.path, wants);
    }
    skip -= stk__checkpoint_skipped(l->t->restart.checkpoint, from);
    STK_TRY(stk_trainer_copy(l->t, tensor->data, (const char *)from->data + skip, tensor->bytes,
                             STK_COPY_HOST_TO_DEVICE, err));
    l->weights += *prefix == 0;
    return STK_OK;
}

static stk_status check_left(const stk_trainer *t, size_t taken, stk_error *err)
{
    size_t weights = 0;

    for (size_t i = 0; i < stk__checkpoint_count(t->restart.checkpoint); i++)
        weights += !stk__checkpoint_is_own(stk__checkpoint_tensor(t->restart.checkpoint, i)->name);
    if (weights == taken)
        return STK_OK;
    return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, t->restart.path, STK_NO_OFFSET,
                        "the checkpoint '%s' has %zu tensors of a model, the model %zu: it is one "
                        "of another model",
                        t->restart.path, weights, taken);
}

stk_status stk__state_load_module(stk_trainer *t, bool weights_only, stk_error *err)
{
    loading l = {.t = t};
    uint32_t kinds = STK_STATE_WEIGHTS;

    if (!t->restart.checkpoint)
        return STK_OK;
    if (!weights_only)
        kinds |= STK_STATE_OPTIMIZER;
    if (!weights_only && t->loop.window_open)
        kinds |= STK_STATE_GRADIENT;
    STK_TRY(stk__state_bring(t, kinds, err));
    if (!t->ops.state)
        return STK_OK;
    const stk_status status = t->ops.state(t->module, kinds, load_one, &l, err);
    if (status != STK_OK)
        return status == STK_EFORMAT ? in_checkpoint(t, status, err) : status;
    STK_TRY(check_left(t, l.weights, err));
    return stk__state_load_copies(t, err);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static stk_status bad_loop(const stk_trainer *t, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, t->restart.path, STK_NO_OFFSET,
                        "the checkpoint '%s' lacks a sound '%s' in its loops", t->restart.path,
                        what);
}

static void warn_of_threads(stk_trainer *t, uint64_t threads)
{
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(t->ctx, &cores);
    if (threads != cores.compute)
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "the checkpoint was made with %" PRIu64
                     " compute threads and this run has %" PRIu32
                     ": sums may be added up in another order, so the bits may differ",
                     threads, cores.compute);
}

enum { LOOP_LINES = 16 };

stk_status stk__loops_read(stk_trainer *t, const char *text, uint64_t *threads, stk_error *err)
{
    stk__loop *loop = &t->loop;
    uint64_t version = 0, point = 0, window_open = 0, cut = 0;
    stk__line lines[LOOP_LINES + STK__PROGRESS_NAMES] = {
        {"version", STK__LINE_UINT, .to = &version, .most = STK__STATE_VERSION},
        {"epoch", STK__LINE_UINT, .to = &loop->epoch},
        {"done", STK__LINE_UINT, .to = &loop->done},
        {"total_done", STK__LINE_UINT, .to = &loop->total_done},
        {"global_step", STK__LINE_UINT, .to = &loop->global_step},
        {"stepped", STK__LINE_UINT, .to = &loop->stepped},
        {"accumulate", STK__LINE_UINT, .to = &loop->accumulate},
        {"val_runs", STK__LINE_UINT, .to = &loop->val_runs},
        {"point", STK__LINE_UINT, .to = &point, .most = STK__POINT_EPOCH},
        {"window_open", STK__LINE_UINT, .to = &window_open, .most = 1},
        {"cut", STK__LINE_UINT, .to = &cut, .most = 1},
        {"threads", STK__LINE_UINT, .to = threads},
        {"module", STK__LINE_TEXT, .to = NULL},
        {"precision", STK__LINE_TEXT, .to = NULL},
        {"slot", STK__LINE_EACH, .to = t, .each = stk__metrics_read_slot},
        {"value", STK__LINE_EACH, .to = t, .each = stk__metrics_read_value},
    };

    for (size_t i = 0; i < STK__PROGRESS_NAMES; i++)
        lines[LOOP_LINES + i] =
            (stk__line){stk__progress_names[i].name, STK__LINE_WORDS,
                        (char *)&t->progress + stk__progress_names[i].offset, .most = 8};
    t->at.phase = STK_PHASE_TRAIN;
    t->at.dataloader_idx = 0;
    STK_TRY(
        stk__lines_read(t->ctx, "the loops of the checkpoint", text, lines, STK_COUNT(lines), err));
    if (version == 0 || loop->accumulate == 0 || loop->done > loop->total_done)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "the loops of the checkpoint contradict themselves");
    loop->point = (enum stk__point)point;
    loop->window_open = window_open;
    loop->cut = cut;
    return STK_OK;
}

stk_status stk__state_load_loop(stk_trainer *t, stk_error *err)
{
    uint64_t threads = 0;

    if (!t->restart.restarted)
        return STK_OK;
    const char *text = stk__checkpoint_find_text(t->restart.checkpoint, STK__STATE_LOOPS);
    stk_status status = stk__loops_read(t, text, &threads, err);
    if (status != STK_OK)
        return in_checkpoint(t, status, err);
    warn_of_threads(t, threads);
    t->at.epoch = t->loop.epoch;
    STK_TRY(stk__state_note(t, t->restart.path, err));
    /* The half-done means are those of all ranks: the first goes on from them. */
    if (t->ranks.strategy.rank)
        stk__metrics_leave_to_first(&t->metrics);
    const char *state = stk__checkpoint_find_text(t->restart.checkpoint, STK__STATE_LOADER);
    if (t->loop.total_done && !state)
        return bad_loop(t, "loader", err);
    if (state)
        STK_TRY(stk_loader_state_parse(state, &t->loader_state, err));
    /* Within an epoch both say where it is. */
    const bool same =
        t->loader_state.epoch == t->loop.epoch && t->loader_state.step == t->loop.done;
    return t->loop.done == 0 || same ? STK_OK : bad_loop(t, "loader", err);
}
