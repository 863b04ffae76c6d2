/* the trainer: its parts, and the loops over them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_TRAINER_H
#define STK_SRC_TRAIN_TRAINER_H

#include "device/device.h"
#include "train/callbacks/copy.h"
#include "train/feeds.h"
#include "train/hooks.h"
#include "train/ledger.h"
#include "train/logs.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/settings.h"
#include "train/state.h"
#include "train/strategy.h"
#include "train/train.h"

/* ---- The trainer ----------------------------------------------------------------------------- */

/* Batches of the loop of a phase; the thread of the progress bar reads. */
typedef struct stk__shown {
    atomic_uint_fast64_t done, total;
} stk__shown;

enum { STK__MAX_ACCUMULATES = 64 };

/* From an epoch on, so many batches make a step of the optimizer. */
typedef struct stk__accumulate {
    uint64_t epoch, batches;
} stk__accumulate;

enum { STK__PHASES = STK_PHASE_PREDICT + 1 };

struct stk_trainer {
    stk_context *ctx;
    stk_trainer_options options;
    char *texts[24]; /* of the options */
    stk__settings settings;
    stk_console console, quiet; /* `quiet`: of the ranks but 0 */
    stk_profiler profiler;
    bool profiled;
    stk__ranks ranks;
    stk_device *device;
    stk_stream *stream; /* the device's */
    bool host_memory;
    stk__hooks hooks;
    stk__logs logs;
    stk__checkpoint_writer *writer;

    atomic_int stop;
    bool wish; /* of this rank, to end early; all of them agree on should_stop */
    bool should_stop;
    bool running;

    /* Of the task at hand. */
    stk_module *module;
    stk_module_ops ops; /* in full size */
    stk_trainer_data data_copy;
    stk_moment at;
    stk_loss loss;
    stk_optimizers optimizers;
    stk__feeds train, val, test, predict;
    uint64_t val_check_batch; /* 0: by time */
    uint64_t val_last_ns;     /* the last validation, for the interval in time */
    stk__loop loop;
    stk__accumulate accumulates[STK__MAX_ACCUMULATES]; /* by epoch; before them the option's */
    uint32_t num_accumulates;
    stk_loader_state loader_state; /* after the last batch taken */
    stk_trainer_progress progress;
    stk__metrics metrics;
    bool epoch_hook; /* in a hook of an epoch's end: what is logged is the epoch's */
    bool may_log;
    bool begun; /* a fit: nothing can refuse it any more */
    stk__ledger ledger;
    stk__shown shown[STK__PHASES];
    stk__restart restart;
    stk__saved saved;
    uint64_t validated;   /* likewise, by the latest validation within training; UINT64_MAX: none */
    uint64_t bad_batches; /* in a row */
    stk__copy good;       /* to rewind to */
};

/* No other process trains with this one. */
static inline bool stk__is_alone(const stk_trainer *t)
{
    return t->ranks.strategy.world_size == 1;
}

/* stk_trainer_stop() was called: here, or where others are at work, on any rank as agreed last. */
static inline bool stk__stop_asked(const stk_trainer *t)
{
    return stk__is_alone(t) ? atomic_load_explicit(&t->stop, memory_order_relaxed) : t->ranks.stop;
}

/* What is done in any case came to `second`, with `own`: the first failure is told. So a plug-in is
 * given an error wherever it is called. */
static inline stk_status stk__first_failure(stk_status first, stk_status second,
                                            const stk_error *own, stk_error *err)
{
    if (first != STK_OK || second == STK_OK)
        return first;
    *err = *own;
    return second;
}

/* A hook; costs a load and a branch where no callback has it. */
static inline stk_status stk__hook(stk_trainer *t, enum stk__hook_id id, stk_error *err)
{
    return t->hooks.rows[id].n ? stk__hook_run(t, &t->hooks.rows[id], err) : STK_OK;
}

#define STK__STRATEGY "[Strategy]SingleDeviceStrategy"

/* Around everything that a profiler may want to time. */
static inline void stk__action(stk_trainer *t, const char *owner, const char *what)
{
    if (t->profiled)
        t->profiler.start(t->profiler.user, owner, what);
}

static inline void stk__action_end(stk_trainer *t, const char *owner, const char *what)
{
    if (t->profiled)
        t->profiler.stop(t->profiler.user, owner, what);
}

/* A line of the console. */
void stk__say(stk_trainer *t, const char *format, ...) STK_PRINTF(2, 3);

static inline void stk__show_done(stk_trainer *t, stk_phase phase, uint64_t done)
{
    atomic_store_explicit(&t->shown[phase].done, done, memory_order_relaxed);
}

/* The bar of a phase begins, or goes on with `done` batches. */
static inline void stk__show_begin(stk_trainer *t, stk_phase phase, uint64_t done, uint64_t total)
{
    atomic_store_explicit(&t->shown[phase].total, total, memory_order_relaxed);
    stk__show_done(t, phase, done);
}

static inline void stk__count(stk_progress *p, size_t which, uint64_t n)
{
    ((uint64_t *)&p->total)[which] += n;
    ((uint64_t *)&p->current)[which] += n;
}
enum { STK__READY, STK__STARTED, STK__PROCESSED, STK__COMPLETED };

/* The options of parts over the defaults (model_module_options.c). */
stk_status stk__model_parts_options(const stk_model_parts *parts, stk_model_options *model,
                                    stk_optimizer_options *optimizer, stk_schedule *schedule,
                                    stk_model_module_options *module, stk_error *err);
/* One task from its setup to its end (run.c). */
stk_status stk__run(stk_trainer *t, stk_task task, stk_module *module, const stk_trainer_data *data,
                    const char *ckpt_path, stk_error *err);
/* All epochs (fit.c), one of them (epoch.c), a batch of it (step.c). */
stk_status stk__fit(stk_trainer *t, stk_error *err);
/* Refuse a task that takes more than memory_limit already. */
stk_status stk__memory_check(const stk_trainer *t, stk_error *err);
stk_status stk__epoch_run(stk_trainer *t, stk_error *err);
stk_status stk__train_batch(stk_trainer *t, stk_batch *batch, bool *skip_epoch, stk_error *err);
/* Values that a schedule has while the optimizer steps: its moves before the last step, and 1.
 * 0: the training has no end of its own (schedule.c). */
uint64_t stk__schedule_length(const stk_trainer *t, bool every_step, uint64_t frequency);
/* Some epoch may have several batches to a step of the optimizer. */
static inline bool stk__accumulates(const stk_trainer *t)
{
    return t->options.accumulate_grad_batches > 1 || t->num_accumulates;
}
/* Batches of an optimizer step in an epoch. */
uint64_t stk__accumulate_at(const stk_trainer *t, uint64_t epoch);
/* Schedules that are due. */
stk_status stk__schedule(stk_trainer *t, bool every_step, bool plateau, stk_error *err);
bool stk__can_stop_early(const stk_trainer *t);
/* max_steps are done. */
bool stk__steps_reached(const stk_trainer *t);
/* A loop without training (evaluate.c): STK_PHASE_SANITY, VALIDATE, TEST, PREDICT. */
stk_status stk__evaluate(stk_trainer *t, stk_phase phase, stk_error *err);
/* Gradients: zero, clip, look for what is not finite (gradients.c). */
stk_status stk__zero_grad(stk_trainer *t, stk_error *err);
stk_status stk__clip(stk_trainer *t, stk_error *err);
stk_status stk__find_not_finite(stk_trainer *t, uint32_t kinds, const char *when, stk_error *err);
/* The loss is no number: what the policy says (nan.c). *leave: go on without the batch. */
stk_status stk__nan_met(stk_trainer *t, double loss, bool *leave, stk_error *err);
/* Remember the good state, for the policy `rewind`. */
stk_status stk__nan_keep(stk_trainer *t, stk_error *err);
/* "12, 7, 90 and 13 more" of the batch at hand. */
void stk__batch_indices(const stk_batch *batch, char *text, size_t size);
/* What the loss of the batch says, now: its value, the rows that count in it, and whether it is no
 * number. Without such rows the batch is left out (`skip`). Where looking would make the host wait
 * for a device, it is done only where something is decided before the step: by the policies that
 * leave a batch out, and by several ranks, which share it by the rows that count. */
stk_status stk__loss_look(stk_trainer *t, double *loss, double *rows, bool *bad, stk_error *err);
/* Refuse a metric that a callback or a schedule monitors and nothing logs (monitors.c). */
stk_status stk__monitors_check(stk_trainer *t, stk_error *err);
/* Summary, bar, checkpoint and timer, as the options want them (callbacks.c). */
stk_status stk__defaults_add(stk_trainer *t, stk_error *err);

#endif
