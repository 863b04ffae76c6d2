/* SPDX-License-Identifier: Apache-2.0 */
/* Where results go, and what they look like there. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* ---- JSON and CSV ---------------------------------------------------------------------------- */

void cli_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text) {
        uint32_t c;
        const size_t length = cli_text_character(text, &c);
        if (length && (c == '"' || c == '\\'))
            fprintf(out, "\\%c", (char)c);
        else if (length && cli_text_steers(c))
            fprintf(out, "\\u%04x", (unsigned)c);
        else if (length)
            fwrite(text, 1, length, out);
        else
            fputs("\\ufffd", out);
        text += length ? length : 1;
    }
    fputc('"', out);
}

void cli_html_string(FILE *out, const char *text)
{
    static const char marks[] = "&<>\"'";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};

    while (*text) {
        uint32_t c;
        const size_t length = cli_text_character(text, &c);
        const char *mark = length == 1 ? strchr(marks, *text) : NULL;
        if (mark)
            fputs(names[mark - marks], out);
        else if (!length || cli_text_steers(c))
            fputs("\xef\xbf\xbd", out);
        else
            fwrite(text, 1, length, out);
        text += length ? length : 1;
    }
}

void cli_json_number(FILE *out, double value)
{
    char text[32];

    const int length = stk_number_format(value, text);
    if (length > 2 && strcmp(text + length - 2, ".0") == 0)
        text[length - 2] = '\0';
    fputs(text, out);
}

void cli_json_member_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, ", \"%s\": ", name);
    if (text)
        cli_json_string(out, text);
    else
        fputs("null", out);
}

void cli_json_member_number(FILE *out, const char *name, double value)
{
    fprintf(out, ", \"%s\": ", name);
    cli_json_number(out, value);
}

void cli_json_option(FILE *out, const stk_option *option, const void *options)
{
    const int length = stk_options_format_json(option, options, NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);

    if (text)
        stk_options_format_json(option, options, text, (size_t)length + 1);
    fputs(text ? text : "null", out);
    free(text);
}

void cli_csv_string(FILE *out, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* ---- The file of -o -------------------------------------------------------------------------- */

static int fail_output(const struct cli *cli, const char *what)
{
    cli_error("cannot %s %s: %s", what, cli->out_path ? cli->out_path : "standard output",
              strerror(errno));
    return CLI_FAILED;
}

/* From here on cli->out is text for `to`. */
static int set_text(struct cli *cli, FILE *to)
{
    cli->out = cli_text_stream(to);
    cli->out_below = to;
    if (cli->out)
        return CLI_GO_ON;
    cli_error("no memory for the output");
    return CLI_FAILED;
}

int cli_output_open(struct cli *cli)
{
    struct stat st;

    if (cli->out_path && strcmp(cli->out_path, "-") == 0)
        cli->out_path = NULL;
    if (!cli->out_path)
        return set_text(cli, stdout);
    /* A device, a pipe or a link is written in place; a file is replaced when the new one is
     * complete. */
    bool exists = lstat(cli->out_path, &st) == 0;
    if (!exists || S_ISREG(st.st_mode)) {
        size_t size = strlen(cli->out_path) + 32;
        cli->out_partial = malloc(size);
        if (!cli->out_partial) {
            cli_error("no memory for the name of %s", cli->out_path);
            return CLI_FAILED;
        }
        snprintf(cli->out_partial, size, "%s.partial-%ld", cli->out_path, (long)getpid());
    }
    FILE *file = fopen(cli->out_partial ? cli->out_partial : cli->out_path, "we");
    if (file)
        return set_text(cli, file);
    int code = fail_output(cli, "write");
    free(cli->out_partial);
    cli->out_partial = NULL;
    return code;
}

FILE *cli_output_raw(struct cli *cli)
{
    return fflush(cli->out) == 0 ? cli->out_below : cli->out;
}

/* fsync(); one that was interrupted has lost nothing. */
static bool sync_file(FILE *file)
{
    int result;

    do
        result = fsync(fileno(file));
    while (result < 0 && errno == EINTR);
    return result == 0;
}

/* Make the new name of a file outlive a crash. */
static bool sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    FILE *f = folder ? fopen(folder, "re") : NULL;
    bool good = f && (sync_file(f) || errno == EINVAL);

    if (f)
        fclose(f);
    free(folder);
    return good;
}

bool cli_remove_partial(const char *path)
{
    return unlink(path) == 0;
}

void cli_remove_folder(const char *path)
{
    rmdir(path);
}

/* End the text and what is below it; errno is that of the first failure. */
static bool flush_text(struct cli *cli, FILE *file)
{
    bool good = fflush(cli->out) == 0 && !ferror(cli->out);
    int error = errno;

    if (cli->out_below && fclose(cli->out) != 0 && good)
        good = false, error = errno;
    if ((fflush(file) != 0 || ferror(file)) && good)
        good = false, error = errno;
    errno = error;
    return good;
}

/* Whether results go into a file of their own: neither a device, nor what standard output is. */
static bool is_own_file(FILE *file)
{
    struct stat own, screen;

    return fstat(fileno(file), &own) == 0 && S_ISREG(own.st_mode) &&
           (fstat(STDOUT_FILENO, &screen) != 0 || own.st_dev != screen.st_dev ||
            own.st_ino != screen.st_ino);
}

static void tell_file(struct cli *cli)
{
    char text[PATH_MAX + 16];

    snprintf(text, sizeof text, "wrote %s", cli->out_path);
    cli_console_log(cli, STK_MESSAGE_INFO, text);
}

int cli_output_close(struct cli *cli, bool keep)
{
    FILE *file = cli->out_below ? cli->out_below : cli->out;
    int code = CLI_GOOD;

    if (!cli->out)
        return CLI_GOOD;
    keep &= cli->ranks.rank == 0; /* the results are one rank's */
    const bool told = keep && cli->out_path && is_own_file(file);
    bool good = flush_text(cli, file);
    if (!good && keep)
        code = fail_output(cli, "write");
    if (file != stdout) {
        if (good && cli->out_partial && keep && !sync_file(file))
            good = false, code = fail_output(cli, "write");
        if (fclose(file) != 0 && good)
            good = false, code = fail_output(cli, "write");
    }
    cli->out = cli->out_below = NULL;
    if (cli->out_partial && good && keep &&
        (rename(cli->out_partial, cli->out_path) != 0 || !sync_folder(cli->out_path)))
        code = fail_output(cli, "replace");
    else if (cli->out_partial && !(good && keep))
        cli_remove_partial(cli->out_partial);
    free(cli->out_partial);
    cli->out_partial = NULL;
    if (told && code == CLI_GOOD)
        tell_file(cli);
    return code;
}
