/* SPDX-License-Identifier: Apache-2.0 */
/* Where results go, and what they look like there. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* ---- JSON and CSV ---------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `p`; 0 when it is broken [RFC 3629]. */
static size_t utf8_length(const unsigned char *p)
{
    size_t length = *p < 0x80                 ? 1
                    : *p >= 0xc2 && *p < 0xe0 ? 2
                    : *p >= 0xe0 && *p < 0xf0 ? 3
                    : *p >= 0xf0 && *p < 0xf5 ? 4
                                              : 0;

    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
        (*p == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

void cli_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t length = utf8_length(p);
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(out, "\\u%04x", *p);
        else if (length)
            fwrite(p, 1, length, out);
        else
            fputs("\\ufffd", out);
        p += length ? length : 1;
    }
    fputc('"', out);
}

void cli_json_number(FILE *out, double value)
{
    char text[40];

    if (!isfinite(value)) {
        fputs("null", out);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, out);
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

int cli_output_open(struct cli *cli)
{
    struct stat st;

    cli->out = stdout;
    if (cli->out_path && strcmp(cli->out_path, "-") == 0)
        cli->out_path = NULL;
    if (!cli->out_path)
        return CLI_GO_ON;
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
    cli->out = fopen(cli->out_partial ? cli->out_partial : cli->out_path, "we");
    if (cli->out)
        return CLI_GO_ON;
    int code = fail_output(cli, "write");
    cli->out = stdout;
    free(cli->out_partial);
    cli->out_partial = NULL;
    return code;
}

/* Make the new name of a file outlive a crash. */
static bool sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    FILE *f = folder ? fopen(folder, "re") : NULL;
    bool good = f && (fsync(fileno(f)) == 0 || errno == EINVAL);

    if (f)
        fclose(f);
    free(folder);
    return good;
}

int cli_output_close(struct cli *cli, bool keep)
{
    bool good = cli->out && fflush(cli->out) == 0 && !ferror(cli->out);
    int code = CLI_GOOD;

    if (!cli->out)
        return CLI_GOOD;
    if (!good && keep)
        code = fail_output(cli, "write");
    if (cli->out != stdout) {
        if (good && cli->out_partial && keep && fsync(fileno(cli->out)) != 0)
            good = false, code = fail_output(cli, "write");
        if (fclose(cli->out) != 0 && good)
            good = false, code = fail_output(cli, "write");
    }
    cli->out = NULL;
    if (cli->out_partial && good && keep &&
        (rename(cli->out_partial, cli->out_path) != 0 || !sync_folder(cli->out_path)))
        code = fail_output(cli, "replace");
    else if (cli->out_partial && !(good && keep))
        unlink(cli->out_partial);
    free(cli->out_partial);
    cli->out_partial = NULL;
    return code;
}
