/* SPDX-License-Identifier: Apache-2.0 */
/* stoker top: what a run of another process does, again and again. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "table.h"

#define MIB    (1024.0 * 1024.0)
#define LINES  2048 /* bytes of a line */
#define RUNS   64   /* that are listed */
#define SHEETS 16   /* of one process, that are shown */
#define CELLS  10   /* of the bar of a worker */

struct top_options {
    uint32_t struct_size;
    bool once;
    double interval;
};

static const stk_option_table *top_table(void)
{
    static const stk_option rows[] = {
        {"once", STK_OPTION_BOOL, offsetof(struct top_options, once), "false", 0, 0, NULL, NULL,
         "Say it once, and end."},
        {"interval", STK_OPTION_DOUBLE, offsetof(struct top_options, interval), "1", 0.1, 3600,
         NULL, "S", "Seconds from one look to the next."},
    };
    static const stk_option_table table = {.name = "top",
                                           .doc = "Looking on",
                                           .struct_size = sizeof(struct top_options),
                                           .options = rows,
                                           .count = sizeof rows / sizeof *rows};

    return &table;
}

static const struct cli_usage usage = {
    .name = "top",
    .synopsis = "[PID | URL] [options]",
    .about =
        "Looks on at a run of 'stoker bench', 'train', 'validate', 'test', 'predict', 'tune' or "
        "'convert', or of a\n"
        "program that calls stk_live_open(): rates of the last seconds, what the step waits for, "
        "workers, memory, cores,\n"
        "storage, metrics, progress, and what limits. The run need not have been started for it.\n"
        "\n"
        "PID is its process, or one that has started it; URL that of its page, on any machine "
        "(--dashboard prints it).\n"
        "Without them the only run of this user is taken; of several all are listed. Of a process "
        "with several, as each\n"
        "stoker.Loader of Python is one, all are shown. On a terminal they are drawn again and "
        "again, elsewhere a line is\n"
        "written each time; with --format json an object on a line.\n",
    .examples = "  stoker top\n"
                "  stoker top 4711 --once --format json\n"
                "  stoker top http://127.0.0.1:8080/\n",
    .interrupted = "the run itself goes on",
    .tables = (const struct cli_options[]){{.own = top_table}, {0}},
    .max_args = 1,
};

/* ---- One state in words ---------------------------------------------------------------------- */

static void duration(char *text, size_t size, double seconds)
{
    if (seconds < 100)
        snprintf(text, size, "%.0f s", seconds);
    else if (seconds < 6000)
        snprintf(text, size, "%.0f min", seconds / 60);
    else
        snprintf(text, size, "%.1f h", seconds / 3600);
}

/* "decode 8.1 %, a free slot for a read 3.0 %": the greatest causes first. */
static void causes(const stk_live_state *s, size_t most, char *text, size_t size)
{
    bool used[STK_WAIT_PARTS] = {false};
    size_t n = 0;

    text[0] = 0;
    for (size_t k = 0; k < most && n < size; k++) {
        int best = -1;
        for (int i = 0; i < STK_WAIT_PARTS; i++)
            if (!used[i] && s->wait_shares[i] >= 0.005 &&
                (best < 0 || s->wait_shares[i] > s->wait_shares[best]))
                best = i;
        if (best < 0)
            return;
        used[best] = true;
        n += (size_t)snprintf(text + n, size - n, "%s%s %.1f %%", k ? ", " : "",
                              stk_wait_text((stk_wait)best), 100 * s->wait_shares[best]);
    }
}

static void progress(const stk_live_state *s, char *text, size_t size)
{
    char left[32] = "";
    size_t n = (size_t)snprintf(text, size, "%s: %" PRIu64, s->what, s->done);

    if (s->total && n < size)
        n += (size_t)snprintf(text + n, size - n, " of %" PRIu64 " (%.0f %%)", s->total,
                              100 * fmin((double)s->done / (double)s->total, 1));
    if (s->eta >= 0 && n < size) {
        duration(left, sizeof left, s->eta);
        snprintf(text + n, size - n, ", about %s left", left);
    }
}

static void print_flow(const stk_live_state *s, FILE *out)
{
    char text[LINES], number[32], batches[32];

    cli_short_number(number, sizeof number, s->samples_per_s);
    cli_short_number(batches, sizeof batches, s->batches_per_s);
    fprintf(out, "  throughput  %s samples/s, %s batches/s; %" PRIu64 " samples so far", number,
            batches, s->samples);
    fprintf(out, s->bad_samples ? ", %" PRIu64 " of them bad\n" : "\n", s->bad_samples);
    if (!s->loader)
        return;
    causes(s, 4, text, sizeof text);
    fprintf(out, "  waits       %.1f %% of the time%s%s\n", 100 * s->wait_share, *text ? ": " : "",
            text);
    fprintf(out, "  queue       %" PRIu64 " of %" PRIu64 " batches ready\n", s->ready, s->depth);
}

static void print_machine(const stk_live_state *s, FILE *out)
{
    char reads[32];

    fputs("  memory      ", out);
    if (s->loader)
        fprintf(out, "%.1f of %.0f MiB of the budget; ", (double)s->memory_bytes / MIB,
                (double)s->memory_budget / MIB);
    fprintf(out, "process %.1f MiB\n", (double)s->process_bytes / MIB);
    fprintf(out, "  cores       %.2f by this process, %.2f by all, of %" PRIu32 " usable\n",
            s->process_cores, s->machine_cores, s->usable_cores);
    cli_short_number(reads, sizeof reads, s->reads_per_s);
    fprintf(out, "  storage     %s reads/s, %.1f MB/s", reads, s->read_bytes_per_s / 1e6);
    if (s->read_latency > 0)
        fprintf(out, ", %.3g ms each", 1e3 * s->read_latency);
    if (s->read_failures || s->retries)
        fprintf(out, "; %" PRIu64 " failed, %" PRIu64 " tried again", s->read_failures, s->retries);
    fputc('\n', out);
}

/* A bar for each, several on a line. */
static void print_workers(const stk_live_state *s, size_t width, FILE *out)
{
    const size_t room = width ? width : 100, cell = CELLS + 12;
    size_t at = 0;

    for (uint32_t i = 0; i < s->num_workers; i++) {
        const stk_live_worker *w = &s->worker[i];
        const double busy = w->busy > 0 ? fmin(w->busy, 1) : 0;
        const int full = (int)(busy * CELLS + 0.5);
        if (at == 0 || at + cell > room) {
            fprintf(out, at ? "\n              " : "  workers     ");
            at = 14;
        }
        fprintf(out, "%2" PRIu32 " [%.*s%.*s] %3.0f %% ", i, full, "##########", CELLS - full,
                "----------", 100 * busy);
        at += cell;
    }
    if (s->num_workers)
        fputc('\n', out);
}

/* Where there are several, each in a line: what stands above is of the first. */
static void print_loaders(const stk_live_state *s, FILE *out)
{
    char batches[32];

    for (uint32_t i = 0; i < s->num_loaders && s->num_loaders > 1; i++) {
        const stk_live_loader *l = &s->loaders[i];
        cli_short_number(batches, sizeof batches, l->batches_per_s);
        fprintf(out,
                "  %s%" PRIu64 " samples by %" PRIu64 ": %s batches/s, waits %.1f %%, %" PRIu64
                " of %" PRIu64 " ready, %" PRIu64 " workers, %.1f of %.0f MiB%s\n",
                i ? "            " : "loaders     ", l->samples, l->batch_size, batches,
                100 * l->wait_share, l->ready, l->depth, l->workers, (double)l->memory_bytes / MIB,
                (double)l->memory_budget / MIB, l->first ? " (shown above)" : "");
    }
}

static void print_state(const stk_live_state *s, size_t width, FILE *out)
{
    char text[LINES];

    duration(text, sizeof text, s->age);
    cli_style(out, CLI_BOLD);
    fprintf(out, "stoker %s, process %" PRId64 ", for %s: %s", s->command, s->pid, text, s->label);
    cli_style(out, CLI_PLAIN);
    fprintf(out, "\n  on          %s\n", s->machine);
    if (*s->what) {
        progress(s, text, sizeof text);
        fprintf(out, "  progress    %s\n", text);
    }
    if (s->batches_of_epoch && s->epochs != 1)
        fprintf(out, "  epoch       %" PRIu64 ", batch %" PRIu64 " of %" PRIu64 "\n", s->epoch,
                s->batch, s->batches_of_epoch);
    print_flow(s, out);
    print_machine(s, out);
    print_workers(s, width, out);
    print_loaders(s, out);
    for (uint32_t i = 0; i < s->num_metrics; i++)
        fprintf(out, "%s%s %.6g", i ? ", " : "  metrics     ", s->metric[i].name,
                s->metric[i].value);
    if (s->num_metrics)
        fputc('\n', out);
    if (*s->verdict) {
        snprintf(text, sizeof text, "%s: %s", s->limit, s->verdict);
        fputs("  limit\n", out);
        cli_paragraph(out, width, 4, text);
    }
}

/* All of it in a line, for what is no terminal. */
static void print_line(const stk_live_state *s, FILE *out)
{
    char text[LINES], age[32], number[32], cause[128];

    duration(age, sizeof age, s->age);
    cli_short_number(number, sizeof number, s->samples_per_s);
    causes(s, 1, cause, sizeof cause);
    progress(s, text, sizeof text);
    fprintf(out, "%s: %s samples/s, waits %.1f %%%s%s, %.2f cores, %.1f MB/s read, %s\n", age,
            number, 100 * s->wait_share, *cause ? ", most for " : "", cause, s->process_cores,
            s->read_bytes_per_s / 1e6, text);
}

/* Texts of files and of other programs: none of them begins a line of its own. */
static void clean(stk_live_state *s)
{
    char *const texts[] = {s->stoker, s->command, s->label,  s->machine,
                           s->what,   s->limit,   s->verdict};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cli_text_clean(texts[i]);
    for (uint32_t i = 0; i < s->num_metrics; i++)
        cli_text_clean(s->metric[i].name);
}

/* ---- Again and again ------------------------------------------------------------------------- */

/* Lines that a text takes on a terminal. */
static size_t lines_of(const char *text, size_t width)
{
    size_t lines = 0;

    for (; *text; lines++) {
        const size_t length = strcspn(text, "\n");
        lines += width && length > width ? (length - 1) / width : 0;
        text += length + (text[length] == '\n');
    }
    return lines;
}

/* What is looked at: the sheets of a process, or the page of a run. */
struct sheets {
    stk_live_state *states; /* SHEETS of them */
    size_t n;
};

static void print_states(const struct sheets *all, size_t width, FILE *out)
{
    for (size_t i = 0; i < all->n; i++) {
        if (i)
            fputc('\n', out);
        print_state(&all->states[i], width, out);
    }
}

/* In the place of what was drawn before. `drawn`: lines of that. */
static int redraw(const struct sheets *all, FILE *out, size_t *drawn)
{
    const size_t width = cli_terminal_width(out);
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);

    if (!memory) {
        cli_error("no memory to draw in");
        return CLI_FAILED;
    }
    print_states(all, width, memory);
    fclose(memory);
    fflush(out);
    if (*drawn)
        fprintf(cli_text_below(out), "\033[%zuA\033[J", *drawn);
    fputs(text, out);
    fflush(out);
    *drawn = lines_of(text, width);
    free(text);
    return CLI_GO_ON;
}

static int print_json(const stk_live_state *s, FILE *out)
{
    char text[32768];

    if (stk_live_format(s, text, sizeof text) >= (int)sizeof text) {
        cli_error("the state is too long to be written");
        return CLI_FAILED;
    }
    fputs(text, out);
    fflush(out);
    return CLI_GO_ON;
}

static void pause_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};

    while (!cli_interrupted() && nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static int show(struct cli *cli, const struct sheets *all, bool once, size_t *drawn)
{
    const size_t width = cli_terminal_width(cli->out);
    int code = CLI_GO_ON;

    for (size_t i = 0; i < all->n && cli->format == CLI_JSON && code == CLI_GO_ON; i++)
        code = print_json(&all->states[i], cli->out);
    if (cli->format == CLI_JSON)
        return code;
    for (size_t i = 0; i < all->n; i++)
        clean(&all->states[i]);
    if (!once && width)
        return redraw(all, cli->out, drawn);
    if (once)
        print_states(all, width, cli->out);
    for (size_t i = 0; i < all->n && !once; i++) {
        if (all->n > 1)
            fprintf(cli->out, "%s, ", all->states[i].label);
        print_line(&all->states[i], cli->out);
    }
    fflush(cli->out);
    return CLI_GO_ON;
}

/* Which run: a process, or the page that it serves. */
struct source {
    int64_t pid;
    const char *url; /* NULL: none */
};

/* The status is that of the first; of others those that can be read now are there. */
static stk_status look(const struct source *from, struct sheets *all, stk_error *err)
{
    all->n = 0;
    for (size_t i = 0; i < SHEETS; i++) {
        stk_live_state *state = &all->states[all->n];
        state->struct_size = sizeof *state;
        const stk_status status = from->url ? stk_live_fetch(from->url, state, err)
                                            : stk_live_read_at(from->pid, i, state, err);
        all->n += status == STK_OK;
        if (i == 0 && status != STK_OK)
            return status;
        if (from->url || (status != STK_OK && status != STK_EAGAIN))
            break;
    }
    return STK_OK;
}

#define TRIES  50    /* of a look at a sheet, where there is but one; */
#define MOMENT 20e-3 /* s between them */

static int watch(struct cli *cli, const struct source *from, const struct top_options *options,
                 struct sheets *all)
{
    size_t drawn = 0;
    bool seen = false;
    stk_error err;

    for (int tries = 0;; tries++) {
        const stk_status status = look(from, all, &err);
        /* What is written now, or for the first time, can be read in a moment. */
        if (options->once && status == STK_EAGAIN && tries < TRIES) {
            pause_for(MOMENT);
            continue;
        }
        /* A run that was looked on at has ended; between two settings a bench runs nothing. */
        if (seen && status == STK_ENOENT)
            return CLI_GOOD;
        if (status != STK_OK && (status != STK_EAGAIN || options->once))
            return cli_fail(cli, status, &err);
        int code = status == STK_OK ? show(cli, all, options->once, &drawn) : CLI_GO_ON;
        seen = true;
        if (code != CLI_GO_ON || options->once)
            return code == CLI_GO_ON ? CLI_GOOD : code;
        pause_for(options->interval);
        if (cli_interrupted())
            return cli_interrupted();
    }
}

static int watch_all(struct cli *cli, const struct source *from, const struct top_options *options)
{
    struct sheets all = {.states = calloc(SHEETS, sizeof *all.states)};

    if (!all.states) {
        cli_error("no memory to look on");
        return CLI_FAILED;
    }
    const int code = watch(cli, from, options, &all);
    free(all.states);
    return code;
}

/* The run that is meant where none was named. CLI_GO_ON, or the exit code. */
static int find_run(struct cli *cli, int64_t *pid)
{
    stk_live_state state = {.struct_size = sizeof state};
    int64_t pids[RUNS];
    const size_t n = stk_live_list(pids, RUNS);

    *pid = pids[0];
    if (n == 1)
        return CLI_GO_ON;
    if (n == 0) {
        cli_error("nothing of this user runs that can be looked at: 'stoker bench', 'train', "
                  "'validate', 'test', 'predict', 'tune' and 'convert' do, and programs that call "
                  "stk_live_open()");
        return CLI_FAILED;
    }
    fprintf(cli->out, "%zu runs; 'stoker top PID' looks on at one:\n", n);
    for (size_t i = 0; i < n && i < RUNS; i++)
        for (size_t k = 0; k < SHEETS && stk_live_read_at(pids[i], k, &state, NULL) == STK_OK;
             k++) {
            clean(&state);
            fprintf(cli->out, "  %8" PRId64 "  %-8s %.0f s  %s\n", pids[i], state.command,
                    state.age, state.label);
        }
    return CLI_GOOD;
}

int cli_top(struct cli *cli)
{
    struct top_options options;
    struct source from = {0};

    int code = cli_parse(cli, &usage);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, top_table(), 0, &options);
    if (code != CLI_GO_ON)
        return code;
    if (cli->format == CLI_CSV) {
        cli_error("--format csv: a state has no rows; table or json");
        return CLI_USAGE;
    }
    if (cli->num_args && strstr(cli->args[0], "://")) {
        from.url = cli->args[0];
    } else if (cli->num_args) {
        char *end;
        errno = 0;
        from.pid = strtoll(cli->args[0], &end, 10);
        if (errno || *end || end == cli->args[0] || from.pid <= 0) {
            cli_error("'%.60s' is neither a number of a process nor a URL", cli->args[0]);
            return CLI_USAGE;
        }
    } else {
        code = find_run(cli, &from.pid);
    }
    return code == CLI_GO_ON ? watch_all(cli, &from, &options) : code;
}
