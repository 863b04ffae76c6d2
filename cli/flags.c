/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of a command one by one, and commands described rather than run. */
#include <string.h>

#include "cli.h"

bool cli_same_name(const char *text, size_t length, const char *name)
{
    size_t i = 0;

    while (i < length && (text[i] == name[i] || (text[i] == '-' && name[i] == '_')))
        i++;
    return i == length && !name[i];
}

const char *cli_flag_name(const char *name)
{
    static const char *const names[][2] = {{"optimizer", "optimizer.name"},
                                           {"lr_scheduler", "lr_scheduler.name"},
                                           {"trainer.callbacks", "callbacks"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cli_same_name(name, strlen(name), names[i][0]))
            return names[i][1];
    return name;
}

const stk_option_table *cli_options_find(const struct cli_options *table)
{
    return table->own ? table->own() : stk_option_table_find(table->name);
}

void cli_tables_list(struct cli *cli, const struct cli_usage *usage)
{
    const stk_option_table *of_context = stk_option_table_find("context");
    bool context = false;
    size_t n = 0;

    for (const struct cli_options *t = usage->tables;
         t && (t->name || t->own) && n < CLI_MAX_TABLES - 1; t++) {
        cli->tables[n] = cli_options_find(t);
        cli->shown[n] = t->shown ? t->shown() : cli->tables[n];
        context |= cli->tables[n++] == of_context;
    }
    if (!context) {
        cli->tables[n] = cli->shown[n] = of_context;
        n++;
    }
    cli->tables[n] = cli->shown[n] = NULL;
}

/* A name with '-' where the table has '_'. */
static void write_flag(char to[CLI_FLAG], const char *section, const char *name)
{
    snprintf(to, CLI_FLAG, "--%s%s%s", section, *section ? "." : "", name);
    for (char *p = to; *p; p++)
        if (*p == '_')
            *p = '-';
}

/* Whether a plain flag of this name means an option of an earlier table. */
static bool shadowed(const struct cli *cli, size_t table, const char *name)
{
    bool found = stk_options_find(cli_common_table(cli), name) != NULL;

    for (size_t i = 0; i < table && !found; i++)
        found = stk_options_find(cli->tables[i], name) != NULL;
    return found;
}

bool cli_flag_at(const struct cli *cli, size_t i, struct cli_flag *out)
{
    const stk_option_table *common = cli_common_table(cli);

    *out->full = 0;
    if (i < common->count) {
        out->option = &common->options[i];
        write_flag(out->name, "", out->option->name);
        return true;
    }
    i -= common->count;
    for (size_t t = 0; cli->shown[t]; t++) {
        const stk_option_table *table = cli->shown[t];
        if (i >= table->count) {
            i -= table->count;
            continue;
        }
        out->option = &table->options[i];
        if (*table->name)
            write_flag(out->full, table->name, out->option->name);
        if (*table->name && shadowed(cli, t, out->option->name))
            memcpy(out->name, out->full, sizeof out->name);
        else
            write_flag(out->name, "", out->option->name);
        return true;
    }
    return false;
}

void cli_describe(const struct cli_command *command, cli_describe_fn *describe, FILE *out)
{
    struct cli cli = {.program = "stoker", .describe = describe, .out = out};

    command->run(&cli);
    cli_release(&cli);
}
