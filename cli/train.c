/* SPDX-License-Identifier: Apache-2.0 */
/* stoker train, validate, test, predict: the whole trainer from a YAML file. */
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Usage ----------------------------------------------------------------------------------- */

static const struct cli_options tables[] = {{.name = "recipe"},      TRAIN_SECTIONS,
                                            {.name = "collectives"}, {.name = "context"},
                                            {.own = cli_live_table}, {0}};

static const struct cli_usage train_usage = {
    .name = "train",
    .synopsis = "[CONFIG.yaml] [options]",
    .about =
        "Trains a model: prints its layers, tries a few validation batches, trains with a progress "
        "bar, validates after\n"
        "each epoch, and tests at the end. Logs (CSV and TensorBoard) and checkpoints "
        "(safetensors) go below\n"
        "--default-root-dir, as lightning_logs/version_N. Options have the names, meanings and "
        "defaults of PyTorch\n"
        "Lightning. Every one of them may be in the YAML file, below the name of its section, "
        "and is a flag, which\n"
        "wins: 'trainer: {max_epochs: 2}' is --max-epochs 2 or --trainer.max-epochs 2.\n"
        "--log FILE appends every event to FILE, for 'stoker report FILE'.\n"
        "\n"
        "Ctrl-C finishes the step, saves a checkpoint and ends with 130 (SIGTERM: 143); a second "
        "one ends at once.\n"
        "With --ckpt-path last a run that was ended in any way, kill -9 included, goes on from its "
        "newest whole\n"
        "checkpoint, and comes to the same weights, bit for bit, as one that was not.\n",
    .examples = "  stoker train --dataset digits: --transforms 'normalize(mnist)' --layers "
                "'flatten, linear(10)' --max-epochs 1\n"
                "  stoker train examples/mnist.yaml\n"
                "  stoker train examples/mnist.yaml --max-epochs 2 --lr 0.01 --batch-size 128\n"
                "  stoker train examples/mnist.yaml --ckpt-path last\n"
                "  stoker train examples/mnist.yaml --fast-dev-run\n"
                "  stoker train examples/mnist.yaml --callbacks 'early_stopping(monitor=val_loss, "
                "patience=2)'\n",
    .interrupted = "the same command with --ckpt-path last goes on from the newest checkpoint",
    .tables = tables,
    .logs = true,
    .yaml = true,
};

static const struct cli_usage validate_usage = {
    .name = "validate",
    .synopsis = "[CONFIG.yaml] [options]",
    .about = "Measures a trained model on the validation data of its configuration. The weights\n"
             "are those of --ckpt-path, a file or 'last' (the newest; default), or of --weights.\n",
    .examples = "  stoker validate examples/mnist.yaml\n"
                "  stoker validate examples/mnist.yaml --ckpt-path last --format json\n",
    .tables = tables,
    .yaml = true,
};

static const struct cli_usage test_usage = {
    .name = "test",
    .synopsis = "[CONFIG.yaml] [options]",
    .about = "Measures a trained model on the test data of its configuration. The weights\n"
             "are those of --ckpt-path, a file or 'last' (the newest; default), or of --weights.\n",
    .examples = "  stoker test examples/mnist.yaml\n"
                "  stoker test examples/mnist.yaml --dataset digits: --val-batch-size 1000\n",
    .tables = tables,
    .yaml = true,
};

static const stk_callback_ops *writer_ops(void)
{
    const stk_driver_head *driver = NULL;

    if (stk_driver_find(NULL, STK_DRIVER_CALLBACK, "prediction_writer", &driver, NULL) != STK_OK)
        abort(); /* it is built in */
    return (const stk_callback_ops *)driver;
}

static const stk_option_table *writer_table(void)
{
    return writer_ops()->options;
}

static const struct cli_options predict_tables[] = {{.name = "recipe"},  {.own = writer_table},
                                                    TRAIN_SECTIONS,      {.name = "collectives"},
                                                    {.name = "context"}, {0}};

static const struct cli_usage predict_usage = {
    .name = "predict",
    .synopsis = "[CONFIG.yaml] [options]",
    .about = "Writes what a trained model gives for data.predict, or for the test data, as npy "
             "files into --output-dir:\n"
             "one for each batch, or with --write-interval epoch one for all. The weights\n"
             "are those of --ckpt-path, a file or 'last' (the newest; default), or of --weights.\n",
    .examples =
        "  stoker predict examples/mnist.yaml --output-dir out --write-interval epoch\n"
        "  stoker predict examples/mnist.yaml --predict 'digits:?split=test&subset=0:100'\n",
    .tables = predict_tables,
    .yaml = true,
};

/* ---- A run ----------------------------------------------------------------------------------- */

#define MAX_METRICS 128

struct run {
    struct cli *cli;
    stk_context *context;
    stk_collectives *collectives; /* with the other ranks; NULL: there are none */
    stk_recipe *recipe;
    stk_recipe_parts parts;
    stk_trainer_times times; /* of the training */
    stk_verdict verdict;     /* likewise */
    struct {
        char name[64];
        double value;
    } metrics[MAX_METRICS]; /* of all its tasks, the last value of each */
    size_t num_metrics;
    uint64_t evaluated;    /* samples of the last test, validation or prediction */
    const char *tested;    /* file that has the weights tested; NULL: none has */
    bool untested;         /* of a training that nothing was there to test with */
    char output_dir[4096]; /* of predictions; "": a writer of the configuration's decides */
};

/* Begins the program anew where that is wanted, so nothing is said before. */
static int prepare_threads(struct cli *cli)
{
    stk_context_options process;

    const int code = cli_apply(cli, stk_option_table_find("context"), 0, &process);
    if (code == CLI_GO_ON)
        cli_compute_environment(cli, process.compute_threads);
    return code;
}

/* A checkpoint that is not there is missed before a training begins to write. */
static int find_checkpoint(const struct run *run)
{
    static const char *const words[] = {"last", "best"};
    const char *path = stk_config_get(run->cli->config, "ckpt_path", 0);
    char found[256];

    if (!path || strcmp(path, "last") == 0 || strcmp(path, "best") == 0 ||
        access(path, F_OK) == 0 || strstr(path, "://"))
        return CLI_GO_ON;
    int error = errno;
    const char *meant = stk_nearest_name(path, words, 2);
    if (!meant && stk_nearest_path(path, found, sizeof found))
        meant = found;
    cli_error("ckpt_path: '%.200s': %s%s%s%s", path, strerror(error),
              meant ? "; did you mean '"
                    : "; 'last' is the newest of the runs with this root and logger",
              meant ? meant : "", meant ? "'?" : "");
    return CLI_FAILED;
}

/* Predictions are files; there is nothing to log. */
static int leave_out_loggers(struct cli *cli)
{
    stk_error err;

    if (stk_config_count(cli->config, "trainer.logger") || stk_config_count(cli->config, "loggers"))
        return CLI_GO_ON;
    stk_status status = stk_config_set(cli->config, "trainer.logger", "false", false, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* Which of several processes this is. */
static int find_ranks(struct cli *cli)
{
    int code = cli_ranks(cli);

    if (code == CLI_GO_ON)
        code = train_devices(cli);
    if (code != CLI_GO_ON)
        return code;
    cli_requeue_watch(cli);
    cli->quiet |= !train_speaks(cli);
    return CLI_GO_ON;
}

static int run_make(struct run *run, struct cli *cli, const struct cli_usage *usage, uint32_t tasks)
{
    stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = tasks, .begin_ns = cli_now_ns()};

    *run = (struct run){.cli = cli};
    int code = cli_parse(cli, usage);
    if (code == CLI_GO_ON)
        code = prepare_threads(cli);
    if (code == CLI_GO_ON)
        code = find_ranks(cli);
    if (code != CLI_GO_ON)
        return code;
    if (cli->log && strcmp(cli->log, "none") != 0 &&
        !(options.log = train_log_name(cli, cli->log))) {
        cli_error("no memory for the name of the log");
        return CLI_FAILED;
    }
    if (tasks & (STK_RECIPE_FIT | STK_RECIPE_PREDICT))
        cli_signals_ignore_pipe();
    if (tasks & STK_RECIPE_PREDICT)
        code = leave_out_loggers(cli);
    if (code == CLI_GO_ON)
        code = cli_tracking_environment(cli);
    if (code == CLI_GO_ON)
        code = find_checkpoint(run);
    if (code == CLI_GO_ON)
        cli_signals_watch();
    if (code == CLI_GO_ON && train_speaks(cli))
        code = cli_live_bind(cli);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &run->context);
    if (code == CLI_GO_ON)
        code = train_ranks(cli, run->context, &run->collectives);
    if (code == CLI_GO_ON) /* of each rank a sheet, and of the first a page */
        code = cli_live(cli, stk_config_get(cli->config, "data.dataset", 0), cli->ranks.rank,
                        cli->ranks.world_size);
    if (run->collectives)
        options.strategy = stk_collectives_strategy(run->collectives);
    if (code == CLI_GO_ON)
        code = train_recipe(cli, run->context, &options, &run->recipe, &run->parts);
    if (code == CLI_GO_ON)
        train_on_interrupt(run->parts.trainer);
    return code;
}

static void run_release(struct run *run)
{
    cli_on_interrupt(NULL, NULL);
    stk_recipe_destroy(&run->recipe);
    stk_collectives_close(&run->collectives);
}

/* ---- What came out --------------------------------------------------------------------------- */

/* A trainer forgets its metrics when it begins another task. */
static void keep_metrics(struct run *run)
{
    stk_metric metric;

    for (size_t i = 0; stk_trainer_metric_at(run->parts.trainer, i, &metric); i++) {
        size_t k = 0;
        while (k < run->num_metrics && strcmp(run->metrics[k].name, metric.name) != 0)
            k++;
        if (k == MAX_METRICS)
            return;
        snprintf(run->metrics[k].name, sizeof run->metrics[k].name, "%s", metric.name);
        run->metrics[k].value = metric.value;
        run->num_metrics = k == run->num_metrics ? k + 1 : run->num_metrics;
    }
}

static bool find_metric(const struct run *run, const char *name, double *value)
{
    for (size_t i = 0; i < run->num_metrics; i++)
        if (strcmp(run->metrics[i].name, name) == 0) {
            *value = run->metrics[i].value;
            return true;
        }
    return false;
}

static void put_json(struct run *run, FILE *out)
{
    const stk_trainer_times *t = &run->times;
    const struct {
        const char *name;
        uint64_t ns;
    } parts[] = {
        {"wall", t->wall},       {"data_wait", t->data_wait},   {"transfer", t->transfer},
        {"step", t->step},       {"validation", t->validation}, {"callbacks", t->callbacks},
        {"logging", t->logging}, {"checkpoint", t->checkpoint}, {"other", t->other}};
    const char *const paths[][2] = {
        {"log_dir", stk_trainer_log_dir(run->parts.trainer)},
        {"best_model_path", stk_trainer_best_model_path(run->parts.trainer)},
        {"last_model_path", stk_trainer_last_model_path(run->parts.trainer)},
        {"tested_model_path", run->untested ? NULL : run->tested}};

    fputs("{\n  \"dataset\": ", out);
    cli_json_string(out, run->parts.dataset);
    fprintf(out, ",\n  \"epoch\": %" PRIu64 ",\n  \"global_step\": %" PRIu64 ",\n  \"metrics\": {",
            stk_trainer_current_epoch(run->parts.trainer),
            stk_trainer_global_step(run->parts.trainer));
    for (size_t i = 0; i < run->num_metrics; i++) {
        fputs(i ? ", " : "", out);
        cli_json_string(out, run->metrics[i].name);
        fputs(": ", out);
        cli_json_number(out, run->metrics[i].value);
    }
    fprintf(out, "},\n  \"steps\": %" PRIu64 ",\n  \"samples\": %" PRIu64 ",\n  \"seconds\": {",
            t->steps, t->samples);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        fprintf(out, "%s\"%s\": ", i ? ", " : "", parts[i].name);
        cli_json_number(out, (double)parts[i].ns * 1e-9);
    }
    fputs("}", out);
    if (run->verdict.text[0]) {
        char text[2048];
        stk_waits_format(&t->waits, text, sizeof text);
        fprintf(out, ",\n  \"wait\": {%s}", text);
        stk_verdict_format(&run->verdict, text, sizeof text);
        fprintf(out, ",\n  \"verdict\": {%s}", text);
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        fprintf(out, ",\n  \"%s\": ", paths[i][0]);
        if (paths[i][1])
            cli_json_string(out, paths[i][1]);
        else
            fputs("null", out);
    }
    if (*run->output_dir) {
        fputs(",\n  \"output_dir\": ", out);
        cli_json_string(out, run->output_dir);
    }
    fputs("\n}\n", out);
}

static void put_csv(struct run *run, FILE *out)
{
    fputs("name,value\n", out);
    for (size_t i = 0; i < run->num_metrics; i++) {
        cli_csv_string(out, run->metrics[i].name);
        fprintf(out, ",%.9g\n", run->metrics[i].value);
    }
    fprintf(out, "global_step,%" PRIu64 "\nseconds,%.6f\n",
            stk_trainer_global_step(run->parts.trainer), (double)run->times.wall * 1e-9);
}

/* "Test loss 0.0869, accuracy 97.33 % on 10000 samples of SPEC.", behind a training with what
 * `when` says in place of the samples; formats are the table's. False: there are no such figures.
 */
static bool put_figures(const struct run *run, const char *what, const char *short_name,
                        const char *spec, const char *when, FILE *out)
{
    static const struct {
        const char *name, *format;
        double scale;
    } shown[] = {{"acc", ", accuracy %.2f %%", 100},
                 {"f1", ", F1 %.4f", 1},
                 {"mae", ", MAE %.4g", 1},
                 {"rmse", ", RMSE %.4g", 1},
                 {"r2", ", R2 %.4f", 1}};
    char name[32];
    double value;

    snprintf(name, sizeof name, "%s_loss", short_name);
    if (!find_metric(run, name, &value))
        return false;
    fprintf(out, "%s loss %.4f", what, value);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        snprintf(name, sizeof name, "%s_%s", short_name, shown[i].name);
        if (find_metric(run, name, &value))
            fprintf(out, shown[i].format, shown[i].scale * value);
    }
    if (run->evaluated)
        fprintf(out, " on %" PRIu64 " samples of %s.\n", run->evaluated, spec);
    else
        fprintf(out, " %s.\n", when);
    return true;
}

/* One line for each thing that one wants to know after hours. */
static void put_text(struct run *run, FILE *out)
{
    const stk_recipe_parts *parts = &run->parts;

    if (!put_figures(run, "Test", "test", parts->test_dataset, "", out) &&
        !put_figures(run, "Validation", "val", parts->val_dataset,
                     parts->data->num_test ? "after the last epoch (nothing was tested)"
                                           : "after the last epoch (no test data)",
                     out))
        put_figures(run, "Training", "train", parts->dataset, "at the end (nothing was validated)",
                    out);
    if (run->tested)
        fprintf(out, "Checkpoint%s: %s\n", run->untested ? "" : " tested", run->tested);
    else if (stk_trainer_best_model_path(parts->trainer))
        fputs("The weights tested are the last ones, which no checkpoint has: "
              "model_checkpoint(save_last=true, save_on_train_epoch_end=true) saves them\n",
              out);
    if (run->times.steps && !run->cli->quiet)
        fprintf(out, "Data: %s\n", run->verdict.text);
}

static void put_result(struct run *run)
{
    FILE *out = run->cli->out;

    if (!train_speaks(run->cli))
        return;
    if (run->cli->format == CLI_JSON)
        put_json(run, out);
    else if (run->cli->format == CLI_CSV)
        put_csv(run, out);
    else
        put_text(run, out);
}

/* ---- The commands ---------------------------------------------------------------------------- */

/* What limited the training, always; its log, where there is one. */
static void judge(struct run *run)
{
    run->verdict.struct_size = sizeof run->verdict;
    run->times.struct_size = sizeof run->times;
    stk_trainer_get_times(run->parts.trainer, &run->times);
    stk_training_events_judge(run->parts.log, run->parts.data->train, NULL, &run->verdict);
}

/* Samples of all ranks, each of which has gone through its own. */
static void count_evaluated(struct run *run, uint64_t own)
{
    double samples = (double)own;

    if (stk_trainer_reduce(run->parts.trainer, &samples, 1, STK_COMBINE_SUM, NULL) == STK_OK)
        run->evaluated = (uint64_t)samples;
}

static stk_status test_trained(struct run *run, stk_error *err)
{
    stk_recipe_tested tested = {.struct_size = sizeof tested};
    stk_trainer_times times = {.struct_size = sizeof times};
    double ignored;

    const stk_status status = stk_recipe_test(run->recipe, &tested, err);
    run->tested = tested.path;
    if (tested.again) {
        stk_trainer_get_times(run->parts.trainer, &times);
        count_evaluated(run, times.samples);
        keep_metrics(run);
    }
    run->untested = !find_metric(run, tested.test ? "test_loss" : "val_loss", &ignored);
    return status;
}

int cli_train(struct cli *cli)
{
    struct run run;
    stk_error err;

    int code = run_make(&run, cli, &train_usage, STK_RECIPE_FIT | STK_RECIPE_TEST);
    if (code != CLI_GO_ON)
        goto out;
    stk_status status = stk_trainer_fit(run.parts.trainer, run.parts.module, run.parts.data,
                                        run.parts.ckpt_path, &err);
    judge(&run);
    keep_metrics(&run);
    if (status == STK_OK && !stk_trainer_get_options(run.parts.trainer)->barebones)
        status = test_trained(&run, &err);
    code = status == STK_OK ? CLI_GOOD : cli_fail(cli, status, &err);
    if (stk_training_events_end(run.parts.log, &err) != STK_OK) {
        cli_error("%s", err.text);
        code = code == CLI_GOOD ? CLI_FAILED : code;
    }
    if (status == STK_OK)
        put_result(&run);
out:
    run_release(&run);
    return cli_requeue(cli, code);
}

typedef stk_status task_fn(stk_trainer *trainer, stk_module *module, const stk_trainer_data *data,
                           const char *ckpt_path, stk_error *err);

/* A task that looks at a trained model. */
static int evaluate(struct run *run, task_fn *task)
{
    const char *weights = run->cli->weights; /* those of a file are where a training began */
    const char *ckpt = run->parts.ckpt_path;
    stk_error err;

    if (!weights || !*weights)
        ckpt = ckpt ? ckpt : "last";
    else if (ckpt)
        cli_warning("weights: those of the checkpoint (ckpt_path), not those of '%s'", weights);
    else
        cli_console_log(run->cli, STK_MESSAGE_INFO,
                        "weights: those of module.weights (--ckpt-path last: a checkpoint's)");
    stk_status status = task(run->parts.trainer, run->parts.module, run->parts.data, ckpt, &err);
    run->times.struct_size = sizeof run->times;
    stk_trainer_get_times(run->parts.trainer, &run->times);
    if (status == STK_OK)
        count_evaluated(run, run->times.samples);
    run->tested = stk_trainer_ckpt_path(run->parts.trainer);
    keep_metrics(run);
    if (status == STK_ENOENT && ckpt && (strcmp(ckpt, "last") == 0 || strcmp(ckpt, "best") == 0)) {
        cli_error("%s: 'stoker train' of this configuration makes one; or give --ckpt-path FILE",
                  err.text);
        return CLI_FAILED;
    }
    return status == STK_OK ? CLI_GOOD : cli_fail(run->cli, status, &err);
}

int cli_validate(struct cli *cli)
{
    struct run run;
    int code = run_make(&run, cli, &validate_usage, STK_RECIPE_VALIDATE);

    if (code == CLI_GO_ON)
        code = evaluate(&run, stk_trainer_validate);
    if (code == CLI_GOOD && run.parts.trainer)
        put_result(&run);
    run_release(&run);
    return code;
}

int cli_test(struct cli *cli)
{
    struct run run;
    int code = run_make(&run, cli, &test_usage, STK_RECIPE_TEST);

    if (code == CLI_GO_ON)
        code = evaluate(&run, stk_trainer_test);
    if (code == CLI_GOOD && run.parts.trainer)
        put_result(&run);
    run_release(&run);
    return code;
}

/* The writer of the flags, unless the configuration has one of its own. */
static int add_writer(struct run *run)
{
    const stk_callback_ops *ops = writer_ops();
    struct cli *cli = run->cli;
    stk_error err;

    if (stk_recipe_has_item(cli->config, "callbacks", ops->name))
        return CLI_GO_ON;
    void *options = calloc(1, ops->options->struct_size);
    if (!options) {
        cli_error("no memory for the options of %s", ops->name);
        return CLI_FAILED;
    }
    int code = cli_apply(cli, ops->options, 0, options);
    if (code == CLI_GO_ON) {
        stk_options_format(stk_options_find(ops->options, "output_dir"), options, run->output_dir,
                           sizeof run->output_dir);
        stk_status status = stk_trainer_add_callback(run->parts.trainer, ops, options, NULL, &err);
        if (status != STK_OK)
            code = cli_fail(cli, status, &err);
    }
    free(options);
    return code;
}

int cli_predict(struct cli *cli)
{
    struct run run;
    int code = run_make(&run, cli, &predict_usage, STK_RECIPE_PREDICT);

    if (code == CLI_GO_ON)
        code = add_writer(&run);
    if (code == CLI_GO_ON)
        code = evaluate(&run, stk_trainer_predict);
    if (code == CLI_GOOD && run.parts.trainer && cli->format != CLI_TABLE)
        put_result(&run);
    else if (code == CLI_GOOD && *run.output_dir && !cli->quiet)
        fprintf(cli->out, "Predictions of %" PRIu64 " samples: %s\n", run.evaluated,
                run.output_dir);
    run_release(&run);
    return code;
}
