/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real step: forward, backward and optimizer step of the model of a training's configuration,
 * on the batches of the setting; or the whole training (bench_fit.c). What the setting does not say
 * is the training's.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "train.h"

struct bench_recipe {
    bool fit;       /* the whole training is measured */
    uint64_t which; /* combination of the configuration that it is of */
    struct bench_recipe *next;
    stk_config *config;
    char spec[BENCH_PATH]; /* of the data */
};

static int refuse(const char *key, const char *why)
{
    cli_error("%s: it has no effect on %s; leave it out", key, why);
    return CLI_USAGE;
}

/* ---- The configuration ----------------------------------------------------------------------- */

/* What the bench says of data and loader wins over the training's configuration. */
static stk_status set_data(struct cli *cli, const stk_bench_setting *setting,
                           const stk_loader_options *loader, stk_config *config, stk_error *err)
{
    stk_status status = STK_OK;

    if (setting->dataset)
        status = stk_config_set(config, "data.dataset", setting->dataset, false, err);
    return status == STK_OK
               ? stk_config_merge(config, cli->config, stk_option_table_find("recipe.loader"),
                                  setting->which, loader, err)
               : status;
}

/* All but what is of a run, and in no file: the place among ranks, and how long it goes. */
static void take_options(const stk_loader_options *from, stk_loader_options *to)
{
    const stk_loader_options run = *to;

    *to = *from;
    to->rank = run.rank;
    to->world_size = run.world_size;
    to->epochs = run.epochs;
}

/* Data that stand in for others are looked for once. */
static stk_status keep_data(struct bench_recipe *recipe, stk_error *err)
{
    const char *given = stk_config_get(recipe->config, "data.dataset", 0);

    if (given && strcmp(given, recipe->spec) == 0)
        return STK_OK;
    return stk_config_set(recipe->config, "data.dataset", recipe->spec, false, err);
}

/* Data and loader as they came out, found in a context of its own: nothing may be open where
 * processes begin. */
static int find_data(struct cli *cli, stk_bench_setting *setting, stk_loader_options *loader,
                     struct bench_recipe *recipe)
{
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_MODEL, .home = cli_home_folder()};
    stk_recipe_parts parts = {.struct_size = sizeof parts};
    stk_context_options process;
    stk_context *context = NULL;
    stk_recipe *made = NULL;
    stk_error err;

    stk_options_init(stk_option_table_find("context"), &process, sizeof process);
    process.on_message = cli_console_log;
    process.on_message_user = cli;
    stk_status status = stk_context_create(&process, &context, &err);
    if (status == STK_OK)
        status = cli_plugins(cli, context, recipe->config, &err);
    if (status == STK_OK)
        status = stk_recipe_create(context, recipe->config, &options, &made, &err);
    if (status == STK_OK) {
        stk_recipe_get_parts(made, &parts);
        snprintf(recipe->spec, sizeof recipe->spec, "%s", parts.dataset);
        setting->dataset = recipe->spec;
        take_options(parts.data->train->options, loader);
        status = keep_data(recipe, &err);
    }
    stk_recipe_destroy(&made);
    stk_context_destroy(&context);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* Whether a table of the command is a section of a training. Its loader is the bench's. */
static bool is_section(const struct cli_options *table)
{
    return table->name && strncmp(table->name, "recipe", strlen("recipe")) == 0;
}

/* What the bench says of them. */
static stk_status set_sections(struct cli *cli, uint64_t which, stk_config *config, stk_error *err)
{
    stk_status status = STK_OK;

    for (const struct cli_options *t = cli->usage->tables; t->name && status == STK_OK; t++)
        if (is_section(t))
            status = stk_config_merge(config, cli->config, stk_option_table_find(t->name), which,
                                      NULL, err);
    return status;
}

/* `path` NULL: all of it is in the bench's own configuration. */
static int load_config(struct cli *cli, const stk_bench_setting *setting,
                       const stk_loader_options *loader, const char *path,
                       struct bench_recipe *recipe)
{
    stk_context_options process;
    stk_error err;

    stk_status status = stk_config_create(cli->config_context, &recipe->config, &err);
    if (status == STK_OK && path)
        status = stk_config_load(recipe->config, cli_home(path), &err);
    stk_options_init(stk_option_table_find("context"), &process, sizeof process);
    if (status == STK_OK)
        status =
            stk_config_apply(recipe->config, stk_option_table_find("context"), 0, &process, &err);
    if (status == STK_OK)
        status = set_data(cli, setting, loader, recipe->config, &err);
    if (status == STK_OK && recipe->fit)
        status = set_sections(cli, setting->which, recipe->config, &err);
    if (status != STK_OK) {
        cli_fail(cli, status, &err);
        return CLI_USAGE;
    }
    return CLI_GO_ON;
}

/* "trian:a.yaml", or "a.yaml" alone. */
static void fail_step(const char *step)
{
    static const char *const words[] = {"train", "fit"};
    char word[16];
    const char *rest = strchr(step, ':');
    size_t length = rest ? (size_t)(rest - step) : 0;

    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : 0), step);
    const char *meant = rest && rest[1] ? stk_nearest_name(word, words, 2) : NULL;
    if (meant)
        cli_error("bench.step: '%.100s' is no step; did you mean '%s:%.100s'?", step, meant,
                  rest + 1);
    else
        cli_error("bench.step: '%.100s' is no step; leave it out, or give train:CONFIG.yaml or "
                  "fit:CONFIG.yaml",
                  step);
}

/* What a whole training does not look at. */
static int check_fit(struct cli *cli)
{
    static const char *const taken[] = {"step", "repeat", "ladder", NULL};
    static const char *const idle[] = {"loader.rank", "loader.world_size", "loader.epochs", NULL};
    const stk_option_table *bench = stk_option_table_find("bench");
    char key[128];

    for (size_t i = 0; idle[i]; i++)
        if (stk_config_count(cli->config, idle[i]))
            return refuse(idle[i], "a whole training (bench.step fit:)");
    for (size_t i = 0; i < bench->count; i++) {
        const char *name = bench->options[i].name;
        size_t k = 0;
        while (taken[k] && strcmp(taken[k], name) != 0)
            k++;
        snprintf(key, sizeof key, "bench.%s", name);
        if (!taken[k] && stk_config_count(cli->config, key))
            return refuse(key, strcmp(name, "num_epochs") == 0
                                   ? "a whole training (trainer.max_epochs has)"
                               : strcmp(name, "num_batches") == 0
                                   ? "a whole training (trainer.limit_train_batches has)"
                                   : "a whole training (bench.step fit:)");
    }
    return CLI_GO_ON;
}

int bench_recipe_check(struct cli *cli)
{
    char key[128];

    if (cli->training && !stk_config_count(cli->config, "bench.step"))
        return cli_fail_training(cli);
    for (const struct cli_options *t = cli->usage->tables; t->name; t++) {
        const stk_option_table *table = stk_option_table_find(t->name);
        for (size_t k = 0; is_section(t) && k < table->count; k++) {
            snprintf(key, sizeof key, "%s%s%s", table->name, *table->name ? "." : "",
                     table->options[k].name);
            if (stk_config_count(cli->config, key))
                return refuse(key, "anything but a whole training (bench.step fit:CONFIG.yaml)");
        }
    }
    return CLI_GO_ON;
}

int bench_recipe_make(struct cli *cli, stk_bench_setting *setting, stk_loader_options *loader,
                      stk_bench_options *bench, struct bench_recipe **recipes)
{
    const char *path;
    const enum bench_step kind = bench_step_of(bench->step, &path);
    const bool fit = kind == BENCH_FIT;

    if (kind == BENCH_UNKNOWN) {
        fail_step(bench->step);
        return CLI_USAGE;
    }
    if (*recipes && (*recipes)->fit != fit) {
        cli_error("bench.step: whole trainings (fit:) and single steps (train:) have no figure in "
                  "common; give them to a bench each");
        return CLI_USAGE;
    }
    int code = fit ? check_fit(cli) : bench_recipe_check(cli);
    if (code != CLI_GO_ON)
        return code;
    if (stk_config_count(cli->config, "bench.spin"))
        return refuse("bench.spin", "a real step (bench.step)");
    if (stk_config_count(cli->config, "bench.train_step_time"))
        return refuse("bench.train_step_time", "a real step (bench.step)");
    struct bench_recipe *recipe = calloc(1, sizeof *recipe);
    if (!recipe) {
        cli_error("no memory for the step");
        return CLI_FAILED;
    }
    recipe->fit = fit;
    recipe->which = setting->which;
    recipe->next = *recipes;
    *recipes = recipe;
    code = load_config(cli, setting, loader, path, recipe);
    if (code == CLI_GO_ON)
        code = find_data(cli, setting, loader, recipe);
    /* It computes, and takes what it takes. */
    bench->spin = true;
    bench->train_step_time = 0;
    return code;
}

const struct bench_recipe *bench_recipe_of(const struct bench_recipe *recipes, uint64_t which)
{
    while (recipes && recipes->which != which)
        recipes = recipes->next;
    return recipes;
}

stk_config *bench_recipe_fit(const struct bench_recipe *recipe)
{
    return recipe && recipe->fit ? recipe->config : NULL;
}

void bench_recipe_free(struct bench_recipe *recipes)
{
    while (recipes) {
        struct bench_recipe *next = recipes->next;
        stk_config_destroy(&recipes->config);
        free(recipes);
        recipes = next;
    }
}

/* ---- The model ------------------------------------------------------------------------------- */

stk_status bench_train_create(struct cli *cli, stk_context *context,
                              const struct bench_recipe *recipe, uint64_t batch_size,
                              stk_recipe **out, const stk_bench_step **step, stk_error *err)
{
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_MODEL, .home = cli_home_folder()};

    *out = NULL;
    stk_status status = cli_plugins(cli, context, recipe->config, err);
    if (status == STK_OK)
        status = stk_recipe_create(context, recipe->config, &options, out, err);
    return status == STK_OK ? stk_recipe_step(*out, batch_size, step, err) : status;
}
