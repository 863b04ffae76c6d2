/* SPDX-License-Identifier: Apache-2.0 */
/* A training's recipe from the configuration of a command, and what its trainer says, on standard
 * error: a bar that is replaced in place on a terminal, plain lines elsewhere. */
#include "train.h"

#include <string.h>

/* ---- Console --------------------------------------------------------------------------------- */

static void line(void *user, const char *text)
{
    const struct cli *cli = user;

    if (!cli->quiet)
        cli_console_line(text);
}

static void bar(void *user, const char *text)
{
    (void)user;
    cli_console_bar(text);
}

static int width(void *user)
{
    (void)user;
    return cli_console_width();
}

/* ---- Recipes --------------------------------------------------------------------------------- */

int train_home(struct cli *cli, stk_config *config)
{
    const stk_option_table *data = stk_option_table_find("recipe.data");
    char key[128];
    stk_error err;

    for (size_t i = 0; i < data->count; i++) {
        const char *metavar = data->options[i].metavar;
        if (!metavar || strcmp(metavar, "SPEC") != 0)
            continue;
        snprintf(key, sizeof key, "%s.%s", data->name, data->options[i].name);
        const char *given = stk_config_get(config, key, 0), *found = cli_home(given);
        if (found == given)
            continue;
        stk_status status = stk_config_set(config, key, found, false, &err);
        if (status != STK_OK)
            return cli_fail(cli, status, &err);
    }
    return CLI_GO_ON;
}

int train_recipe(struct cli *cli, stk_context *context, stk_recipe_options *options,
                 stk_recipe **out, stk_recipe_parts *parts)
{
    const stk_console console = {.struct_size = sizeof console,
                                 .line = line,
                                 .bar = cli_console_terminal() && !cli->quiet ? bar : NULL,
                                 .width = width,
                                 .user = cli};
    stk_error err;

    int code = train_home(cli, cli->config);
    if (code != CLI_GO_ON)
        return code;
    options->console = &console;
    stk_status status = stk_recipe_create(context, cli->config, options, out, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    parts->struct_size = sizeof *parts;
    stk_recipe_get_parts(*out, parts);
    return CLI_GO_ON;
}
