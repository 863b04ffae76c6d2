/* SPDX-License-Identifier: Apache-2.0 */
/* stoker report: event logs -> where the time went, as a page, a table or figures. */
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(struct report_options, member)

static const stk_option rows[] = {
    {"html", STK_OPTION_STRING, AT(html), NULL, 0, 0, NULL, "FILE",
     "Where the page goes; none: no page. Default: next to the first log, with the ending .html; "
     "none with format json or csv."},
    {"figures", STK_OPTION_STRING, AT(figures), NULL, 0, 0, NULL, "DIR",
     "Folder that every chart goes to as an SVG file of its own; it is made where it is not "
     "there."},
    {"what_if", STK_OPTION_STRING, AT(what_if), NULL, 0, 0, NULL, "NAME=VALUE,...",
     "Predict what the recorded runs would come to with these settings, by simulating the loader; "
     "may be given several times. Names are those of the section what_if."},
    {"scale", STK_OPTION_STRING, AT(scale), NULL, 0, 0, NULL, "NAME=VALUE,...",
     "Predict many ranks from the recorded runs: efficiency, what is waited for, what failures and "
     "checkpoints cost. Names are those of the sections scale and what_if."},
    {"sync", STK_OPTION_STRING, AT(sync), NULL, 0, 0, NULL, "LOGGER",
     "mlflow or wandb: LOG is the folder of a run, and what its journal has and is not sent yet is "
     "sent."},
    {"tracking_uri", STK_OPTION_STRING, AT(tracking_uri), NULL, 0, 0, NULL, "URL",
     "MLflow's server; the default is $MLFLOW_TRACKING_URI, then that of the run."},
    {"token", STK_OPTION_SECRET, AT(token), NULL, 0, 0, NULL, "env:NAME",
     "Token that it asks for; the default is env:MLFLOW_TRACKING_TOKEN where that is set."},
    {"allow_http", STK_OPTION_BOOL, AT(allow_http), "false", 0, 0, NULL, NULL,
     "The token may go over plain http to another machine."},
    {"ca_file", STK_OPTION_STRING, AT(ca_file), NULL, 0, 0, NULL, "FILE",
     "Certificates (PEM) that it is verified by, instead of the system's."},
    {"experiment_name", STK_OPTION_STRING, AT(experiment_name), NULL, 0, 0, NULL, "NAME",
     "MLflow's experiment; the default is $MLFLOW_EXPERIMENT_NAME, then that of the run."},
    {"run_name", STK_OPTION_STRING, AT(run_name), NULL, 0, 0, NULL, "NAME",
     "Name of the run there; the default is the run's own."},
    {"project", STK_OPTION_STRING, AT(project), NULL, 0, 0, NULL, "NAME",
     "Project of Weights & Biases; the default is that of the run."},
    {"entity", STK_OPTION_STRING, AT(entity), NULL, 0, 0, NULL, "NAME",
     "User or team that the project belongs to; likewise."},
    {"python", STK_OPTION_STRING, AT(python), NULL, 0, 0, NULL, "PATH",
     "Interpreter that has the packages stoker and wandb; the default is python3."},
};

static const stk_option_table *report_option_table(void)
{
    static const stk_option_table table = {
        .name = "report",
        .doc = "The page, and what is sent",
        .struct_size = sizeof(struct report_options),
        .options = rows,
        .count = sizeof rows / sizeof *rows,
    };

    return &table;
}

static const struct cli_usage usage = {
    .name = "report",
    .synopsis = "LOG... [options]",
    .about =
        "Read event logs, of 'stoker bench --log FILE' or of the published Python benchmark, and "
        "say where the\n"
        "time went: a table here, and one self-contained HTML page with the timeline of the run, a "
        "histogram of\n"
        "the waits, throughput, and the verdict. LOG may be - for standard input.\n\n"
        "Several settings, or several logs, are compared: every log with the first one, or every "
        "setting of one\n"
        "log with its first. A ratio has an interval of 95 % where runs were repeated ('stoker "
        "bench --repeat 5'):\n"
        "Welch's test on the logarithms. With one run each the interval comes from within the runs "
        "and says nothing\n"
        "of how runs differ.\n\n"
        "With --sync, LOG is the folder of a run that was logged with --logger mlflow or wandb: "
        "what its journal\n"
        "has and is not sent yet goes to the server, with its checkpoints and pages.\n",
    .repeats = "what_if",
    .examples = "  stoker report benchmark_logs/mnist.jsonl\n"
                "  stoker report before.jsonl after.jsonl -o comparison.html\n"
                "  stoker report run.log --format csv -o figures.csv\n"
                "  stoker report run.jsonl --what-if num_workers=8,io_depth=32 --what-if cores=4\n"
                "  stoker report run.jsonl --scale "
                "ranks=8,64,1024,alpha=20us,beta=10GB/s,gradients=100MB\n",
    .tables = (const struct cli_options[]){{.own = report_option_table}, {0}},
    .min_args = 1,
    .max_args = CLI_MAX_ARGS,
};

static void cancel(void *report)
{
    stk_report_cancel(report);
}

/* ---- The page -------------------------------------------------------------------------------- */

/* "benchmark_logs/run.jsonl" -> "benchmark_logs/run.html"; "s3://b/run.jsonl?q" -> "run.html" in
 * the folder one is in; to be freed. */
static char *page_beside(const char *log)
{
    const bool url = strstr(log, "://") && access(log, F_OK) != 0;
    const char *path = strcmp(log, "-") == 0 ? "report" : log, *end = path + strlen(path);

    if (url) {
        end = path + strcspn(path, "?");
        const char *slash = memrchr(path, '/', (size_t)(end - path));
        path = slash + 1;
    }
    const char *slash = memrchr(path, '/', (size_t)(end - path)),
               *dot = memrchr(path, '.', (size_t)(end - path));
    size_t stem = (size_t)((dot && dot > (slash ? slash + 1 : path) ? dot : end) - path);
    size_t size = stem + sizeof ".report.html";
    char *name = malloc(size);

    /* A log of that name is not written over. */
    if (name)
        snprintf(name, size, "%.*s%s", (int)stem, path,
                 cli_ends_with(path, ".html") ? ".report.html" : ".html");
    return name;
}

/* Its charts are made for it alone. */
static int write_page(struct report_view *view, FILE *out)
{
    stk_error err;
    size_t length;

    const stk_status status = stk_report_charts(view->report, &view->charts, &length, &err);
    if (status != STK_OK)
        return cli_fail(view->cli, status, &err);
    report_write_page(view, out);
    return CLI_GOOD;
}

static int write_page_to(struct report_view *view, const char *path)
{
    struct cli file = {.out_path = path, .quiet = view->cli->quiet};

    int code = cli_output_open(&file);
    if (code != CLI_GO_ON)
        return code;
    code = write_page(view, file.out);
    fflush(cli_output_raw(view->cli)); /* the table is before what is said of the page */
    const int closed = cli_output_close(&file, code == CLI_GOOD);
    return code == CLI_GOOD ? closed : code;
}

/* The figures on standard output, where -o takes the page. */
static int print_beside(const struct report_view *view)
{
    struct cli screen = {.quiet = false};
    int code = cli_output_open(&screen);

    if (code != CLI_GO_ON)
        return code;
    report_print(view, screen.out);
    return cli_output_close(&screen, true);
}

/* -o FILE.html is the page; else --html says where it goes. */
static bool out_is_page(const struct cli *cli)
{
    return cli->format == CLI_TABLE && cli->out_path &&
           (cli_ends_with(cli->out_path, ".html") || cli_ends_with(cli->out_path, ".htm"));
}

static int write_results(struct report_view *view, const struct report_options *options)
{
    struct cli *cli = view->cli;

    if (out_is_page(cli)) {
        const int code = write_page(view, cli->out);
        return code != CLI_GOOD || cli->quiet ? code : print_beside(view);
    }
    report_print(view, cli->out);
    if (options->html && strcmp(options->html, "none") == 0)
        return CLI_GOOD;
    if (options->html)
        return write_page_to(view, options->html);
    if (cli->format != CLI_TABLE)
        return CLI_GOOD;
    char *beside = page_beside(cli->args[0]);
    if (!beside) {
        cli_error("no memory for the name of the page");
        return CLI_FAILED;
    }
    int code = write_page_to(view, beside);
    free(beside);
    return code;
}

/* Options that do not go together. */
static int refuse(const struct cli *cli, const struct report_options *options)
{
    if ((cli->num_repeated || options->scale) && cli->format == CLI_CSV) {
        cli_error("--%s is not part of CSV: take --format json or table",
                  cli->num_repeated ? "what-if" : "scale");
        return CLI_USAGE;
    }
    if (options->html && out_is_page(cli)) {
        cli_error("--html %s and -o %s both say where the page goes; leave one out", options->html,
                  cli->out_path);
        return CLI_USAGE;
    }
    return CLI_GO_ON;
}

int cli_report(struct cli *cli)
{
    struct report_view view = {.cli = cli};
    struct report_options options;
    stk_context *context;
    stk_error err;

    int code = cli_parse(cli, &usage);
    if (code != CLI_GO_ON)
        return code;
    code = cli_apply(cli, report_option_table(), 0, &options);
    if (code == CLI_GO_ON && options.sync)
        return report_sync(cli, &options);
    if (code == CLI_GO_ON)
        code = refuse(cli, &options);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    stk_status status = stk_report_create(context, &view.report, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    cli_on_interrupt(cancel, view.report);
    for (size_t i = 0; i < cli->num_args && status == STK_OK; i++)
        status = stk_report_read(view.report, cli_home(cli->args[i]), &err);
    cli_on_interrupt(NULL, NULL);
    cli_console_clear();
    if (status == STK_OK)
        status = stk_report_compare(view.report, &view.all, &err);
    view.runs = stk_report_runs(view.report);
    view.files = stk_report_files(view.report);
    code = status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
    if (code == CLI_GO_ON && cli->num_repeated)
        code = report_predict(&view, context);
    if (code == CLI_GO_ON && options.scale)
        code = report_scale(&view, context, options.scale);
    if (code == CLI_GO_ON)
        code = write_results(&view, &options);
    if (code == CLI_GOOD && options.figures)
        code = report_drawings(&view, options.figures);
    free(view.predictions);
    free(view.scaled);
    stk_report_destroy(&view.report);
    return code;
}
