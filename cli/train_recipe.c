/* SPDX-License-Identifier: Apache-2.0 */
/* A training's recipe from the configuration of a command, and what its trainer says, on standard
 * error: a bar that is replaced in place on a terminal, plain lines elsewhere. */
#include "train.h"

#include <string.h>

#include "object_stores.h"

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

int train_recipe(struct cli *cli, stk_context *context, stk_recipe_options *options,
                 stk_recipe **out, stk_recipe_parts *parts)
{
    const stk_console console = {.struct_size = sizeof console,
                                 .line = line,
                                 .bar = cli_console_terminal() && !cli->quiet ? bar : NULL,
                                 .width = width,
                                 .user = cli};
    char machine[4096];
    stk_error err;

    options->machine_dir =
        cli_cache_folder(cli_home_folder(), machine, sizeof machine) ? machine : NULL;
    options->console = &console;
    options->home = cli_home_folder();
    stk_status status = stk_recipe_create(context, cli->config, options, out, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    parts->struct_size = sizeof *parts;
    stk_recipe_get_parts(*out, parts);
    return CLI_GO_ON;
}

static void stop(void *trainer)
{
    stk_trainer_stop(trainer);
}

void train_on_interrupt(stk_trainer *trainer)
{
    cli_on_interrupt(stop, trainer);
}
