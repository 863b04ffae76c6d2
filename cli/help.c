/* SPDX-License-Identifier: Apache-2.0 */
/* The --help of a command, printed from its tables. */
#include <string.h>

#include "cli.h"

static void print_table(const struct cli *cli, const stk_option_table *table, FILE *out)
{
    size_t length = strlen(table->doc);
    bool point = length && table->doc[length - 1] == '.';

    fprintf(out, "\n%.*s", (int)(length - point), table->doc);
    if (*table->name && table != cli_common_table(cli))
        fprintf(out, " (in YAML: below '%s:')", table->name);
    fputs(":\n", out);
    stk_options_help(table, out);
}

void cli_help(const struct cli *cli, FILE *out)
{
    const struct cli_usage *usage = cli->usage;

    fprintf(out, "Usage: stoker %s %s\n\n%s", usage->name, usage->synopsis, usage->about);
    for (size_t i = 0; cli->tables[i]; i++)
        print_table(cli, cli->tables[i], out);
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
