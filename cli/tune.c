/* SPDX-License-Identifier: Apache-2.0 */
/* stoker tune: which settings of the loader suit these data, this step and this machine? */
#include "tune.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is asked of the command alone. */
struct own {
    uint32_t struct_size;
    const char *html;
};

static const stk_option own_rows[] = {
    {"html", STK_OPTION_STRING, offsetof(struct own, html), NULL, 0, 0, NULL, "FILE",
     "Write a page with the surface over workers and reads, memory, and what it buys."},
};

static const stk_option_table *own_table(void)
{
    static const stk_option_table table = {"page", "The page", sizeof(struct own), own_rows,
                                           sizeof own_rows / sizeof *own_rows};

    return &table;
}

static const struct cli_options tables[] = {{.name = "tune"},
                                            {.name = "source"},
                                            {.name = "python"},
                                            {.name = "loader"},
                                            {.name = "bench", .shown = stk_tune_bench_table},
                                            {.name = "context"},
                                            {.own = own_table},
                                            {.own = cli_live_table},
                                            {0}};

static const struct cli_usage usage = {
    .name = "tune",
    .synopsis = "[PATH | SETTINGS.yaml] [options]",
    .about =
        "Find num_workers, io_depth and prefetch_factor for a dataset and a training step, in "
        "about a minute.\n"
        "\n"
        "The settings as given, the defaults and a run without workers are measured for some "
        "seconds each (--min-seconds).\n"
        "From what each sample and read took in the first of them all settings of the grid are "
        "predicted: workers 0, 1, 2,\n"
        "4, 8, ..., 1, 4, 16, 64 reads at a time, 1, 2, 4 batches ahead for each worker; or the "
        "values that you give\n"
        "(--num-workers 2,3,4). One value in a file is the setting as given, one on the command "
        "line is kept. What is\n"
        "predicted to be best is run; what comes of it corrects the predictions of its neighbours; "
        "and so on until the\n"
        "best is one that was run. The best ones then run again, in turn, until it is certain "
        "which is best. Together runs\n"
        "take a tenth of the time of a grid (--max-time).\n"
        "\n"
        "What is best is said by --objective: the fewest workers with which the step hardly waits "
        "(wait), the most samples\n"
        "a second (speed), the least money (cost). No setting beyond --max-memory and --max-cores "
        "is chosen.\n"
        "\n"
        "-o FILE.yaml takes the configuration that was found, with a reason above each value; "
        "'stoker bench FILE.yaml'\n"
        "measures it again. With --step train:CONFIG.yaml it is the loader's section, for 'stoker "
        "train CONFIG.yaml\n"
        "FILE.yaml'. The table goes to standard output; --log FILE takes every event, for 'stoker "
        "report'.\n",
    .examples = "  stoker tune --dataset 'synthetic:?delay=1ms' --batch-size 16 --train-step-time "
                "5ms --min-seconds 0.2 -o tuned.yaml\n"
                "  stoker tune --dataset digits: --objective cost --core-price 0.05 --gpu-price 3 "
                "--max-memory 256MiB --min-seconds 0.2 --rounds 0 --format json\n",
    .interrupted = "the answer is of what was measured until then",
    .tables = tables,
    .min_args = 0,
    .max_args = 1,
    .yaml = true,
    .logs = true,
    .sweep = true,
};

struct tune {
    struct cli *cli;
    struct bench_plan plan;
    stk_tune *tuner;
    stk_tune_options options;
    struct own own;
    const char *log;     /* of all runs, or of the first one; NULL: none */
    char kept[PATH_MAX]; /* the file for the first one, removed in the end; "": none */
    bool log_failed;
};

/* ---- The log that predictions are made from ---------------------------------------------------
 */

/* Without --log the first run has one of its own. */
static void find_log(struct tune *t)
{
    if (t->cli->log) {
        t->log = strcmp(t->cli->log, "none") == 0 ? NULL : t->cli->log;
        return;
    }
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/tmp";
    snprintf(t->kept, sizeof t->kept, "%s/stoker-tune-XXXXXX", folder);
    const int file = mkstemp(t->kept);
    if (file < 0) {
        cli_warning("could not make a file in %s for the log of the first run: %s; predictions "
                    "are made from its figures alone. TMPDIR or --log FILE names another place",
                    folder, strerror(errno));
        *t->kept = 0;
        return;
    }
    close(file);
    t->log = t->kept;
}

/* ---- Runs -------------------------------------------------------------------------------------
 */

static void tell(const struct tune *t, const stk_tune_run *run, const char *label)
{
    static const char *const phases[] = {"measure", "verify", "compare"};
    char text[STK_BENCH_LABEL + 96];

    if (t->cli->quiet)
        return;
    snprintf(text, sizeof text, "run %" PRIu64 ", %s: %s", run->number, phases[run->phase], label);
    cli_console_line(text);
}

static stk_bench_options shortened(const stk_bench_options *bench, double length)
{
    stk_bench_options shorter = *bench;
    const double batches = length * (double)bench->min_batches;

    shorter.min_seconds *= length;
    shorter.max_seconds *= length;
    shorter.min_batches = batches > 1 ? (uint64_t)batches : 1;
    return shorter;
}

/* What is known of the whole grid, where there is a log of all runs. */
static void log_grid(struct tune *t)
{
    stk_error err;

    if (!t->cli->log || !t->log || stk_tune_log(t->tuner, t->log, &err) == STK_OK)
        return;
    cli_error("%s", err.text);
    t->log_failed = true;
}

static bool run_one(struct tune *t, const stk_tune_run *run)
{
    stk_bench_setting setting = bench_setting(&t->plan, run->setting);
    struct bench_result *results = calloc(setting.bench->ranks, sizeof *results);
    stk_bench_row row = {.struct_size = sizeof row};

    if (!results) {
        cli_error("no memory for the figures of a run");
        return false;
    }
    stk_bench_plan_row(t->plan.settings, run->setting, &row);
    tell(t, run, setting.label);
    setting.repeat = row.runs + 1;
    const stk_bench_options shorter = shortened(setting.bench, run->length);
    setting.bench = &shorter;
    /* Writing events takes time: where nobody wants them, all runs but the first are without. */
    setting.log = t->cli->log || run->number == 1 ? t->log : NULL;
    struct bench_task task = {.cli = t->cli, .plan = &t->plan, .setting = setting};
    bench_fork(&task, NULL, results);
    const bool good = bench_keep(&t->plan, run->setting, &setting, results, &t->log_failed);
    free(results);
    return good;
}

static int run_all(struct tune *t)
{
    stk_tune_run run = {.struct_size = sizeof run};
    stk_status status = STK_OK;
    stk_error err;

    for (;;) {
        status = stk_tune_next(t->tuner, t->log, &run, &err);
        if (status != STK_OK)
            break;
        /* Before any run that checks what is predicted. */
        if (run.number == 2)
            log_grid(t);
        if (!run_one(t, &run))
            return CLI_FAILED;
        if (cli_interrupted()) {
            /* What came of that run counts, too; what would be next does not. */
            status = stk_tune_next(t->tuner, t->log, &run, &err);
            return status == STK_ENOMEM ? cli_fail(t->cli, status, &err) : cli_interrupted();
        }
    }
    return status == STK_EOS ? CLI_GOOD : cli_fail(t->cli, status, &err);
}

/* ---- The answer -------------------------------------------------------------------------------
 */

static void print_line(void *user, const char *line)
{
    fprintf(user, "%s\n", line);
}

static void print_figures(const struct tune_view *view, FILE *out)
{
    if (view->cli->format == CLI_JSON)
        tune_json(view, out);
    else if (view->cli->format == CLI_CSV)
        tune_csv(view, out);
    else
        tune_print(view, out);
}

/* The figures on standard output, where -o takes what was found. */
static int print_beside(const struct tune_view *view)
{
    struct cli screen = {.quiet = view->cli->quiet};
    const int code = cli_output_open(&screen);

    if (code != CLI_GO_ON)
        return code;
    print_figures(view, screen.out);
    return cli_output_close(&screen, true);
}

static int show(struct tune *t, int code)
{
    struct cli *cli = t->cli;
    struct tune_view view = {.cli = cli,
                             .plan = &t->plan,
                             .tune = t->tuner,
                             .options = &t->options,
                             .answer = {.struct_size = sizeof view.answer},
                             .log = cli->log ? t->log : NULL};

    stk_tune_answer_get(t->tuner, &view.answer);
    if (view.answer.given == STK_BENCH_NONE)
        return code;
    log_grid(t);
    int printed = CLI_GOOD, wrote = CLI_GOOD;
    if (cli->out_path)
        printed = print_beside(&view);
    else
        print_figures(&view, cli->out);
    if (cli->format == CLI_TABLE && !cli->out_path)
        fputc('\n', cli->out);
    if (cli->out_path || cli->format == CLI_TABLE)
        wrote = tune_write(&view, print_line, cli->out);
    if (t->own.html && wrote == CLI_GOOD)
        wrote = tune_write_page(&view, t->own.html);
    if (wrote == CLI_GOOD)
        wrote = printed;
    return code == CLI_GOOD ? wrote : code;
}

/* Ranks of a launcher would each look by themselves, and meet in no run. */
static int check_alone(struct cli *cli)
{
    const int code = cli_ranks(cli);

    if (code != CLI_GO_ON || cli->ranks.world_size <= 1)
        return code;
    cli_error("this is one of %" PRIu64 " processes of a launcher, and each would tune by itself: "
              "start stoker tune alone, with --ranks %" PRIu64 " for so many on this machine",
              cli->ranks.world_size, cli->ranks.world_size);
    return CLI_USAGE;
}

static int make(struct tune *t)
{
    struct cli *cli = t->cli;
    stk_error err;

    int code = cli_apply(cli, stk_option_table_find("tune"), 0, &t->options);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, own_table(), 0, &t->own);
    if (code == CLI_GO_ON)
        code = bench_take_path(cli);
    if (code != CLI_GO_ON)
        return code;
    stk_status status = stk_tune_grid(cli->config, &t->options, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    code = bench_plan_make(cli, &t->plan);
    if (code != CLI_GO_ON)
        return code;
    status = stk_tune_create(cli->config_context, t->plan.settings, &t->options, &t->tuner, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

int cli_tune(struct cli *cli)
{
    struct tune t = {.cli = cli};

    int code = cli_parse(cli, &usage);
    if (code != CLI_GO_ON)
        return code;
    cli_console_once(cli);
    code = check_alone(cli);
    if (code == CLI_GO_ON)
        code = cli_live_bind(cli);
    if (code == CLI_GO_ON)
        code = make(&t);
    if (code == CLI_GO_ON) {
        find_log(&t);
        code = show(&t, run_all(&t));
        if (code == CLI_GOOD && t.log_failed)
            code = CLI_FAILED;
    }
    if (*t.kept)
        cli_remove_partial(t.kept);
    stk_tune_destroy(&t.tuner);
    bench_plan_free(&t.plan);
    return code;
}
