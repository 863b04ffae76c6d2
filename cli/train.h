/* configuration -> recipe: what `stoker train` and its like share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_TRAIN_H
#define STK_CLI_TRAIN_H

#include <stoker/collectives.h>
#include <stoker/recipe.h>

#include "cli.h"

/* ---- Recipes (train_recipe.c) ---------------------------------------------------------------- */

/* The sections of a training but for its first, for the list of a command's tables. */
#define TRAIN_SECTIONS                                                                             \
    {.name = "recipe.data"}, {.name = "recipe.trainer"}, {.name = "recipe.model"},                 \
        {.name = "recipe.optimizer"}, {.name = "recipe.lr_scheduler"}, {.name = "recipe.module"},  \
    {                                                                                              \
        .name = "recipe.loader"                                                                    \
    }

/* Make a recipe of the command's configuration; options->console and `home` are set to the
 * command's. CLI_GO_ON, or the exit code after printing the error. */
int train_recipe(struct cli *cli, stk_context *context, stk_recipe_options *options,
                 stk_recipe **out, stk_recipe_parts *parts);
/* The first signal stops a trainer: cli_on_interrupt(). */
void train_on_interrupt(stk_trainer *trainer);

/* ---- Several processes (train_ranks.c) ------------------------------------------------------- */

/* Join the other ranks of the training, where there are some or --strategy asks for it; else *out
 * is NULL. Call after cli_ranks(). CLI_GO_ON, or the exit code after printing the error. */
int train_ranks(struct cli *cli, stk_context *context, stk_collectives **out);
/* Whether this rank is the one that says what came out. */
bool train_speaks(const struct cli *cli);
/* The event log of this rank: "run.rank1.jsonl" for "run.jsonl". It lives as long as the command.
 * NULL: no memory. */
const char *train_log_name(struct cli *cli, const char *log);
/* Where the configuration asks for several devices, and nobody has started a process for each, this
 * one becomes `stoker launch`. Call after cli_ranks(). CLI_GO_ON, or the exit code.
 * (train_devices.c) */
int train_devices(struct cli *cli);

#endif
