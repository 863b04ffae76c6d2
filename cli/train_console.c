/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer says, on standard error: a bar that is replaced in place on a terminal, plain
 * lines elsewhere. */
#include "train.h"

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

void train_console_make(struct cli *cli, stk_console *out)
{
    *out = (stk_console){.struct_size = sizeof *out,
                         .line = line,
                         .bar = cli_console_terminal() && !cli->quiet ? bar : NULL,
                         .width = width,
                         .user = cli};
}
