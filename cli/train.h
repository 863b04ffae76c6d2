/* YAML and flags -> data, model, trainer: what the files of `stoker train` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_TRAIN_H
#define STK_CLI_TRAIN_H

#include <stoker/trainer.h>

#include "cli.h"

/* ---- Options (train_config.c) --------------------------------------------------------------- */

/* What stands at the top of a YAML file. `callbacks` and `loggers` are lists. */
struct train_top {
    uint32_t struct_size;
    const char *ckpt_path, *callbacks, *loggers;
};

/* The section `data`. Texts are specs of datasets unless said otherwise. */
struct train_data {
    uint32_t struct_size;
    const char *dataset, *otherwise, *val, *test, *predict;
    const char *val_split; /* "0.1" or "5000" of the training samples */
    uint64_t split_seed;
    const char *eval_transforms;
};

/* The section `model`: the library's options, and the layers, which are a list. */
struct train_model {
    stk_model_options options; /* first: rows of its table are taken as they are */
    const char *layers;
};

/* The section `optimizer`, likewise with the list `groups`. */
struct train_optimizer {
    stk_optimizer_options options;
    const char *groups;
};

struct train_config {
    struct train_top top;
    struct train_data data;
    struct train_model model;
    struct train_optimizer optimizer;
    stk_loader_options loader;
    stk_trainer_options trainer;
    stk_schedule schedule;
    stk_model_module_options module;
};

/* Tables of a training, NULL-ended, and the keys of them that are lists. */
extern cli_table_fn *const train_tables[];
extern const char *const train_lists[];

const stk_option_table *train_top_table(void);
const stk_option_table *train_data_table(void);
const stk_option_table *train_model_table(void);
const stk_option_table *train_optimizer_table(void);
const stk_option_table *train_loader_table(void);

/* A table and what is filled from it. */
enum { TRAIN_SECTIONS = 8 };
struct train_section {
    const stk_option_table *table;
    void *options;
};
void train_sections(struct train_config *config, struct train_section out[TRAIN_SECTIONS]);

/* Read all sections of a configuration. CLI_GO_ON, or the exit code after printing the error. */
int train_config_read(struct cli *cli, stk_config *config, struct train_config *out);

/* ---- Items of a list (train_items.c) -------------------------------------------------------- */

/* "name(argument, option=value)" cut into its parts, in place. */
#define TRAIN_MAX_ARGUMENTS 32
struct train_item {
    char *name;
    struct {
        char *name, *value; /* name NULL: given by place */
    } arguments[TRAIN_MAX_ARGUMENTS];
    size_t count;
};

/* Cut the next item off `*text`. False at the end, and with *what where the text makes no sense. */
bool train_item_next(char **text, struct train_item *out, const char **what);
/* Fill the options of a table from the arguments of an item. */
stk_status train_item_options(const struct train_item *item, const stk_option_table *table,
                              void *options, stk_error *err);
/*
 * Call `each` for every item of a key with one or several texts, as `callbacks`. CLI_GO_ON, or the
 * exit code after printing what is wrong.
 */
int train_items(struct cli *cli, const stk_config *config, const char *key,
                int (*each)(struct cli *cli, const struct train_item *item, void *user),
                void *user);
/* Callbacks and loggers of the configuration -> the trainer. Exit codes as above. */
int train_add_callbacks(struct cli *cli, const stk_config *config, stk_trainer *trainer);
int train_add_loggers(struct cli *cli, const stk_config *config, stk_trainer *trainer);
/* Whether `name` is among the items of a key. */
bool train_has_item(struct cli *cli, const stk_config *config, const char *key, const char *name);

/* ---- Data (train_data.c) -------------------------------------------------------------------- */

/* What a task reads from. */
enum train_need { TRAIN_FIT = 1, TRAIN_VAL = 2, TRAIN_TEST = 4, TRAIN_PREDICT = 8 };

struct train_sets {
    stk_dataset *train, *val, *test, *predict;
    char spec[4096];           /* of the training data, as it came out */
    char test_spec[4096];      /* of the test data */
    stk_loader_options loader; /* of training */
    stk_loader_options eval;   /* of the others */
    char *eval_transforms;     /* theirs, where it was made here */
    stk_field field;           /* that the model takes, after the transforms */
};

/* Open what `needs` asks for. The data of the test is left out where there is none and TRAIN_FIT is
 * asked for too. CLI_GO_ON, or the exit code after printing the error. */
int train_sets_open(struct cli *cli, stk_context *context, const struct train_config *config,
                    unsigned needs, struct train_sets *sets);
void train_sets_close(struct train_sets *sets);
/* The training data of a configuration, or `otherwise` where it is not there; its spec goes to
 * `spec`. */
stk_status train_open_first(stk_context *context, const struct train_data *data, char *spec,
                            size_t size, bool *other, stk_dataset **out, stk_error *err);
/* The field that a model takes from the batches of a dataset. */
stk_status train_find_field(stk_dataset *dataset, const stk_loader_options *options,
                            const char *input, stk_field *out, stk_error *err);

/* ---- Models (train_model.c) ----------------------------------------------------------------- */

/* The model of a configuration for samples of a field. CLI_GO_ON, or the exit code. */
int train_builder_make(struct cli *cli, stk_context *context, const stk_config *config,
                       const struct train_config *options, const stk_field *field,
                       stk_model_options *model, stk_model_builder **out);

struct train_groups {
    stk_parameter_group *groups;
    size_t count;
};

int train_groups_read(struct cli *cli, const stk_config *config, struct train_groups *out);
void train_groups_free(struct train_groups *groups);

/* What a configuration trains. */
struct train_made {
    stk_model_options model;
    struct train_groups groups;
    stk_model_builder *builder;
    stk_module *module;
};

/* Print an error; what the caller asked for wrongly is a wrong usage. The exit code. */
int train_fail(struct cli *cli, stk_status status, const stk_error *err);
/* The model of a configuration for the field of its data, its optimizer and schedule. CLI_GO_ON, or
 * the exit code; ended with train_release() in either case. */
int train_make(struct cli *cli, stk_context *context, struct train_config *config,
               const struct train_sets *sets, struct train_made *out);
void train_release(struct train_made *made);

/* ---- The verdict (train_verdict.c) ---------------------------------------------------------- */

/* The last training as figures of a verdict. */
void train_figures(stk_context *context, const stk_trainer *trainer,
                   const struct train_config *config, stk_figures *out);

/* ---- The event log (train_log.c) ------------------------------------------------------------ */

struct train_log;

/* What is noted of a run: memory at the end of each epoch, and, with --log, its events. NULL: no
 * memory. */
struct train_log *train_log_create(void);
/* Look on; added before any other callback, so that theirs are told apart from the steps.
 * CLI_GO_ON, or the exit code after printing the error. */
int train_log_watch(struct train_log *log, struct cli *cli, stk_trainer *trainer);
/* The run begins; with --log its log does. `spec`: of its data. Exit codes as above. */
int train_log_begin(struct train_log *log, struct cli *cli, stk_context *context,
                    struct train_config *config, const char *spec);
/* The training has ended, however; its last epoch, too. */
void train_log_trained(struct train_log *log);
/* What followed it: "test" from `begin_ns` on. */
void train_log_task(struct train_log *log, const char *name, uint64_t begin_ns);
/* What it knows of the figures: growing memory, threads that read. */
void train_log_figures(const struct train_log *log, stk_figures *figures);
/* Its figures, and the verdict that follows from them. */
void train_log_judged(struct train_log *log, const stk_figures *figures);
/* The run ends: write what is left. CLI_GO_ON, or the exit code after printing the error. */
int train_log_end(struct train_log *log);
/* Accepts NULL. */
void train_log_free(struct train_log **log);

/* ---- Console (train_console.c) -------------------------------------------------------------- */

/* Lines and the bar of a trainer on standard error; nothing of it where --quiet. */
void train_console_make(struct cli *cli, stk_console *out);

#endif
