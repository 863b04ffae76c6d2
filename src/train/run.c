/* SPDX-License-Identifier: Apache-2.0 */
/* One task from its setup to its end, in the order of Lightning's hooks. */
#include <inttypes.h>
#include <stdio.h>

#include "base/sized.h"
#include "base/table.h"
#include "base/url.h"
#include "train/ledger.h"
#include "train/trainer.h"

/* ---- Before ---------------------------------------------------------------------------------- */

static stk_status lacks(const stk_trainer *t, const char *what, stk_error *err)
{
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "the module %s has no %s", t->ops.name,
                     what);
}

/* What each task calls, in the order of stk_task. */
static const stk__member for_fit[] = {STK__MEMBER(stk_module_ops, training_step),
                                      STK__MEMBER(stk_module_ops, backward),
                                      STK__MEMBER(stk_module_ops, optimizer_step)};
static const stk__member for_validate[] = {STK__MEMBER(stk_module_ops, validation_step)};
static const stk__member for_test[] = {STK__MEMBER(stk_module_ops, test_step)};
static const stk__member for_predict[] = {STK__MEMBER(stk_module_ops, predict_step)};

#define MODULE_FOR(list)                                                                           \
    {                                                                                              \
        .type = "stk_module_ops", .least = offsetof(stk_module_ops, state), .members = list,       \
        .num_members = STK_COUNT(list), .stage = STK_STAGE_TRAIN                                   \
    }
static const stk__given_table tables[] = {[STK_TASK_FIT] = MODULE_FOR(for_fit),
                                          [STK_TASK_VALIDATE] = MODULE_FOR(for_validate),
                                          [STK_TASK_TEST] = MODULE_FOR(for_test),
                                          [STK_TASK_PREDICT] = MODULE_FOR(for_predict)};

/* What options and data want besides. */
static stk_status check_module(const stk_trainer *t, stk_error *err)
{
    const stk_trainer_options *o = &t->options;
    const stk_module_ops *ops = &t->ops;

    if (t->at.task != STK_TASK_FIT)
        return STK_OK;
    if (t->data_copy.num_val && !ops->validation_step)
        return lacks(t, "validation_step, but there is a validation loader", err);
    if (!ops->state && o->gradient_clip_val > 0 && !ops->clip_gradients)
        return lacks(t, "state nor clip_gradients: gradient_clip_val can do nothing", err);
    if (!ops->state && (o->nan_policy == STK_NAN_REWIND || o->detect_anomaly))
        return lacks(t, "state, which nan_policy rewind and detect_anomaly look at", err);
    if (!ops->state && !ops->optimizer_zero_grad)
        return lacks(t, "optimizer_zero_grad nor state: nobody can zero its gradients", err);
    return STK_OK;
}

static stk_status check_data(const stk_trainer *t, stk_error *err)
{
    const stk_trainer_data *data = &t->data_copy;
    const bool there = t->at.task == STK_TASK_FIT        ? data->train != NULL
                       : t->at.task == STK_TASK_VALIDATE ? data->val && data->num_val
                       : t->at.task == STK_TASK_TEST     ? data->test && data->num_test
                                                         : data->predict && data->num_predict;

    if ((data->num_val && !data->val) || (data->num_test && !data->test) ||
        (data->num_predict && !data->predict))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "the data counts loaders that are not there");
    return there ? STK_OK
                 : stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "there is no loader for what is asked of the trainer");
}

static stk_phase phase_of(stk_task task)
{
    return task == STK_TASK_FIT        ? STK_PHASE_TRAIN
           : task == STK_TASK_VALIDATE ? STK_PHASE_VALIDATE
           : task == STK_TASK_TEST     ? STK_PHASE_TEST
                                       : STK_PHASE_PREDICT;
}

static stk_status take_module(stk_trainer *t, stk_task task, stk_module *module,
                              const stk_trainer_data *data, stk_error *err)
{
    STK_TRY(stk__table_check(&tables[task], module ? module->ops : NULL, err));
    t->module = module;
    t->ops = (stk_module_ops){0};
    stk__sized_copy(&t->ops, sizeof t->ops, module->ops);
    t->data_copy = (stk_trainer_data){0};
    STK_TRY(stk__sized_read(&t->data_copy, sizeof t->data_copy, data, "stk_trainer_data",
                            STK_STAGE_TRAIN, err));
    t->at = (stk_moment){.struct_size = sizeof t->at, .task = task, .module = module};
    if (task == STK_TASK_FIT) {
        t->loop = (stk__loop){.accumulate = t->options.accumulate_grad_batches};
        t->num_accumulates = 0;
        t->progress = (stk_trainer_progress){.struct_size = sizeof t->progress};
    }
    t->optimizers = (stk_optimizers){.struct_size = sizeof t->optimizers};
    t->restart.restarted = t->restart.within_epoch = t->epoch_hook = t->may_log = t->begun = false;
    stk__metrics_forget(t);
    STK_TRY(check_module(t, err));
    return check_data(t, err);
}

/* ---- Setup ----------------------------------------------------------------------------------- */

static uint64_t most_rows(const stk__feeds *feeds)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < feeds->n; i++) {
        stk_loader_state state;
        stk_loader_get_state(feeds->feeds[i].loader, &state);
        most = STK_MAX(most, state.global_batch_size);
    }
    return most;
}

/* A module that computes in its own way is not told to be deterministic. */
static stk_status not_told(const stk_trainer *t, stk_error *err)
{
    stk_error why;

    const stk_status status =
        stk__fail_at(&why, STK_EINVAL, STK_STAGE_OPTIONS, "deterministic", STK_NO_OFFSET,
                     "trainer.deterministic: it has no effect on the module %s, which is not told "
                     "how to compute",
                     t->ops.name ? t->ops.name : "");
    if (t->options.deterministic == STK_DETERMINISM_WARN) {
        stk__message(t->ctx, STK_MESSAGE_WARNING, "%s", why.text);
        return STK_OK;
    }
    if (err)
        *err = why;
    return status;
}

/* Tell the module how to compute. */
static stk_status configure(stk_trainer *t, stk_error *err)
{
    const stk_trainer_options *o = &t->options;
    const stk__feeds *own = stk__feeds_of(t, phase_of(t->at.task));
    const uint64_t world = t->ranks.strategy.world_size;
    const stk_precision precision = stk_precision_of(o->precision);
    stk_module_setup setup = {.struct_size = sizeof setup,
                              .precision = stk_precision_name(precision),
                              .deterministic = o->deterministic != STK_DETERMINISM_NONE,
                              .training = t->at.task == STK_TASK_FIT || !o->inference_mode,
                              .device = t->device,
                              .stream = t->stream,
                              .has_seed = o->seed_everything >= 0,
                              .seed = o->seed_everything >= 0 ? (uint64_t)o->seed_everything : 0};

    if (!t->ops.configure && precision != STK_PRECISION_32_TRUE)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "precision", STK_NO_OFFSET,
                            "trainer.precision: the module %s computes in its own way; '%s' has "
                            "no effect on it",
                            t->ops.name ? t->ops.name : "", o->precision);
    if (!t->ops.configure && o->deterministic)
        STK_TRY(not_told(t, err));
    if (!t->ops.configure)
        return STK_OK;
    if (own->n)
        setup.fields = stk_loader_fields(own->feeds[0].loader, &setup.num_fields);
    setup.batch_size = (most_rows(&t->train) + world - 1) / world;
    setup.eval_batch_size =
        ((t->at.task == STK_TASK_FIT ? most_rows(&t->val) : most_rows(own)) + world - 1) / world;
    return t->ops.configure(t->module, &setup, err);
}

static stk_status configure_optimizers(stk_trainer *t, stk_error *err)
{
    stk_optimizers *o = &t->optimizers;

    if (t->at.task != STK_TASK_FIT || !t->ops.configure_optimizers)
        return STK_OK;
    STK_TRY(t->ops.configure_optimizers(t->module, t, o, err));
    if (o->num_groups == 0)
        o->num_groups = 1;
    if (o->num_schedulers && (!o->schedulers || !t->ops.lr_scheduler_step))
        return lacks(t, "lr_scheduler_step or list of schedulers, but it counts some", err);
    for (uint32_t i = 0; i < o->num_schedulers; i++)
        if (o->schedulers[i].reduce_on_plateau && !o->schedulers[i].monitor)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "a schedule that reduces on a plateau needs a `monitor`");
    return STK_OK;
}

/* Loaders come first, so that they read ahead while the rest is set up. */
static stk_status open_loaders(stk_trainer *t, stk_error *err)
{
    stk__action(t, "", "setup_dataloaders");
    stk_status status = stk__feeds_open(t, phase_of(t->at.task), err);
    stk__action_end(t, "", "setup_dataloaders");
    STK_TRY(status);
    if (t->at.task == STK_TASK_FIT)
        STK_TRY(stk__feeds_open(t, STK_PHASE_VALIDATE, err));
    return STK_OK;
}

/* Lightning's first lines. */
static void say_machine(stk_trainer *t)
{
    const uint64_t batches = t->settings.fast_dev_run;

    if (t->options.seed_everything >= 0)
        stk__say(t, "Seed set to %" PRId64, t->options.seed_everything);
    if (t->options.barebones)
        return;
    if (stk_precision_of(t->options.precision) == STK_PRECISION_BF16_MIXED)
        stk__say(t, "Using bfloat16 Automatic Mixed Precision (AMP)");
    stk__say(t, "GPU available: False, used: False");
    stk__say(t, "TPU available: False, using: 0 TPU cores");
    if (batches)
        stk__say(t,
                 "Running in `fast_dev_run` mode: will run the requested loop using %" PRIu64
                 " batch(es). Logging and checkpointing is suppressed.",
                 batches);
}

static stk_status set_up(stk_trainer *t, const char *ckpt_path, stk_error *err)
{
    STK_TRY(stk__ranks_begin(t, err));
    say_machine(t);
    STK_TRY(stk__hook(t, STK__HOOK_configure_callbacks, err));
    /* It may have added some. */
    STK_TRY(stk__hooks_build(t, err));
    STK_TRY(stk__hook(t, STK__HOOK_prepare_data, err));
    STK_TRY(open_loaders(t, err));
    if (t->at.task != STK_TASK_PREDICT)
        STK_TRY(stk__loggers_name(t, err));
    STK_TRY(stk__hook(t, STK__HOOK_setup, err));
    STK_TRY(stk__hook(t, STK__HOOK_configure_model, err));
    STK_TRY(configure(t, err));
    STK_TRY(stk__state_open(t, ckpt_path, err));
    STK_TRY(stk__state_load_hooks(t, err));
    STK_TRY(stk__shards_begin(t, err));
    STK_TRY(stk__state_load_callbacks(t, err));
    STK_TRY(configure_optimizers(t, err));
    STK_TRY(stk__state_load_loop(t, err));
    /* Parameters come from rank 0, or each rank takes its own from the checkpoint. */
    const bool given = t->restart.checkpoint != NULL;
    if (given)
        STK_TRY(stk__shards_part(t, err));
    STK_TRY(stk__state_load_module(t, t->at.task != STK_TASK_FIT, err));
    stk__state_close(t);
    STK_TRY(stk__share_state(
        t, STK_STATE_WEIGHTS | (t->at.task == STK_TASK_FIT ? STK_STATE_OPTIMIZER : 0), err));
    if (!given)
        STK_TRY(stk__shards_part(t, err));
    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    return STK_OK;
}

/* What keeps lines or texts asks how much of it is left, and would be refused in the middle. */
stk_status stk__memory_check(const stk_trainer *t, stk_error *err)
{
    if (stk__memory_left(t->ctx) > 0)
        return STK_OK;
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, "memory_limit", STK_NO_OFFSET,
                        "memory_limit: the model and what is kept of it (gradients, optimizer, "
                        "the copy that a checkpoint is written from) take more than its %.1f MiB: "
                        "raise it, or take a smaller model or batch_size",
                        (double)stk__context_memory_limit(t->ctx) / 1048576);
}

static stk_status perform(stk_trainer *t, stk_error *err)
{
    static const enum stk__hook_id dataloader[] = {[STK_TASK_VALIDATE] = STK__HOOK_val_dataloader,
                                                   [STK_TASK_TEST] = STK__HOOK_test_dataloader,
                                                   [STK_TASK_PREDICT] =
                                                       STK__HOOK_predict_dataloader};

    if (t->at.task == STK_TASK_FIT) {
        STK_TRY(stk__hook(t, STK__HOOK_on_fit_start, err));
        STK_TRY(stk__hook(t, STK__HOOK_zero_grad, err));
        STK_TRY(stk__fit(t, err));
        return stk__hook(t, STK__HOOK_on_fit_end, err);
    }
    STK_TRY(stk__memory_check(t, err));
    if (t->at.task != STK_TASK_PREDICT)
        STK_TRY(stk__loggers_open(t, err));
    STK_TRY(stk__hook(t, dataloader[t->at.task], err));
    return stk__evaluate(t, phase_of(t->at.task), err);
}

/* ---- After ----------------------------------------------------------------------------------- */

/* A stopped run leaves a checkpoint of where it stood. */
static stk_status save_interrupted(stk_trainer *t, stk_error *err)
{
    const char *folder = stk__callback_path(&t->hooks, STK_CHECKPOINT_FOLDER);
    const bool together = t->ranks.stop; /* all ranks come here */

    if (!t->begun || !t->settings.checkpointing || !folder || t->loop.total_done == 0 ||
        (t->ranks.strategy.rank && !together))
        return STK_OK;
    char *path = stk__url_below(t->ctx, folder, "interrupted.safetensors");
    if (!path)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
    stk_status status = stk__state_save(t, path, false, together, NULL, err);
    if (status == STK_OK)
        status = stk__checkpoint_flush(t->writer, err);
    if (status == STK_OK)
        stk__say(t, "Stopped at epoch %" PRIu64 ", global step %" PRIu64 "; saved to '%s'",
                 t->loop.epoch, t->loop.global_step, path);
    stk__free(t->ctx, path);
    return status;
}

static stk_status stopped(stk_trainer *t, stk_status status, stk_error *err)
{
    stk_error own;

    /* Callbacks first put back what they changed for a while. */
    stk_error_init(&own);
    t->at.exception = err;
    if (stk__hook(t, STK__HOOK_on_exception, &own) < 0)
        stk__message(t->ctx, STK_MESSAGE_ERROR, "and then, in on_exception: %s", own.text);
    t->at.exception = NULL;
    if (status != STK_ECANCELED || save_interrupted(t, &own) == STK_OK)
        return status;
    *err = own;
    return own.status;
}

/* What was saved so far is on the disk before the teardown, which may let go of names. */
static stk_status write_all(stk_trainer *t, stk_error *err)
{
    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    stk_status status = stk__checkpoint_flush(t->writer, err);
    stk__ledger_mark(&t->ledger, STK__PART_CHECKPOINT);
    return status;
}

/* Nothing of this task is left unwritten. The first failure is the task's. */
static stk_status settle(stk_trainer *t, bool together, stk_status status, stk_error *err)
{
    stk_error own;

    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    /* Where the program is to end soon nothing is worth more. */
    stk__state_upload(t, together && t->ranks.parts_stored);
    stk__ledger_mark(&t->ledger, STK__PART_CHECKPOINT);
    if (t->logs.queue)
        stk__log_queue_ended(t->logs.queue, status);
    stk_status logged = t->logs.queue ? stk__log_queue_flush(t->logs.queue, &own) : STK_OK;
    /* The queue has said it already, as it was met; a log with a hole is no success. */
    if (logged != STK_OK && status == STK_OK) {
        *err = own;
        status = logged;
    }
    stk__ledger_mark(&t->ledger, STK__PART_LOGGING);
    stk_status written = stk__checkpoint_flush(t->writer, &own);
    stk__ledger_mark(&t->ledger, STK__PART_CHECKPOINT);
    if (written != STK_OK && status == STK_OK) {
        *err = own;
        status = written;
    } else if (written != STK_OK) {
        stk__message(t->ctx, STK_MESSAGE_ERROR, "%s", own.text);
    }
    return status;
}

/* The module has all of its parameters again. The first failure is the task's. */
static stk_status end_shards(stk_trainer *t, bool together, stk_status status, stk_error *err)
{
    stk_error own;

    stk_error_init(&own);
    return stk__first_failure(status, stk__shards_end(t, together, &own), &own, err);
}

static void clean_up(stk_trainer *t)
{
    stk__state_close(t);
    stk__ledger_look(t, &t->ledger.loader_end);
    if (t->ops.train)
        t->ops.train(t->module, true);
    stk__feeds_close(t, STK_PHASE_TRAIN);
    stk__feeds_close(t, STK_PHASE_VALIDATE);
    stk__feeds_close(t, STK_PHASE_TEST);
    stk__feeds_close(t, STK_PHASE_PREDICT);
    stk__copy_release(&t->good);
    t->at.batch = NULL;
    t->may_log = false;
    stk__ledger_mark(&t->ledger, STK__PART_OTHER);
    t->running = false;
}

/* The first failure is the task's. */
static stk_status end_profile(const stk_trainer *t, stk_status status, stk_error *err)
{
    stk_error own;

    if (!t->profiled || !t->profiler.ended)
        return status;
    stk_error_init(&own);
    const stk_status ended = t->profiler.ended(t->profiler.user, status, &own);
    if (ended != STK_OK && status != STK_OK)
        stk__message(t->ctx, STK_MESSAGE_ERROR, "%s", own.text);
    if (ended == STK_OK || status != STK_OK)
        return status;
    *err = own;
    return ended;
}

static void say_times(stk_trainer *t)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    char text[1800];

    if (t->options.barebones || t->at.task != STK_TASK_FIT)
        return;
    stk_trainer_get_times(t, &times);
    if (times.steps == 0) /* nothing was trained that time could be divided over */
        return;
    stk__trainer_times_format(&times, text, sizeof text);
    stk__say(t, "%s", text);
}

stk_status stk__run(stk_trainer *t, stk_task task, stk_module *module, const stk_trainer_data *data,
                    const char *ckpt_path, stk_error *err)
{
    stk_error own;

    err = err ? err : &own;
    stk_error_init(err);
    STK_TRY(stk__context_check(t->ctx, err));
    if (t->running)
        return stk__fail(err, STK_EBUSY, STK_STAGE_TRAIN, "the trainer is at work already");
    stk__ledger_begin(&t->ledger);
    STK_TRY(take_module(t, task, module, data, err));
    STK_TRY(stk__defaults_add(t, err));
    STK_TRY(stk__hooks_build(t, err));
    t->running = true;
    stk_status status = set_up(t, ckpt_path, err);
    stk__ledger_look(t, &t->ledger.loader_begin);
    if (status == STK_OK)
        status = perform(t, err);
    if (status == STK_OK)
        status = write_all(t, err);
    if (status == STK_OK)
        status = stk__hook(t, STK__HOOK_teardown, err);
    const bool together = status == STK_OK || (status == STK_ECANCELED && t->ranks.stop);
    if (!together)
        stk__checkpoint_hurry(t->writer);
    if (status != STK_OK)
        status = stopped(t, status, err);
    status = end_shards(t, together, status, err);
    status = settle(t, together, status, err);
    status = stk__ranks_end(t, together, status, err);
    clean_up(t);
    say_times(t);
    return end_profile(t, status, err);
}
