/* SPDX-License-Identifier: Apache-2.0 */
/* stoker bench: is the accelerator waiting for data, and which settings stop that? */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_FOLDER "benchmark_logs"

static cli_table_fn *const tables[] = {bench_source_table, stk_loader_option_table,
                                       stk_bench_option_table, stk_context_option_table, NULL};

static const struct cli_usage usage = {
    .name = "bench",
    .synopsis = "[PATH | SETTINGS.yaml] [options]",
    .about = "Run one or many loader settings against a simulated training step, and say where the "
             "time goes.\n"
             "\n"
             "Every option of the loader may have several values (0,1,2); each combination is one "
             "setting, measured\n"
             "in a process of its own, and one row of the table. A wait is the time from the end "
             "of a step to the\n"
             "start of the next; the run's first one is told apart (first). Figures are those of "
             "the steady state\n"
             "after the warm-up. turn: wait for the first batch of a later epoch; stretch: time of "
             "a step beside the\n"
             "loader over the time alone; peak: memory beyond what the process had before the "
             "loader; read: bytes\n"
             "asked of the storage. Below stand what limits the best and the worst setting and "
             "what to change.\n"
             "\n"
             "Figures, ledgers and verdicts of all runs, one after the other, are appended as JSON "
             "lines to a new file\n"
             "in " LOG_FOLDER "/; --log FILE takes every event, of samples, reads and steps, for "
             "'stoker report' (none: no\n"
             "file).\n",
    .examples = "  stoker bench --dataset digits: --batch-size 64 --num-workers 0,1,2,auto "
                "--train-step-time 0.005\n"
                "  stoker bench --dataset digits: --published\n"
                "  stoker bench --dataset 'synthetic:?cpu=50us' --num-workers 1,2 --spin --ceiling "
                "--format json\n"
                "  stoker bench --dataset digits: --num-epochs 1 --train-step-time 0 --hash -\n",
    .interrupted = "the figures are of what was measured until then",
    .tables = tables,
    .min_args = 0,
    .max_args = 1,
    .yaml = true,
    .logs = true,
    .sweep = true,
};

/* ---- Where logs and hashes go --------------------------------------------------------------- */

/* With several settings, "name.txt" becomes "name-03.txt". */
static void numbered(const char *path, const struct bench_setting *setting, size_t settings,
                     char out[BENCH_PATH])
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    int stem = dot && dot != path ? (int)(dot - path) : (int)strlen(path);

    if (settings > 1)
        snprintf(out, BENCH_PATH, "%.*s-%02" PRIu64 "%s", stem, path, setting->number, path + stem);
    else
        snprintf(out, BENCH_PATH, "%s", path);
}

/* --log FILE, or a file of our own naming; empty: none. CLI_GO_ON, or an exit code. */
static int find_log(struct cli *cli, char path[BENCH_PATH])
{
    char stamp[64];
    time_t now = time(NULL);
    struct tm local;

    path[0] = 0;
    if (cli->log) {
        if (strcmp(cli->log, "none") != 0)
            snprintf(path, BENCH_PATH, "%s", cli->log);
        return CLI_GO_ON;
    }
    if (mkdir(LOG_FOLDER, 0777) != 0 && errno != EEXIST) {
        cli_warning("no log: could not make the folder %s: %s; --log FILE names another place",
                    LOG_FOLDER, strerror(errno));
        return CLI_GO_ON;
    }
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    snprintf(path, BENCH_PATH, "%s/%s.log", LOG_FOLDER, stamp);
    return CLI_GO_ON;
}

static FILE *open_hash(struct cli *cli, const struct bench_setting *setting, size_t settings)
{
    char path[BENCH_PATH];

    if (!setting->bench.hash || setting->free_data)
        return NULL;
    if (strcmp(setting->bench.hash, "-") == 0)
        return stdout;
    numbered(setting->bench.hash, setting, settings, path);
    FILE *out = fopen(path, "w");
    if (!out)
        cli_error("could not write the hashes to %s: %s; give another --hash FILE", path,
                  strerror(errno));
    return out;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/* What all settings and their repeats gave. */
struct outcome {
    struct bench_row *rows;
    struct bench_result *sums; /* [setting * repeats + repeat] */
    stk_figures *judged;       /* likewise */
    size_t settings;
    uint64_t repeats;
};

static void warn_workers(const struct bench_setting *setting, const struct bench_result *result)
{
    uint64_t workers = (uint64_t)result->figures.num_workers * setting->bench.ranks;

    if (setting->bench.ranks > 1 && workers > result->figures.usable_cores)
        cli_warning("%s: %" PRIu64 " ranks with %" PRId64 " workers each are %" PRIu64
                    " workers on %u usable cores; keep 1-2 cores free for each rank",
                    setting->label, setting->bench.ranks, result->figures.num_workers, workers,
                    result->figures.usable_cores);
}

static bool run_one(struct cli *cli, struct outcome *to, size_t i, uint64_t repeat, const char *log)
{
    const struct bench_setting *setting = to->rows[i].setting;
    struct bench_result *results = calloc(setting->bench.ranks, sizeof *results);
    size_t slot = i * to->repeats + repeat;
    FILE *hash = repeat == 0 ? open_hash(cli, setting, to->settings) : NULL;
    bool good = results && (hash || repeat || !setting->bench.hash || setting->free_data);

    if (good) {
        bench_fork(cli, setting, repeat + 1, *log ? log : NULL, hash, results);
        bench_sum(results, setting->bench.ranks, &to->sums[slot], &to->judged[slot]);
        if (repeat == 0)
            warn_workers(setting, &results[0]);
        if (results[0].run.interrupted || cli_interrupted())
            to->sums[slot].run.interrupted = true;
    }
    if (hash && hash != stdout && fclose(hash) != 0) {
        cli_error("could not write the hashes of %s: %s", setting->label, strerror(errno));
        good = false;
    }
    free(results);
    return good;
}

/* The row shows the run of the median rate; one that failed shows in the row only where all did. */
static void make_row(struct outcome *to, size_t i, uint64_t runs)
{
    struct bench_row *row = &to->rows[i];
    const struct bench_result *sums = &to->sums[i * to->repeats];
    uint64_t order[1000], n = 0;

    for (uint64_t r = 0; r < runs && r < row->setting->bench.repeat; r++)
        if (sums[r].figures.steps > 0 && (sums[r].run.status == STK_OK || sums[r].run.interrupted))
            order[n++] = r;
    for (uint64_t a = 1; a < n; a++)
        for (uint64_t b = a; b > 0 && sums[order[b]].figures.samples_per_s <
                                          sums[order[b - 1]].figures.samples_per_s;
             b--) {
            uint64_t swap = order[b];
            order[b] = order[b - 1];
            order[b - 1] = swap;
        }
    uint64_t shown = n ? order[(n - 1) / 2] : 0;
    row->sum = sums[shown];
    row->judged = to->judged[i * to->repeats + shown];
    row->runs = n;
    row->ended = n > 0;
    if (n) {
        row->least = sums[order[0]].figures.samples_per_s;
        row->most = sums[order[n - 1]].figures.samples_per_s;
    }
}

static void note_ceilings(struct outcome *to)
{
    for (size_t i = 0; i < to->settings; i++)
        for (size_t k = 0; k < to->settings; k++)
            if (to->rows[k].setting->free_data &&
                to->rows[k].setting->loader.batch_size == to->rows[i].setting->loader.batch_size) {
                double rate = to->rows[k].sum.figures.samples_per_s;
                to->rows[i].sum.figures.ceiling_samples_per_s = rate;
                to->rows[i].judged.ceiling_samples_per_s = rate;
            }
}

static bool outcome_make(const struct bench_plan *plan, struct outcome *to)
{
    *to = (struct outcome){.settings = plan->count, .repeats = 1};
    for (size_t i = 0; i < plan->count; i++)
        if (plan->settings[i].bench.repeat > to->repeats)
            to->repeats = plan->settings[i].bench.repeat;
    to->rows = calloc(to->settings, sizeof *to->rows);
    to->sums = calloc(to->settings * to->repeats, sizeof *to->sums);
    to->judged = calloc(to->settings * to->repeats, sizeof *to->judged);
    for (size_t i = 0; i < plan->count && to->rows; i++)
        to->rows[i].setting = &plan->settings[i];
    return to->rows && to->sums && to->judged;
}

static void outcome_free(struct outcome *to)
{
    free(to->rows);
    free(to->sums);
    free(to->judged);
}

/* All settings, and again for each repeat, so that what drifts on the machine meets all of them. */
static int run_all(struct cli *cli, struct outcome *to, const char *log)
{
    size_t seen = to->settings; /* rows that were begun */
    int code = CLI_GOOD;

    for (uint64_t repeat = 0; repeat < to->repeats && code == CLI_GOOD; repeat++) {
        for (size_t i = 0; i < to->settings && code == CLI_GOOD; i++) {
            if (repeat >= to->rows[i].setting->bench.repeat)
                continue;
            if (!run_one(cli, to, i, repeat, log)) {
                code = CLI_FAILED;
                seen = repeat == 0 ? i : seen;
                break;
            }
            make_row(to, i, repeat + 1);
            if (cli_interrupted()) {
                code = cli_interrupted();
                seen = repeat == 0 ? i + 1 : seen;
            }
        }
    }
    if (cli_interrupted() && seen < to->settings)
        cli_warning("%zu of %zu settings were begun", seen, to->settings);
    to->settings = seen;
    note_ceilings(to);
    for (size_t i = 0; i < to->settings && code == CLI_GOOD; i++)
        if (!to->rows[i].ended || to->rows[i].sum.run.status < 0)
            code = CLI_FAILED;
    /* A log that is not complete is none that was asked for. */
    for (size_t i = 0; i < to->settings * to->repeats && code == CLI_GOOD; i++)
        if (to->sums[i].run.log_failed)
            code = CLI_FAILED;
    return code;
}

/* Where a real step has several threads, they are not to spin. */
static int prepare_threads(struct cli *cli, const struct bench_plan *plan)
{
    stk_context_options process;
    int code = CLI_GO_ON;

    for (size_t i = 0; i < plan->count && code == CLI_GO_ON; i++) {
        if (!plan->settings[i].recipe)
            continue;
        code = cli_apply(cli, stk_context_option_table(), plan->settings[i].which, &process);
        cli_compute_environment(cli, process.compute_threads);
    }
    return code;
}

/* Where nothing could be measured there is no table, but what was wrong. */
static int fail_all(const struct outcome *outcome, const char *log, bool made)
{
    int code = CLI_USAGE;

    /* Nor is there anything in a log that was begun for it. */
    if (made && cli_remove_partial(log))
        cli_remove_folder(LOG_FOLDER);
    for (size_t i = 0; i < outcome->settings; i++) {
        const struct bench_row *row = &outcome->rows[i];
        const stk_error *err = &row->sum.run.error;
        const char *text = *err->text ? err->text : stk_status_text(row->sum.run.status);
        if (outcome->settings > 1)
            cli_error("%s: %s", row->setting->label, text);
        else
            cli_error("%s", text);
        if (*row->sum.run.bad)
            cli_warning("%s", row->sum.run.bad);
        if (!cli_is_usage(row->sum.run.status, err))
            code = CLI_FAILED;
    }
    return code;
}

/* Whether each setting that was begun has failed, rather than been interrupted. */
static bool all_failed(const struct outcome *outcome)
{
    size_t failed = 0;

    for (size_t i = 0; i < outcome->settings; i++) {
        const struct bench_row *row = &outcome->rows[i];
        failed += row->sum.run.status < 0 && row->sum.run.status != STK_ECANCELED;
    }
    return failed && failed == outcome->settings;
}

int cli_bench(struct cli *cli)
{
    struct bench_plan plan;
    struct outcome outcome;
    char log[BENCH_PATH];
    bool hash_first = false, log_made = false;

    int code = cli_parse(cli, &usage);
    if (code != CLI_GO_ON)
        return code;
    code = bench_plan_make(cli, &plan);
    if (code == CLI_GO_ON)
        code = prepare_threads(cli, &plan);
    if (code == CLI_GO_ON)
        code = find_log(cli, log);
    if (code == CLI_GO_ON)
        log_made = *log && !cli->log && access(log, F_OK) != 0;
    if (code != CLI_GO_ON) {
        bench_plan_free(&plan);
        return code;
    }
    if (!outcome_make(&plan, &outcome)) {
        cli_error("no memory for the figures of %zu settings", plan.count);
        code = CLI_FAILED;
    } else {
        code = run_all(cli, &outcome, log);
        for (size_t i = 0; i < plan.count; i++)
            hash_first |=
                plan.settings[i].bench.hash && strcmp(plan.settings[i].bench.hash, "-") == 0;
        /* Hashes on standard output leave the table to standard error, unless -o says where it
         * goes. */
        if (cli->format == CLI_TABLE && all_failed(&outcome)) {
            code = fail_all(&outcome, log, log_made);
        } else {
            FILE *beside = hash_first && !cli->out_path ? cli_text_stream(stderr) : NULL;
            bench_report(cli, beside ? beside : cli->out, log, outcome.rows, outcome.settings);
            if (beside)
                fclose(beside);
        }
    }
    outcome_free(&outcome);
    bench_plan_free(&plan);
    return code;
}
