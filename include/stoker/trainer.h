/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer: batches -> steps -> trained parameters, with the surface that Lightning's users
 * know. */
#ifndef STOKER_TRAINER_H
#define STOKER_TRAINER_H

#include <stoker/model.h>
#include <stoker/module.h>
#include <stoker/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models as modules ---- */

/** The table of stk_model_module_options: src/train/model_module_options.c. */
typedef struct stk_model_module_options {
    uint32_t struct_size;
    const char *input;   /**< field of a batch that the model takes; NULL: the first with floats */
    const char *target;  /**< field its loss compares with; NULL: label, target or mask */
    int32_t interval;    /**< of the schedule: 0 after optimizer steps, 1 after epochs (default) */
    uint64_t frequency;  /**< of epochs, or of batches within one, as Lightning counts */
    const char *monitor; /**< what reduce_on_plateau looks at; NULL: "val_loss" */
    const char *weights; /**< file whose weights it begins with; NULL: none */
    bool weights_strict; /**< its tensors have to be those of the model; else what fits is taken */
    const char *metrics; /**< of validation and test: "accuracy, f1"; NULL: those of the loss */
} stk_model_module_options;

static inline void stk_model_module_options_init(stk_model_module_options *options)
{
    stk_options_init(stk_option_table_find("module"), options, sizeof *options);
}

/** Numbers of the fields of a batch that a module of layers reads; -1: there is none. */
typedef struct stk_model_fields {
    uint32_t struct_size;
    int64_t input;  /**< the one that is named, or the first of float32 or float64; the target only
                         where there is no other */
    int64_t target; /**< the one that is named, or "label", "target" or "mask"; next to "data" a
                         "mask" says which of its values are there, and is none */
    int64_t mask;   /**< of the target: "NAME_mask", of "data" "mask"; of uint8 */
} stk_model_fields;

/** Find them by the names of the options, or the usual ones, among an array of fields
 * (stk_field_at()). Pure. */
STK_API void stk_model_fields_find(const stk_field *fields, uint32_t num_fields,
                                   const stk_model_module_options *options, stk_model_fields *out);

/** What a module is made of. Everything it points to outlives the module. */
typedef struct stk_model_parts {
    uint32_t struct_size;
    const stk_model_builder *builder;
    const stk_model_options *model;         /**< NULL: the defaults */
    const stk_optimizer_options *optimizer; /**< NULL: the defaults */
    const stk_parameter_group *groups;
    size_t num_groups;
    const stk_schedule *schedule;            /**< NULL: constant */
    const stk_model_module_options *options; /**< NULL: the defaults */
} stk_model_parts;

/**
 * A model of Stoker's layers as a module. It logs train_loss on steps, and val_loss and test_loss;
 * with cross-entropy val_acc and test_acc, and with top_k above 1 val_acc_topk and test_acc_topk. A
 * schedule whose number of steps is 0 spans the whole training, behind its warm-up.
 *
 * Ownership: *out is the caller's, ended with stk_module_destroy(). Errors: STK_EINVAL, STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_model_module_create(stk_context *context,
                                                         const stk_model_parts *parts,
                                                         stk_module **out, stk_error *err);
/**
 * Take the weights of a file by name, converting between float types: safetensors (Python's, a
 * checkpoint of ours), or torch.save()'s of tensors alone, of which nothing is run. With `strict`
 * every tensor of the model must be there and no other; without it, what fits is taken, and what is
 * left is named in the context's log with both shapes. Where the model has none of the names, but
 * some without what all begin with ("model." of a Lightning module), that is taken off and said.
 * *taken (may be NULL) counts. Blocks.
 *
 * Errors: those of the file; STK_EMISMATCH naming the first tensors that do not fit, with both
 * shapes: then the model is as before.
 */
STK_API STK_NODISCARD stk_status stk_model_load_file(stk_context *context, stk_model *model,
                                                     const char *path, bool strict, size_t *taken,
                                                     stk_error *err);
/** Of stk_weights_convert(). `layers` and `input_shape` are of ONNX alone. */
typedef struct stk_weights_options {
    uint32_t struct_size;
    bool overwrite;          /**< replace a file that is there */
    const char *layers;      /**< text of stk_model_builder_add(); NULL: as the checkpoint says */
    const char *input_shape; /**< of a sample, "3x224x224"; NULL: as the checkpoint says */
    /** Asked now and then; true ends it with STK_ECANCELED. NULL: never. */
    bool (*canceled)(void *user);
    void *user;
} stk_weights_options;

static inline void stk_weights_options_init(stk_weights_options *options)
{
    stk_options_init(stk_option_table_find("weights"), options, sizeof *options);
}

/**
 * Write the weights of a file for other programs. `from` is what stk_model_load_file() reads; `to`
 * is a path or URL that ends with
 *
 *     .safetensors  the tensors alone, with names, types and shapes; what a checkpoint has for a
 *                   training to go on stays behind
 *     .onnx         the model in evaluation, in float32: rows [N, ...] (pictures [N, C, H, W]) from
 *                   "input" to "output", parameters under their names; operators of version 17
 *
 * A checkpoint of ours is verified first, and knows its layers and the shape of a sample. The file
 * has its name when it is whole and durable. `options` may be NULL. *written (may be NULL) counts
 * the tensors of the file written. Thread: any. Blocks.
 *
 * Errors: those of the files; STK_EINVAL (an ending that says no format, a model that is not
 * described), STK_EEXIST (`to` is there, without `overwrite`), STK_ECHECKSUM (a damaged
 * checkpoint), STK_EMISMATCH (weights of other layers), STK_ENOTSUP (a plug-in's layer in ONNX),
 * STK_ELIMIT (an ONNX model of 2 GiB), STK_ECANCELED.
 */
STK_API STK_NODISCARD stk_status stk_weights_convert(stk_context *context, const char *from,
                                                     const char *to,
                                                     const stk_weights_options *options,
                                                     size_t *written, stk_error *err);
/** The model inside; NULL before a task has configured it. */
STK_API stk_model *stk_model_module_model(const stk_module *module);

/* ---- Console ---- */

/**
 * Where lines and the progress bar go. The bar is one line that is replaced ten times a second;
 * NULL takes it away. Calls come from one thread at a time. A trainer that was given none has one
 * whose lines go to the context's log and whose progress goes to the context's progress sink.
 */
typedef struct stk_console {
    uint32_t struct_size;
    void (*line)(void *user, const char *text);
    void (*bar)(void *user, const char *text); /**< NULL: no terminal, so plain lines instead */
    int (*width)(void *user);                  /**< columns; NULL: 80 */
    void *user;
    /** (optional) How far a loop is, in place of lines and of the bar. */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
} stk_console;

/* ---- The trainer ---- */

/** Nothing whose result varies from run to run: where a module cannot be told so, refuse it, or
 * warn. */
typedef enum stk_determinism {
    STK_DETERMINISM_NONE = 0,
    STK_DETERMINISM_STRICT,
    STK_DETERMINISM_WARN
} stk_determinism;

/** A word that means yes or no, or leaves it to the others. */
typedef enum stk_switch { STK_SWITCH_AUTO = 0, STK_SWITCH_FALSE, STK_SWITCH_TRUE } stk_switch;
typedef enum stk_nan_policy {
    STK_NAN_STOP = 0, /**< end the run, naming the samples of the batch */
    STK_NAN_SKIP,     /**< leave the batch out */
    STK_NAN_REWIND, /**< go back to the parameters of the last good checkpoint, and leave it out */
    STK_NAN_IGNORE
} stk_nan_policy;

typedef enum stk_gradient_compression {
    STK_GRADIENTS_WHOLE = 0,
    STK_GRADIENTS_BF16
} stk_gradient_compression;

/** The table of stk_trainer_options: names, defaults and ranges are written there
 * (src/train/options.c). Numbers that may be a count or a fraction are texts: "10" are 10 batches,
 * "1.0" is all of them. */
typedef struct stk_trainer_options {
    uint32_t struct_size;
    const char *accelerator;  /**< "auto", "cpu", or a plug-in's */
    const char *strategy;     /**< "auto", "single_device", "ddp", "zero_1" to "zero_3", "fsdp" */
    const char *devices;      /**< "auto", "1" */
    uint64_t num_nodes;       /**< 1 */
    const char *precision;    /**< "32-true", "64-true", "bf16-mixed" */
    const char *fast_dev_run; /**< "false", "true" (1 batch) or a number of batches */
    int64_t max_epochs;       /**< -1: without end; -2: 1000 unless max_steps or max_time is set */
    uint64_t min_epochs;      /**< 0: none */
    int64_t max_steps;        /**< optimizer steps; -1: no limit */
    uint64_t min_steps;       /**< 0: none */
    const char *max_time;     /**< "DD:HH:MM:SS"; NULL: none */
    const char *limit_train_batches, *limit_val_batches, *limit_test_batches,
        *limit_predict_batches;
    const char *overfit_batches; /**< "0.0": off */
    const char
        *val_check_interval; /**< "1.0" of an epoch, "100" batches, or "00:00:10:00" of time */
    uint64_t check_val_every_n_epoch; /**< 0: val_check_interval counts batches across epochs */
    int64_t num_sanity_val_steps;     /**< -1: all */
    uint64_t log_every_n_steps;
    int32_t enable_checkpointing, enable_progress_bar, enable_model_summary; /**< stk_switch */
    const char *logger; /**< "auto", "false", or names: "csv,tensorboard" */
    uint64_t accumulate_grad_batches;
    double gradient_clip_val;        /**< 0: none */
    int32_t gradient_clip_algorithm; /**< stk_clip */
    int32_t deterministic;           /**< stk_determinism */
    bool benchmark, inference_mode, use_distributed_sampler, detect_anomaly, barebones,
        sync_batchnorm;
    uint64_t reload_dataloaders_every_n_epochs;
    const char *default_root_dir; /**< "." */
    int64_t seed_everything;      /**< -1: the seeds of the parts stay as they are */
    uint64_t val_batch_size;      /**< of loaders the trainer makes for evaluation; 0: as given */
    int32_t nan_policy;           /**< stk_nan_policy */
    uint64_t nan_limit;           /**< bad batches in a row that end the run all the same */
    const char *upload_dir; /**< where checkpoints for another store lie until they are there */
    double upload_deadline; /**< seconds that uploads have once the run was told to stop */
    int32_t gradient_compression; /**< stk_gradient_compression, between ranks */
} stk_trainer_options;

static inline void stk_trainer_options_init(stk_trainer_options *options)
{
    stk_options_init(stk_option_table_find("trainer"), options, sizeof *options);
}

/**
 * Make a trainer. `options` are copied, texts too.
 *
 * Ownership: *out is the caller's, ended with stk_trainer_destroy(). Thread: any. Does not block.
 * Errors: STK_EINVAL (an option that is wrong, contradicts another or has no effect, named),
 * STK_ENOTSUP (what exists instead), STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_trainer_create(stk_context *context,
                                                    const stk_trainer_options *options,
                                                    stk_trainer **out, stk_error *err);
/** Write what is left, close loggers, destroy callbacks, set *trainer to NULL. Accepts NULL. */
STK_API void stk_trainer_destroy(stk_trainer **trainer);

/** Where lines and bars go; copied. */
STK_API void stk_trainer_set_console(stk_trainer *trainer, const stk_console *console);
/** Where they go now, for callbacks; `line` is never NULL. */
STK_API const stk_console *stk_trainer_get_console(const stk_trainer *trainer);
/**
 * Who times what the trainer calls. `owner` says whose call it is
 * ("[Strategy]SingleDeviceStrategy",
 * "[Callback]early_stopping", "[LightningModule]Model"), and is empty for the trainer's own
 * ("run_training_epoch", "run_training_batch", "[_TrainingEpochLoop].train_dataloader_next", ...);
 * `what` is the action. Calls nest. On the trainer's thread; without a profiler each costs a
 * branch.
 */
typedef struct stk_profiler {
    uint32_t struct_size;
    void (*start)(void *user, const char *owner, const char *what);
    void (*stop)(void *user, const char *owner, const char *what);
    void *user;
    /** (optional) It is installed no longer: another takes its place, or the trainer is destroyed.
     */
    void (*removed)(void *user, bool destroyed);
    /** (optional) A task is over, with a status, and its loaders are closed. A failure is the
     * task's, where that was none. Not for a task that was refused before its first action. */
    stk_status (*ended)(void *user, stk_status status, stk_error *err);
} stk_profiler;

/** Install a profiler, copied; NULL removes it. Not while a task is at work. */
STK_API void stk_trainer_set_profiler(stk_trainer *trainer, const stk_profiler *profiler);

/**
 * Train together with other processes: copied. The global batch is shared out to the ranks, their
 * gradients become the mean over its rows, metrics are those of all ranks, rank 0 alone writes and
 * speaks, and what ends the run on one ends it on all. Before the first task; the option `strategy`
 * says how (auto: as ddp). A strategy of one rank, or none, costs nothing.
 *
 * Errors: STK_EINVAL (a member that lacks, a rank that is none, a task was begun).
 */
STK_API STK_NODISCARD stk_status stk_trainer_set_strategy(stk_trainer *trainer,
                                                          const stk_strategy *strategy,
                                                          stk_error *err);
/** Combine numbers of a callback's or a module's own over the ranks, in place; with one rank
 * nothing. On the trainer's thread, from hooks that all ranks run. Blocks. */
STK_API STK_NODISCARD stk_status stk_trainer_reduce(stk_trainer *trainer, double *values, size_t n,
                                                    stk_combine op, stk_error *err);

/** For a module, within its backward(): `gradient`, a tensor that its state() shows, is complete in
 * this pass, and is neither read nor written from here on until optimizer_step(). Of several ranks
 * it is put together while the module computes others; the sums are the same without. Said from the
 * last one of state() backwards, of as many as the module likes. On the trainer's thread. Blocks
 * in a first step, where a list grows, where very many are not put together yet, and by zero_3
 * over a strategy without any_thread; on a device while others come to the same call.
 *
 * Errors: STK_ENOMEM; another order is STK_EINVAL of the task. */
STK_API STK_NODISCARD stk_status stk_trainer_gradient_done(stk_trainer *trainer,
                                                           const stk_state_tensor *gradient,
                                                           stk_error *err);

/** For a module whose parameters lie in parts (shard() of its table), or its gradients on a device,
 * within the passes of a training step: these, of one layer, are read or written next, and whole
 * when it returns, and in backward() their gradients have memory. Those of
 * layers before may be given up, and those that were wanted next in the last step are brought
 * meanwhile. `data` are as state() showed them when they were whole. All ranks ask for the same in
 * the same order. On the trainer's thread. Blocks while others send.
 *
 * Errors: those of the strategy; STK_EINVAL (no parameter of state()). */
STK_API STK_NODISCARD stk_status stk_trainer_parameters_wanted(stk_trainer *trainer,
                                                               const stk_state_tensor *parameters,
                                                               size_t n, stk_error *err);

/** Add a callback of a kind. `options` may be NULL for the defaults. `out` (may be NULL) shows it;
 * it stays the trainer's. */
STK_API STK_NODISCARD stk_status stk_trainer_add_callback(stk_trainer *trainer,
                                                          const stk_callback_ops *ops,
                                                          const void *options, stk_callback **out,
                                                          stk_error *err);
/** The same for a logger; it is opened by the first task that logs. Where any was added, the option
 * `logger` has to be "auto". */
STK_API STK_NODISCARD stk_status stk_trainer_add_logger(stk_trainer *trainer,
                                                        const stk_logger_ops *ops,
                                                        const void *options, stk_error *err);
/** A line of hyper-parameters for the loggers; copied. */
STK_API STK_NODISCARD stk_status stk_trainer_add_hparam(stk_trainer *trainer, const char *name,
                                                        const char *value, stk_error *err);

/**
 * Batches of one loader: a dataset and options, of which the trainer makes loaders as it needs
 * them, or a function that makes them (the trainer destroys them), or one loader of the caller's.
 */
typedef struct stk_loader_source {
    uint32_t struct_size;
    stk_dataset *dataset;
    const stk_loader_options *options; /**< NULL: the defaults */
    stk_status (*open)(void *user, stk_loader **out, stk_error *err);
    void *user;
    stk_loader *loader;
} stk_loader_source;

typedef struct stk_trainer_data {
    uint32_t struct_size;
    const stk_loader_source *train; /**< one */
    const stk_loader_source *val;   /**< for fit and validate */
    uint32_t num_val;
    const stk_loader_source *test;
    uint32_t num_test;
    const stk_loader_source *predict;
    uint32_t num_predict;
} stk_trainer_data;

/**
 * Train. `ckpt_path` is a file, "last" (the newest complete and verified checkpoint of this run,
 * or of those with the same default_root_dir and name of the first logger), "best"
 * (stk_trainer_best_model_path(), or that of the newest run where this trainer has saved none) or
 * NULL.
 *
 * @return STK_OK; STK_ECANCELED after stk_trainer_stop(), with a checkpoint written where those are
 * enabled; any other status is a failure, named in `err`.
 *
 * Thread: one task of a trainer at a time. Blocks until it is done. Everything in `data` and the
 * module outlive the call.
 */
STK_API STK_NODISCARD stk_status stk_trainer_fit(stk_trainer *trainer, stk_module *module,
                                                 const stk_trainer_data *data,
                                                 const char *ckpt_path, stk_error *err);
/**
 * Where the data of a checkpoint is, which a training would go on from: `ckpt_path` as for
 * stk_trainer_fit(). Nothing is changed.
 *
 * Thread: as a task. Blocks. Errors: STK_ENOENT (there is none, or it says nothing of data).
 */
STK_API STK_NODISCARD stk_status stk_trainer_peek(stk_trainer *trainer, const char *ckpt_path,
                                                  stk_loader_state *out, stk_error *err);
/**
 * Bytes of the copies that a training makes of a module's tensors, which have `of` as a whole: for
 * checkpoints, by callbacks, and for nan_policy rewind. Of several ranks, what this one copies: by
 * ddp rank 0 alone has those of checkpoints. By zero_1 to zero_3 an Nth is this rank's of moments,
 * and by zero_3 of what learns (but for an element of each bucket), and each copies its own for its
 * part of a checkpoint. Where default_root_dir is neither a local folder nor in an object store
 * rank 0 copies all of that, and has it twice meanwhile.
 */
STK_API uint64_t stk_trainer_copy_bytes(const stk_trainer *trainer, const stk_state_bytes *of);
STK_API STK_NODISCARD stk_status stk_trainer_validate(stk_trainer *trainer, stk_module *module,
                                                      const stk_trainer_data *data,
                                                      const char *ckpt_path, stk_error *err);
STK_API STK_NODISCARD stk_status stk_trainer_test(stk_trainer *trainer, stk_module *module,
                                                  const stk_trainer_data *data,
                                                  const char *ckpt_path, stk_error *err);
STK_API STK_NODISCARD stk_status stk_trainer_predict(stk_trainer *trainer, stk_module *module,
                                                     const stk_trainer_data *data,
                                                     const char *ckpt_path, stk_error *err);

/** Finish the step, save, end with STK_ECANCELED. Safe in a signal handler; any thread. A task
 * begun later ends at once until stk_trainer_resume(). */
STK_API void stk_trainer_stop(stk_trainer *trainer);
STK_API void stk_trainer_resume(stk_trainer *trainer);
/** End training after this batch, as EarlyStopping does: min_epochs and min_steps still hold, and
 * the status is STK_OK. From hooks. */
STK_API void stk_trainer_should_stop(stk_trainer *trainer);

/* ---- Logging from steps and hooks ---- */

/** Flags of stk_trainer_log(). 0: training steps log each step, everything else at the epoch's
 * end. */
enum {
    STK_ON_STEP = 1,
    STK_ON_EPOCH = 2, /**< with STK_ON_STEP: as "name_step" and "name_epoch" */
    STK_PROG_BAR = 4,
    STK_NO_LOGGER = 8,
    STK_REDUCE_SUM = 16, /**< over the epoch; else the mean, weighted by batch size */
    STK_REDUCE_MIN = 32,
    STK_REDUCE_MAX = 64
};

/** Log a number under a name (a text that stays where it is is found faster). `batch_size` 0: the
 * rows of the batch. Allocates the first time a name is seen, never after. From steps and hooks. */
STK_API STK_NODISCARD stk_status stk_trainer_log(stk_trainer *trainer, const char *name,
                                                 double value, uint32_t flags, uint64_t batch_size,
                                                 stk_error *err);
/** The same for a number that may be on the device. */
STK_API STK_NODISCARD stk_status stk_trainer_log_scalar(stk_trainer *trainer, const char *name,
                                                        const stk_scalar *value, uint32_t flags,
                                                        uint64_t batch_size, stk_error *err);

/** Set metrics and hand them to the loggers as one line, at the step that loggers count now. On the
 * trainer's thread, from hooks. A fit has loggers from on_train_start on. */
STK_API STK_NODISCARD stk_status stk_trainer_log_metrics(stk_trainer *trainer,
                                                         const stk_metric *metrics, size_t n,
                                                         stk_error *err);

/* ---- Looking at it ---- */

STK_API stk_context *stk_trainer_context(const stk_trainer *trainer);
STK_API const stk_trainer_options *stk_trainer_get_options(const stk_trainer *trainer);

/** What the options have come to, together with the machine. */
typedef struct stk_trainer_info {
    uint32_t struct_size;
    bool running;              /**< a task is at work */
    bool logs;                 /**< what is logged goes to loggers */
    bool host_memory;          /**< the host reads and writes the tensors of a module in place */
    bool validates_each_epoch; /**< validation is due at the end of each epoch, and only there */
    uint64_t fast_dev_run;     /**< batches; 0: off */
    int64_t max_epochs;        /**< -1: without end */
    uint64_t rank, world_size; /**< of the processes that train together: this one, and all */
    const char *version;       /**< of the first logger's run, as "3"; NULL: none yet */
    bool stopping;             /**< stk_trainer_stop() was called */
    bool cut;   /**< the epoch at hand ended early as the run does: one that goes on is within it */
    bool begun; /**< a fit is at on_train_start or behind it: nothing refused it */
} stk_trainer_info;
STK_API void stk_trainer_get_info(const stk_trainer *trainer, stk_trainer_info *out);

/** Where the trainer is: what hooks are given, for those that are called without it. Valid
 * while the trainer lives; on its thread. */
STK_API const stk_moment *stk_trainer_moment(const stk_trainer *trainer);
/** The table of the module at work in full size: what its own is too short for is NULL. On the
 * trainer's thread, within a task. */
STK_API const stk_module_ops *stk_trainer_module_ops(const stk_trainer *trainer);
/** Copy between the memory of the module's device and the host, in the order of the module's own
 * work, and wait for it. On the trainer's thread. */
STK_API STK_NODISCARD stk_status stk_trainer_copy(stk_trainer *trainer, void *to, const void *from,
                                                  uint64_t bytes, stk_copy_kind kind,
                                                  stk_error *err);

/** A number and its weight, wherever they are; what it does not have stays as it was. Waits for the
 * device. On the trainer's thread. `weight` may be NULL. Errors: those of the device. */
STK_API STK_NODISCARD stk_status stk_trainer_read_scalar(stk_trainer *trainer,
                                                         const stk_scalar *number, double *value,
                                                         double *weight, stk_error *err);

/** Batches of the loop of a phase that are done, and all of them. Any thread. */
STK_API void stk_trainer_get_bar(const stk_trainer *trainer, stk_phase phase, uint64_t *done,
                                 uint64_t *total);
/** Metric `i` of those that were logged with STK_PROG_BAR; false past the last. The name lives as
 * long as the trainer. Any thread. */
STK_API bool stk_trainer_bar_metric(const stk_trainer *trainer, size_t i, stk_metric *out);

STK_API uint64_t stk_trainer_current_epoch(const stk_trainer *trainer);
STK_API uint64_t stk_trainer_global_step(const stk_trainer *trainer);
/** Value of a metric as callbacks see it; false: there is none of the name. May wait for the
 * device. */
STK_API bool stk_trainer_metric(stk_trainer *trainer, const char *name, double *value);
/** Metric `i`; false past the last. */
STK_API bool stk_trainer_metric_at(stk_trainer *trainer, size_t i, stk_metric *out);
/** Batches of an epoch after the limits: training (loader 0), or a loader of the other phases.
 * `dataloader_idx` UINT32_MAX: of all loaders of the phase. */
STK_API uint64_t stk_trainer_num_batches(const stk_trainer *trainer, stk_phase phase,
                                         uint32_t dataloader_idx);
/** What the task at work was given. On the trainer's thread, within a task. */
STK_API const stk_trainer_data *stk_trainer_get_data(const stk_trainer *trainer);
/** What configure_optimizers() said; zeros before. */
STK_API const stk_optimizers *stk_trainer_optimizers(const stk_trainer *trainer);
/** Folder of the first logger's run, or default_root_dir. It is made when nothing can refuse the
 * run any more: in a fit it is there at on_train_start. A number that another process has taken
 * since `setup` is another one then. */
STK_API const char *stk_trainer_log_dir(const stk_trainer *trainer);
/** File that the latest task has restored its state from; NULL: none. Valid until the next task. */
STK_API const char *stk_trainer_ckpt_path(const stk_trainer *trainer);
/** Best and last file of the callbacks that keep checkpoints (`checkpoint_path` of their tables):
 * the best of the first that compares a metric, else of the first; the last of the first that has
 * one. NULL: none. */
STK_API const char *stk_trainer_best_model_path(const stk_trainer *trainer);
STK_API const char *stk_trainer_last_model_path(const stk_trainer *trainer);
/** The newest file that has the weights as training left them, valid until the next save; NULL:
 * none has. */
STK_API const char *stk_trainer_present_model_path(const stk_trainer *trainer);
/** Whether the weights have been trained on since the last validation within training. */
STK_API bool stk_trainer_is_ahead(const stk_trainer *trainer);
/** Say that a hook has changed what a checkpoint would hold as the weights, outside of a step and
 * of on_train_batch_end: no file has them, and no validation saw them. On the trainer's thread. */
STK_API void stk_trainer_weights_changed(stk_trainer *trainer);
/** What the best scored by the metric that is monitored; false: none was saved, or nothing is
 * monitored, and the best is the newest. */
STK_API bool stk_trainer_best_model_score(const stk_trainer *trainer, double *score);
/** Batches of an optimizer step from epoch `epoch` (from 0) on, until that of a later call. From
 * hooks. What `setup` says counts where a schedule spans the training. At most 64 epochs that are
 * not over: false. */
STK_API bool stk_trainer_set_accumulate(stk_trainer *trainer, uint64_t epoch, uint64_t batches);
/** Save a checkpoint of this moment at `path` in the background, then remove `replaces` (NULL:
 * none) once it is durable. From hooks, of all ranks together; rank 0 writes. Errors: also those
 * of checkpoints that were begun before. */
STK_API STK_NODISCARD stk_status stk_trainer_save(stk_trainer *trainer, const char *path,
                                                  bool weights_only, const char *replaces,
                                                  stk_error *err);
/** Have `path` be another name of the checkpoint `target` once that is durable: a link, or a copy
 * where the file system has none. From hooks. */
STK_API STK_NODISCARD stk_status stk_trainer_link(stk_trainer *trainer, const char *target,
                                                  const char *path, stk_error *err);

/** How often something was begun and ended, over all and within the current run of its loop. */
typedef struct stk_progress_count {
    uint64_t ready, started, processed, completed;
} stk_progress_count;
typedef struct stk_progress {
    stk_progress_count total, current;
} stk_progress;
typedef struct stk_trainer_progress {
    uint32_t struct_size;
    stk_progress epochs, train_batches, optimizer_steps, zero_grads, scheduler_steps, val_batches,
        test_batches, predict_batches;
} stk_trainer_progress;
STK_API void stk_trainer_get_progress(const stk_trainer *trainer, stk_trainer_progress *out);

/** Where the time of the last task went, in nanoseconds, or of the one at work so far; the parts
 * add up to `wall`. In a hook on the trainer's thread, or when no task is at work. */
typedef struct stk_trainer_times {
    uint32_t struct_size;
    uint64_t wall;
    uint64_t data_wait, transfer, step, validation, callbacks, logging, checkpoint, other;
    uint64_t steps, samples; /**< training batches and their rows */
    stk_waits waits;         /**< of training, what `data_wait` was for; the parts add up to it */
    uint64_t begin;          /**< when it began, in nanoseconds of CLOCK_MONOTONIC; 0: never */
    uint64_t optimizer_steps, optimizer; /**< where batches accumulate, and their part of `step` */
    stk_tiers tiers;                     /**< where what the loader of training read was found */
    uint64_t comm;        /**< of `step`: meeting the other ranks, and putting gradients together */
    uint64_t comm_hidden; /**< beside it: what is sent between ranks while a pass computes */
} stk_trainer_times;
STK_API void stk_trainer_get_times(const stk_trainer *trainer, stk_trainer_times *out);
/** What the loader of training had counted when the last task began, and when it ended, or so far;
 * zeros where there was none. Likewise. */
STK_API void stk_trainer_get_loader_stats(const stk_trainer *trainer, stk_loader_stats *begin,
                                          stk_loader_stats *end);

#ifdef __cplusplus
}
#endif
#endif
