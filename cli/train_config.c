/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of a training's configuration. Options that would do nothing here are not in them.
 */
#include <stdlib.h>
#include <string.h>

#include "train.h"

#define MAX_ROWS 64

#define TOP(member)  offsetof(struct train_top, member)
#define DATA(member) offsetof(struct train_data, member)

const stk_option_table *train_top_table(void)
{
    static const stk_option rows[] = {
        {"ckpt_path", STK_OPTION_STRING, TOP(ckpt_path), NULL, 0, 0, NULL, "FILE|last|best",
         "Go on with this checkpoint; last: the newest that is whole below default_root_dir."},
        {"callbacks", STK_OPTION_STRING, TOP(callbacks), NULL, 0, 0, NULL, "LIST",
         "What looks on and steps in: 'early_stopping(monitor=val_loss), ema(0.99)'; in YAML also "
         "a "
         "list."},
        {"loggers", STK_OPTION_STRING, TOP(loggers), NULL, 0, 0, NULL, "LIST",
         "Where metrics go, with options: 'csv(name=first), tensorboard'."},
    };
    static const stk_option_table table = {.name = "",
                                           .doc = "The run",
                                           .struct_size = sizeof(struct train_top),
                                           .options = rows,
                                           .count = sizeof rows / sizeof *rows};

    return &table;
}

const stk_option_table *train_data_table(void)
{
    static const stk_option rows[] = {
        {"dataset", STK_OPTION_STRING, DATA(dataset), NULL, 0, 0, NULL, "SPEC",
         "What to train on: 'digits:', 'mnist:DIR', ...; a PATH where what lies there is "
         "unambiguous."},
        {"otherwise", STK_OPTION_STRING, DATA(otherwise), NULL, 0, 0, NULL, "SPEC",
         "What to train on where `dataset` does not exist."},
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
    static const stk_option_table table = {.name = "data",
                                           .doc = "The data",
                                           .struct_size = sizeof(struct train_data),
                                           .options = rows,
                                           .count = sizeof rows / sizeof *rows};

    return &table;
}

/* A table with some of its rows left out, and one put in front. */
struct derived {
    stk_option rows[MAX_ROWS];
    stk_option_table table;
};

static const stk_option_table *derive(struct derived *to, const stk_option_table *from,
                                      const char *const *without, const stk_option *more,
                                      size_t struct_size)
{
    if (to->table.options)
        return &to->table;
    to->table = *from;
    to->table.count = 0;
    if (more)
        to->rows[to->table.count++] = *more;
    for (size_t i = 0; i < from->count && to->table.count < MAX_ROWS; i++) {
        size_t k = 0;
        while (without[k] && strcmp(without[k], from->options[i].name) != 0)
            k++;
        if (!without[k])
            to->rows[to->table.count++] = from->options[i];
    }
    to->table.struct_size = struct_size ? struct_size : from->struct_size;
    to->table.options = to->rows;
    return &to->table;
}

const stk_option_table *train_model_table(void)
{
    /* The trainer and the loaders decide these. */
    static const char *const without[] = {"precision", "batch_size", "eval_batch_size", NULL};
    static const stk_option layers = {
        "layers",
        STK_OPTION_STRING,
        offsetof(struct train_model, layers),
        NULL,
        0,
        0,
        NULL,
        "LIST",
        "The layers, in PyTorch's words: 'flatten, linear(128), relu, linear(10)'; or a known "
        "model: "
        "mlp(128, 64, 10), lenet, resnet18(stem=cifar), resnet50. In YAML also a list."};
    static struct derived derived;

    return derive(&derived, stk_model_option_table(), without, &layers, sizeof(struct train_model));
}

const stk_option_table *train_optimizer_table(void)
{
    static const char *const without[] = {NULL};
    static const stk_option groups = {"groups",
                                      STK_OPTION_STRING,
                                      offsetof(struct train_optimizer, groups),
                                      NULL,
                                      0,
                                      0,
                                      NULL,
                                      "LIST",
                                      "Parameters with values of their own: "
                                      "'*.bias(weight_decay=0), fc.*(lr=0.01)'. In YAML also "
                                      "a list."};
    static struct derived derived;

    return derive(&derived, stk_optimizer_option_table(), without, &groups,
                  sizeof(struct train_optimizer));
}

const stk_option_table *train_loader_table(void)
{
    /* The trainer decides these. */
    static const char *const without[] = {"rank", "world_size", "epochs", NULL};
    static struct derived derived;

    return derive(&derived, stk_loader_option_table(), without, NULL, 0);
}

cli_table_fn *const train_tables[] = {train_top_table,
                                      train_data_table,
                                      stk_trainer_option_table,
                                      train_model_table,
                                      train_optimizer_table,
                                      stk_schedule_option_table,
                                      stk_model_module_option_table,
                                      train_loader_table,
                                      cli_context_table,
                                      NULL};

const char *const train_lists[] = {"callbacks", "loggers", "model.layers", "optimizer.groups",
                                   NULL};

static stk_status apply(stk_config *config, const stk_option_table *table, void *options,
                        stk_error *err)
{
    stk_options_init(table, options, table->struct_size);
    return stk_config_apply(config, table, 0, options, err);
}

void train_sections(struct train_config *config, struct train_section out[TRAIN_SECTIONS])
{
    const struct train_section sections[TRAIN_SECTIONS] = {
        {train_top_table(), &config->top},
        {train_data_table(), &config->data},
        {stk_trainer_option_table(), &config->trainer},
        {train_model_table(), &config->model},
        {train_optimizer_table(), &config->optimizer},
        {stk_schedule_option_table(), &config->schedule},
        {stk_model_module_option_table(), &config->module},
        {train_loader_table(), &config->loader},
    };

    memcpy(out, sections, sizeof sections);
}

int train_config_read(struct cli *cli, stk_config *config, struct train_config *out)
{
    struct train_section sections[TRAIN_SECTIONS];
    stk_error err;

    train_sections(out, sections);
    for (size_t i = 0; i < TRAIN_SECTIONS; i++) {
        stk_status status = apply(config, sections[i].table, sections[i].options, &err);
        if (status != STK_OK)
            return cli_fail(cli, status, &err);
    }
    out->model.options.struct_size = sizeof out->model.options;
    out->optimizer.options.struct_size = sizeof out->optimizer.options;
    /* Sizes and layout of samples are known later; what the trainer decides has its defaults. */
    stk_model_options model;
    stk_model_options_init(&model);
    out->model.options.precision = model.precision;
    out->model.options.batch_size = model.batch_size;
    out->model.options.eval_batch_size = model.eval_batch_size;
    stk_loader_options loader;
    stk_loader_options_init(&loader);
    out->loader.rank = loader.rank;
    out->loader.world_size = loader.world_size;
    out->loader.epochs = loader.epochs;
    return CLI_GO_ON;
}
