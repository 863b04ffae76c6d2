/* SPDX-License-Identifier: Apache-2.0 */
/* The help of a command as a manual page [man(7)]. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Text with what troff takes for its own escaped; `length` bytes. */
static void print_escaped(FILE *out, const char *text, size_t length)
{
    if (length && (*text == '.' || *text == '\''))
        fputs("\\&", out);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] == '\'')
            fputs("\\(aq", out);
        else
            fputc(text[i], out);
    }
}

/* Paragraphs; lines that are indented keep their form. */
static void print_paragraphs(FILE *out, const char *text)
{
    bool kept = false;

    while (*text) {
        size_t length = strcspn(text, "\n");
        bool indented = *text == ' ';
        if (indented != kept)
            fputs(indented ? ".PP\n.nf\n" : ".fi\n", out);
        kept = indented;
        if (length == 0)
            fputs(kept ? "\n" : ".PP\n", out);
        print_escaped(out, text, length);
        if (length)
            fputc('\n', out);
        text += length + (text[length] == '\n');
    }
    if (kept)
        fputs(".fi\n", out);
}

/* The options of a table, from the lines of its --help: a flag, then what it does on this line or
 * on those below, further in. */
static void print_options(FILE *out, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n"), flag = 0;
        if (strncmp(text, "  --", 4) == 0) {
            const char *gap = strstr(text + 2, "  ");
            flag = gap && gap < text + length ? (size_t)(gap - text) : length;
            fputs(".TP\n.B ", out);
            print_escaped(out, text + 2, flag - 2);
            fputc('\n', out);
        }
        while (flag < length && text[flag] == ' ')
            flag++;
        if (flag < length) {
            print_escaped(out, text + flag, length - flag);
            fputc('\n', out);
        }
        text += length + (text[length] == '\n');
    }
}

static void print_table(const struct cli *cli, const stk_option_table *table, FILE *out)
{
    char *text = cli_options_text(table);

    if (!text)
        return;
    fputs(".SS ", out);
    print_escaped(out, table->doc, cli_title_length(table));
    if (*table->name && table != cli_common_table(cli))
        fprintf(out, " (in YAML: below \\(aq%s:\\(aq)", table->name);
    fputc('\n', out);
    print_options(out, text);
    free(text);
}

static void print_title(FILE *out, const char *command)
{
    fputs(".TH STOKER", out);
    for (const char *p = *command ? "-" : ""; *p; p++)
        fputs("\\-", out);
    for (; *command; command++)
        fputc(*command - ('a' - 'A'), out);
    fprintf(out, " 1 \"\" \"stoker %s\" \"Stoker\"\n", stk_version());
}

static const char exit_status[] =
    ".SH EXIT STATUS\n0 good, 1 failed, 2 wrong usage, 130 or 143 interrupted.\n";

void cli_man(const struct cli *cli, FILE *out)
{
    const struct cli_usage *usage = cli->usage;
    const char *summary = "";
    size_t n;

    const struct cli_command *commands = cli_commands(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(commands[i].name, usage->name) == 0)
            summary = commands[i].summary;
    print_title(out, usage->name);
    fprintf(out, ".SH NAME\nstoker\\-%s \\- ", usage->name);
    print_escaped(out, summary, strlen(summary));
    fprintf(out, "\n.SH SYNOPSIS\n.B stoker %s\n", usage->name);
    print_escaped(out, usage->synopsis, strlen(usage->synopsis));
    fputs("\n.SH DESCRIPTION\n", out);
    print_paragraphs(out, usage->about);
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; cli->shown[i]; i++)
        print_table(cli, cli->shown[i], out);
    print_table(cli, cli_common_table(cli), out);
    if (usage->examples) {
        fputs(".SH EXAMPLES\n", out);
        print_paragraphs(out, usage->examples);
    }
    fputs(exit_status, out);
    fputs(".SH SEE ALSO\n.BR stoker (1)\n", out);
}

void cli_man_all(FILE *out)
{
    size_t n;

    const struct cli_command *commands = cli_commands(&n);
    print_title(out, "");
    fputs(".SH NAME\nstoker \\- load training data for accelerators, and train\n"
          ".SH SYNOPSIS\n.B stoker\nCOMMAND [options]\n"
          ".SH DESCRIPTION\nStoker keeps accelerators fed: it reads training data, prepares it in "
          "worker threads, and says where the time goes.\n.SH COMMANDS\n",
          out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, ".TP\n.BR stoker\\-%s (1)\n", commands[i].name);
        print_escaped(out, commands[i].summary, strlen(commands[i].summary));
        fputc('\n', out);
    }
    fputs(exit_status, out);
}
