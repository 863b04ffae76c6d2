/* SPDX-License-Identifier: Apache-2.0 */
/* stoker profile: a few steps of a training under the simple, advanced and trace profilers. */
#include "profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"
#include "object_stores.h"
#include "train.h"

#define PROFILE_PATH 4096

/* ---- Usage ----------------------------------------------------------------------------------- */

struct profile_options {
    uint32_t struct_size;
    uint64_t steps;
    const char *output_dir;
};

#define AT(member) offsetof(struct profile_options, member)

static const stk_option_table *profiling_table(void)
{
    static const stk_option rows[] = {
        {"steps", STK_OPTION_UINT, AT(steps), "100", 1, 1e6, NULL, "N",
         "Optimizer steps to measure, behind those of warmup_steps."},
        {"output_dir", STK_OPTION_STRING, AT(output_dir), "output/profiler", 0, 0, NULL, "DIR",
         "Folder, or URL of one, that gets one of the name of the configuration."},
    };
    static const stk_option_table table = {.name = "profiling",
                                           .doc = "What to run",
                                           .struct_size = sizeof(struct profile_options),
                                           .options = rows,
                                           .count = sizeof rows / sizeof *rows};

    return &table;
}

static const struct cli_options tables[] = {{.own = profiling_table}, {.name = "profile"},
                                            {.name = "recipe"},       TRAIN_SECTIONS,
                                            {.name = "context"},      {0}};

static const struct cli_usage usage = {
    .name = "profile",
    .synopsis = "[CONFIG.yaml] [options]",
    .about =
        "Trains a few steps and says where their time goes: for each batch, waiting for data, "
        "forward, backward and\n"
        "all else; for each layer, time, GFLOP/s and GB/s. It ends with a paragraph on what limits "
        "and what to change.\n"
        "\n"
        "Below output/profiler/CONFIG (--output-dir) it leaves timing_summary.yaml, "
        "timing_results.csv and layers.csv,\n"
        "and in profiler_logs the files of the profilers: the tables of simple and advanced, as "
        "PyTorch Lightning's,\n"
        "and a trace of trainer, layers, workers and reads (*.pt.trace.json) for ui.perfetto.dev "
        "or "
        "chrome://tracing.\n"
        "\n"
        "Options are those of 'stoker train'. Checkpoints are left out unless the configuration "
        "asks for them.\n",
    .examples = "  stoker profile examples/mnist.yaml\n"
                "  stoker profile examples/mnist.yaml --steps 500 --num-workers 2\n"
                "  stoker profile examples/mnist.yaml --profiler trace --max-events 1000000\n",
    .tables = tables,
    .yaml = true,
};

/* ---- A run ----------------------------------------------------------------------------------- */

struct run {
    struct cli *cli;
    stk_context *context;
    struct profile_options options;
    stk_profile_options profiler;
    stk_recipe *recipe;
    stk_recipe_parts parts;
    stk_profile *profile;
    const char *file; /* the first YAML file of the command line; NULL: none */
    char folder[PROFILE_PATH], logs[PROFILE_PATH + 32], cache[PROFILE_PATH];
};

/* The configuration whose name the results get. */
static const char *find_file(const struct cli *cli)
{
    for (int i = 0; i < cli->argc; i++) {
        const char *text = cli->argv[i];
        if (strncmp(text, "--config=", 9) == 0)
            return text + 9;
        if (strcmp(text, "--config") == 0)
            return i + 1 < cli->argc ? cli->argv[i + 1] : NULL;
        if (*text != '-' && (cli_ends_with(text, ".yaml") || cli_ends_with(text, ".yml")))
            return text;
    }
    return NULL;
}

static int make_folders(struct run *run)
{
    const char *name = run->file ? run->file : "default";
    const char *slash = strrchr(name, '/');

    if (strchr(run->options.output_dir, '?')) {
        cli_error("profiling.output_dir: '%s' has a query; options of a store are given by "
                  "--stores, and the name of a folder here has no '?'",
                  run->options.output_dir);
        return CLI_USAGE;
    }
    name = slash ? slash + 1 : name;
    size_t length = strlen(name) - (cli_ends_with(name, ".yaml")  ? 5
                                    : cli_ends_with(name, ".yml") ? 4
                                                                  : 0);
    int n = snprintf(run->folder, sizeof run->folder, "%s/%.*s", cli_home(run->options.output_dir),
                     (int)length, name);
    if (n < 0 || (size_t)n >= sizeof run->folder) {
        cli_error("profiling.output_dir: the path is too long");
        return CLI_USAGE;
    }
    snprintf(run->logs, sizeof run->logs, "%s/profiler_logs", run->folder);
    return CLI_GO_ON;
}

/* All three into one folder, unless told otherwise; what is measured of the machine is kept where
 * what was measured of datasets is. */
static void set_profilers(struct run *run)
{
    if (!run->profiler.machine_dir)
        run->profiler.machine_dir =
            cli_cache_folder(cli_home_folder(), run->cache, sizeof run->cache) ? run->cache
                                                                               : run->folder;
    if (!run->profiler.profiler)
        run->profiler.profiler = "simple,advanced,trace";
    if (!run->profiler.dirpath)
        run->profiler.dirpath = run->logs;
    if (!run->profiler.filename)
        run->profiler.filename = "profiler_output";
}

static int set(struct cli *cli, const char *key, const char *text)
{
    stk_error err;

    stk_status status = stk_config_set(cli->config, key, text, false, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* A few steps, whatever the training is to last; nothing that is only of use after a whole one. */
static int set_trainer(struct run *run)
{
    struct cli *cli = run->cli;
    char steps[32];
    snprintf(steps, sizeof steps, "%" PRIu64, run->options.steps + run->profiler.warmup_steps);
    const struct {
        const char *key, *text;
        bool wins; /* over the configuration */
    } values[] = {{"trainer.max_steps", steps, true},
                  {"trainer.max_epochs", "-1", true},
                  {"trainer.max_time", "", true},
                  {"trainer.min_epochs", "0", true},
                  {"trainer.min_steps", "0", true},
                  {"trainer.profiler", "none", true},
                  {"trainer.num_sanity_val_steps", "0", false},
                  {"trainer.enable_checkpointing", "false", false},
                  {"trainer.default_root_dir", run->folder, false}};
    int code = CLI_GO_ON;

    if (stk_config_count(cli->config, "ckpt_path")) {
        cli_error("ckpt_path: a profile is of the first steps of a training; leave it out");
        return CLI_USAGE;
    }
    for (size_t i = 0; i < sizeof values / sizeof *values && code == CLI_GO_ON; i++) {
        const bool given = stk_config_count(cli->config, values[i].key) > 0,
                   saves = strcmp(values[i].key, "trainer.enable_checkpointing") == 0 &&
                           stk_recipe_has_item(cli->config, "callbacks", "model_checkpoint");
        if (values[i].wins || (!given && !saves))
            code = set(cli, values[i].key, values[i].text);
    }
    return code;
}

static int read_options(struct run *run)
{
    struct cli *cli = run->cli;
    stk_context_options process;

    run->file = find_file(cli);
    int code = cli_apply(cli, profiling_table(), 0, &run->options);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_option_table_find("profile"), 0, &run->profiler);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_option_table_find("context"), 0, &process);
    if (code == CLI_GO_ON)
        code = make_folders(run);
    if (code == CLI_GO_ON)
        code = set_trainer(run);
    if (code != CLI_GO_ON)
        return code;
    set_profilers(run);
    cli_compute_environment(cli, process.compute_threads);
    cli_signals_watch();
    return CLI_GO_ON;
}

/* What times comes before the callbacks of the configuration. */
static stk_status prepare(void *user, stk_trainer *trainer, stk_error *err)
{
    struct run *run = user;

    return stk_profile_create(trainer, &run->profiler, &run->profile, err);
}

static int run_make(struct run *run)
{
    struct cli *cli = run->cli;
    stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_FIT, .prepare = prepare, .user = run};

    int code = cli_parse(cli, &usage);
    if (code == CLI_GO_ON)
        code = read_options(run);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &run->context);
    if (code == CLI_GO_ON)
        code = train_recipe(cli, run->context, &options, &run->recipe, &run->parts);
    if (code != CLI_GO_ON)
        return code;
    cli_signals_ignore_pipe();
    train_on_interrupt(run->parts.trainer);
    return CLI_GO_ON;
}

static void run_release(struct run *run)
{
    cli_on_interrupt(NULL, NULL);
    stk_profile_close(&run->profile, NULL);
    stk_recipe_destroy(&run->recipe);
}

static int fit(struct run *run)
{
    stk_error err;

    stk_status status =
        stk_trainer_fit(run->parts.trainer, run->parts.module, run->parts.data, NULL, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(run->cli, status, &err);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int report(struct run *run)
{
    stk_profile_summary summary = {.struct_size = sizeof summary};
    stk_error err;

    stk_status status = stk_profile_summarize(run->profile, stk_profile_warmup(run->profile),
                                              run->file, &summary, &err);
    if (status == STK_OK)
        status = stk_profile_write_files(run->profile, &summary, run->folder, &err);
    if (status != STK_OK)
        return cli_fail(run->cli, status, &err);
    const int code = profile_print(run->cli, run->profile, &summary);
    if (code != CLI_GO_ON)
        return code;
    status = stk_profile_finish(run->profile, &err);
    if (status != STK_OK)
        return cli_fail(run->cli, status, &err);
    if (run->cli->format == CLI_TABLE) {
        fprintf(run->cli->out, "\nIn %s: timing_summary.yaml, timing_results.csv, layers.csv\n",
                run->folder);
        for (size_t i = 0; stk_profile_file(run->profile, i); i++)
            fprintf(run->cli->out, "%s\n", stk_profile_file(run->profile, i));
    }
    return CLI_GOOD;
}

int cli_profile(struct cli *cli)
{
    struct run run = {.cli = cli};

    int code = run_make(&run);
    if (code == CLI_GO_ON)
        code = fit(&run);
    if (code == CLI_GO_ON)
        code = report(&run);
    run_release(&run);
    return code;
}
