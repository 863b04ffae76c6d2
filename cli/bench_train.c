/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real step: forward, backward and optimizer step of the model of a training's configuration,
 * on the batches of the setting. What the setting does not say of data and loader is the
 * training's.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "train.h"

#define PREFIX "train:"

struct bench_recipe {
    stk_config *config;
    struct train_config options;
    char spec[BENCH_PATH]; /* of the data */
};

struct bench_train {
    stk_model_builder *builder;
    stk_model *model;
    stk_optimizer *optimizer;
    struct train_groups groups;
    char input[32], target[32];
    uint64_t rows, row_bytes, step;
    double *lr;     /* of each group, while noise is not to change the weights; NULL: it is over */
    float *samples; /* made up, to measure the step alone */
    void *targets;
    uint32_t threads;
};

/* ---- The configuration ----------------------------------------------------------------------- */

static size_t size_of(stk_option_type type)
{
    switch (type) {
    case STK_OPTION_BOOL:
        return sizeof(bool);
    case STK_OPTION_ENUM:
        return sizeof(int32_t);
    case STK_OPTION_STRING:
        return sizeof(char *);
    default:
        return sizeof(uint64_t);
    }
}

/* What the training says of the loader and the setting does not. */
static void take_loader(struct cli *cli, const struct bench_recipe *recipe,
                        stk_loader_options *loader)
{
    const stk_option_table *table = train_loader_table();
    char key[128];

    for (size_t i = 0; i < table->count; i++) {
        const stk_option *option = &table->options[i];
        snprintf(key, sizeof key, "%s.%s", table->name, option->name);
        if (stk_config_count(cli->config, key) == 0 && stk_config_count(recipe->config, key) > 0)
            memcpy((char *)loader + option->offset,
                   (const char *)&recipe->options.loader + option->offset, size_of(option->type));
    }
}

/* The data of the training, in a context of its own: nothing may be open where processes begin. */
static int find_data(struct cli *cli, struct bench_recipe *recipe)
{
    stk_context *context = NULL;
    stk_dataset *dataset = NULL;
    bool other;
    stk_error err;

    if (!recipe->options.data.dataset && !recipe->options.data.otherwise)
        return CLI_GO_ON;
    stk_status status = stk_context_create(NULL, &context, &err);
    if (status == STK_OK)
        status = train_open_first(context, &recipe->options.data, recipe->spec, sizeof recipe->spec,
                                  &other, &dataset, &err);
    stk_dataset_close(&dataset);
    stk_context_destroy(&context);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

int bench_recipe_make(struct cli *cli, struct bench_setting *setting)
{
    const char *path = setting->bench.step;
    stk_error err;

    if (strncmp(path, PREFIX, strlen(PREFIX)) != 0 || !path[strlen(PREFIX)]) {
        cli_error("bench.step: '%.100s' is no step; leave it out, or give train:CONFIG.yaml", path);
        return CLI_USAGE;
    }
    if (stk_config_count(cli->config, "bench.train_step_time") ||
        stk_config_count(cli->config, "bench.spin")) {
        cli_error("bench.%s: it has no effect on a real step (bench.step); leave it out",
                  stk_config_count(cli->config, "bench.spin") ? "spin" : "train_step_time");
        return CLI_USAGE;
    }
    struct bench_recipe *recipe = calloc(1, sizeof *recipe);
    if (!recipe) {
        cli_error("no memory for the step");
        return CLI_FAILED;
    }
    setting->recipe = recipe;
    stk_status status = stk_config_create(cli->config_context, &recipe->config, &err);
    if (status == STK_OK)
        status = stk_config_load(recipe->config, cli_home(path + strlen(PREFIX)), &err);
    if (status != STK_OK) {
        cli_fail(cli, status, &err);
        return CLI_USAGE;
    }
    int code = train_config_read(cli, recipe->config, &recipe->options);
    struct cli_context_options process;
    stk_options_init(cli_context_table(), &process, sizeof process);
    if (code == CLI_GO_ON && ((status = stk_config_apply(recipe->config, cli_context_table(), 0,
                                                         &process, &err)) != STK_OK ||
                              (status = stk_config_finish(recipe->config, &err)) != STK_OK))
        code = cli_fail(cli, status, &err);
    if (code == CLI_GO_ON && !setting->dataset)
        code = find_data(cli, recipe);
    if (code != CLI_GO_ON)
        return code;
    if (!setting->dataset && recipe->spec[0])
        setting->dataset = recipe->spec;
    take_loader(cli, recipe, &setting->loader);
    /* It computes, and takes what it takes. */
    setting->bench.spin = true;
    setting->bench.train_step_time = 0;
    return CLI_GO_ON;
}

void bench_recipe_free(struct bench_recipe *recipe)
{
    if (!recipe)
        return;
    stk_config_destroy(&recipe->config);
    free(recipe);
}

/* ---- The model ------------------------------------------------------------------------------- */

static stk_status fail(stk_error *err, stk_status status, const char *text)
{
    stk_error_init(err);
    err->status = status;
    snprintf(err->text, sizeof err->text, "%s", text);
    return status;
}

/* Steps on noise must not learn it: gradients that vanish take another time than real ones. */
static bool hold_weights(struct bench_train *train)
{
    size_t n = stk_optimizer_num_groups(train->optimizer);

    train->lr = calloc(n, sizeof *train->lr);
    for (size_t i = 0; i < n && train->lr; i++) {
        train->lr[i] = stk_optimizer_get_lr(train->optimizer, i);
        stk_optimizer_set_lr(train->optimizer, i, 0);
    }
    return train->lr != NULL;
}

static void let_learn(struct bench_train *train)
{
    size_t n = stk_optimizer_num_groups(train->optimizer);

    for (size_t i = 0; i < n && train->lr; i++)
        stk_optimizer_set_lr(train->optimizer, i, train->lr[i]);
    free(train->lr);
    train->lr = NULL;
}

/* A batch of noise, with targets that every loss takes. */
static bool make_samples(struct bench_train *train, const struct train_config *options)
{
    int64_t shape[STK_MAX_RANK];
    uint32_t rank = stk_model_builder_shape(train->builder, shape);
    uint64_t outputs = 1, state = 1;

    for (uint32_t i = 0; i < rank; i++)
        outputs *= (uint64_t)shape[i];
    bool labels = options->model.options.loss == STK_LOSS_CROSS_ENTROPY;
    size_t row = labels ? sizeof(int64_t) : outputs * sizeof(float);
    train->targets = calloc(train->rows, row);
    train->samples = aligned_alloc(64, (train->rows * train->row_bytes + 63) / 64 * 64);
    if (!train->targets || !train->samples)
        return false;
    for (uint64_t i = 0; i < train->rows * train->row_bytes / sizeof(float); i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        train->samples[i] = (float)(int32_t)(state >> 32) / 2147483648.0f;
    }
    for (uint64_t i = 0; i < train->rows && labels && outputs; i++)
        ((int64_t *)train->targets)[i] = (int64_t)(i % outputs);
    return true;
}

static stk_status make_model(struct cli *cli, stk_context *context,
                             const struct bench_setting *setting, const stk_field *field,
                             struct bench_train *train, stk_error *err)
{
    const struct bench_recipe *recipe = setting->recipe;
    const struct train_config *options = &recipe->options;
    stk_model_options model;
    stk_cores cores = {.struct_size = sizeof cores};

    if (train_builder_make(cli, context, recipe->config, options, field, &model, &train->builder) !=
            CLI_GO_ON ||
        train_groups_read(cli, recipe->config, &train->groups) != CLI_GO_ON)
        return fail(err, STK_EINVAL, "the model could not be made; the message above says why");
    model.batch_size = train->rows;
    if (strncmp(options->trainer.precision, "bf16", 4) == 0)
        model.precision = STK_PRECISION_BF16_MIXED;
    stk_context_cores(context, &cores);
    train->threads = model.threads ? (uint32_t)model.threads : cores.compute;
    stk_status status = stk_model_create(train->builder, &model, &train->model, err);
    if (status == STK_OK)
        status =
            stk_optimizer_create(train->model, &options->optimizer.options, train->groups.groups,
                                 train->groups.count, &train->optimizer, err);
    if (status == STK_OK && (!make_samples(train, options) || !hold_weights(train)))
        status = fail(err, STK_ENOMEM, "no memory for a batch of the step");
    return status;
}

stk_status bench_train_create(struct cli *cli, stk_context *context,
                              const struct bench_setting *setting, struct bench_train **out,
                              stk_error *err)
{
    const struct train_config *options = &setting->recipe->options;
    struct bench_train *train = calloc(1, sizeof *train);
    stk_dataset *dataset = NULL;
    stk_field field = {0};

    *out = NULL;
    if (!train)
        return fail(err, STK_ENOMEM, "no memory for the step");
    stk_status status = stk_dataset_open(context, setting->dataset, &dataset, err);
    if (status == STK_OK)
        status = train_find_field(dataset, &setting->loader, options->module.input, &field, err);
    if (status == STK_ENOENT && !*err->text)
        fail(err, status,
             "the batches have no field of floats for the model of the step: end the transforms "
             "with to_float or normalize(...)");
    stk_dataset_close(&dataset);
    train->rows = setting->loader.batch_size;
    train->row_bytes = stk_field_bytes(&field);
    snprintf(train->input, sizeof train->input, "%s", field.name);
    snprintf(train->target, sizeof train->target, "%s", options->module.target);
    if (status == STK_OK)
        status = make_model(cli, context, setting, &field, train, err);
    if (status != STK_OK) {
        bench_train_destroy(train);
        return status;
    }
    *out = train;
    return STK_OK;
}

void bench_train_destroy(struct bench_train *train)
{
    if (!train)
        return;
    stk_optimizer_destroy(&train->optimizer);
    stk_model_destroy(&train->model);
    stk_model_builder_destroy(&train->builder);
    train_groups_free(&train->groups);
    free(train->samples);
    free(train->targets);
    free(train->lr);
    free(train);
}

uint32_t bench_train_threads(const struct bench_train *train)
{
    return train->threads;
}

stk_status bench_train_run(struct bench_train *train, const stk_batch *batch, stk_error *err)
{
    stk_tensor input = {.dtype = STK_FLOAT32, .data = train->samples};
    stk_tensor target = {.data = train->targets};
    stk_model_result result = {.struct_size = sizeof result};
    uint64_t rows = batch ? stk_batch_count(batch) : train->rows;

    if (rows == 0)
        return STK_OK;
    if (batch)
        let_learn(train);
    stk_status status = batch ? stk_batch_find(batch, train->input, &input) : STK_OK;
    if (status == STK_OK && batch)
        status = stk_batch_find(batch, train->target, &target);
    if (status != STK_OK)
        return fail(err, status, "the batches have no field for the target of the step's model");
    const stk_model_batch work = {.struct_size = sizeof work,
                                  .count = (uint32_t)rows,
                                  .dtype = input.dtype,
                                  .input = input.data,
                                  .target = target.data,
                                  .step = train->step++};
    status = stk_model_forward(train->model, &work, true, &result, err);
    stk_model_zero_grad(train->model);
    if (status == STK_OK && result.count)
        status = stk_model_backward(train->model, 1, err);
    if (status == STK_OK)
        stk_optimizer_step(train->optimizer);
    return status;
}
