/* SPDX-License-Identifier: Apache-2.0 */
/* stoker train, validate, test, predict: the whole trainer from a YAML file. */
#include "train.h"
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Usage ----------------------------------------------------------------------------------- */

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
        "Lightning. Every one of them may stand in the YAML file below the name of its section, "
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
    .tables = train_tables,
    .logs = true,
    .yaml = true,
    .lists = train_lists,
};

static const struct cli_usage validate_usage = {
    .name = "validate",
    .synopsis = "[CONFIG.yaml] [options]",
    .about = "Measures a trained model on the validation data of its configuration. The weights "
             "come from --ckpt-path,\n"
             "a file or 'last', the newest whole checkpoint below --default-root-dir, which is the "
             "default.\n",
    .examples = "  stoker validate examples/mnist.yaml\n"
                "  stoker validate examples/mnist.yaml --ckpt-path last --format json\n",
    .tables = train_tables,
    .yaml = true,
    .lists = train_lists,
};

static const struct cli_usage test_usage = {
    .name = "test",
    .synopsis = "[CONFIG.yaml] [options]",
    .about = "Measures a trained model on the test data of its configuration. The weights come "
             "from --ckpt-path,\n"
             "a file or 'last', the newest whole checkpoint below --default-root-dir, which is the "
             "default.\n",
    .examples = "  stoker test examples/mnist.yaml\n"
                "  stoker test examples/mnist.yaml --dataset digits: --val-batch-size 1000\n",
    .tables = train_tables,
    .yaml = true,
    .lists = train_lists,
};

static const stk_option_table *writer_table(void)
{
    const stk_callback_ops *ops;

    for (size_t i = 0; (ops = stk_callback_kind(i)); i++)
        if (strcmp(ops->name, "prediction_writer") == 0)
            return ops->options;
    return NULL;
}

static cli_table_fn *const predict_tables[] = {train_top_table,
                                               writer_table,
                                               train_data_table,
                                               stk_trainer_option_table,
                                               train_model_table,
                                               train_optimizer_table,
                                               stk_schedule_option_table,
                                               stk_model_module_option_table,
                                               train_loader_table,
                                               cli_context_table,
                                               NULL};

static const struct cli_usage predict_usage = {
    .name = "predict",
    .synopsis = "[CONFIG.yaml] [options]",
    .about =
        "Writes what a trained model gives for data.predict, or for the test data, as npy "
        "files into --output-dir:\n"
        "one for each batch, or with --write-interval epoch one for all. The weights come from "
        "--ckpt-path, a file or\n"
        "'last', the newest whole checkpoint below --default-root-dir, which is the "
        "default.\n",
    .examples =
        "  stoker predict examples/mnist.yaml --output-dir out --write-interval epoch\n"
        "  stoker predict examples/mnist.yaml --predict 'digits:?split=test&subset=0:100'\n",
    .tables = predict_tables,
    .yaml = true,
    .lists = train_lists,
};

/* ---- A run ----------------------------------------------------------------------------------- */

#define MAX_METRICS 128

struct run {
    struct cli *cli;
    stk_context *context;
    struct train_config config;
    struct train_sets sets;
    struct train_made made;
    stk_trainer *trainer;
    stk_loader_source train, val, test;
    stk_trainer_data data;
    stk_trainer_times times; /* of the training */
    stk_verdict verdict;     /* likewise */
    struct train_log *log;   /* NULL: not a training */
    struct {
        char name[64];
        double value;
    } metrics[MAX_METRICS]; /* of all its tasks, the last value of each */
    size_t num_metrics;
    uint64_t evaluated; /* samples of the last test or validation */
};

static void stop(void *trainer)
{
    stk_trainer_stop(trainer);
}

/* Every option that was given is a hyper-parameter for the loggers. */
static stk_status add_hparams(struct run *run, const struct cli_usage *usage, stk_error *err)
{
    char key[192];

    for (size_t t = 0; usage->tables[t]; t++) {
        const stk_option_table *table = usage->tables[t]();
        for (size_t i = 0; i < table->count && *table->name; i++) {
            char value[1024] = "";
            size_t used = 0;
            snprintf(key, sizeof key, "%s.%s", table->name, table->options[i].name);
            const size_t n = stk_config_count(run->cli->config, key);
            for (size_t k = 0; k < n && used < sizeof value; k++)
                used += (size_t)snprintf(value + used, sizeof value - used, "%s%s", k ? ", " : "",
                                         stk_config_get(run->cli->config, key, k));
            stk_status status = n ? stk_trainer_add_hparam(run->trainer, key, value, err) : STK_OK;
            if (status != STK_OK)
                return status;
        }
    }
    return STK_OK;
}

static int make_trainer(struct run *run, const struct cli_usage *usage)
{
    struct cli *cli = run->cli;
    stk_console console;
    stk_error err;

    stk_status status = stk_trainer_create(run->context, &run->config.trainer, &run->trainer, &err);
    if (status != STK_OK)
        return train_fail(cli, status, &err);
    train_console_make(cli, &console);
    stk_trainer_set_console(run->trainer, &console);
    int code = run->log ? train_log_watch(run->log, cli, run->trainer) : CLI_GO_ON;
    if (code == CLI_GO_ON)
        code = train_add_callbacks(cli, cli->config, run->trainer);
    if (code == CLI_GO_ON)
        code = train_add_loggers(cli, cli->config, run->trainer);
    if (code != CLI_GO_ON)
        return code;
    status = add_hparams(run, usage, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* The loaders' options and datasets as the trainer takes them. */
static void make_data(struct run *run)
{
    struct train_sets *sets = &run->sets;

    run->train = (stk_loader_source){
        .struct_size = sizeof run->train, .dataset = sets->train, .options = &sets->loader};
    run->val = (stk_loader_source){
        .struct_size = sizeof run->val, .dataset = sets->val, .options = &sets->eval};
    run->test = (stk_loader_source){.struct_size = sizeof run->test,
                                    .dataset = sets->predict ? sets->predict : sets->test,
                                    .options = &sets->eval};
    run->data = (stk_trainer_data){.struct_size = sizeof run->data,
                                   .train = &run->train,
                                   .val = &run->val,
                                   .num_val = sets->val != NULL,
                                   .test = &run->test,
                                   .num_test = sets->test != NULL,
                                   .predict = &run->test,
                                   .num_predict = sets->test || sets->predict};
}

static int prepare_threads(struct run *run)
{
    struct cli_context_options process;

    int code = cli_apply(run->cli, cli_context_table(), 0, &process);
    if (code != CLI_GO_ON)
        return code;
    cli_compute_environment(run->cli, process.compute_threads);
    cli_signals_watch();
    return CLI_GO_ON;
}

/* A checkpoint that is not there is missed before a training begins to write. */
static int find_checkpoint(const struct run *run)
{
    const char *path = run->config.top.ckpt_path;

    if (!path || strcmp(path, "last") == 0 || strcmp(path, "best") == 0 || access(path, F_OK) == 0)
        return CLI_GO_ON;
    cli_error("ckpt_path: '%.200s': %s; 'last' is the newest below --default-root-dir", path,
              strerror(errno));
    return CLI_FAILED;
}

static int run_make(struct run *run, struct cli *cli, const struct cli_usage *usage, unsigned needs)
{
    *run = (struct run){.cli = cli};
    int code = cli_parse(cli, usage);
    if (code == CLI_GO_ON && needs & TRAIN_FIT && !(run->log = train_log_create())) {
        cli_error("no memory for a training");
        return CLI_FAILED;
    }
    if (code != CLI_GO_ON)
        return code;
    if (needs & (TRAIN_FIT | TRAIN_PREDICT))
        cli_signals_ignore_pipe();
    code = train_config_read(cli, cli->config, &run->config);
    /* Predictions are files; there is nothing to log. */
    if (usage == &predict_usage && !stk_config_count(cli->config, "trainer.logger") &&
        !stk_config_count(cli->config, "loggers"))
        run->config.trainer.logger = "false";
    if (code == CLI_GO_ON)
        code = find_checkpoint(run);
    if (code == CLI_GO_ON)
        code = prepare_threads(run);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &run->context);
    /* What is wrong with the trainer's options is said before any data is looked at. */
    if (code == CLI_GO_ON)
        code = make_trainer(run, usage);
    if (code == CLI_GO_ON)
        code = train_sets_open(cli, run->context, &run->config, needs, &run->sets);
    if (code == CLI_GO_ON && run->log)
        code = train_log_begin(run->log, cli, run->context, &run->config, run->sets.spec);
    if (code == CLI_GO_ON)
        code = train_make(run->cli, run->context, &run->config, &run->sets, &run->made);
    if (code == CLI_GO_ON) {
        make_data(run);
        cli_on_interrupt(stop, run->trainer);
    }
    return code;
}

static void run_release(struct run *run)
{
    cli_on_interrupt(NULL, NULL);
    if (run->trainer)
        stk_trainer_destroy(&run->trainer);
    train_release(&run->made);
    train_sets_close(&run->sets);
    train_log_free(&run->log);
}

/* ---- What came out --------------------------------------------------------------------------- */

/* A trainer forgets its metrics when it begins another task. */
static void keep_metrics(struct run *run)
{
    stk_metric metric;

    for (size_t i = 0; stk_trainer_metric_at(run->trainer, i, &metric); i++) {
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
    const char *const paths[][2] = {{"log_dir", stk_trainer_log_dir(run->trainer)},
                                    {"best_model_path", stk_trainer_best_model_path(run->trainer)},
                                    {"last_model_path", stk_trainer_last_model_path(run->trainer)}};

    fputs("{\n  \"dataset\": ", out);
    cli_json_string(out, run->sets.spec);
    fprintf(out, ",\n  \"epoch\": %" PRIu64 ",\n  \"global_step\": %" PRIu64 ",\n  \"metrics\": {",
            stk_trainer_current_epoch(run->trainer), stk_trainer_global_step(run->trainer));
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
    fputs("\n}\n", out);
}

static void put_csv(struct run *run, FILE *out)
{
    fputs("name,value\n", out);
    for (size_t i = 0; i < run->num_metrics; i++) {
        cli_csv_string(out, run->metrics[i].name);
        fprintf(out, ",%.9g\n", run->metrics[i].value);
    }
    fprintf(out, "global_step,%" PRIu64 "\nseconds,%.6f\n", stk_trainer_global_step(run->trainer),
            (double)run->times.wall * 1e-9);
}

/* "Test loss 0.0869, accuracy 97.33 % on 10000 samples of SPEC." */
static void put_figures(const struct run *run, const char *what, const char *short_name,
                        const char *spec, FILE *out)
{
    char loss_name[16], accuracy_name[16];
    double loss, accuracy;

    snprintf(loss_name, sizeof loss_name, "%s_loss", short_name);
    snprintf(accuracy_name, sizeof accuracy_name, "%s_acc", short_name);
    if (!find_metric(run, loss_name, &loss))
        return;
    fprintf(out, "%s loss %.4f", what, loss);
    if (find_metric(run, accuracy_name, &accuracy))
        fprintf(out, ", accuracy %.2f %%", 100 * accuracy);
    if (run->evaluated)
        fprintf(out, " on %" PRIu64 " samples of %s.\n", run->evaluated, spec);
    else
        fprintf(out, " after the last epoch (no test data).\n");
}

/* One line for each thing that one wants to know after hours. */
static void put_text(struct run *run, FILE *out)
{
    const char *best = stk_trainer_best_model_path(run->trainer);
    const struct train_sets *sets = &run->sets;

    if (sets->test)
        put_figures(run, "Test", "test", sets->test_spec, out);
    if (sets->val && !sets->test)
        put_figures(run, "Validation", "val",
                    run->config.data.val ? run->config.data.val : sets->spec, out);
    if (best)
        fprintf(out, "Checkpoint: %s\n", best);
    if (run->times.steps && !run->cli->quiet)
        fprintf(out, "Data: %s\n", run->verdict.text);
}

static void put_result(struct run *run)
{
    FILE *out = run->cli->out;

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
    stk_figures figures;

    run->verdict.struct_size = sizeof run->verdict;
    run->times.struct_size = sizeof run->times;
    stk_trainer_get_times(run->trainer, &run->times);
    train_log_trained(run->log);
    train_figures(run->context, run->trainer, &run->config, &figures);
    train_log_figures(run->log, &figures);
    if (run->sets.train)
        bench_cost_chunks(run->sets.train, &figures);
    stk_judge(&figures, &run->verdict);
    train_log_judged(run->log, &figures);
}

static stk_status test_trained(struct run *run, stk_error *err)
{
    const uint64_t begin = cli_now_ns();
    stk_trainer_times times = {.struct_size = sizeof times};

    stk_status status = stk_trainer_test(run->trainer, run->made.module, &run->data, NULL, err);
    stk_trainer_get_times(run->trainer, &times);
    run->evaluated = times.samples;
    keep_metrics(run);
    train_log_task(run->log, "test end", begin);
    return status;
}

int cli_train(struct cli *cli)
{
    struct run run;
    stk_error err;

    int code = run_make(&run, cli, &train_usage, TRAIN_FIT | TRAIN_TEST);
    if (code != CLI_GO_ON)
        goto out;
    stk_status status =
        stk_trainer_fit(run.trainer, run.made.module, &run.data, run.config.top.ckpt_path, &err);
    judge(&run);
    keep_metrics(&run);
    if (status == STK_OK && run.data.num_test && !run.config.trainer.barebones)
        status = test_trained(&run, &err);
    code = status == STK_OK ? CLI_GOOD : cli_fail(cli, status, &err);
    if (train_log_end(run.log) != CLI_GO_ON && code == CLI_GOOD)
        code = CLI_FAILED;
    if (status == STK_OK)
        put_result(&run);
out:
    run_release(&run);
    return code;
}

typedef stk_status task_fn(stk_trainer *trainer, stk_module *module, const stk_trainer_data *data,
                           const char *ckpt_path, stk_error *err);

/* A task that looks at a trained model. */
static int evaluate(struct run *run, task_fn *task)
{
    const char *ckpt = run->config.top.ckpt_path ? run->config.top.ckpt_path : "last";
    stk_error err;

    stk_status status = task(run->trainer, run->made.module, &run->data, ckpt, &err);
    run->times.struct_size = sizeof run->times;
    stk_trainer_get_times(run->trainer, &run->times);
    run->evaluated = run->times.samples;
    keep_metrics(run);
    if (status == STK_ENOENT && strcmp(ckpt, "last") == 0) {
        cli_error("%s: 'stoker train' with the same configuration makes one; or give --ckpt-path "
                  "FILE",
                  err.text);
        return CLI_FAILED;
    }
    return status == STK_OK ? CLI_GOOD : cli_fail(run->cli, status, &err);
}

int cli_validate(struct cli *cli)
{
    struct run run;
    int code = run_make(&run, cli, &validate_usage, TRAIN_VAL);

    if (code == CLI_GO_ON)
        code = evaluate(&run, stk_trainer_validate);
    if (code == CLI_GOOD && run.trainer)
        put_result(&run);
    run_release(&run);
    return code;
}

int cli_test(struct cli *cli)
{
    struct run run;
    int code = run_make(&run, cli, &test_usage, TRAIN_TEST);

    if (code == CLI_GO_ON)
        code = evaluate(&run, stk_trainer_test);
    if (code == CLI_GOOD && run.trainer)
        put_result(&run);
    run_release(&run);
    return code;
}

/* The writer of the flags, unless the configuration has one of its own. */
static int add_writer(struct run *run)
{
    const stk_callback_ops *ops = NULL;
    struct cli *cli = run->cli;
    stk_error err;

    for (size_t i = 0; (ops = stk_callback_kind(i)) && strcmp(ops->name, "prediction_writer") != 0;)
        i++;
    if (!ops || train_has_item(cli, cli->config, "callbacks", ops->name))
        return CLI_GO_ON;
    void *options = calloc(1, ops->options->struct_size);
    if (!options) {
        cli_error("no memory for the options of %s", ops->name);
        return CLI_FAILED;
    }
    int code = cli_apply(cli, ops->options, 0, options);
    if (code == CLI_GO_ON) {
        stk_status status = stk_trainer_add_callback(run->trainer, ops, options, NULL, &err);
        if (status != STK_OK)
            code = cli_fail(cli, status, &err);
    }
    free(options);
    return code;
}

int cli_predict(struct cli *cli)
{
    struct run run;
    int code = run_make(&run, cli, &predict_usage, TRAIN_PREDICT);

    if (code == CLI_GO_ON)
        code = add_writer(&run);
    if (code == CLI_GO_ON)
        code = evaluate(&run, stk_trainer_predict);
    if (code == CLI_GOOD && run.trainer && cli->format != CLI_TABLE)
        put_result(&run);
    run_release(&run);
    return code;
}
