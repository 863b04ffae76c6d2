/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of a training's configuration. Options that would do nothing here are not in them.
 */
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"
#include "recipe/recipe.h"

#define MAX_ROWS 64

#define TOP(member)  offsetof(stk__recipe_top, member)
#define DATA(member) offsetof(stk__recipe_data, member)

static const stk_option top_rows[] = {
    {"ckpt_path", STK_OPTION_STRING, TOP(ckpt_path), NULL, 0, 0, NULL, "FILE|last|best",
     "Go on with this checkpoint; last: the newest that is whole of the runs with this root and "
     "logger."},
    {"callbacks", STK_OPTION_STRING, TOP(callbacks), NULL, 0, 0, NULL, "LIST",
     "What looks on and steps in: 'early_stopping(monitor=val_loss), ema(0.99)'; in YAML also "
     "a list."},
    {"loggers", STK_OPTION_STRING, TOP(loggers), NULL, 0, 0, NULL, "LIST",
     "Where metrics go, with options: 'csv(name=first), tensorboard'."},
};

static const stk_option_table top_table = {.name = "",
                                           .doc = "The run",
                                           .struct_size = sizeof(stk__recipe_top),
                                           .options = top_rows,
                                           .count = STK_COUNT(top_rows)};

static const stk_option data_rows[] = {
    {"dataset", STK_OPTION_STRING, DATA(dataset), NULL, 0, 0, NULL, "SPEC",
     "What to train on: 'digits:', 'mnist:DIR', ...; a PATH where what lies there is "
     "unambiguous."},
    {"otherwise", STK_OPTION_STRING, DATA(otherwise), NULL, 0, 0, NULL, "SPEC",
     "What to train on where the `dataset` of a file does not exist; one that is given as a flag "
     "has to."},
    {"val", STK_OPTION_STRING, DATA(val), NULL, 0, 0, NULL, "SPEC",
     "Validation data; none: what val_split takes from the training data."},
    {"val_split", STK_OPTION_STRING, DATA(val_split), "0", 0, 0, NULL, "N",
     "Training samples kept for validation: 5000 are so many, 0.1 is a tenth, 0 none."},
    {"split_seed", STK_OPTION_UINT, DATA(split_seed), "0", 0, 0, NULL, NULL,
     "Which ones val_split takes."},
    {"test", STK_OPTION_STRING, DATA(test), NULL, 0, 0, NULL, "SPEC",
     "Test data; none: `dataset` with split=test, where it has that."},
    {"predict", STK_OPTION_STRING, DATA(predict), NULL, 0, 0, NULL, "SPEC",
     "Data that predict reads; none: the test data."},
    {"eval_transforms", STK_OPTION_STRING, DATA(eval_transforms), NULL, 0, 0, NULL, "LIST",
     "Transforms of validation, test and prediction; none: the loader's without the random "
     "ones."},
};

static const stk_option_table data_table = {.name = "data",
                                            .doc = "The data",
                                            .struct_size = sizeof(stk__recipe_data),
                                            .options = data_rows,
                                            .count = STK_COUNT(data_rows)};

/* A table with some of its rows left out, and others put in front. */
typedef struct derived {
    stk_option rows[MAX_ROWS];
    stk_option_table table;
} derived;

/* Made once, and constant from then on. */
static derived trainer, profiler, model, optimizer, loader;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void derive(derived *to, const stk_option_table *from, const char *const *without,
                   const stk_option *more, size_t num_more, size_t struct_size)
{
    to->table = *from;
    to->table.count = 0;
    while (to->table.count < num_more)
        to->rows[to->table.count++] = *more++;
    for (size_t i = 0; i < from->count && to->table.count < MAX_ROWS; i++) {
        size_t k = 0;
        while (without[k] && strcmp(without[k], from->options[i].name) != 0)
            k++;
        if (!without[k])
            to->rows[to->table.count++] = from->options[i];
    }
    to->table.struct_size = struct_size ? struct_size : from->struct_size;
    to->table.options = to->rows;
}

/* A number that knows `auto`, too (auto.c, auto_lr.c). */
static void allow_auto(derived *d, const char *name, stk_option_type type, const char *doc)
{
    for (size_t i = 0; i < d->table.count; i++)
        if (strcmp(d->rows[i].name, name) == 0) {
            d->rows[i].type = type;
            d->rows[i].choices = "auto";
            d->rows[i].doc = doc;
        }
}

static void derive_all(void)
{
    /* The trainer and the loaders decide these; layers may be a list here. */
    static const char *const of_model[] = {"precision", "batch_size", "eval_batch_size", "layers",
                                           NULL};
    static const char *const of_loader[] = {"rank", "world_size", "epochs", NULL};
    static const char *const of_profile[] = {"profiler", NULL};
    static const char *const nothing[] = {NULL};
    static const stk_option profilers = {
        "profiler",
        STK_OPTION_STRING,
        offsetof(stk__recipe_trainer, profiler),
        NULL,
        0,
        0,
        NULL,
        "LIST",
        "What tells, when a task is over, where its time went: simple, advanced, pytorch (a "
        "trace), or several, with options: 'simple(filename=perf), pytorch'; none: nothing. In "
        "YAML also a list."};
    static const stk_option layers = {
        "layers",
        STK_OPTION_STRING,
        offsetof(stk__recipe_model, layers),
        NULL,
        0,
        0,
        NULL,
        "LIST",
        "The layers, in PyTorch's words: 'flatten, linear(128), relu, linear(10)'; or a known "
        "model: mlp(128, 64, 10), lenet, resnet18(stem=cifar), resnet50. In YAML also a list."};
    static const stk_option of_optimizer[] = {
        {"groups", STK_OPTION_STRING, offsetof(stk__recipe_optimizer, groups), NULL, 0, 0, NULL,
         "LIST",
         "Parameters with values of their own: '*.bias(weight_decay=0), fc.*(lr=0.01)'. In YAML "
         "also a list."},
        {"betas", STK_OPTION_STRING, offsetof(stk__recipe_optimizer, betas), NULL, 0, 0, NULL,
         "LIST", "Of adam and adamw: beta1 and beta2, '0.9, 0.999', which are set by it."},
    };

    derive(&trainer, stk_option_table_find("trainer"), nothing, &profilers, 1,
           sizeof(stk__recipe_trainer));
    derive(&profiler, stk_option_table_find("profile"), of_profile, NULL, 0, 0);
    profiler.table.name = "trainer.profiler";
    derive(&model, stk_option_table_find("model"), of_model, &layers, 1, sizeof(stk__recipe_model));
    derive(&optimizer, stk_option_table_find("optimizer"), nothing, of_optimizer,
           STK_COUNT(of_optimizer), sizeof(stk__recipe_optimizer));
    allow_auto(&optimizer, "lr", STK_OPTION_DOUBLE,
               "Learning rate; auto: what lr_find finds before the first step.");
    derive(&loader, stk_option_table_find("loader"), of_loader, NULL, 0, 0);
    allow_auto(
        &loader, "batch_size", STK_OPTION_INT,
        "Samples of a batch of this rank; auto: the largest power of two whose training fits "
        "memory and leaves an epoch 32 steps.");
}

enum { MODEL = 3, SECTIONS = 8 };

const stk_option_table *stk__recipe_option_table(size_t i, const char **name)
{
    static const struct {
        const char *name;
        const stk_option_table *table; /* NULL: the library's, of the name after "recipe." */
    } sections[SECTIONS] = {{"recipe", &top_table},
                            {"recipe.data", &data_table},
                            {"recipe.trainer", &trainer.table},
                            {"recipe.model", &model.table},
                            {"recipe.optimizer", &optimizer.table},
                            {"recipe.lr_scheduler", NULL},
                            {"recipe.module", NULL},
                            {"recipe.loader", &loader.table}};

    if (i >= SECTIONS)
        return NULL;
    pthread_once(&once, derive_all);
    if (name)
        *name = sections[i].name;
    return sections[i].table ? sections[i].table
                             : stk_option_table_find(sections[i].name + strlen("recipe."));
}

const stk_option_table *stk__recipe_profiler_table(void)
{
    pthread_once(&once, derive_all);
    return &profiler.table;
}

const stk_option_table *stk__recipe_model_table(size_t i)
{
    return i < SECTIONS - MODEL - 1 ? stk__recipe_option_table(MODEL + i, NULL) : NULL;
}

const char *const *stk_recipe_lists(void)
{
    static const char *const keys[] = {
        "callbacks",        "loggers", "model.layers", "module.metrics", "optimizer.groups",
        "trainer.profiler", NULL};

    return keys;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The struct of section `i`. */
static void *section(const stk__recipe_settings *settings, size_t i)
{
    const void *const all[SECTIONS] = {&settings->top,    &settings->data,      &settings->trainer,
                                       &settings->model,  &settings->optimizer, &settings->schedule,
                                       &settings->module, &settings->loader};

    return (void *)all[i];
}

static bool is_list(const char *key)
{
    const char *const *lists = stk_recipe_lists();

    while (*lists && strcmp(*lists, key) != 0)
        lists++;
    return *lists != NULL;
}

/* Several values are a sweep, which is nothing to train. */
static stk_status refuse_sweep(const stk_config *config, stk_error *err)
{
    char where[224];

    for (size_t i = 0; i < config->count; i++) {
        const stk__entry *entry = &config->entries[i];
        if (stk__config_choices(entry) < 2 || is_list(entry->key))
            continue;
        stk__place_format(&entry->place, where, sizeof where);
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, entry->key, STK_NO_OFFSET,
                            "%s%s: a list of %zu values; a training takes one", where, entry->key,
                            entry->count);
    }
    return STK_OK;
}

/* What only a schedule looks at, where there is none. */
static stk_status refuse_unscheduled(const stk_config *config, const stk_schedule *schedule,
                                     stk_error *err)
{
    static const struct {
        const char *key, *without;
        bool plateau;
    } rows[] = {{"module.monitor", "the schedule reduce_on_plateau (lr_scheduler.name)", true},
                {"module.frequency", "a schedule (lr_scheduler.name)", false}};
    const bool none = schedule->name == STK_SCHEDULE_CONSTANT && schedule->warmup_steps == 0;

    for (size_t i = 0; i < STK_COUNT(rows); i++)
        if (stk_config_count(config, rows[i].key) &&
            (rows[i].plateau ? schedule->name != STK_SCHEDULE_PLATEAU : none))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, rows[i].key, STK_NO_OFFSET,
                                "%s: it has no effect without %s", rows[i].key, rows[i].without);
    return STK_OK;
}

/* A list of loggers without any asks for none. */
static bool logs_nothing(stk_config *config)
{
    const char *text;
    size_t i = 0;

    while ((text = stk_config_get(config, "loggers", i)) && !text[strspn(text, " \t\n")])
        i++;
    return i && !text;
}

stk_status stk__recipe_read(stk_config *config, stk__recipe_settings *out, stk_error *err)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        const stk_option_table *table = stk__recipe_option_table(i, NULL);
        stk_options_init(table, section(out, i), table->struct_size);
        STK_TRY(stk_config_apply(config, table, 0, section(out, i), err));
    }
    STK_TRY(stk_config_finish(config, err));
    STK_TRY(refuse_sweep(config, err));
    STK_TRY(refuse_unscheduled(config, &out->schedule, err));
    if (logs_nothing(config))
        out->trainer.options.logger = "false";
    out->trainer.options.struct_size = sizeof out->trainer.options;
    out->model.options.struct_size = sizeof out->model.options;
    out->optimizer.options.struct_size = sizeof out->optimizer.options;
    /* Sizes and layout of samples are known later; what the trainer decides has its defaults. */
    stk_model_options model_options;
    stk_model_options_init(&model_options);
    out->model.options.precision = model_options.precision;
    out->model.options.batch_size = model_options.batch_size;
    out->model.options.eval_batch_size = model_options.eval_batch_size;
    stk_loader_options loader_options;
    stk_loader_options_init(&loader_options);
    out->loader.rank = loader_options.rank;
    out->loader.world_size = loader_options.world_size;
    out->loader.epochs = loader_options.epochs;
    return stk__recipe_read_auto(config, out, err);
}

stk_status stk__recipe_refuse(const stk_config *config, const stk_option_table *table,
                              const char *what, stk_error *err)
{
    char key[STK_CONFIG_MAX_KEY];

    for (size_t i = 0; i < table->count; i++) {
        snprintf(key, sizeof key, "%s.%s", table->name, table->options[i].name);
        if (stk_config_count(config, key))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, key, STK_NO_OFFSET,
                                "%s: it has no effect, as %s is the caller's; leave it out", key,
                                what);
    }
    return STK_OK;
}

/* ---- What the log says of them --------------------------------------------------------------- */

void stk__recipe_locals(const stk__recipe_settings *settings, const char *spec, stk__text *out)
{
    stk__text_add(out, "\"dataset\": ");
    stk__text_add_json(out, spec);
    for (size_t i = 0; i < SECTIONS; i++) {
        const stk_option_table *table = stk__recipe_option_table(i, NULL);
        for (size_t k = 0; k < table->count; k++) {
            stk__text_add(out, ", \"%s%s%s\": ", table->name, *table->name ? "." : "",
                          table->options[k].name);
            stk__option_add_json(out, &table->options[k], section(settings, i));
        }
    }
}
