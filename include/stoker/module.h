/* SPDX-License-Identifier: Apache-2.0 */
/* What is trained, and what looks on: modules, callbacks, loggers, and the moments they are called
 * at. */
#ifndef STOKER_MODULE_H
#define STOKER_MODULE_H

#include <stoker/device.h>
#include <stoker/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_trainer stk_trainer;
typedef struct stk_module stk_module;
typedef struct stk_callback stk_callback;
typedef struct stk_logger stk_logger;

/** One number under a name, at a step. */
typedef struct stk_metric {
    const char *name;
    double value;
} stk_metric;

/** A line of hyper-parameters: both texts. */
typedef struct stk_hparam {
    const char *name, *value;
} stk_hparam;

/* ---- Loggers ---- */

/** What a journal had that was not sent, and what became of it. */
typedef struct stk_logger_synced {
    uint32_t struct_size;
    uint64_t metrics, params, files; /**< that were sent by this call; params with tags */
    uint64_t bytes;                  /**< of the journal that are sent now */
    uint64_t bytes_before;           /**< and that were before */
    uint64_t refused;                /**< lines that the server will never take */
    uint64_t damaged; /**< lines that say nothing, as one torn by the end of a process */
    uint64_t unsent;  /**< files that are gone, too large, or that the server takes none of */
    char page[512];   /**< where the run is shown; "": not known */
} stk_logger_synced;

/**
 * Where metrics go. The trainer calls from a thread of its own behind a bounded queue, one call at
 * a time, so none of these delays a step; a status that is a failure is reported once and the
 * logger is left alone from then on. Outsiders may write one.
 */
typedef struct stk_logger_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* "csv", "tensorboard" */
    const char *doc;
    const stk_option_table *options;
    /* `options` is the struct of the table; strings in it are to be copied. `root` is
     * default_root_dir. Blocks. */
    stk_status (*open)(stk_context *ctx, const void *options, const char *root, stk_logger **out,
                       stk_error *err);
    /* Ends it: all is written. A failure that finalize() has not given is a message. */
    void (*close)(stk_logger *logger);
    /* Values of one moment. `step` is the trainer's step, `wall_time` seconds since 1970. */
    stk_status (*log_metrics)(stk_logger *logger, const stk_metric *metrics, size_t n, int64_t step,
                              double wall_time, stk_error *err);
    /* (optional) Once, before the first metrics. */
    stk_status (*log_hyperparams)(stk_logger *logger, const stk_hparam *params, size_t n,
                                  stk_error *err);
    /* (optional) Have what was logged so far reach the disk. */
    stk_status (*flush)(stk_logger *logger, stk_error *err);
    /* (optional) The end of a task, more of which may follow: what was logged is safe where it
     * belongs when this returns. A failure is the task's. NULL: flush(). */
    stk_status (*finalize)(stk_logger *logger, stk_error *err);
    /* (optional) Send what the journal in the folder `run` has and was not sent, as far as it was
     * not; no logger is open there. `options` as of open(); those that are not set are as the
     * journal has them. Where it fails what was sent is in `out`, and the next call goes on behind
     * it. NULL: it keeps no journal, or others send it. Blocks. */
    stk_status (*sync)(stk_context *ctx, const void *options, const char *run,
                       stk_logger_synced *out, stk_error *err);
    /* (optional) How the task ended that finalize() is called for next: STK_OK; STK_ECANCELED, it
     * was interrupted; else why it failed. */
    void (*ended)(stk_logger *logger, stk_status how);
} stk_logger_ops;

/** Every logger begins with this; its open() fills it. */
struct stk_logger {
    const stk_logger_ops *ops;
    stk_context *context;
    const char *log_dir;  /**< where its files and the checkpoints of the run are:
                             <save_dir>/<name>/version_<n>;  NULL: nowhere */
    const char *save_dir; /**< "lightning_logs" of `root` unless said otherwise */
    const char *run_name; /**< NULL: none */
    int64_t version;      /**< -1: none */
};

/* ---- Moments ---- */

/** What was asked of the trainer. */
typedef enum stk_task {
    STK_TASK_NONE = 0,
    STK_TASK_FIT,
    STK_TASK_VALIDATE,
    STK_TASK_TEST,
    STK_TASK_PREDICT
} stk_task;

/** What it is doing for that. */
typedef enum stk_phase {
    STK_PHASE_NONE = 0,
    STK_PHASE_TRAIN,
    STK_PHASE_SANITY, /**< the few validation batches before training */
    STK_PHASE_VALIDATE,
    STK_PHASE_TEST,
    STK_PHASE_PREDICT
} stk_phase;

/** What training_step() gives to backward(). */
typedef struct stk_loss {
    stk_scalar value; /**< with a weight of 0 the batch is left out, where the host sees it */
    void *handle;     /**< the module's own */
    bool skip;        /**< no backward and no optimizer step for this batch, as `return None` */
    /** Ranks compute together in backward(): it is called with a scale of 0 where others have rows
     * and this one has none. */
    bool together;
} stk_loss;

/** What a checkpoint is filled with, and what is taken out of one. */
typedef struct stk_saver stk_saver;
typedef struct stk_restorer stk_restorer;

/**
 * Where the trainer is. Every step and hook of a module and a callback gets it; it belongs to
 * the trainer and is valid during the call.
 */
typedef struct stk_moment {
    uint32_t struct_size;
    stk_task task;
    stk_phase phase;
    uint32_t dataloader_idx;
    stk_module *module;
    const stk_batch *batch; /**< NULL where there is none */
    uint64_t epoch;         /**< from 0 */
    uint64_t batch_idx;     /**< within the epoch, from 0 */
    uint64_t global_step;   /**< optimizer steps done */
    uint64_t total_batch;   /**< training batches begun before this one, over all epochs: with the
                                 seed, the counter of a module's random draws */
    uint64_t accumulate;    /**< batches of an optimizer step now: the loss is divided by it */
    bool steps;             /**< the optimizer steps after this batch */
    bool last_batch;        /**< of the epoch */
    const stk_loss *loss;   /**< after training_step(); else NULL */
    const stk_tensor *prediction; /**< after predict_step(); else NULL */
    stk_saver *saver;             /**< in on_save_checkpoint */
    const stk_restorer *restorer; /**< in on_load_checkpoint */
    const stk_error *exception;   /**< in on_exception */
    uint64_t log_step; /**< what loggers count: training batches so far after which the optimizer
                            stepped. log_every_n_steps is due where log_step + 1 divides by it */
} stk_moment;

/** What each hook of a module and of a callback looks like. A failure ends the run. */
typedef stk_status stk_module_hook(stk_module *self, stk_trainer *trainer, const stk_moment *at,
                                   stk_error *err);
typedef stk_status stk_callback_hook(stk_callback *self, stk_trainer *trainer, const stk_moment *at,
                                     stk_error *err);

/*
 * The hooks that callbacks and modules share: X(name). All are optional; the callbacks' run first,
 * in the order in which they were added, then the module's. STK_EOS from on_train_batch_start skips
 * the rest of the epoch.
 */
#define STK_HOOK_LIST(X)                                                                           \
    X(setup)                                                                                       \
    X(teardown)                                                                                    \
    X(on_fit_start)                                                                                \
    X(on_fit_end)                                                                                  \
    X(on_train_start)                                                                              \
    X(on_train_end)                                                                                \
    X(on_train_epoch_start)                                                                        \
    X(on_train_epoch_end)                                                                          \
    X(on_train_batch_start)                                                                        \
    X(on_train_batch_end)                                                                          \
    X(on_before_zero_grad)                                                                         \
    X(on_before_backward)                                                                          \
    X(on_after_backward)                                                                           \
    X(on_before_optimizer_step)                                                                    \
    X(on_validation_start)                                                                         \
    X(on_validation_end)                                                                           \
    X(on_validation_epoch_start)                                                                   \
    X(on_validation_epoch_end)                                                                     \
    X(on_validation_batch_start)                                                                   \
    X(on_validation_batch_end)                                                                     \
    X(on_test_start)                                                                               \
    X(on_test_end)                                                                                 \
    X(on_test_epoch_start)                                                                         \
    X(on_test_epoch_end)                                                                           \
    X(on_test_batch_start)                                                                         \
    X(on_test_batch_end)                                                                           \
    X(on_predict_start)                                                                            \
    X(on_predict_end)                                                                              \
    X(on_predict_epoch_start)                                                                      \
    X(on_predict_epoch_end)                                                                        \
    X(on_predict_batch_start)                                                                      \
    X(on_predict_batch_end)                                                                        \
    X(on_save_checkpoint)                                                                          \
    X(on_load_checkpoint)
/* Of callbacks alone. */
#define STK_CALLBACK_HOOK_LIST(X)                                                                  \
    X(on_sanity_check_start)                                                                       \
    X(on_sanity_check_end)                                                                         \
    X(on_exception)
/* Of modules alone. */
#define STK_MODULE_HOOK_LIST(X)                                                                    \
    X(configure_callbacks)                                                                         \
    X(prepare_data)                                                                                \
    X(configure_model)                                                                             \
    X(zero_grad)                                                                                   \
    X(train_dataloader)                                                                            \
    X(val_dataloader)                                                                              \
    X(test_dataloader)                                                                             \
    X(predict_dataloader)                                                                          \
    X(on_validation_model_zero_grad)                                                               \
    X(on_validation_model_eval)                                                                    \
    X(on_validation_model_train)                                                                   \
    X(on_test_model_eval)                                                                          \
    X(on_test_model_train)                                                                         \
    X(on_predict_model_eval)                                                                       \
    X(on_predict_model_train)                                                                      \
    X(on_before_batch_transfer)                                                                    \
    X(transfer_batch_to_device)                                                                    \
    X(on_after_batch_transfer)

/* ---- Modules ---- */

/** What a tensor of a module's state is. */
typedef enum stk_state_kind {
    STK_STATE_PARAMETER = 1, /**< trained */
    STK_STATE_FROZEN = 2,    /**< a parameter that is not */
    STK_STATE_BUFFER = 4,    /**< running statistics and the like: saved, not trained */
    STK_STATE_OPTIMIZER = 8, /**< moments, counters of schedules: needed to go on, not to predict */
    STK_STATE_GRADIENT =
        16,               /**< named as its parameter; saved within an accumulation window only */
    STK_STATE_WEIGHTS = 7 /**< what a prediction needs */
} stk_state_kind;

/** Takes one tensor, whose bytes are in the memory of the trainer's device and may be read and
 * written until the next step: with stk_trainer_copy(), or directly where `host_memory` of
 * stk_trainer_info says so. */
typedef stk_status stk_state_visit(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                                   stk_error *err);

/** A schedule of the learning rate, as the trainer sees it. */
typedef struct stk_lr_scheduler {
    const char *name;       /**< for LearningRateMonitor; NULL: "lr-<optimizer>" */
    bool every_step;        /**< stepped after optimizer steps; else after epochs */
    uint64_t frequency;     /**< of those; 0: 1 */
    bool reduce_on_plateau; /**< wants the value of `monitor`, after validation */
    const char *monitor;
    bool strict; /**< a missing `monitor` is an error, else a warning */
} stk_lr_scheduler;

/** What configure_optimizers() answers. The texts live as long as the module. */
typedef struct stk_optimizers {
    uint32_t struct_size;
    const char *name;    /**< "Adam" */
    uint32_t num_groups; /**< of parameters; 0: 1 */
    const stk_lr_scheduler *schedulers;
    uint32_t num_schedulers;
} stk_optimizers;

/** A line of the model summary. */
typedef struct stk_layer {
    const char *name, *type;
    uint64_t parameters, trainable; /**< numbers of elements */
    double flops;                   /**< of one sample, forward; 0: unknown */
    bool training;                  /**< in train mode */
    uint32_t depth;                 /**< 1: of the model itself */
    uint32_t rank;                  /**< of its output, without the batch; 0: unknown */
    int64_t shape[STK_MAX_RANK];
} stk_layer;

/** How a module is to compute. */
typedef struct stk_module_setup {
    uint32_t struct_size;
    const char *precision; /**< "32-true", "64-true", "bf16-mixed" */
    bool deterministic;    /**< the same bits every time, on a device too */
    bool training;         /**< gradients will be wanted: no buffers for them otherwise */
    bool has_seed;         /**< `seed` was given */
    uint64_t seed;         /**< of initial weights and dropout */
    uint64_t batch_size, eval_batch_size; /**< most rows of a batch; 0: none */
    const stk_field *fields;              /**< of a batch */
    uint32_t num_fields;
    stk_device *device; /**< what it computes on, and the stream that its work is to go to, which */
    stk_stream *stream; /**< the trainer's copies follow; valid until the trainer is destroyed */
} stk_module_setup;

typedef enum stk_clip { STK_CLIP_NORM = 0, STK_CLIP_VALUE } stk_clip;

/**
 * What is trained: a model of Stoker's layers, or anything the caller computes. The trainer calls
 * from one thread. Only what a task uses need be there: training_step, backward and optimizer_step
 * for fit, the step of its name for the others.
 */
typedef struct stk_module_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* type in the summary: "MLP" */

    /* Forward and loss of at->batch. */
    stk_status (*training_step)(stk_module *self, stk_trainer *trainer, const stk_moment *at,
                                stk_loss *loss, stk_error *err);
    /* Add the gradients of `scale` x loss to those there are. */
    stk_status (*backward)(stk_module *self, const stk_loss *loss, double scale, stk_error *err);
    stk_status (*optimizer_step)(stk_module *self, const stk_moment *at, stk_error *err);
    stk_status (*validation_step)(stk_module *self, stk_trainer *trainer, const stk_moment *at,
                                  stk_error *err);
    stk_status (*test_step)(stk_module *self, stk_trainer *trainer, const stk_moment *at,
                            stk_error *err);
    /* Sets the members of *prediction, which are zero but for struct_size; what they point to is
     * the module's and valid until its next step. */
    stk_status (*predict_step)(stk_module *self, stk_trainer *trainer, const stk_moment *at,
                               stk_tensor *prediction, stk_error *err);

    /* (optional) NULL: nothing can be saved, clipped or averaged. Show each tensor whose kind is in
     * `kinds`, in an order that never changes. */
    stk_status (*state)(stk_module *self, uint32_t kinds, stk_state_visit *visit, void *user,
                        stk_error *err);
    /* (optional) NULL: the gradients that state() shows are filled with zeros. So they are in its
     * place by zero_2 and zero_3 on a device with memory of its own. */
    stk_status (*optimizer_zero_grad)(stk_module *self, const stk_moment *at, stk_error *err);
    /* (optional) NULL: the trainer clips the gradients that state() shows. */
    stk_status (*clip_gradients)(stk_module *self, double value, stk_clip algorithm,
                                 stk_error *err);
    /* (optional) NULL: one group without schedules. */
    stk_status (*configure_optimizers)(stk_module *self, stk_trainer *trainer, stk_optimizers *out,
                                       stk_error *err);
    /* (optional) "lr", "momentum", "weight_decay" of a group of parameters, and "initial_lr", what
     * a schedule starts from; false: there is none. */
    bool (*get_option)(const stk_module *self, uint32_t group, const char *name, double *value);
    bool (*set_option)(stk_module *self, uint32_t group, const char *name, double value);
    /* (optional, with schedulers) `metric` is NULL but for reduce_on_plateau. */
    stk_status (*lr_scheduler_step)(stk_module *self, uint32_t scheduler, const double *metric,
                                    stk_error *err);
    /* (optional) NULL: 32-true is all there is. Called before configure_optimizers(). */
    stk_status (*configure)(stk_module *self, const stk_module_setup *setup, stk_error *err);
    /* (optional) Switch between training and evaluation (dropout, running statistics). */
    void (*train)(stk_module *self, bool mode);
    /* (optional) Layer `i` for the summary; false past the last. */
    bool (*layer)(const stk_module *self, size_t i, stk_layer *out);
    /* (optional) Most bytes it will hold: parameters, moments and the buffers of a step. */
    uint64_t (*memory)(const stk_module *self);
    /* (optional) NULL: the caller's. */
    void (*destroy)(stk_module *self);
#define STK_MODULE_MEMBER(name) stk_module_hook *name;
    STK_HOOK_LIST(STK_MODULE_MEMBER)
    STK_MODULE_HOOK_LIST(STK_MODULE_MEMBER)
#undef STK_MODULE_MEMBER
    /* (optional) NULL: its parameters cannot be frozen. Have the parameters whose names match
     * `patterns` ("layer1.*, bn1.*") not learn, where `lr` is negative, or learn in a group of
     * their own at the rate `lr`, which no schedule changes; batch norms that do not learn leave
     * their statistics. Between steps, and from a setup hook on: what does not learn when training
     * begins is in no group until a call has it learn. Later calls for the same text change the
     * rate. With `norms` false its batch norms do not learn in either case. */
    stk_status (*set_learning)(stk_module *self, const char *patterns, bool norms, double lr,
                               stk_error *err);
    /* (optional) Name `i` of what it logs in `phase` (STK_PHASE_TRAIN, VALIDATE or TEST) and the
     * flags of stk_trainer_log(), in full; NULL past the last. Asked before the first step, after
     * configure_optimizers(): a metric that is monitored and that nothing logs is refused there.
     * NULL: not known before it is logged; such a metric fails where it is looked at first. */
    const char *(*logs)(const stk_module *self, stk_phase phase, size_t i, uint32_t *flags);
    /* (optional) NULL: strategies by which ranks share the training out (zero_1, zero_2, zero_3)
     * are refused. From now on the tensors of `kinds` lie in parts: of parameter i of the `n` that
     * state() shows, all of which have gradients of their names in the same order, but for those
     * that do not learn yet, this rank has shards[i], and state() shows such a tensor as one of
     * rank 1 of these elements, at their place.
     *
     * Called in a fit with STK_STATE_OPTIMIZER behind configure() and before
     * configure_optimizers(): moments are kept of the shards alone, and those are stepped. A rank
     * may keep its own part of a gradient alone, so that the module says
     * stk_trainer_gradient_done(), and leaves clipping to the trainer wherever several ranks train.
     * For zero_3 called again before the first step, with STK_STATE_PARAMETER as well: the rest of
     * a parameter keeps its address and is zeros, but from stk_trainer_parameters_wanted(), which
     * the module calls within its passes, until those of other layers are; `together` of stk_loss
     * is always set, and a pass without rows makes the same calls. A last time without it, when
     * parameters are whole again. `shards` live as long as the task.
     *
     * On a device with memory of its own (host_memory of stk_device_info) what is not this rank's
     * has no memory, in place of zeros, and so have gradients by zero_2 and zero_3: those of a
     * layer are there, with what passes have added, from stk_trainer_parameters_wanted() in
     * backward() until they are done; all of them in backward(), where training_step() has not
     * called it, as it need not by zero_2. Both lie in blocks of the device's alloc(), and what
     * lies side by side is given back together. A gradient that state() no longer shows when the
     * task ends may stay without memory: it is only freed then.
     *
     * Gradients of parameters of one type are of one type themselves: else STK_EINVAL. */
    stk_status (*shard)(stk_module *self, uint32_t kinds, const stk_shard *shards, size_t n,
                        stk_error *err);
    /* (with shard) Name, type and shape of what a tensor that state() shows is a part of, and the
     * number of its parameter; its data are nobody's. false: the tensor is whole. */
    bool (*whole)(const stk_module *self, stk_state_kind kind, const stk_state_tensor *part,
                  stk_state_tensor *whole, size_t *parameter);
} stk_module_ops;

/** Every module begins with this. */
struct stk_module {
    const stk_module_ops *ops;
};

/** End a module with its own destroy() and set *module to NULL. Accepts NULL. */
STK_API void stk_module_destroy(stk_module **module);

/* ---- Callbacks ---- */

/** What a callback does in place of one that the trainer would add by itself, or has to be known
 * for: `roles` of its table. */
enum {
    STK_ROLE_SUMMARY = 1,    /**< shows the model's layers: no model_summary is added */
    STK_ROLE_PROGRESS = 2,   /**< shows how far the run is: no progress_bar is added */
    STK_ROLE_TIME_LIMIT = 4, /**< ends the run when its time is over: none for max_time is added */
    STK_ROLE_CHECKPOINT = 8, /**< keeps the best and the newest: no model_checkpoint is added */
    STK_ROLE_NO_METRICS = 16 /**< logs no metric, ever: it needs no `logs` */
};

/** Which path checkpoint_path() is asked for. */
typedef enum stk_checkpoint_which {
    STK_CHECKPOINT_BEST = 0, /**< the file that ckpt_path "best" is */
    STK_CHECKPOINT_LAST,     /**< the newest file */
    STK_CHECKPOINT_FOLDER    /**< where it saves: ckpt_path "last" is looked for here first, and a
                                  stopped run saves here */
} stk_checkpoint_which;

/** Bytes of the tensors of a module. */
typedef struct stk_state_bytes {
    uint32_t struct_size;
    uint64_t weights; /**< parameters and buffers */
    uint64_t gradients, optimizer;
} stk_state_bytes;

/**
 * What looks on and steps in. Outsiders may write one. All hooks are optional and run on the
 * trainer's thread.
 */
typedef struct stk_callback_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* "early_stopping" */
    const char *doc;
    const stk_option_table *options;
    /* `options` is the struct of the table; strings in it are to be copied. */
    stk_status (*create)(stk_context *ctx, const void *options, stk_callback **out, stk_error *err);
    void (*destroy)(stk_callback *callback);
    /* (optional) Names it in checkpoints where several of a kind are used; NULL: its name. */
    const char *(*state_key)(const stk_callback *callback);
    /* (optional) Its state: texts and tensors under names of its own. On rank 0; by zero_3 on all,
     * for stk_saver_copy(). */
    stk_status (*state_dict)(stk_callback *self, stk_saver *to, stk_error *err);
    stk_status (*load_state_dict)(stk_callback *self, const stk_restorer *from, stk_error *err);
    /* It decides on metrics: its on_train_epoch_end runs after the module's, so that it sees what
     * is logged there. */
    bool monitors;
    bool checkpoints; /* It saves: it runs after all others; enable_checkpointing governs it. */
#define STK_CALLBACK_MEMBER(name) stk_callback_hook *name;
    STK_HOOK_LIST(STK_CALLBACK_MEMBER)
    STK_CALLBACK_HOOK_LIST(STK_CALLBACK_MEMBER)
#undef STK_CALLBACK_MEMBER
    uint32_t roles; /* STK_ROLE_SUMMARY, ...; 0: none */
    /* (optional) A path of what it saves, valid until its next hook; NULL: none yet. The first
     * callback that has this answers for the trainer; which is the best, the first of them that
     * has a metric that is monitored(). */
    const char *(*checkpoint_path)(const stk_callback *self, stk_checkpoint_which which);
    /* (optional) The mean of the parameter or buffer of a name, which validation uses in its place:
     * in memory of the host, of the type and shape that state() shows it in (by zero_3 a rank's
     * part, and asked for on every rank), valid until the next hook; NULL: none yet.
     * Checkpoints have it under the plain name; the tensor itself is for state_dict() to keep. One
     * callback of a trainer has this. */
    void *(*average)(stk_callback *self, const char *parameter);
    /* (optional) What the best file of checkpoint_path() scored by the metric that chose it; false:
     * none is saved, or no metric chooses. */
    bool (*checkpoint_score)(const stk_callback *self, double *score);
    /* (optional) Name `i` of the metrics that it may log in training, valid until the next call;
     * NULL past the last. Asked when `logs` of the module is. Without it a callback may log any,
     * unless STK_ROLE_NO_METRICS is among its roles. */
    const char *(*logs)(stk_callback *self, stk_trainer *trainer, size_t i);
    /* (optional) The metric that it decides on and cannot do without: training does not begin where
     * nothing logs it. NULL: none. `*flags`, 0 before, becomes STK_ON_STEP where it looks after
     * each batch, which wants a metric of training that is logged there. */
    const char *(*monitored)(const stk_callback *self, uint32_t *flags);
    /* (optional) Bytes of the copies that it keeps of a module's tensors, which have `of`, in a
     * training; in *saved those that it adds to a checkpoint. Asked before there is a module.
     * Without it: none. */
    uint64_t (*copies)(const stk_callback *self, const stk_state_bytes *of, uint64_t *saved);
    /* (optional) A line of `n` metrics, as loggers get it on rank 0, also where there is none:
     * `step` is what loggers count, the last metric "epoch". Names and values live during the
     * call. Having it, a training without loggers makes such lines, too. */
    void (*logged)(stk_callback *self, stk_trainer *trainer, const stk_metric *metrics, size_t n,
                   int64_t step);
} stk_callback_ops;

/** Every callback begins with this; its create() fills it. */
struct stk_callback {
    const stk_callback_ops *ops;
    stk_context *context;
};

/** Put a text or a tensor into a checkpoint, under a name of the caller's own. Both are copied
 * before the hook's checkpoint is handed over; a tensor's bytes may not change until then. */
STK_API STK_NODISCARD stk_status stk_saver_text(stk_saver *saver, const char *name,
                                                const char *text, stk_error *err);
STK_API STK_NODISCARD stk_status stk_saver_tensor(stk_saver *saver, const stk_state_tensor *tensor,
                                                  stk_error *err);
/** Put what the callback keeps in the place of a parameter or a buffer into a checkpoint: `data` in
 * memory of the host, of the type and shape of `tensor`, which state() shows as one of `kind` now.
 * By zero_3 a rank keeps of a parameter its part alone, which is what state() shows, and the
 * checkpoint has all of it: state_dict() is called on every rank then, with this call for the same
 * tensors in the same order, and what it does else counts on rank 0. In state_dict() alone. */
STK_API STK_NODISCARD stk_status stk_saver_copy(stk_saver *saver, const char *name,
                                                stk_state_kind kind, const stk_state_tensor *tensor,
                                                void *data, stk_error *err);
/** What was put there; NULL: nothing. Valid during the call that got the restorer. */
STK_API const char *stk_restorer_text(const stk_restorer *restorer, const char *name);
STK_API const stk_state_tensor *stk_restorer_tensor(const stk_restorer *restorer, const char *name);
/** For load_state_dict(): what this rank will have of a tensor that state() shows `like`, without
 * data: itself, or by zero_3 a part of it. */
STK_API void stk_restorer_part(const stk_restorer *restorer, const stk_state_tensor *like,
                               stk_state_tensor *out);
/** Have what stk_saver_copy() has put there under `name` in the place of that tensor written to
 * `data`, as many bytes as stk_restorer_part() says, behind load_state_dict() and before
 * on_fit_start(). A checkpoint that has none of its type and shape fails the task (STK_EMISMATCH).
 */
STK_API STK_NODISCARD stk_status stk_restorer_copy(const stk_restorer *restorer, const char *name,
                                                   const stk_state_tensor *like, void *data,
                                                   stk_error *err);
/** The beginning of the text that the same owner has put under `name` into the checkpoint at
 * `path`, as much of it as `text` has room for; false where there is none, or no checkpoint of
 * Stoker's. Reads the head of the file. */
STK_API bool stk_restorer_peek(const stk_restorer *restorer, const char *path, const char *name,
                               char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
