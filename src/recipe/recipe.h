/* configuration -> datasets, loaders, module, trainer */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_RECIPE_H
#define STK_SRC_RECIPE_H

#include <stoker/profiler.h>
#include <stoker/recipe.h>

#include "base/items.h"
#include "base/text.h"

/* ---- Options (tables.c) ---------------------------------------------------------------------- */

/* What is at the top of a configuration. `callbacks` and `loggers` are lists. */
typedef struct stk__recipe_top {
    uint32_t struct_size;
    const char *ckpt_path, *callbacks, *loggers;
} stk__recipe_top;

/* The section `data`. Texts are specs of datasets unless said otherwise. */
typedef struct stk__recipe_data {
    uint32_t struct_size;
    const char *dataset, *otherwise, *val, *test, *predict;
    const char *val_split; /* "0.1" or "5000" of the training samples */
    uint64_t split_seed;
    const char *eval_transforms;
} stk__recipe_data;

/* The section `model`: the library's options, and the layers, which are a list. */
typedef struct stk__recipe_model {
    stk_model_options options; /* first: rows of its table are taken as they are */
    const char *layers;
} stk__recipe_model;

/* The section `trainer`, likewise with what times it. */
typedef struct stk__recipe_trainer {
    stk_trainer_options options;
    const char *profiler;
} stk__recipe_trainer;

/* The section `optimizer`, likewise with lists. */
typedef struct stk__recipe_optimizer {
    stk_optimizer_options options;
    const char *groups;
    const char *betas; /* NULL: a configuration has them as beta1 and beta2 */
} stk__recipe_optimizer;

/* How a batch size is found, as Lightning's BatchSizeFinder has it. */
typedef struct stk__recipe_finder {
    uint32_t struct_size;
    int32_t mode;                  /* of init_val and its doubles, or of all numbers */
    uint64_t init_val, max_trials; /* the first, and how often it may double */
    uint64_t steps_per_trial;      /* of the check */
    int32_t batch_arg_name;        /* there is one */
} stk__recipe_finder;

/* What is found before the training (auto.c). Until then it has its default. */
typedef struct stk__recipe_auto {
    bool batch_size; /* loader.batch_size */
    stk__recipe_finder finder;
} stk__recipe_auto;

typedef struct stk__recipe_settings {
    stk__recipe_top top;
    stk__recipe_data data;
    stk__recipe_model model;
    stk__recipe_optimizer optimizer;
    stk_loader_options loader;
    stk__recipe_trainer trainer;
    stk_schedule schedule;
    stk_model_module_options module;
    stk__recipe_auto search;
} stk__recipe_settings;

/* Read and check all sections, and that nothing else is left. */
stk_status stk__recipe_read(stk_config *config, stk__recipe_settings *out, stk_error *err);
/* STK_EINVAL where a section says anything: `what` is the caller's. */
stk_status stk__recipe_refuse(const stk_config *config, const stk_option_table *table,
                              const char *what, stk_error *err);
/* Section `i` and the name of its table ("recipe.data"), where that is wanted; NULL past the last.
 */
const stk_option_table *stk__recipe_option_table(size_t i, const char **name);
/* The tables of the sections that describe a model; NULL past the last. */
const stk_option_table *stk__recipe_model_table(size_t i);
/* What a profiler of trainer.profiler takes. */
const stk_option_table *stk__recipe_profiler_table(void);
/* All options as members in JSON, with the names of their sections: "loader.batch_size". */
void stk__recipe_locals(const stk__recipe_settings *settings, const char *spec, stk__text *out);

/* ---- Items of a list (items.c) --------------------------------------------------------------- */

#define STK__RECIPE_MAX_ITEMS 256 /* of one list */

/* The name here of an item that is perhaps written as a class, with its package or without. */
#define STK__RECIPE_ITEM_NAME 128 /* bytes, with its end */
void stk__recipe_item_name(const char *text, size_t length, char out[STK__RECIPE_ITEM_NAME]);

extern const stk__items_kind stk__recipe_callbacks, stk__recipe_loggers;

typedef stk_status stk__recipe_each(const stk__item *item, void *user, stk_error *err);

/* Call `each` for every item of a list, which a configuration may give in one or several texts. The
 * texts of items live as long as the configuration. */
stk_status stk__recipe_items(stk_config *config, const stk__items_kind *kind,
                             stk__recipe_each *each, void *user, stk_error *err);
/* An item as it is written. */
typedef struct stk__recipe_part {
    const char *text;
    size_t length, name; /* of all, and of its name */
    bool paired;         /* else it is all the rest, which is refused where the list is used */
} stk__recipe_part;

/* Take the first off the text of a list; false: there is none. */
bool stk__recipe_next_part(const char **list, stk__recipe_part *out);
/* Take the items of a name out of a list; `each` (or NULL) is told of them. `*found`: there was
 * one.
 */
stk_status stk__recipe_take_items(stk_config *config, const stk__items_kind *kind, const char *name,
                                  stk__recipe_each *each, void *user, bool *found, stk_error *err);
/* Callbacks and loggers of the configuration -> the trainer. */
stk_status stk__recipe_add_callbacks(const stk_recipe *recipe, stk_error *err);
stk_status stk__recipe_add_loggers(const stk_recipe *recipe, stk_error *err);

/* Have a training write its configuration into the folder of its run (saved_config.c). */
stk_status stk__recipe_save_config(stk_recipe *recipe, stk_error *err);

/* ---- Data (data.c, evaluate.c) --------------------------------------------------------------- */

typedef struct stk__recipe_sets {
    stk_context *context;
    const stk_recipe_options *given;
    bool given_apart; /* data.dataset was set by a flag or a call, not in a file */
    stk_dataset *train, *val, *test, *predict;
    char spec[STK_MAX_OBJECT_KEY];      /* of the training data, as it came out */
    char test_spec[STK_MAX_OBJECT_KEY]; /* of the test data */
    stk_loader_options loader;          /* of training */
    stk_loader_options eval;            /* of the others */
    char *eval_transforms;              /* theirs, where it was made here */
    stk_field field;                    /* that the model takes, after the transforms */
    const char *target;                 /* field that its loss compares with; NULL: none */
    const char *mask;                   /* field of where the target counts; NULL: everywhere */
} stk__recipe_sets;

/* Put a folder in the place of the '~' of specs. */
stk_status stk__recipe_home(stk_config *config, const char *home, stk__recipe_data *data,
                            stk_error *err);
/* Open what `tasks` asks for. */
stk_status stk__recipe_open(stk__recipe_sets *sets, const stk__recipe_settings *settings,
                            uint32_t tasks, stk_error *err);
void stk__recipe_close(stk__recipe_sets *sets);
/* Options of the loaders of evaluation. */
stk_status stk__recipe_make_eval(stk__recipe_sets *sets, const stk__recipe_settings *settings,
                                 stk_error *err);
/* Samples of validation and test have to be what the model is made for. */
stk_status stk__recipe_check_field(stk__recipe_sets *sets, stk_dataset *dataset, bool evaluated,
                                   const char *what, const stk_model_module_options *module,
                                   stk_error *err);

/* ---- Models (model.c) ------------------------------------------------------------------------ */

typedef struct stk__recipe_made {
    stk_context *context;
    stk_model_options model;
    stk_optimizer_options optimizer;
    stk_parameter_group *groups;
    size_t num_groups;
    stk_model_builder *builder;
    stk_model_parts parts;
    stk_module *module; /* NULL: none was made */
} stk__recipe_made;

/* The model of a configuration for the field of its data, its optimizer and schedule; ended with
 * stk__recipe_release() in either case. */
stk_status stk__recipe_make(stk__recipe_made *made, stk_config *config,
                            const stk__recipe_settings *settings, const stk__recipe_sets *sets,
                            stk_error *err);
void stk__recipe_release(stk__recipe_made *made);

/* ---- What is found before the training (auto.c) ---------------------------------------------- */

/* Take what is `auto` out of what was read, and the callback that says the same out of its list. */
stk_status stk__recipe_read_auto(stk_config *config, stk__recipe_settings *settings,
                                 stk_error *err);
/* Find the batch size, and put it into the configuration, the settings and the loaders. */
stk_status stk__recipe_find_batch_size(stk_recipe *r, stk_error *err);

/* Whether the learning rate is found, and by the callback that does it (auto_lr.c). */
bool stk__recipe_lr_is_auto(const stk__recipe_settings *settings);
/* Add that callback, where the rate is found and the list has it not. */
stk_status stk__recipe_add_lr_find(const stk_recipe *r, stk_error *err);
/* Put the rate that was found into the configuration, in place of what would find it again. */
stk_status stk__recipe_put_lr(stk_recipe *r, stk_trainer *trainer, stk_error *err);

/* ---- The event log (training_events.c) ----------------------------------------------------------
 */

/* The two halves of stk_training_events_create(): look on at a trainer, and, later, begin the file.
 */
stk_status stk__training_events_watch(stk_trainer *trainer,
                                      const stk_training_events_options *options,
                                      stk_training_events **out, stk_error *err);
/* With `about` in place of the options (stk_recipe_options.log_about), or NULL. */
stk_status stk__training_events_begin(stk_training_events *log, const char *locals,
                                      const char *about, stk_error *err);
/* One more event, where there is a file. */
void stk__training_events_note(stk_training_events *log, const char *name, const char *members);

/* A line of metrics as loggers get it, and where the training is (training_metrics.c). */
typedef struct stk__training_line {
    const stk_metric *metrics;
    size_t n;
    int64_t step;   /* what loggers count */
    uint64_t epoch; /* from 0 */
    double epochs;  /* done so far, with the part of the one at work; NaN: its length is unknown */
    bool rates;     /* the learning rate, too */
} stk__training_line;
void stk__training_events_metrics(stk_event_log *log, stk_trainer *trainer,
                                  const stk__training_line *line);

/* ---- A recipe -------------------------------------------------------------------------------- */

/* The real step of its model (step.c). */
typedef struct stk__recipe_step stk__recipe_step;
void stk__recipe_step_destroy(stk__recipe_step **step);

/* trainer.profiler -> a profile of the trainer's tasks (profiler.c). */
stk_status stk__recipe_add_profiler(stk_recipe *recipe, stk_error *err);

struct stk_recipe {
    stk_context *context;
    stk_config *config;
    stk_recipe_options options;
    stk__recipe_settings settings;
    char *metrics; /* module.metrics, where it was a list */
    stk__recipe_sets sets;
    stk__recipe_made made;
    stk_training_events *log;
    stk_trainer *trainer;
    stk_profile *profile; /* NULL: nothing is timed */
    stk_loader_source train, val, test, predict;
    stk_trainer_data data;
    stk__recipe_step *step; /* NULL: nobody asked for it */
};

#endif
