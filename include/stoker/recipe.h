/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration -> datasets, loaders, a module and a trainer: `stoker train` as a call. */
#ifndef STOKER_RECIPE_H
#define STOKER_RECIPE_H

#include <stoker/bench.h>
#include <stoker/measure.h>
#include <stoker/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What a configuration says ---- */

/** The keys whose list in YAML is one value, as "model.layers"; NULL-ended. All others have one. */
STK_API const char *const *stk_recipe_lists(void);
/** Whether a list of a configuration, as "callbacks", has an item of a name. */
STK_API bool stk_recipe_has_item(stk_config *config, const char *key, const char *name);

/* ---- The event log of a training ---- */

/**
 * Looks on at a training: memory at the end of each epoch, the load of the machine, and, where a
 * file is named, its events, as `stoker bench` writes them and stk_report_read() reads them.
 */
typedef struct stk_training_events stk_training_events;

typedef struct stk_training_events_options {
    uint32_t struct_size;
    const char *path;   /**< is appended to; NULL: no file, only what the verdict wants is noted */
    const char *locals; /**< options of the run, as members in JSON; NULL: none */
    uint64_t begin_ns;  /**< when the run began, of CLOCK_MONOTONIC; 0: now */
} stk_training_events_options;

/**
 * Begin to look on. Callbacks that were added before are counted as parts of the steps, so call it
 * first.
 *
 * Ownership: *out is the caller's and outlives the trainer. Thread: as the trainer's. Blocks.
 * Errors: those of stk_event_log_open() and stk_trainer_add_callback().
 */
STK_API STK_NODISCARD stk_status
stk_training_events_create(stk_trainer *trainer, const stk_training_events_options *options,
                           stk_training_events **out, stk_error *err);
/**
 * A training has ended, however: its figures, and the verdict that follows, both of which go to the
 * file. Call it after stk_trainer_fit() and before another task.
 *
 * `train` is what was read from, NULL: unknown; `figures` and `verdict` may be NULL.
 */
STK_API void stk_training_events_judge(stk_training_events *log, const stk_loader_source *train,
                                       stk_figures *figures, stk_verdict *verdict);
/** The run ends: write what is left and close the file. The status is that of the first write that
 * failed; STK_OK without a file, and the second time. Blocks. */
STK_API STK_NODISCARD stk_status stk_training_events_end(stk_training_events *log, stk_error *err);
/** After the trainer, and before the context. Sets *log to NULL; accepts NULL. */
STK_API void stk_training_events_destroy(stk_training_events **log);

/* ---- Recipes ---- */

/** What a recipe is for; added up. It decides what data is opened. */
typedef enum stk_recipe_task {
    STK_RECIPE_FIT = 1,
    STK_RECIPE_VALIDATE = 2,
    STK_RECIPE_TEST = 4, /**< with STK_RECIPE_FIT: where there is test data */
    STK_RECIPE_PREDICT = 8,
    STK_RECIPE_MODEL = 16 /**< the description of the model: training data alone, and whole */
} stk_recipe_task;

/** What the caller gives in place of what the configuration says. All of it outlives the recipe. */
typedef struct stk_recipe_options {
    uint32_t struct_size;
    uint32_t tasks;             /**< of stk_recipe_task; 0: fit and test */
    const stk_console *console; /**< of the trainer, copied; NULL: none */
    /** (optional) Called with the trainer before the callbacks of the configuration are added.
     * Where creation fails after it, the trainer is gone. */
    stk_status (*prepare)(void *user, stk_trainer *trainer, stk_error *err);
    void *user;
    const char *log;   /**< file of the event log (stk_training_events_options.path) */
    uint64_t begin_ns; /**< of the run, likewise */
    /** Members in JSON, without braces, of the log's event "run start" in place of the options and
     * the label "train"; NULL: those. */
    const char *log_about;
    /** In place of a model: the sections model, optimizer, lr_scheduler and module stay empty. */
    stk_module *module;
    /** In place of data.dataset (and data.val_split), data.val, data.test, data.predict. */
    stk_dataset *train, *val, *test, *predict;
    const char *home; /**< folder that the "~/" of specs means, "images:~/train"; NULL: none */
    /** Folder that keeps the measured peaks of the machine, for trainer.profiler
     * (stk_profile_options.machine_dir) and the option `machine_dir` of callbacks that is not
     * given; NULL: none. */
    const char *machine_dir;
    /** For stk_trainer_set_strategy(), with which several processes train together; it outlives the
     * recipe. NULL: none. */
    const stk_strategy *strategy;
} stk_recipe_options;

typedef struct stk_recipe stk_recipe;

/**
 * Make what a configuration describes. It is read whole and checked before any data is opened, the
 * trainer is made before the data, and the model last.
 *
 * Keys of sections that are not a training's are refused, unless the caller has applied their
 * tables (stk_config_apply()), as that of the context.
 *
 * Ownership: *out is the caller's, ended with stk_recipe_destroy(); the context, `config` and what
 * `options` (may be NULL) points to outlive it. Thread: one at a time. Blocks.
 * Errors: STK_EINVAL and STK_ENOTSUP name the key, with file, line and column where a value is
 * wrong; those of opening datasets; STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_recipe_create(stk_context *context, stk_config *config,
                                                   const stk_recipe_options *options,
                                                   stk_recipe **out, stk_error *err);
/** End it with all that it made. Sets *recipe to NULL; accepts NULL. */
STK_API void stk_recipe_destroy(stk_recipe **recipe);

/** What came of it. All of it is the recipe's, but for what the caller gave. */
typedef struct stk_recipe_parts {
    uint32_t struct_size;
    stk_trainer *trainer;
    stk_module *module;
    const stk_trainer_data *data; /**< for the tasks of the trainer */
    const char *ckpt_path;        /**< for those, too; NULL: none */
    const char *dataset;          /**< specs of the data: training; NULL: the caller's */
    const char *val_dataset;      /**< evaluated; NULL: none, or the caller's */
    const char *test_dataset;
    const stk_model_parts *model; /**< NULL: the module is the caller's */
    const stk_field *input;       /**< of a batch, that the model takes; NULL: likewise */
    stk_training_events *log;     /**< NULL: not for stk_trainer_fit() */
    /** What has to be in the environment before the process starts, so that threads which compute
     * leave the workers their cores: "OMP_WAIT_POLICY=passive"; NULL: nothing. */
    const char *environment;
} stk_recipe_parts;

STK_API void stk_recipe_get_parts(const stk_recipe *recipe, stk_recipe_parts *out);

/** What the test behind a training was. */
typedef struct stk_recipe_tested {
    uint32_t struct_size;
    bool best;  /**< of the best checkpoint, as a metric chooses one; else of the last weights */
    bool test;  /**< on the test data; else on those of validation */
    bool again; /**< something was computed: without test data and a best checkpoint a validation of
                     the last weights within the training says it already */
    const char *path; /**< the newest file that has the weights tested, valid until the trainer
                         saves again; NULL: no checkpoint has them */
} stk_recipe_tested;

/**
 * What is tested behind the training of a recipe: its best checkpoint where a metric chooses one,
 * on the test data where there are some, else on those of validation.
 *
 * Thread: one caller at a time. Blocks. Errors: those of stk_trainer_test().
 */
STK_API STK_NODISCARD stk_status stk_recipe_test(stk_recipe *recipe, stk_recipe_tested *out,
                                                 stk_error *err);

/**
 * The training of a recipe, and the test behind it, as one run of a plan (stk_bench_plan_add()):
 * what it took and what it came to. Like every run it measures the whole process, and is to have
 * one by itself. stk_trainer_stop() ends it early.
 *
 * @return the status of the result, which holds what was measured until then.
 *
 * Thread: one caller at a time, once for each recipe. Blocks. Errors: STK_EINVAL (the recipe is not
 * for STK_RECIPE_FIT), those of the training and the test; STK_ECANCELED.
 */
STK_API stk_status stk_recipe_measure(stk_recipe *recipe, stk_bench_result *result,
                                      stk_figures *figures, stk_error *err);

/**
 * The step of a recipe's model of layers for a bench: forward, backward and optimizer step on
 * batches of at most `batch_size` rows, or on noise, which it learns nothing from. The model is one
 * of its own.
 *
 * Ownership: *out lives as long as the recipe, and is used by one thread at a time. Once for each
 * recipe. Blocks. Errors: STK_EINVAL (no model of layers), those of making a model; STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_recipe_step(stk_recipe *recipe, uint64_t batch_size,
                                                 const stk_bench_step **out, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
