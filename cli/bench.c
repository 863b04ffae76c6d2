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

static const struct cli_options tables[] = {
    {.name = "source"},
    {.name = "python"},
    {.name = "loader"},
    {.name = "bench"},
    {.name = "context"},
    /* Of a whole training; a plain flag is first one of those above. */
    {.name = "recipe"},
    {.name = "recipe.data"},
    {.name = "recipe.trainer"},
    {.name = "recipe.model"},
    {.name = "recipe.optimizer"},
    {.name = "recipe.lr_scheduler"},
    {.name = "recipe.module"},
    {.own = cli_live_table},
    {0}};

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
             "start of the next; the run's first one is reported by itself (first). Figures are "
             "those of the steady state\n"
             "after the warm-up. turn: wait for the first batch of a later epoch; stretch: time of "
             "a step while the\n"
             "loader runs over its time alone; peak: memory beyond what the process had before "
             "the loader; read: bytes\n"
             "asked of the storage. Below is what limits the best and the worst setting and "
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
static void numbered(const char *path, const stk_bench_setting *setting, size_t settings,
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

/* --log FILE, or a file of our own naming; empty: none, as of whole trainings, which know no short
 * one. CLI_GO_ON, or an exit code. */
static int find_log(struct cli *cli, bool trainings, char path[BENCH_PATH])
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
    if (trainings)
        return CLI_GO_ON;
    if (mkdir(LOG_FOLDER, 0777) != 0 && errno != EEXIST) {
        cli_warning("no log: could not make the folder %s: %s; --log FILE names another place",
                    LOG_FOLDER, strerror(errno));
        return CLI_GO_ON;
    }
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    if (cli->ranks.world_size > 1)
        snprintf(path, BENCH_PATH, "%s/%s-rank%" PRIu64 ".log", LOG_FOLDER, stamp, cli->ranks.rank);
    else
        snprintf(path, BENCH_PATH, "%s/%s.log", LOG_FOLDER, stamp);
    return CLI_GO_ON;
}

static FILE *open_hash(const stk_bench_setting *setting, size_t settings)
{
    char path[BENCH_PATH];

    if (!setting->bench->hash || setting->free_data)
        return NULL;
    if (strcmp(setting->bench->hash, "-") == 0)
        return stdout;
    numbered(setting->bench->hash, setting, settings, path);
    FILE *out = fopen(path, "w");
    if (!out)
        cli_error("could not write the hashes to %s: %s; give another --hash FILE", path,
                  strerror(errno));
    return out;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

struct bench {
    struct cli *cli;
    struct bench_plan plan;
    size_t settings, begun; /* those after `begun` were not, for an interrupt or a failure */
    uint64_t repeats;       /* of the setting that has the most */
    bool log_failed, predicted;
    char log[BENCH_PATH];
};

static void warn_workers(const stk_bench_setting *setting, const stk_figures *figures)
{
    uint64_t workers = (uint64_t)figures->num_workers * setting->bench->ranks;

    if (setting->bench->ranks > 1 && workers > figures->usable_cores)
        cli_warning("%s: %" PRIu64 " ranks with %" PRId64 " workers each are %" PRIu64
                    " workers on %u usable cores; keep 1-2 cores free for each rank",
                    setting->label, setting->bench->ranks, figures->num_workers, workers,
                    figures->usable_cores);
}

static bool run_one(struct bench *b, size_t i, uint64_t repeat)
{
    stk_bench_setting setting = bench_setting(&b->plan, i);
    const uint64_t ranks = setting.bench->ranks;
    struct bench_result *results = calloc(ranks, sizeof *results);
    FILE *hash = repeat == 0 ? open_hash(&setting, b->settings) : NULL;
    bool good = results && (hash || repeat || !setting.bench->hash || setting.free_data);

    setting.repeat = repeat + 1;
    setting.log = *b->log ? b->log : NULL;
    setting.log_summary = !b->cli->log;
    if (good) {
        struct bench_task task = {.cli = b->cli, .plan = &b->plan, .setting = setting};
        if (setting.bench->all_reduce)
            bench_mpi(&task, hash, results);
        else
            bench_fork(&task, hash, results);
        if (repeat == 0)
            warn_workers(&setting, &results[0].figures);
        good = bench_keep(&b->plan, i, &setting, results, &b->log_failed);
    }
    if (hash && hash != stdout && fclose(hash) != 0) {
        cli_error("could not write the hashes of %s: %s", setting.label, strerror(errno));
        good = false;
    }
    free(results);
    return good;
}

/* What the settings that are still to come will give, once the first is known: it stands in the log
 * before they run. */
static bool predict_others(struct bench *b)
{
    stk_error err;

    if (b->predicted || b->settings < 2)
        return true;
    b->predicted = true;
    const stk_status status =
        stk_bench_plan_predict(b->plan.settings, b->cli->log && *b->log ? b->log : NULL, &err);
    if (status != STK_OK)
        cli_error("%s", err.text);
    return status == STK_OK;
}

/* All settings, and again for each repeat, so that what drifts on the machine meets all of them. */
static int run_all(struct bench *b)
{
    int code = CLI_GOOD;

    b->begun = b->settings;
    for (uint64_t repeat = 0; repeat < b->repeats && code == CLI_GOOD; repeat++) {
        for (size_t i = 0; i < b->settings && code == CLI_GOOD; i++) {
            if (repeat >= bench_setting(&b->plan, i).bench->repeat)
                continue;
            const bool good = run_one(b, i, repeat) && predict_others(b);
            if (!good)
                code = CLI_FAILED;
            else if (cli_interrupted())
                code = cli_interrupted();
            if (code != CLI_GOOD && repeat == 0)
                b->begun = i + good;
        }
    }
    if (cli_interrupted() && b->begun < b->settings)
        cli_warning("%zu of %zu settings were begun", b->begun, b->settings);
    return code;
}

/* The code of runs that all came to their end. */
static int code_of(const struct bench *b, const struct bench_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if (!rows->rows[i].row.ended || rows->rows[i].row.result->status < 0)
            return CLI_FAILED;
    /* A log that is not complete is none that was asked for. */
    return b->log_failed ? CLI_FAILED : CLI_GOOD;
}

/* Where a real step has several threads, they are not to spin. */
static int prepare_threads(struct cli *cli, const struct bench_plan *plan)
{
    const size_t n = stk_bench_plan_count(plan->settings);
    stk_context_options process;
    int code = CLI_GO_ON;

    for (size_t i = 0; i < n && code == CLI_GO_ON && plan->recipes; i++) {
        code = cli_apply(cli, stk_option_table_find("context"), bench_setting(plan, i).which,
                         &process);
        cli_compute_environment(cli, process.compute_threads);
    }
    return code;
}

/* Where nothing could be measured there is no table, but what was wrong. */
static int fail_all(const struct bench_rows *rows, bool made)
{
    int code = CLI_USAGE;

    /* Nor is there anything in a log that was begun for it. */
    if (made && cli_remove_partial(rows->log))
        cli_remove_folder(LOG_FOLDER);
    for (size_t i = 0; i < rows->n; i++) {
        const stk_bench_result *result = rows->rows[i].row.result;
        const stk_error *err = &result->error;
        const char *text = *err->text ? err->text : stk_status_text(result->status);
        if (rows->n > 1)
            cli_error("%s: %s", rows->rows[i].setting.label, text);
        else
            cli_error("%s", text);
        if (*result->bad)
            cli_warning("%s", result->bad);
        if (!cli_is_usage(result->status, err))
            code = CLI_FAILED;
    }
    return code;
}

/* Whether each setting that was begun has failed, rather than been interrupted. */
static bool all_failed(const struct bench_rows *rows)
{
    size_t failed = 0;

    for (size_t i = 0; i < rows->n; i++) {
        const stk_bench_result *result = rows->rows[i].row.result;
        failed += result->status < 0 && result->status != STK_ECANCELED;
    }
    return failed && failed == rows->n;
}

/* Hashes on standard output leave the table to standard error, unless -o says where it goes. */
static bool hash_first(const struct bench *b)
{
    for (size_t i = 0; i < b->settings; i++) {
        const char *hash = bench_setting(&b->plan, i).bench->hash;
        if (hash && strcmp(hash, "-") == 0)
            return true;
    }
    return false;
}

static int report(const struct bench *b, int code, bool log_made)
{
    struct cli *cli = b->cli;
    struct bench_rows rows;

    if (!bench_rows_make(&b->plan, b->begun, b->log, &rows)) {
        cli_error("no memory for the figures of %zu settings", b->settings);
        return CLI_FAILED;
    }
    if (code == CLI_GOOD)
        code = code_of(b, &rows);
    if (cli->format == CLI_TABLE && all_failed(&rows)) {
        code = fail_all(&rows, log_made);
    } else {
        FILE *beside = hash_first(b) && !cli->out_path ? cli_text_stream(stderr) : NULL;
        bench_report(cli, beside ? beside : cli->out, &rows);
        if (beside)
            fclose(beside);
    }
    free(rows.rows);
    return code;
}

int cli_bench(struct cli *cli)
{
    struct bench b = {.cli = cli, .repeats = 1};
    bool log_made = false;

    int code = cli_parse(cli, &usage);
    if (code != CLI_GO_ON)
        return code;
    cli_console_once(cli);
    /* What is to be said of all ranks their parent says. */
    cli->quiet |= bench_mpi_is_rank();
    code = cli_ranks(cli);
    if (code == CLI_GO_ON)
        code = cli_live_bind(cli);
    if (code == CLI_GO_ON)
        code = bench_take_path(cli);
    if (code == CLI_GO_ON)
        code = bench_plan_make(cli, &b.plan);
    if (code == CLI_GO_ON)
        code = prepare_threads(cli, &b.plan);
    if (code == CLI_GO_ON && bench_mpi_is_rank()) {
        code = bench_mpi_rank(cli, &b.plan);
        bench_plan_free(&b.plan);
        return code;
    }
    if (code == CLI_GO_ON)
        code = find_log(cli, bench_recipe_fit(b.plan.recipes) != NULL, b.log);
    if (code == CLI_GO_ON) {
        log_made = *b.log && !cli->log && access(b.log, F_OK) != 0;
        b.settings = stk_bench_plan_count(b.plan.settings);
        for (size_t i = 0; i < b.settings; i++)
            if (bench_setting(&b.plan, i).bench->repeat > b.repeats)
                b.repeats = bench_setting(&b.plan, i).bench->repeat;
        code = run_all(&b);
        code = report(&b, code, log_made);
    }
    bench_plan_free(&b.plan);
    return code;
}
