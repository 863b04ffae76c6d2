/* SPDX-License-Identifier: Apache-2.0 */
/* The --help of a command, printed from its tables; and all tables of the library. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

char *cli_options_text(const stk_option_table *table)
{
    const size_t size = (size_t)stk_options_help(table, NULL, 0) + 1;
    char *text = calloc(size, 1);

    if (text)
        stk_options_help(table, text, size);
    return text;
}

size_t cli_title_length(const stk_option_table *table)
{
    const size_t length = strlen(table->doc);

    return length - (length && table->doc[length - 1] == '.');
}

static void print_options(const stk_option_table *table, FILE *out)
{
    char *text = cli_options_text(table);

    if (text)
        fputs(text, out);
    free(text);
}

static void print_table(const struct cli *cli, const stk_option_table *table, FILE *out)
{
    fprintf(out, "\n%.*s", (int)cli_title_length(table), table->doc);
    if (*table->name && table != cli_common_table(cli))
        fprintf(out, " (in YAML: below '%s:')", table->name);
    fputs(":\n", out);
    print_options(table, out);
}

void cli_help(const struct cli *cli, FILE *out)
{
    const struct cli_usage *usage = cli->usage;

    fprintf(out, "Usage: stoker %s %s\n\n%s", usage->name, usage->synopsis, usage->about);
    for (size_t i = 0; cli->shown[i]; i++)
        print_table(cli, cli->shown[i], out);
    print_table(cli, cli_common_table(cli), out);
    if (usage->sweep)
        fputs("\nSeveral values make several settings: --num-workers 0,1,2, or a list in YAML (for "
              "texts, which may "
              "have\ncommas of their own, only that). With more than one such option every "
              "combination is a setting.\n",
              out);
    if (usage->examples)
        fprintf(out, "\nExamples:\n%s", usage->examples);
}

/* Whether table `i` has been one before it by another name. */
static bool is_again(size_t i)
{
    const char *name;
    const stk_option_table *table = stk_option_table_at(i, &name);

    while (i--)
        if (stk_option_table_at(i, &name) == table)
            return true;
    return false;
}

void cli_help_options(FILE *out)
{
    const stk_option_table *table;
    const char *name;

    for (size_t i = 0; (table = stk_option_table_at(i, &name)); i++) {
        if (is_again(i))
            continue;
        fprintf(out, "%s%s: %.*s\n", i ? "\n" : "", name, (int)cli_title_length(table), table->doc);
        print_options(table, out);
    }
}
