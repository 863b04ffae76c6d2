/* a file of weights, a checkpoint -> another file: what the parts of `stoker convert` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_CONVERT_H
#define STK_CLI_CONVERT_H

#include <stdbool.h>

#include <stoker/convert.h>

struct cli;

/* Refuse options of other conversions than that of `own` (may be NULL), as they would do nothing.
 * `all`: those that most share, too. Exit code. (convert.c) */
int convert_refuse_options(struct cli *cli, const stk_option_table *own, bool all,
                           const char *what);
/* SRC and DST are, by their names, weights; `ckpt SRC DST`. Exit codes. (convert_weights.c) */
int convert_weights(struct cli *cli, stk_context *context);
int convert_checkpoint(struct cli *cli, stk_context *context);

#endif
