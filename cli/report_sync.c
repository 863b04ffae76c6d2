/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker report --sync: the journals of runs -> the server that they are for. What the environment
 * says of MLflow [MLflow, Environment variables] counts where no flag does; of Weights & Biases its
 * own client reads it.
 */
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

/* As `python -m stoker._wandb`, with words of its own where there is no such package. */
static const char program[] =
    "import sys\n"
    "try:\n"
    "    from stoker._wandb import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'stoker: error: {sys.executable} cannot import stoker ({error}): '\n"
    "             'install it there, or name another interpreter (--python)')\n"
    "main()\n";

extern char **environ;

/* ---- By the library ---------------------------------------------------------------------------
 */

/* An option of the logger, where there is one of that name and a value for it. */
static int set(struct cli *cli, const stk_logger_ops *ops, void *options, const char *name,
               const char *value)
{
    stk_error err;

    if (!value || !*value || !stk_options_find(ops->options, name))
        return CLI_GO_ON;
    const stk_status status = stk_options_set(ops->options, options, name, value, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* What flags say counts more than the environment, and that more than the journal. */
static int set_all(struct cli *cli, const struct report_options *o, const stk_logger_ops *ops,
                   void *options)
{
    const struct {
        const char *name, *value;
    } rows[] = {{"tracking_uri", o->tracking_uri},
                {"experiment_name", o->experiment_name},
                {"run_name", o->run_name},
                {"ca_file", o->ca_file},
                {"token", stk_config_get(cli->config, "report.token", 0)},
                {"allow_http", o->allow_http ? "true" : NULL}};
    const char *option, *value;
    int code = CLI_GO_ON;

    for (size_t i = 0; code == CLI_GO_ON && (value = cli_tracking(i, &option)); i++)
        code = set(cli, ops, options, option, value);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && code == CLI_GO_ON; i++)
        code = set(cli, ops, options, rows[i].name, rows[i].value);
    return code;
}

static void say_one(struct cli *cli, const char *run, const stk_logger_synced *s)
{
    if (cli->quiet)
        return;
    if (s->bytes == s->bytes_before && s->files == 0)
        fprintf(cli->out, "%s: nothing is left to send", run);
    else
        fprintf(cli->out,
                "%s: sent %" PRIu64 " metrics, %" PRIu64 " params and tags, %" PRIu64 " files", run,
                s->metrics, s->params, s->files);
    fprintf(cli->out, "%s%s\n", s->page[0] ? ": " : "", s->page);
    if (s->refused)
        cli_warning("%s: the server refused %" PRIu64 " lines", run, s->refused);
    if (s->damaged)
        cli_warning("%s: %" PRIu64 " lines of the journal are damaged and were left out", run,
                    s->damaged);
    if (s->unsent)
        cli_warning("%s: %" PRIu64 " files were not sent", run, s->unsent);
}

static int sync_runs(struct cli *cli, const struct report_options *o, const stk_logger_ops *ops)
{
    stk_context *context;
    stk_error err;

    void *options = malloc(ops->options->struct_size);
    if (!options) {
        cli_error("no memory for the options of '%s'", ops->name);
        return CLI_FAILED;
    }
    stk_options_init(ops->options, options, ops->options->struct_size);
    int code = set_all(cli, o, ops, options);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &context);
    for (size_t i = 0; i < cli->num_args && code == CLI_GO_ON; i++) {
        stk_logger_synced synced = {.struct_size = sizeof synced};
        const stk_status status =
            ops->sync(context, options, cli_home(cli->args[i]), &synced, &err);
        if (status == STK_OK)
            say_one(cli, cli->args[i], &synced);
        else
            code = cli_fail(cli, status, &err);
    }
    free(options);
    return code == CLI_GO_ON ? CLI_GOOD : code;
}

/* ---- By the official client --------------------------------------------------------------------
 */

/* The exit code is Python's. */
static int sync_by_client(struct cli *cli, const struct report_options *o)
{
    const char *known = getenv("STOKER_PYTHON"), *arguments[CLI_MAX_ARGS + 12];
    const char *python = o->python ? o->python : known && *known ? known : "python3";
    const char *const texts[][2] = {
        {"--project", o->project}, {"--entity", o->entity}, {"--run-name", o->run_name}};
    size_t n = 0;
    int ended;
    pid_t pid;

    arguments[n++] = python;
    arguments[n++] = "-c";
    arguments[n++] = program;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][1]) {
            arguments[n++] = texts[i][0];
            arguments[n++] = texts[i][1];
        }
    arguments[n++] = "--";
    for (size_t i = 0; i < cli->num_args; i++)
        arguments[n++] = cli_home(cli->args[i]);
    arguments[n] = NULL;
    fflush(NULL);
    const int error = posix_spawnp(&pid, python, NULL, NULL, (char **)arguments, environ);
    if (error) {
        cli_error("could not start the interpreter '%s' (--python): %s", python, strerror(error));
        return CLI_FAILED;
    }
    while (waitpid(pid, &ended, 0) < 0)
        if (errno != EINTR)
            return CLI_FAILED;
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
}

/* ---- Which ------------------------------------------------------------------------------------
 */

int report_sync(struct cli *cli, const struct report_options *o)
{
    const stk_driver_head *head;
    stk_error err;

    if (strcmp(o->sync, "wandb") == 0)
        return sync_by_client(cli, o);
    const stk_status status = stk_driver_find(NULL, STK_DRIVER_LOGGER, o->sync, &head, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    const stk_logger_ops *ops = (const stk_logger_ops *)head;
    if (ops->sync)
        return sync_runs(cli, o, ops);
    cli_error("report.sync: the logger '%s' keeps no journal; mlflow and wandb do", o->sync);
    return CLI_USAGE;
}
