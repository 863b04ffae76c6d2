/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and progress on standard error. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define BAR_EVERY_NS  UINT64_C(100000000)  /* of a bar on a terminal */
#define LINE_EVERY_NS UINT64_C(5000000000) /* of a line elsewhere */
#define MAX_LINE      2048

/* The one progress that is shown; guarded by `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char what[128];
    char bar[MAX_LINE];       /* as it is on the terminal; empty: none */
    uint64_t began_ns, first; /* when, and with how many done, this one was first heard of */
    uint64_t shown_ns, done;
    bool lines; /* a line of it was printed */
} shown;

uint64_t cli_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool on_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static int terminal_width(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void clear_locked(void)
{
    if (*shown.bar)
        fputs("\r\033[K", stderr);
    *shown.bar = 0;
}

/* One whole line. Names of files may hold anything: what would steer the terminal becomes '?'. */
static void print_line(const char *program, const char *head, const char *text)
{
    const bool coloured = *head && cli_coloured(stderr);
    char line[4096], message[4160];

    snprintf(line, sizeof line, "%s", text);
    cli_text_clean(line);
    snprintf(message, sizeof message - 1, "%s%s%s%s%s", program,
             coloured ? cli_style_code(*head == 'e' ? CLI_RED : CLI_YELLOW) : "", head,
             coloured ? cli_style_code(CLI_PLAIN) : "", line);
    size_t used = strlen(message);
    message[used++] = '\n';
    pthread_mutex_lock(&lock);
    clear_locked();
    fwrite(message, 1, used, stderr);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

void cli_console_clear(void)
{
    pthread_mutex_lock(&lock);
    clear_locked();
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

/* Bytes of a text that fill at most `columns` of the terminal: one for each UTF-8 character. */
static size_t fitting(const char *text, size_t columns)
{
    size_t i = 0;

    for (; text[i]; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 && columns-- == 0)
            break;
    return i;
}

void cli_console_line(const char *text)
{
    size_t columns = on_terminal() ? (size_t)terminal_width() : SIZE_MAX;
    char part[2048];

    /* What is longer than a line is broken between words. */
    for (size_t length; text[length = fitting(text, columns)]; text += length) {
        size_t space = length;
        while (space && text[space] != ' ')
            space--;
        length = space ? space : length;
        snprintf(part, sizeof part, "%.*s", (int)length, text);
        print_line("", "", part);
        length += text[length] == ' ';
    }
    print_line("", "", text);
}

void cli_console_bar(const char *text)
{
    pthread_mutex_lock(&lock);
    if (text) {
        /* The last column stays free: some terminals go to the next line there. */
        size_t length = fitting(text, (size_t)terminal_width() - 1);
        snprintf(shown.bar, sizeof shown.bar, "%.*s", (int)length, text);
        cli_text_clean(shown.bar);
        fprintf(stderr, "\r%s\033[K", shown.bar);
    } else {
        clear_locked();
    }
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

bool cli_console_terminal(void)
{
    return on_terminal();
}

int cli_console_width(void)
{
    return terminal_width();
}

void cli_error(const char *format, ...)
{
    char text[2000];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line("stoker: ", "error: ", text);
}

void cli_warning(const char *format, ...)
{
    char text[2000];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line("stoker: ", "warning: ", text);
}

struct cli_said {
    atomic_uint_least64_t hashes[64]; /* 0: none; what comes when it is full is shown */
};

void cli_console_once(struct cli *cli)
{
    void *said =
        mmap(NULL, sizeof *cli->said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cli->said = said == MAP_FAILED ? NULL : said;
}

static bool is_new(struct cli_said *said, const char *message)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (; *message; message++)
        hash = (hash ^ (unsigned char)*message) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < sizeof said->hashes / sizeof *said->hashes; i++) {
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&said->hashes[i], &found, hash))
            return true;
        if (found == hash)
            return false;
    }
    return true;
}

static void say(const struct cli *cli, const char *head, const char *message)
{
    char name[48] = "stoker: ";

    if (cli->said && !is_new(cli->said, message))
        return;
    if (cli->ranks.rank)
        snprintf(name, sizeof name, "stoker: rank %llu: ", (unsigned long long)cli->ranks.rank);
    print_line(name, head, message);
}

void cli_console_log(void *user, stk_message_level level, const char *message)
{
    static const char *const heads[] = {"debug: ", "", "warning: ", "error: "};
    const struct cli *cli = user;

    if (level != STK_MESSAGE_DEBUG && (level != STK_MESSAGE_INFO || !cli->quiet))
        say(cli, heads[level], message);
}

void cli_console_answer(const struct cli *cli, const char *message)
{
    say(cli, "", message);
}

bool cli_is_usage(stk_status status, const stk_error *err)
{
    const bool own = err->status == status;
    const bool options = own && err->stage == STK_STAGE_OPTIONS && status != STK_ENOMEM;
    /* A scheme that this build has no store for, or what a store cannot do. */
    const bool store = own && err->stage == STK_STAGE_STORE && status == STK_ENOTSUP;

    return status == STK_EINVAL || options || store;
}

int cli_fail(struct cli *cli, stk_status status, const stk_error *err)
{
    if (status == STK_ECANCELED && cli_interrupted())
        return cli_interrupted();
    const bool own = err->status == status;
    const char *text = own && *err->text ? err->text : stk_status_text(status);
    cli_error("%s", text);
    if (cli_is_usage(status, err))
        return CLI_USAGE;
    if (cli->format == CLI_JSON && cli->out) {
        /* The file of -o is not kept then. */
        FILE *out = cli->out_partial ? stdout : cli->out;
        fprintf(out, "{\"error\": {\"status\": \"%s\"", stk_status_name(status));
        cli_json_member_text(out, "text", text);
        cli_json_member_text(out, "key", own ? err->key : "");
        if (own && err->sample != STK_NO_SAMPLE)
            fprintf(out, ", \"sample\": %" PRIu64, err->sample);
        fputs("}}\n", out);
    }
    return CLI_FAILED;
}

/* ---- Progress -------------------------------------------------------------------------------- */

/* 1234567 -> "1.2M". */
static void short_number(char *text, size_t size, double value)
{
    static const char units[] = " kMGTP";
    size_t unit = 0;

    for (; value >= 999.5 && units[unit + 1]; unit++)
        value /= 1000;
    if (unit == 0)
        snprintf(text, size,
                 value < 0.1                                 ? "%.1g"
                 : value < 10 && value != (double)(int)value ? "%.1f"
                                                             : "%.0f",
                 value);
    else
        snprintf(text, size, value < 9.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}

static void short_time(char *text, size_t size, double seconds)
{
    if (seconds >= 360000)
        snprintf(text, size, "%.0f days", seconds / 86400);
    else if (seconds >= 3600)
        snprintf(text, size, "%d:%02d:%02d", (int)seconds / 3600, (int)seconds / 60 % 60,
                 (int)seconds % 60);
    else
        snprintf(text, size, "%d:%02d", (int)seconds / 60, (int)seconds % 60);
}

#define LONGEST_LEFT 1e8 /* seconds; more is not worth saying */

/* "42%  1.2k/s  0:12 left", or "1.2M done  1.2k/s" where the end is not known. */
static void progress_figures(char *text, size_t size, uint64_t done, uint64_t total, double rate)
{
    char speed[16], left[24], amount[16];
    size_t used;

    short_number(speed, sizeof speed, rate);
    short_number(amount, sizeof amount, (double)done);
    if (total)
        used = (size_t)snprintf(text, size, "%3.0f%%",
                                100.0 * (double)(done < total ? done : total) / (double)total);
    else
        used = (size_t)snprintf(text, size, "%s done", amount);
    if (rate > 0)
        used += (size_t)snprintf(text + used, size - used, "  %s/s", speed);
    if (rate > 0 && total > done && (double)(total - done) / rate < LONGEST_LEFT) {
        short_time(left, sizeof left, (double)(total - done) / rate);
        snprintf(text + used, size - used, "  %s left", left);
    }
}

#define LEAST_BAR 10
#define MOST_BAR  40

void cli_progress_line(char *text, size_t size, int width, const char *what, uint64_t done,
                       uint64_t total, double rate)
{
    char figures[96], bar[MOST_BAR + 3] = "";

    progress_figures(figures, sizeof figures, done, total, rate);
    /* The last column stays free: some terminals go to the next line there. */
    int room = width - 1 - (int)strlen(figures) - 2;
    int name = (int)strlen(what);
    int cells = room - name - 4;
    if (total && cells >= LEAST_BAR) {
        cells = cells > MOST_BAR ? MOST_BAR : cells;
        int full = (int)((double)cells * ((double)(done < total ? done : total) / (double)total));
        bar[0] = '[';
        memset(bar + 1, '#', (size_t)full);
        memset(bar + 1 + full, '-', (size_t)(cells - full));
        bar[cells + 1] = ']';
    }
    name = name > room ? room : name;
    snprintf(text, size, "%.*s%s%s%s%s", name < 0 ? 0 : name, what, name > 0 ? "  " : "", bar,
             *bar ? "  " : "", figures);
    if (width > 0 && strlen(text) >= (size_t)width && (size_t)width <= size)
        text[width - 1] = 0;
}

/* Draw what is known now. Called with the lock. */
static void show_locked(uint64_t done, uint64_t total, uint64_t now, bool terminal)
{
    double seconds = (double)(now - shown.began_ns) * 1e-9;
    double rate = seconds > 0.05 ? (double)(done - shown.first) / seconds : 0;
    char figures[96], what[sizeof shown.what];

    snprintf(what, sizeof what, "%s", shown.what);
    cli_text_clean(what);
    if (terminal) {
        cli_progress_line(shown.bar, sizeof shown.bar, terminal_width(), what, done, total, rate);
        fprintf(stderr, "\r%s\033[K", shown.bar);
    } else {
        progress_figures(figures, sizeof figures, done, total, rate);
        fprintf(stderr, "stoker: %s: %s\n", what, figures + strspn(figures, " "));
        shown.lines = true;
    }
    fflush(stderr);
    shown.shown_ns = now;
}

void cli_console_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    const struct cli *cli = user;
    uint64_t now = cli_now_ns();
    bool end = total && done >= total;

    if (cli->quiet)
        return;
    pthread_mutex_lock(&lock);
    if (strncmp(shown.what, what, sizeof shown.what - 1) != 0 || done < shown.done ||
        !shown.began_ns) {
        clear_locked();
        snprintf(shown.what, sizeof shown.what, "%s", what);
        shown.began_ns = shown.shown_ns = now;
        shown.first = done;
        shown.lines = false;
    }
    shown.done = done;
    bool terminal = on_terminal();
    if (end && terminal)
        clear_locked();
    else if (now - shown.shown_ns >= (terminal ? BAR_EVERY_NS : LINE_EVERY_NS) ||
             (end && shown.lines))
        show_locked(done, total, now, terminal);
    if (end)
        shown.began_ns = 0;
    pthread_mutex_unlock(&lock);
}
