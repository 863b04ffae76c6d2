/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a run needs to go on, as tensors and texts of a checkpoint. */
#include <inttypes.h>
#include <stdio.h>

#include "base/best.h"
#include "train/trainer.h"

/* Progress that a checkpoint holds, by name. */
const stk__progress_name stk__progress_names[STK__PROGRESS_NAMES] = {
    {"epochs", offsetof(stk_trainer_progress, epochs)},
    {"train_batches", offsetof(stk_trainer_progress, train_batches)},
    {"optimizer_steps", offsetof(stk_trainer_progress, optimizer_steps)},
    {"zero_grads", offsetof(stk_trainer_progress, zero_grads)},
    {"scheduler_steps", offsetof(stk_trainer_progress, scheduler_steps)},
    {"val_batches", offsetof(stk_trainer_progress, val_batches)}};

/* ---- What is put in -------------------------------------------------------------------------- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the list of a checkpoint");
}

/* `mark`: what its name begins with, before that of its owner. */
static stk_status put_tensor(stk_saver *saver, const char *mark, const stk_state_tensor *tensor,
                             stk_error *err)
{
    stk_state_tensor *tensors = stk__grow(saver->ctx, saver->tensors, &saver->tensor_room,
                                          saver->num_tensors + 1, sizeof *tensors);
    if (!tensors)
        return no_memory(err);
    saver->tensors = tensors;
    stk_state_tensor *to = &saver->tensors[saver->num_tensors];
    *to = *tensor;
    to->name = stk__format(saver->ctx, "%s%s%s", mark, saver->prefix, tensor->name);
    if (!to->name)
        return no_memory(err);
    saver->num_tensors++;
    return STK_OK;
}

stk_status stk_saver_tensor(stk_saver *saver, const stk_state_tensor *tensor, stk_error *err)
{
    return saver->gives ? STK_OK : put_tensor(saver, "", tensor, err);
}

stk_status stk_saver_text(stk_saver *saver, const char *name, const char *text, stk_error *err)
{
    if (saver->gives)
        return STK_OK;
    stk__checkpoint_text *texts =
        stk__grow(saver->ctx, saver->texts, &saver->text_room, saver->num_texts + 1, sizeof *texts);
    if (!texts)
        return no_memory(err);
    saver->texts = texts;
    stk__checkpoint_text *to = &saver->texts[saver->num_texts];
    *to = (stk__checkpoint_text){stk__format(saver->ctx, "%s%s", saver->prefix, name),
                                 stk__strdup(saver->ctx, text)};
    if (!to->name || !to->text) {
        stk__free(saver->ctx, (char *)to->name);
        stk__free(saver->ctx, (char *)to->text);
        return no_memory(err);
    }
    saver->num_texts++;
    return STK_OK;
}

static void release(stk_saver *saver)
{
    for (size_t i = 0; i < saver->num_tensors; i++)
        stk__free(saver->ctx, (char *)saver->tensors[i].name);
    for (size_t i = 0; i < saver->num_texts; i++) {
        stk__free(saver->ctx, (char *)saver->texts[i].name);
        stk__free(saver->ctx, (char *)saver->texts[i].text);
    }
    for (size_t i = 0; i < saver->num_copies; i++)
        stk__free(saver->ctx, saver->copies[i]);
    stk__free(saver->ctx, saver->copies);
    stk__free(saver->ctx, saver->tensors);
    stk__free(saver->ctx, saver->texts);
}

/* Memory of the host that lives until the checkpoint has its snapshot. */
static void *copy_of(stk_saver *saver, uint64_t bytes)
{
    void **copies = stk__grow(saver->ctx, saver->copies, &saver->copy_room, saver->num_copies + 1,
                              sizeof *copies);
    if (!copies)
        return NULL;
    saver->copies = copies;
    void *copy = stk__alloc_buffer(saver->ctx, (size_t)bytes);
    if (copy)
        saver->copies[saver->num_copies++] = copy;
    return copy;
}

/* Bring a tensor of the module to the host, where it has to wait for the checkpoint's snapshot. */
static stk_status bring_home(stk_saver *saver, stk_state_tensor *tensor, stk_error *err)
{
    if (saver->trainer->host_memory || tensor->bytes == 0)
        return STK_OK;
    void *copy = copy_of(saver, tensor->bytes);
    if (!copy)
        return no_memory(err);
    STK_TRY(stk_trainer_copy(saver->trainer, copy, tensor->data, tensor->bytes,
                             STK_COPY_DEVICE_TO_HOST, err));
    tensor->data = copy;
    return STK_OK;
}

/* What a callback has validated in the place of a parameter; NULL: nothing. */
static void *mean_of(const stk_trainer *t, const char *name)
{
    for (size_t i = 0; i < t->hooks.num_callbacks; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        if (entry->ops.average)
            return entry->ops.average(entry->callback, name);
    }
    return NULL;
}

/* What ranks have of a tensor, as one, on rank 0. */
static stk_status save_whole(stk_saver *saver, const stk_state_tensor *part,
                             stk_state_tensor *whole, size_t parameter, stk_error *err)
{
    if (saver->gives)
        return stk__shards_bring(saver->trainer, part, parameter, NULL, err);
    whole->data = copy_of(saver, whole->bytes);
    if (!whole->data)
        return no_memory(err);
    STK_TRY(stk__shards_bring(saver->trainer, part, parameter, whole->data, err));
    return put_tensor(saver, "", whole, err);
}

/* This rank's range of a tensor; beside that of the first rank is its shape. */
static stk_status save_range(stk_saver *saver, const stk_state_tensor *part,
                             const stk_state_tensor *whole, stk_error *err)
{
    stk_state_tensor range = *part, shape = {.name = whole->name, .dtype = STK_INT64, .rank = 1};

    range.name = whole->name;
    STK_TRY(put_tensor(saver, STK__CHECKPOINT_RANGE, &range, err));
    if (saver->part.number)
        return STK_OK;
    shape.shape[0] = whole->rank;
    shape.bytes = whole->rank * sizeof whole->shape[0];
    shape.data = copy_of(saver, STK_MAX(shape.bytes, 1));
    if (!shape.data)
        return no_memory(err);
    memcpy(shape.data, whole->shape, shape.bytes);
    return put_tensor(saver, STK__CHECKPOINT_SHAPE, &shape, err);
}

static stk_status save_part(stk_saver *saver, const stk_state_tensor *part, stk_state_tensor *whole,
                            size_t parameter, stk_error *err)
{
    return saver->part.count ? save_range(saver, part, whole, err)
                             : save_whole(saver, part, whole, parameter, err);
}

stk_status stk_saver_copy(stk_saver *saver, const char *name, stk_state_kind kind,
                          const stk_state_tensor *tensor, void *data, stk_error *err)
{
    stk_state_tensor copy = *tensor, whole;
    size_t parameter;

    const bool parted = stk__shard_whole(saver->trainer, kind, tensor, &whole, &parameter);
    if (parted && saver->alone)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "'%s' lies on all ranks, and a hook of on_save_checkpoint runs on rank 0: "
                         "save it in state_dict()",
                         name);
    copy.name = whole.name = name;
    copy.data = data;
    return parted ? save_part(saver, &copy, &whole, parameter, err)
                  : stk_saver_tensor(saver, &copy, err);
}

/* The means that are saved in the place of what this rank has. */
static void take_mean(const stk_trainer *t, stk_state_kind kind, stk_state_tensor *tensor)
{
    const bool averaged = kind == STK_STATE_PARAMETER || kind == STK_STATE_BUFFER;
    void *mean = averaged ? mean_of(t, tensor->name) : NULL;

    if (mean)
        tensor->data = mean;
}

/* On the other ranks: what rank 0 puts together, or what they write themselves. */
static stk_status give_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    stk_saver *saver = user;
    stk_state_tensor part = *tensor, whole;
    size_t parameter;

    saver->prefix = stk__state_kind_prefix(kind);
    if (!stk__shard_whole(saver->trainer, kind, tensor, &whole, &parameter))
        return STK_OK;
    take_mean(saver->trainer, kind, &part);
    if (part.data == tensor->data)
        STK_TRY(bring_home(saver, &part, err));
    return save_part(saver, &part, &whole, parameter, err);
}

static stk_status save_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    stk_saver *saver = user;

    saver->prefix = stk__state_kind_prefix(kind);
    if (!*saver->prefix && stk__checkpoint_is_own(tensor->name))
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRAIN,
            "a parameter may not be named '%s': names that begin with " STK__CHECKPOINT_OWN
            " are the trainer's",
            tensor->name);
    stk_state_tensor home = *tensor, whole;
    size_t parameter;
    take_mean(saver->trainer, kind, &home);
    if (home.data == tensor->data)
        STK_TRY(bring_home(saver, &home, err));
    if (stk__shard_whole(saver->trainer, kind, tensor, &whole, &parameter))
        return save_part(saver, &home, &whole, parameter, err);
    return put_tensor(saver, "", &home, err);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static stk_status save_loop(stk_trainer *t, stk_saver *saver, stk_error *err)
{
    const stk__loop *loop = &t->loop;
    stk__text text = {.ctx = t->ctx};
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(t->ctx, &cores);
    stk__text_add(&text,
                  "version %d\nepoch %" PRIu64 "\ndone %" PRIu64 "\ntotal_done %" PRIu64
                  "\nglobal_step %" PRIu64 "\nstepped %" PRIu64 "\naccumulate %" PRIu64
                  "\nval_runs %" PRIu64 "\npoint %d\nwindow_open %d\ncut %d\nthreads %" PRIu32 "\n",
                  STK__STATE_VERSION, loop->epoch, loop->done, loop->total_done, loop->global_step,
                  loop->stepped, loop->accumulate, loop->val_runs, loop->point, loop->window_open,
                  loop->cut, cores.compute);
    stk__text_add(&text, "module %s\nprecision %s\n", t->ops.name ? t->ops.name : "module",
                  t->options.precision);
    for (size_t i = 0; i < STK__PROGRESS_NAMES; i++) {
        uint64_t n[8];
        memcpy(n, (const char *)&t->progress + stk__progress_names[i].offset, sizeof n);
        stk__text_add(&text, "%s", stk__progress_names[i].name);
        for (int k = 0; k < 8; k++)
            stk__text_add(&text, " %" PRIu64, n[k]);
        stk__text_add(&text, "\n");
    }
    saver->prefix = STK__CHECKPOINT_OWN;
    stk__metrics_write(t, &text);
    const stk_status status =
        text.failed ? no_memory(err) : stk_saver_text(saver, "loops", text.bytes, err);
    stk__text_release(&text);
    return status;
}

static stk_status save_step(const stk_trainer *t, stk_saver *saver, stk_error *err)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, t->loop.global_step);
    return stk_saver_text(saver, STK__CHECKPOINT_STEP, text, err);
}

static stk_status save_heads(stk_trainer *t, stk_saver *saver, const char *path, stk_error *err)
{
    const char *best = stk__callback_path(&t->hooks, STK_CHECKPOINT_BEST);
    char text[32], state[512];

    saver->prefix = "";
    char *told = best ? stk__best_told(t->ctx, path, best) : NULL;
    const stk_status status = told ? stk_saver_text(saver, STK__STATE_BEST, told, err) : STK_OK;
    stk__free(t->ctx, told);
    STK_TRY(status);
    snprintf(text, sizeof text, "%" PRIu64, t->loop.epoch);
    STK_TRY(stk_saver_text(saver, STK__CHECKPOINT_EPOCH, text, err));
    STK_TRY(save_step(t, saver, err));
    if (t->loop.total_done == 0)
        return STK_OK;
    stk_loader_state_format(&t->loader_state, state, sizeof state);
    return stk_saver_text(saver, STK__STATE_LOADER, state, err);
}

/* ---- Callbacks and hooks --------------------------------------------------------------------- */

/* Of weights alone those that keep checkpoints, who have to know their own again. */
static stk_status save_callbacks(stk_trainer *t, stk_saver *saver, bool weights_only,
                                 stk_error *err)
{
    char prefix[300];

    for (size_t i = 0; i < t->hooks.num_callbacks; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        if (!entry->ops.state_dict || (weights_only && !entry->ops.checkpoint_path))
            continue;
        snprintf(prefix, sizeof prefix, STK__STATE_CALLBACK "%s.", entry->key);
        saver->prefix = prefix;
        STK_TRY(entry->ops.state_dict(entry->callback, saver, err));
    }
    return STK_OK;
}

const char *stk__state_prefix(const stk_trainer *t, const stk_callback *callback, char *prefix,
                              size_t size)
{
    snprintf(prefix, size, STK__STATE_MODULE);
    for (size_t i = 0; i < t->hooks.num_callbacks; i++)
        if (t->hooks.callbacks[i].callback == callback)
            snprintf(prefix, size, STK__STATE_CALLBACK "%s.", t->hooks.callbacks[i].key);
    return prefix;
}

/* As in Lightning, weights alone are saved with what the module adds, without the callbacks' hooks.
 */
static stk_status save_hooks(stk_trainer *t, stk_saver *saver, bool weights_only, stk_error *err)
{
    const stk__hook_row *row = &t->hooks.rows[STK__HOOK_on_save_checkpoint];
    char prefix[300];
    stk_status status = STK_OK;

    t->at.saver = saver;
    saver->alone = true;
    for (uint32_t i = 0; i < row->n && status >= 0; i++) {
        const stk__hook_row one = {.calls = &row->calls[i], .n = 1};
        if (weights_only && one.calls->callback)
            continue;
        saver->prefix = stk__state_prefix(t, one.calls->callback, prefix, sizeof prefix);
        status = stk__hook_run(t, &one, err);
    }
    t->at.saver = NULL;
    return status < 0 ? status : STK_OK;
}

static uint32_t kinds_of(const stk_trainer *t, bool weights_only)
{
    return STK_STATE_WEIGHTS | (weights_only ? 0 : STK_STATE_OPTIMIZER) |
           (!weights_only && t->loop.window_open ? STK_STATE_GRADIENT : 0);
}

static stk_status collect(stk_trainer *t, stk_saver *saver, const char *path, bool weights_only,
                          stk_error *err)
{
    STK_TRY(save_heads(t, saver, path, err));
    if (t->ops.state)
        STK_TRY(t->ops.state(t->module, kinds_of(t, weights_only), save_one, saver, err));
    if (!weights_only)
        STK_TRY(save_loop(t, saver, err));
    STK_TRY(save_callbacks(t, saver, weights_only, err));
    return save_hooks(t, saver, weights_only, err);
}

/* Gradients become their mean, from which each rank goes on: the mean at the end of the window
 * stays what it would have been. */
static stk_status put_together(stk_trainer *t, bool together, stk_error *err)
{
    if (!together || stk__is_alone(t))
        return stk__metrics_gather(t, STK__METRICS_TRAIN, err);
    STK_TRY(stk__metrics_reduce_step(t, err));
    STK_TRY(stk__metrics_reduce(t, STK__METRICS_TRAIN, err));
    return t->loop.window_open ? stk__reduce_gradients(t, false, err) : STK_OK;
}

/* Whether parts of what is saved lie on other ranks. */
static bool shares(const stk_trainer *t, bool weights_only)
{
    return weights_only ? t->ranks.shards.parted : t->ranks.shards.stage > 0;
}

/* Those have to be there, and gradients be such that more can be added to them. */
static stk_status check_shards(const stk_trainer *t, bool weights_only, bool together,
                               stk_error *err)
{
    if (!together && shares(t, weights_only))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "no checkpoint is written after a failure where the ranks share the "
                         "training out (trainer.strategy %s): the others have parts of it",
                         t->options.strategy);
    if (!weights_only && t->loop.window_open && t->ranks.shards.scatters)
        return stk__fail(
            err, STK_ENOTSUP, STK_STAGE_TRAIN,
            "before the optimizer's step no checkpoint but of weights is written where "
            "the ranks share the training out (trainer.strategy %s): each has its part "
            "of the gradients; save behind the step",
            t->options.strategy);
    return STK_OK;
}

/* Tensors and texts of rank 0; the others give what they have, or write it themselves. */
static stk_status gather_state(stk_trainer *t, stk_saver *saver, const char *path,
                               bool weights_only, stk_error *err)
{
    if (t->ranks.strategy.rank == 0)
        return collect(t, saver, path, weights_only, err);
    if (!shares(t, weights_only))
        return STK_OK;
    if (saver->part.count)
        STK_TRY(save_step(t, saver, err));
    saver->gives = true;
    STK_TRY(t->ops.state(t->module, kinds_of(t, weights_only), give_one, saver, err));
    return t->ranks.shards.parted ? save_callbacks(t, saver, weights_only, err) : STK_OK;
}

/* `first`: the path by which the parts go; else rank 0 writes all, to `path`. */
static stk_status hand_over(stk_trainer *t, const stk_saver *saver, const char *path,
                            const char *first, const char *replaces, stk_error *err)
{
    const size_t n = replaces ? 1 : 0;

    if (saver->part.count)
        return stk__checkpoint_save_part(t->writer, &saver->part, first, saver->tensors,
                                         saver->num_tensors, saver->texts, saver->num_texts,
                                         &replaces, n, err);
    if (t->ranks.strategy.rank)
        return STK_OK;
    return stk__checkpoint_save(t->writer, path, saver->tensors, saver->num_tensors, saver->texts,
                                saver->num_texts, &replaces, n, NULL, err);
}

stk_status stk__state_save(stk_trainer *t, const char *path, bool weights_only, bool together,
                           const char *replaces, stk_error *err)
{
    stk_saver saver = {.ctx = t->ctx, .trainer = t, .prefix = ""};
    char first[STK_MAX_OBJECT_KEY];

    const uint32_t depth = t->ledger.depth;
    stk__ledger_mark(&t->ledger, STK__PART_CALLBACKS);
    t->ledger.depth = 0;
    stk__action(t, "", "save_checkpoint");
    /* Rank 0 writes what all ranks hold. Weights alone are for others, and so one file. */
    stk_status status = check_shards(t, weights_only, together, err);
    if (status == STK_OK && !weights_only)
        status = put_together(t, together, err);
    if (status == STK_OK && !weights_only)
        status = stk__state_parts(t, path, &saver.part, first, err);
    if (status == STK_OK)
        status = gather_state(t, &saver, path, weights_only, err);
    if (status == STK_OK)
        status = hand_over(t, &saver, path, first, replaces, err);
    if (status == STK_OK)
        status = stk__nan_keep(t, err);
    release(&saver);
    stk__action_end(t, "", "save_checkpoint");
    stk__ledger_mark(&t->ledger, STK__PART_CHECKPOINT);
    t->ledger.depth = depth;
    return status;
}

stk_status stk__state_note(stk_trainer *t, const char *path, stk_error *err)
{
    char *kept = path ? stk__strdup(t->ctx, path) : NULL;

    stk__free(t->ctx, t->saved.path);
    t->saved = (stk__saved){kept, t->progress.train_batches.total.ready};
    return kept || !path ? STK_OK
                         : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
}

const char *stk_trainer_present_model_path(const stk_trainer *t)
{
    return t->saved.batches == t->progress.train_batches.total.ready ? t->saved.path : NULL;
}

bool stk_trainer_is_ahead(const stk_trainer *t)
{
    return t->validated < t->progress.train_batches.total.ready;
}

void stk_trainer_weights_changed(stk_trainer *t)
{
    t->saved.batches = UINT64_MAX;
    if (t->validated != UINT64_MAX)
        t->validated = 0;
}

stk_status stk_trainer_save(stk_trainer *t, const char *path, bool weights_only,
                            const char *replaces, stk_error *err)
{
    STK_TRY(stk__context_check(t->ctx, err));
    /* Of a failure the other ranks may not know. */
    STK_TRY(stk__state_save(t, path, weights_only, t->at.exception == NULL, replaces, err));
    STK_TRY(stk__state_note(t, path, err));
    return stk__checkpoint_poll(t->writer, err);
}

stk_status stk_trainer_link(stk_trainer *t, const char *target, const char *path, stk_error *err)
{
    STK_TRY(stk__context_check(t->ctx, err));
    const char *saved = stk_trainer_present_model_path(t);
    if (saved && strcmp(saved, target) == 0)
        STK_TRY(stk__state_note(t, path, err));
    if (t->ranks.strategy.rank)
        return STK_OK;
    return stk__checkpoint_link(t->writer, target, path, err);
}
