/* batches -> steps, metrics, checkpoints */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_TRAIN_H
#define STK_SRC_TRAIN_TRAIN_H

#include <stoker/trainer.h>

#include "base/lines.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "train/loggers/log_queue.h"

enum { STK__MAX_SOURCES = 16 /* loaders of one phase */, STK__MAX_LOGGERS = 8 };

/* ---- Texts (text.c) -------------------------------------------------------------------------- */

/* "key value": the bits of a number, as stk__lines_read() reads them. */
void stk__text_add_double(stk__text *text, const char *key, double value);

/* ---- Hooks (hooks.c) ------------------------------------------------------------------------- */

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

/* Fill the rows for the task's module and callbacks. */
stk_status stk__hooks_build(stk_trainer *t, stk_error *err);
void stk__hooks_release(stk_trainer *t);
stk_status stk__hook_run(stk_trainer *t, const stk__hook_row *row, stk_error *err);

/* ---- Limits (limits.c) ----------------------------------------------------------------------- */

/* A count, or a fraction of a whole. */
typedef struct stk__limit {
    bool fraction;
    double share;
    uint64_t count;
} stk__limit;

stk_status stk__limit_parse(const char *option, const char *text, stk__limit *out, stk_error *err);
/* "DD:HH:MM:SS" in nanoseconds. */
stk_status stk__duration_parse(const char *option, const char *text, uint64_t *ns, stk_error *err);
/* Batches of an epoch of `steps`. */
stk_status stk__limit_apply(const char *option, const stk__limit *limit, uint64_t steps,
                            uint64_t *out, stk_error *err);

/* What the options say, in numbers. */
typedef struct stk__settings {
    stk__limit train, val, test, predict, val_check;
    bool overfit;
    stk__limit overfit_limit;
    uint64_t val_check_ns; /* 0: not by time */
    uint64_t fast_dev_run; /* batches; 0: off */
    uint64_t max_time_ns;  /* 0: none */
    int64_t max_epochs;    /* -1: without end */
    uint64_t check_val_every_n_epoch;
    int64_t num_sanity_val_steps;
    bool checkpointing, progress_bar, model_summary, logging;
} stk__settings;

/* Check the options against each other and fill the settings. (options_check.c) */
stk_status stk__settings_make(const stk_context *ctx, const stk_trainer_options *o,
                              stk__settings *out, stk_error *err);

/* ---- Metrics (metrics.c) --------------------------------------------------------------------- */

typedef enum stk__metric_group {
    STK__METRICS_TRAIN,
    STK__METRICS_VAL,
    STK__METRICS_TEST,
    STK__METRICS_GROUPS
} stk__metric_group;

/* A value under a name, as callbacks, bar and loggers see it. The thread of the bar reads. */
typedef struct stk__metric {
    char *name;
    _Atomic double value;
    atomic_bool set;
    bool prog_bar;
} stk__metric;

/* What is logged under a name in one group of loops. */
typedef struct stk__slot_key {
    const char *pointer; /* as last given: most names are literals */
    char *name;
    stk__metric_group group;
    uint32_t dataloader_idx;
} stk__slot_key;

typedef struct stk__metric_slot {
    stk__slot_key key;
    uint32_t flags;
    int32_t plain, step, epoch; /* numbers of metrics; -1: none */
    double last, sum, weight;   /* `sum` is the extreme for min and max */
    double *device_sums;        /* on a device whose memory the host cannot read; else NULL */
    bool on_device;             /* the three are kept there, and here only when fetched */
    bool fresh;                 /* logged on a step since the epoch began */
} stk__metric_slot;

typedef struct stk__metrics {
    stk__metric_slot *slots;
    size_t num_slots, slot_room, cursor; /* `cursor`: the slot to try first */
    stk__metric **items;                 /* never move: the bar's thread holds them */
    size_t num_items, item_room;
    atomic_size_t num_shown; /* items the bar's thread may read */
    stk_metric *line;        /* room for one line of metrics */
    size_t line_room;
    pthread_mutex_t lock; /* guards `items` against the bar's thread while it grows */
} stk__metrics;

stk_status stk__metrics_init(stk_trainer *t);
void stk__metrics_release(stk_trainer *t);
/* Forget what was logged: of one group, or of all. */
void stk__metrics_reset(stk_trainer *t, stk__metric_group group, bool published);
/* Set the epoch's values of a group from what was logged so far. */
stk_status stk__metrics_publish(stk_trainer *t, stk__metric_group group, stk_error *err);
/* The same, hand them to the loggers, begin anew. */
stk_status stk__metrics_flush(stk_trainer *t, stk__metric_group group, int64_t step,
                              stk_error *err);
/* Hand the step's values to the loggers. */
stk_status stk__metrics_log_step(stk_trainer *t, int64_t step, stk_error *err);
/* Set a metric of the trainer's own (a callback's), and hand it to the loggers. */
stk_status stk__metrics_log_now(stk_trainer *t, const stk_metric *metrics, size_t n, int64_t step,
                                stk_error *err);
stk__metric *stk__metric_find(stk_trainer *t, const char *name);
/* "`a`, `b`": what exists, for messages. */
void stk__metric_names(stk_trainer *t, char *text, size_t size);

/* The slot of a name where `t->at` stands, made if need be. */
stk_status stk__metrics_slot(stk_trainer *t, const char *name, uint32_t flags,
                             stk__metric_slot **out, stk_error *err);
/* Bring the sums of a slot home from the device: the one place where the host waits for them. */
stk_status stk__metrics_fetch(stk_trainer *t, stk__metric_slot *slot, stk_error *err);
/* As lines of a checkpoint, and back (metrics_state.c). */
stk_status stk__metrics_write(stk_trainer *t, stk__text *text, stk_error *err);
stk_status stk__metrics_read_slot(void *trainer, const char *value, stk_error *err);
stk_status stk__metrics_read_value(void *trainer, const char *value, stk_error *err);
/* Set a metric without logging it. */
bool stk__metric_set(stk_trainer *t, const char *name, double value, bool prog_bar);

/* ---- Time (ledger.c) ------------------------------------------------------------------------- */

enum stk__part {
    STK__PART_DATA_WAIT,
    STK__PART_TRANSFER,
    STK__PART_STEP,
    STK__PART_VALIDATION,
    STK__PART_CALLBACKS,
    STK__PART_LOGGING,
    STK__PART_CHECKPOINT,
    STK__PART_OTHER,
    STK__PARTS
};

typedef struct stk__ledger {
    uint64_t begin_ns, last_ns, parts[STK__PARTS];
    uint64_t steps, samples;
    uint64_t turn_ns; /* of data wait: going to an epoch, before its first batch is asked for */
    uint32_t depth;   /* within validation all time is validation's, but that of checkpoints */
    stk_loader_stats loader_begin, loader_end;
} stk__ledger;

/* Everything since the last mark was spent on `part`. */
static inline uint64_t stk__ledger_mark(stk__ledger *ledger, enum stk__part part)
{
    const uint64_t now = stk__now_ns();

    ledger->parts[ledger->depth ? STK__PART_VALIDATION : part] += now - ledger->last_ns;
    ledger->last_ns = now;
    return now;
}

void stk__ledger_begin(stk__ledger *ledger);
/* What the loader of training has counted so far. */
void stk__ledger_look(const stk_trainer *t, stk_loader_stats *out);
/* The loader of training is about to be made anew: what it counted stays counted. */
void stk__ledger_carry(stk_trainer *t);

/* ---- Data (data.c) --------------------------------------------------------------------------- */

typedef struct stk__feed {
    stk_loader *loader;
    bool own;         /* made by the trainer */
    uint64_t batches; /* of an epoch, after the limits */
} stk__feed;

typedef struct stk__feeds {
    stk__feed feeds[STK__MAX_SOURCES];
    uint32_t n;
    bool open;
} stk__feeds;

/* Make the loaders of a phase. */
stk_status stk__feeds_open(stk_trainer *t, stk_phase phase, stk_error *err);
/* Close them, saying which samples were bad. */
void stk__feeds_close(stk_trainer *t, stk_phase phase);
stk__feeds *stk__feeds_of(stk_trainer *t, stk_phase phase);
/* The next batch, looking at the stop flag ten times a second. STK_ECANCELED when it is set. */
stk_status stk__feed_next(stk_trainer *t, stk__feed *feed, stk_batch **out, stk_error *err);
/* At the beginning of an epoch, where no place has to be found: that the loader of training is as
 * the checkpoint says, as far as on_state_mismatch wants it. */
stk_status stk__feed_compare(stk_trainer *t, stk_error *err);

/* ---- State (state.c, restore.c) -------------------------------------------------------------- */

/* Where in the life of a batch or an epoch a checkpoint was made: what is still to be done. */
enum stk__point {
    STK__POINT_NEXT,    /* the next batch */
    STK__POINT_STEPPED, /* step and hooks of a batch are done; its logging and validation are not */
    STK__POINT_VALIDATED, /* the validation after it is done */
    STK__POINT_EPOCH      /* the epoch's end is done */
};

/* Counters of the loop that a checkpoint holds. */
typedef struct stk__loop {
    uint64_t epoch;
    uint64_t done;       /* batches of this epoch whose step is done */
    uint64_t total_done; /* over all epochs */
    uint64_t global_step;
    uint64_t stepped; /* batches after which the optimizer stepped: the x-axis of the loggers */
    uint64_t accumulate;
    uint64_t val_runs; /* validations done: the epoch of their loaders */
    enum stk__point point;
    bool window_open; /* gradients of this accumulation window are being gathered */
    bool cut;         /* the epoch ended early because the run did: it goes on from here */
} stk__loop;

/* Save a checkpoint of this moment. */
stk_status stk__state_save(stk_trainer *t, const char *path, bool weights_only,
                           const char *const *replaces, size_t num_replaces, stk_error *err);
/* Have the memory of the checkpoints to come taken in the background: the first of them blocks no
 * longer than the others. */
stk_status stk__state_reserve(stk_trainer *t, stk_error *err);
/* Open `ckpt_path` ("last", "best", a file) for the task. */
stk_status stk__state_open(stk_trainer *t, const char *ckpt_path, stk_error *err);
/* The callbacks' part and the hooks; then the module's tensors; then the loop. */
stk_status stk__state_load_callbacks(stk_trainer *t, stk_error *err);
stk_status stk__state_load_module(stk_trainer *t, bool weights_only, stk_error *err);
stk_status stk__state_load_loop(stk_trainer *t, stk_error *err);
void stk__state_close(stk_trainer *t);

/* Copies of tensors in memory: to go back to (nan.c, ema.c). */
typedef struct stk__copy_tensor {
    stk_state_tensor tensor; /* name and data are its own */
    stk_state_kind kind;
} stk__copy_tensor;

typedef struct stk__copy {
    stk_context *ctx;
    stk__copy_tensor *tensors;
    size_t n, room;
} stk__copy;

/* Take (or take again, without allocating) the tensors of `kinds`. */
stk_status stk__copy_take(stk__copy *copy, stk_module *module, uint32_t kinds, stk_error *err);
/* Put them back. */
stk_status stk__copy_put(const stk__copy *copy, stk_module *module, uint32_t kinds, stk_error *err);
void stk__copy_release(stk__copy *copy);

/* ---- Strategy (strategy.c) ------------------------------------------------------------------- */

/* How several processes train one model. */
typedef struct stk__strategy {
    const char *name;
    uint64_t rank, world_size;
    stk_status (*setup)(stk_trainer *t, stk_error *err);
    /* Sum `n` doubles over the ranks. */
    stk_status (*reduce)(stk_trainer *t, double *values, size_t n, stk_error *err);
} stk__strategy;

extern const stk__strategy stk__strategy_single;

/* ---- The trainer ----------------------------------------------------------------------------- */

typedef struct stk__logger_entry {
    const stk_logger_ops *ops;
    void *options;
} stk__logger_entry;

/* What the thread of the progress bar reads. */
typedef struct stk__shown {
    atomic_uint_fast64_t done, total; /* batches of the loop at work */
    atomic_uint_fast64_t train_done;  /* training batches, while validation is at work */
} stk__shown;

struct stk_trainer {
    stk_context *ctx;
    stk_trainer_options options;
    char *texts[24]; /* of the options */
    stk__settings settings;
    stk_console console;
    bool has_console;
    stk_profiler profiler;
    bool profiled;
    const stk__strategy *strategy;
    stk_device *device;
    stk_stream *stream;
    bool host_memory;

    stk__callback_entry *callbacks;
    size_t num_callbacks, callback_room;
    bool defaults_added;
    stk__logger_entry loggers[STK__MAX_LOGGERS];
    size_t num_loggers;
    stk_hparam *hparams;
    size_t num_hparams, hparam_room;
    stk__log_queue *log;
    char *log_dir; /* of the first logger; NULL: none */
    char *version; /* "3", of the first logger; NULL: none */
    stk__checkpoint_writer *writer;

    atomic_int stop;
    bool should_stop;
    bool running;

    /* Of the task at hand. */
    stk_module *module;
    stk_module_ops ops; /* in full size */
    stk_trainer_data data_copy;
    stk__hook_row rows[STK__HOOKS];
    stk__hook_call *calls;
    stk_moment at;
    stk_loss loss;
    stk_optimizers optimizers;
    stk__feeds train, val, test, predict;
    uint64_t val_check_batch; /* 0: by time */
    uint64_t val_last_ns;     /* the last validation, for the interval in time */
    stk__loop loop;
    stk_state loader_state; /* after the last batch taken */
    stk_trainer_progress progress;
    stk__metrics metrics;
    bool epoch_hook; /* in a hook of an epoch's end: what is logged is the epoch's */
    bool may_log;
    stk__ledger ledger;
    stk__shown shown;
    stk__checkpoint *checkpoint; /* being restored */
    char *checkpoint_path;
    bool restarted, restarted_mid_epoch;
    uint64_t bad_batches; /* in a row */
    stk__copy good;       /* to rewind to */
};

/* A hook; costs a load and a branch where nobody listens. */
static inline stk_status stk__hook(stk_trainer *t, enum stk__hook_id id, stk_error *err)
{
    return t->rows[id].n ? stk__hook_run(t, &t->rows[id], err) : STK_OK;
}

#define STK__STRATEGY "[Strategy]SingleDeviceStrategy"

/* The trainer goes: a profile that is still installed may only be closed. (profilers/profiler.c) */
void stk__profile_forget(stk_trainer *trainer);

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

/* A line of the console, or of the log. */
void stk__say(stk_trainer *t, const char *format, ...) STK_PRINTF(2, 3);

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
stk_status stk__epoch_run(stk_trainer *t, stk_error *err);
stk_status stk__train_batch(stk_trainer *t, stk_batch *batch, bool *skip_epoch, stk_error *err);
/* Schedules that are due. */
stk_status stk__schedule(stk_trainer *t, bool every_step, bool plateau, stk_error *err);
bool stk__can_stop_early(const stk_trainer *t);
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
/* The value of a scalar, now. */
double stk__scalar_now(stk_trainer *t, const stk_scalar *scalar);

/* Loggers (loggers.c). */
/* Fail for a name that trainer.logger may not have. */
stk_status stk__loggers_check(const stk_context *ctx, const char *names, stk_error *err);
stk_status stk__loggers_open(stk_trainer *t, stk_error *err);
stk_status stk__log_line(stk_trainer *t, const stk_metric *metrics, size_t n, int64_t step,
                         stk_error *err);

/* ---- Built-in callbacks ---------------------------------------------------------------------- */

extern const stk_logger_ops stk__logger_csv, stk__logger_tensorboard;
/* Whether an outsider's table is whole. */
stk_status stk__callback_kind_check(const void *ops, stk_error *err);
stk_status stk__logger_kind_check(const void *ops, stk_error *err);
extern const stk_callback_ops stk__callback_model_checkpoint, stk__callback_early_stopping,
    stk__callback_lr_monitor, stk__callback_timer, stk__callback_ema, stk__callback_accumulation,
    stk__callback_throughput, stk__callback_device_stats, stk__callback_progress_bar,
    stk__callback_model_summary, stk__callback_prediction_writer, stk__callback_on_exception;

/* Summary, bar, checkpoint and timer, as the options want them. */
stk_status stk__defaults_add(stk_trainer *t, stk_error *err);

typedef struct stk__timer_options {
    uint32_t struct_size;
    const char *duration; /* "DD:HH:MM:SS" */
    int32_t interval;     /* 0: step, 1: epoch */
    bool verbose;
} stk__timer_options;

/* Paths of a ModelCheckpoint; "" where there is none. */
const char *stk__model_checkpoint_best(const stk_callback *callback);
const char *stk__model_checkpoint_last(const stk_callback *callback);
const char *stk__model_checkpoint_dir(const stk_callback *callback);

#endif
